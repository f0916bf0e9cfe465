use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use celltile::storage::{Object, RemoteOptions, is_url, open_storage};

use crate::error::{Error, Result};
use crate::hdf5::ByteSource;

/// Bytes that are asked for at least.
const BLOCK: u64 = 128 << 10;

/// Blocks asked for at once where reads follow each other.
const MOST_AHEAD: u64 = 32;

/// Bytes that are kept.
const KEPT: u64 = 64 << 20;

/// An object at a URL, read in ranges: what was read lately is kept, and more is fetched at a time where reads follow
/// each other. Timeouts and retries are the storage's.
pub(super) struct RemoteBytes {
    object: Box<dyn Object>,
    len: u64,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// First block, how many were fetched together, bytes; the latest last.
    parts: VecDeque<(u64, u64, Arc<Vec<u8>>)>,
    bytes: u64,
}

/// The URL that a path is, if it is one.
pub(super) fn url(path: &Path) -> Option<&str> {
    path.to_str().filter(|text| is_url(text))
}

impl RemoteBytes {
    /// Opens the object at a URL.
    pub(super) fn open(url: &str, options: &RemoteOptions) -> Result<Self> {
        let wrong = |what: &str| Error::Options(format!("{url}: {what}"));
        if url.contains(['?', '#']) {
            return Err(wrong(
                "URLs with a query, as signed ones have, are not read; download the file first",
            ));
        }
        let trimmed = url.trim_end_matches('/');
        let (folder, key) = trimmed
            .rsplit_once('/')
            .filter(|(folder, key)| !key.is_empty() && !folder.ends_with('/') && !folder.ends_with(':'))
            .ok_or_else(|| wrong("names no object"))?;
        let storage = open_storage(folder, options)?;
        let object = storage.open(key)?;
        let len = object.size()?;
        Ok(Self { object, len, kept: Mutex::default() })
    }

    /// The part that holds a block.
    fn part(&self, block: u64) -> io::Result<(u64, Arc<Vec<u8>>)> {
        let mut ahead = 1;
        if let Ok(mut kept) = self.kept.lock() {
            if let Some(at) =
                kept.parts.iter().position(|(first, count, _)| (*first..first + count).contains(&block))
                && let Some(part) = kept.parts.remove(at)
            {
                let found = (part.0, Arc::clone(&part.2));
                kept.parts.push_back(part);
                return Ok(found);
            }
            let before = kept.parts.iter().find(|(first, count, _)| first + count == block);
            ahead = before.map_or(1, |(_, count, _)| (count * 2).min(MOST_AHEAD));
        }
        let start = block * BLOCK;
        let end = start.saturating_add(ahead * BLOCK).min(self.len);
        let mut bytes = vec![0; usize::try_from(end.saturating_sub(start)).unwrap_or(0)];
        self.object.read_at(start, &mut bytes).map_err(io::Error::other)?;
        let bytes = Arc::new(bytes);
        if let Ok(mut kept) = self.kept.lock() {
            kept.bytes += bytes.len() as u64;
            kept.parts.push_back((block, ahead, Arc::clone(&bytes)));
            while kept.bytes > KEPT
                && let Some((_, _, old)) = kept.parts.pop_front()
            {
                kept.bytes = kept.bytes.saturating_sub(old.len() as u64);
            }
        }
        Ok((block, bytes))
    }
}

impl ByteSource for RemoteBytes {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64).filter(|end| *end <= self.len);
        if end.is_none() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // What is larger than what would be fetched ahead is asked for as it is.
        if buffer.len() as u64 >= BLOCK * MOST_AHEAD {
            return self.object.read_at(offset, buffer).map_err(io::Error::other);
        }
        let (mut at, mut rest) = (offset, buffer);
        while !rest.is_empty() {
            let (first, bytes) = self.part(at / BLOCK)?;
            let from = usize::try_from(at - first * BLOCK).unwrap_or(usize::MAX);
            let there = bytes.get(from..).unwrap_or(&[]);
            let count = there.len().min(rest.len());
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let (now, later) = rest.split_at_mut(count);
            now.copy_from_slice(there.get(..count).unwrap_or(&[]));
            at += count as u64;
            rest = later;
        }
        Ok(())
    }
}
