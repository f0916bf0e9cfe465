//! Objects in memory: for tests, and for datasets that never touch a disk.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::{Entry, EntryKind, Object, ObjectWriter, Storage, check_key};
use crate::error::{Error, Result};

type Objects = BTreeMap<String, Bytes>;

/// Objects in memory; clones share them.
#[derive(Debug, Clone, Default)]
pub struct MemoryStorage {
    objects: Arc<Mutex<Objects>>,
}

impl MemoryStorage {
    /// Nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn objects(&self) -> MutexGuard<'_, Objects> {
        // The map is whole after every single operation on it, so a panic elsewhere does not spoil it.
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Storage for MemoryStorage {
    fn locate(&self, key: &str) -> String {
        format!("memory:{key}")
    }

    fn open(&self, key: &str) -> Result<Box<dyn Object>> {
        Ok(Box::new(MemoryObject { bytes: self.read(key)?, path: self.locate(key) }))
    }

    fn read(&self, key: &str) -> Result<Bytes> {
        check_key(key)?;
        self.objects().get(key).cloned().ok_or_else(|| Error::NotFound { path: self.locate(key) })
    }

    fn read_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        let bytes = self.read(key)?;
        slice(&bytes, &range).ok_or_else(|| too_short(self.locate(key), &bytes, range.end))
    }

    fn list(&self, folder: &str) -> Result<Vec<Entry>> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let mut found = BTreeSet::new();
        for (key, bytes) in self.objects().iter() {
            let Some(rest) = key.strip_prefix(&prefix) else { continue };
            found.insert(match rest.split_once('/') {
                Some((name, _)) => Entry { key: format!("{prefix}{name}"), kind: EntryKind::Folder },
                None => Entry { key: key.clone(), kind: EntryKind::Object(length(bytes)) },
            });
        }
        Ok(found.into_iter().collect())
    }

    fn create(&self, key: &str) -> Result<Box<dyn ObjectWriter>> {
        check_key(key)?;
        Ok(Box::new(MemoryWriter { storage: self.clone(), key: key.to_owned(), bytes: Vec::new() }))
    }

    fn remove(&self, key: &str) -> Result<()> {
        check_key(key)?;
        self.objects().remove(key);
        Ok(())
    }
}

#[derive(Debug)]
struct MemoryObject {
    bytes: Bytes,
    path: String,
}

impl Object for MemoryObject {
    fn size(&self) -> Result<u64> {
        Ok(length(&self.bytes))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let end = offset.saturating_add(u64::try_from(buffer.len()).unwrap_or(u64::MAX));
        let bytes = slice(&self.bytes, &(offset..end))
            .ok_or_else(|| too_short(self.path.clone(), &self.bytes, end))?;
        buffer.copy_from_slice(&bytes);
        Ok(())
    }
}

struct MemoryWriter {
    storage: MemoryStorage,
    key: String,
    bytes: Vec<u8>,
}

impl io::Write for MemoryWriter {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(buffer);
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ObjectWriter for MemoryWriter {
    fn finish(self: Box<Self>) -> Result<u64> {
        let Self { storage, key, bytes } = *self;
        let bytes = Bytes::from(bytes);
        let written = length(&bytes);
        storage.objects().insert(key, bytes);
        Ok(written)
    }
}

fn length(bytes: &Bytes) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

fn slice(bytes: &Bytes, range: &Range<u64>) -> Option<Bytes> {
    let start = usize::try_from(range.start).ok()?;
    let end = usize::try_from(range.end).ok()?;
    (start <= end && end <= bytes.len()).then(|| bytes.slice(start..end))
}

fn too_short(path: String, bytes: &Bytes, expected: u64) -> Error {
    Error::Size { path, found: length(bytes), expected }
}
