//! A zip file as a store. A name that is there several times stands for the last one, as for Zarr's own zip stores.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use celltile::storage::Object;
use zarrs::storage::byte_range::ByteRangeIterator;
use zarrs::storage::{
    Bytes, ListableStorageTraits, MaybeBytes, MaybeBytesIterator, ReadableStorageTraits, StorageError,
    StoreKey, StoreKeys, StoreKeysPrefixes, StorePrefix,
};
use zip::{CompressionMethod, ZipArchive};

use crate::store::checked;

/// Bytes that deflate gives for every byte, at most; rounded up.
const DEFLATE: u64 = 1040;

/// Members of a zip file, by name.
#[derive(Debug)]
pub(super) struct ZipStore {
    archive: ZipArchive<Reader>,
    members: BTreeMap<String, Member>,
}

#[derive(Debug, Clone, Copy)]
struct Member {
    index: usize,
    size: u64,
}

impl ZipStore {
    /// Reads the directory of a zip file.
    pub(super) fn open(object: Arc<dyn Object>) -> io::Result<Self> {
        let size = object.size().map_err(io::Error::other)?;
        let reader = Reader { object, size, position: 0, ahead: Vec::new(), ahead_at: 0 };
        let mut archive = ZipArchive::new(reader).map_err(io::Error::other)?;
        let mut members = BTreeMap::new();
        let mut names = archive.clone().into_inner();
        for index in 0..archive.len() {
            let file = archive.by_index_raw(index).map_err(io::Error::other)?;
            names.check_name(file.header_start(), file.name_raw())?;
            // A name that is no text can be no key.
            let name = std::str::from_utf8(file.name_raw()).ok().map(str::to_owned);
            if let Some(name) = name.filter(|_| !file.is_dir() && !file.encrypted()) {
                members.insert(name, Member { index, size: file.size() });
            }
        }
        Ok(Self { archive, members })
    }

    /// With the Zarr group in it at the root, if there is one at the root or in its only folder.
    pub(super) fn rooted(mut self) -> Option<Self> {
        if super::is_root(&self, "") {
            return Some(self);
        }
        let folder = self.members.keys().next()?.split_once('/')?.0.to_owned() + "/";
        if !self.members.keys().all(|name| name.starts_with(&folder)) || !super::is_root(&self, &folder) {
            return None;
        }
        let members = std::mem::take(&mut self.members).into_iter();
        let inner =
            members.filter_map(|(name, member)| Some((name.strip_prefix(&folder)?.to_owned(), member)));
        self.members = inner.collect();
        Some(self)
    }

    fn read(&self, member: Member) -> io::Result<Bytes> {
        // A reader of its own: it has a position.
        let mut archive = self.archive.clone();
        let file = archive.by_index(member.index).map_err(io::Error::other)?;
        let declared = file.size();
        let allowed = match file.compression() {
            CompressionMethod::Stored => file.compressed_size(),
            _ => file.compressed_size().saturating_mul(DEFLATE).saturating_add(1 << 10),
        };
        if declared > allowed {
            let what = format!("a member of {declared} bytes from {}", file.compressed_size());
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let size = usize::try_from(declared).map_err(io::Error::other)?;
        let mut bytes = Vec::with_capacity(size.min(1 << 20));
        // One more than there are, so that the end is reached and the checksum compared.
        file.take(declared.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() == size { Ok(bytes.into()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Where a member that is not compressed lies in the file.
    fn place(&self, member: Member) -> io::Result<Option<(Arc<dyn Object>, u64)>> {
        let mut archive = self.archive.clone();
        let file = archive.by_index(member.index).map_err(io::Error::other)?;
        let stored = file.compression() == CompressionMethod::Stored && file.size() == file.compressed_size();
        let start = if stored { file.data_start() } else { None };
        drop(file);
        Ok(start.map(|start| (archive.into_inner().object, start)))
    }
}

fn fault(error: io::Error) -> StorageError {
    StorageError::IOError(Arc::new(error))
}

impl ReadableStorageTraits for ZipStore {
    fn get(&self, key: &StoreKey) -> Result<MaybeBytes, StorageError> {
        self.members.get(key.as_str()).map(|member| self.read(*member).map_err(fault)).transpose()
    }

    fn get_partial_many<'a>(
        &'a self,
        key: &StoreKey,
        ranges: ByteRangeIterator<'a>,
    ) -> Result<MaybeBytesIterator<'a>, StorageError> {
        let Some(member) = self.members.get(key.as_str()).copied() else { return Ok(None) };
        let outside =
            move |what: &dyn std::fmt::Display| StorageError::Other(format!("{what}: {} bytes", member.size));
        if let Some((object, start)) = self.place(member).map_err(fault)? {
            return Ok(Some(Box::new(ranges.map(move |range| {
                let range = checked(&range, member.size).ok_or_else(|| outside(&range))?;
                let length = usize::try_from(range.end - range.start).map_err(|error| outside(&error))?;
                let at = start.saturating_add(range.start);
                // What the file does not hold takes no memory.
                let whole = object.size().map_err(|error| fault(io::Error::other(error)))?;
                if at.saturating_add(length as u64) > whole {
                    return Err(outside(&"the file ends before it"));
                }
                let mut bytes = vec![0; length];
                let read = object.read_at(at, &mut bytes);
                read.map(|()| Bytes::from(bytes)).map_err(|error| fault(io::Error::other(error)))
            }))));
        }
        let whole = self.read(member).map_err(fault)?;
        Ok(Some(Box::new(ranges.map(move |range| {
            let inside = checked(&range, whole.len() as u64).ok_or_else(|| outside(&range))?;
            let start = usize::try_from(inside.start).map_err(|error| outside(&error))?;
            let end = usize::try_from(inside.end).map_err(|error| outside(&error))?;
            Ok(whole.slice(start..end))
        }))))
    }

    fn size_key(&self, key: &StoreKey) -> Result<Option<u64>, StorageError> {
        Ok(self.members.get(key.as_str()).map(|member| member.size))
    }

    fn supports_get_partial(&self) -> bool {
        true
    }
}

impl ListableStorageTraits for ZipStore {
    fn list(&self) -> Result<StoreKeys, StorageError> {
        self.list_prefix(&StorePrefix::root())
    }

    fn list_prefix(&self, prefix: &StorePrefix) -> Result<StoreKeys, StorageError> {
        let names = self.members.keys().filter(|name| name.starts_with(prefix.as_str()));
        // A name that can be no key leads nowhere.
        Ok(names.filter_map(|name| StoreKey::new(name).ok()).collect())
    }

    fn list_dir(&self, prefix: &StorePrefix) -> Result<StoreKeysPrefixes, StorageError> {
        let (mut keys, mut folders) = (Vec::new(), Vec::new());
        let members = self.members.range(prefix.as_str().to_owned()..).map(|(name, _)| name);
        for name in members.take_while(|name| name.starts_with(prefix.as_str())) {
            match name.strip_prefix(prefix.as_str()).and_then(|rest| rest.split_once('/')) {
                None => keys.extend(StoreKey::new(name).ok()),
                Some((folder, _)) => {
                    let folder = format!("{}{folder}/", prefix.as_str());
                    if folders.last() != Some(&folder) {
                        folders.push(folder);
                    }
                }
            }
        }
        folders.sort();
        folders.dedup();
        Ok(StoreKeysPrefixes::new(
            keys,
            folders.iter().filter_map(|name| StorePrefix::new(name).ok()).collect(),
        ))
    }

    fn size_prefix(&self, prefix: &StorePrefix) -> Result<u64, StorageError> {
        let members = self.members.iter().filter(|(name, _)| name.starts_with(prefix.as_str()));
        Ok(members.fold(0_u64, |total, (_, member)| total.saturating_add(member.size)))
    }
}

/// An object read in order, a little ahead.
#[derive(Debug)]
struct Reader {
    object: Arc<dyn Object>,
    size: u64,
    position: u64,
    ahead: Vec<u8>,
    ahead_at: u64,
}

/// Bytes read ahead.
const AHEAD: u64 = 1 << 18;

impl Clone for Reader {
    fn clone(&self) -> Self {
        let (object, size) = (Arc::clone(&self.object), self.size);
        Self { object, size, position: 0, ahead: Vec::new(), ahead_at: 0 }
    }
}

impl Reader {
    /// Fails if a member is not called what the directory calls it: under a damaged name it would be as good as lost, and what is lost
    /// of an array stands for its fill value.
    fn check_name(&mut self, header: u64, name: &[u8]) -> io::Result<()> {
        let mut start = [0; 30];
        self.seek(SeekFrom::Start(header))?;
        self.read_exact(&mut start)?;
        let length = u16::from_le_bytes([start[26], start[27]]);
        let mut found = vec![0; usize::from(length)];
        self.read_exact(&mut found)?;
        if found == name {
            return Ok(());
        }
        let text = String::from_utf8_lossy;
        let what = format!("the member {:?} is called {:?} in the directory", text(&found), text(name));
        Err(io::Error::new(io::ErrorKind::InvalidData, what))
    }

    /// What is read already and not yet taken.
    fn kept(&self) -> &[u8] {
        let at = self.position.checked_sub(self.ahead_at).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.ahead.get(at..)).unwrap_or_default()
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.size.saturating_sub(self.position);
        if self.kept().is_empty() {
            self.ahead.clear();
            self.ahead.resize(usize::try_from(left.min(AHEAD)).unwrap_or(0), 0);
            self.ahead_at = self.position;
            if let Err(error) = self.object.read_at(self.position, &mut self.ahead) {
                self.ahead.clear();
                return Err(io::Error::other(error));
            }
        }
        let kept = self.kept();
        let count = kept.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..count), kept.get(..count)) {
            to.copy_from_slice(from);
        }
        self.position = self.position.saturating_add(count as u64);
        Ok(count)
    }
}

impl Seek for Reader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (base, by) = match to {
            SeekFrom::Start(to) => (to, 0),
            SeekFrom::End(by) => (self.size, by),
            SeekFrom::Current(by) => (self.position, by),
        };
        self.position = base.checked_add_signed(by).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}
