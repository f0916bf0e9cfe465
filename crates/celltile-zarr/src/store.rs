//! celltile's storage as a store of zarrs.

use std::io;
use std::sync::Arc;

use celltile::storage::{EntryKind, ReadRequest, Storage};
use zarrs::storage::byte_range::{ByteRange, ByteRangeIterator};
use zarrs::storage::{
    Bytes, ListableStorageTraits, MaybeBytes, MaybeBytesIterator, OffsetBytesIterator, ReadableStorageTraits,
    StorageError, StoreKey, StoreKeys, StoreKeysPrefixes, StorePrefix, WritableStorageTraits,
    store_set_partial_many,
};

/// A folder or a bucket as a store of zarrs. Objects appear whole or not at all, and durably: writes go to a temporary name that is
/// synced and renamed.
#[derive(Debug, Clone)]
pub struct KeyStore {
    storage: Arc<dyn Storage>,
}

impl KeyStore {
    /// A store of what is in a storage.
    #[must_use]
    pub fn new(storage: Arc<dyn Storage>) -> Self {
        Self { storage }
    }

    /// The storage.
    #[must_use]
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// Every object below a folder, with its size.
    fn walk(
        &self,
        folder: &str,
        visit: &mut dyn FnMut(&str, u64) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        for entry in self.storage.list(folder).map_err(fault)? {
            match entry.kind {
                EntryKind::Object(size) => visit(&entry.key, size)?,
                EntryKind::Folder => self.walk(&entry.key, visit)?,
                EntryKind::Temporary | EntryKind::Other => {}
            }
        }
        Ok(())
    }
}

impl ReadableStorageTraits for KeyStore {
    fn get(&self, key: &StoreKey) -> Result<MaybeBytes, StorageError> {
        found(self.storage.read(key.as_str()))
    }

    fn get_partial_many<'a>(
        &'a self,
        key: &StoreKey,
        ranges: ByteRangeIterator<'a>,
    ) -> Result<MaybeBytesIterator<'a>, StorageError> {
        let Some(size) = found(self.storage.size(key.as_str()))? else { return Ok(None) };
        let ranges = ranges
            .map(|range| {
                checked(&range, size)
                    .ok_or_else(|| StorageError::Other(format!("{key}: {range} of {size} bytes")))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let requests: Vec<ReadRequest<'_>> =
            ranges.into_iter().map(|range| ReadRequest { key: key.as_str(), range }).collect();
        let answers = self.storage.read_many(&requests);
        Ok(Some(Box::new(answers.into_iter().map(|answer| answer.map_err(fault)))))
    }

    fn size_key(&self, key: &StoreKey) -> Result<Option<u64>, StorageError> {
        found(self.storage.size(key.as_str()))
    }

    fn supports_get_partial(&self) -> bool {
        true
    }
}

impl WritableStorageTraits for KeyStore {
    fn set(&self, key: &StoreKey, value: Bytes) -> Result<(), StorageError> {
        self.storage.write(key.as_str(), &value).map_err(fault)
    }

    fn set_partial_many(&self, key: &StoreKey, values: OffsetBytesIterator<'_>) -> Result<(), StorageError> {
        store_set_partial_many(self, key, values)
    }

    fn erase(&self, key: &StoreKey) -> Result<(), StorageError> {
        self.storage.remove(key.as_str()).map_err(fault)
    }

    fn erase_prefix(&self, prefix: &StorePrefix) -> Result<(), StorageError> {
        let folder = prefix.as_str().trim_end_matches('/');
        let mut keys = Vec::new();
        self.walk(folder, &mut |key, _| {
            keys.push(key.to_owned());
            Ok(())
        })?;
        keys.iter().try_for_each(|key| self.storage.remove(key).map_err(fault))
    }

    fn supports_set_partial(&self) -> bool {
        false
    }
}

impl ListableStorageTraits for KeyStore {
    fn list(&self) -> Result<StoreKeys, StorageError> {
        self.list_prefix(&StorePrefix::root())
    }

    fn list_prefix(&self, prefix: &StorePrefix) -> Result<StoreKeys, StorageError> {
        let mut keys = Vec::new();
        self.walk(prefix.as_str().trim_end_matches('/'), &mut |key, _| {
            keys.push(StoreKey::new(key).map_err(|error| StorageError::Other(error.to_string()))?);
            Ok(())
        })?;
        Ok(keys)
    }

    fn list_dir(&self, prefix: &StorePrefix) -> Result<StoreKeysPrefixes, StorageError> {
        let (mut keys, mut prefixes) = (Vec::new(), Vec::new());
        for entry in self.storage.list(prefix.as_str().trim_end_matches('/')).map_err(fault)? {
            let other = |error: &dyn std::fmt::Display| StorageError::Other(error.to_string());
            match entry.kind {
                EntryKind::Object(_) => keys.push(StoreKey::new(&entry.key).map_err(|error| other(&error))?),
                EntryKind::Folder => {
                    prefixes
                        .push(StorePrefix::new(format!("{}/", entry.key)).map_err(|error| other(&error))?);
                }
                EntryKind::Temporary | EntryKind::Other => {}
            }
        }
        Ok(StoreKeysPrefixes::new(keys, prefixes))
    }

    fn size_prefix(&self, prefix: &StorePrefix) -> Result<u64, StorageError> {
        let mut total = 0_u64;
        self.walk(prefix.as_str().trim_end_matches('/'), &mut |_, size| {
            total = total.saturating_add(size);
            Ok(())
        })?;
        Ok(total)
    }
}

/// A byte range of zarrs as one of an object of that size; none if it is not inside.
pub(crate) fn checked(range: &ByteRange, size: u64) -> Option<std::ops::Range<u64>> {
    let range = match *range {
        ByteRange::FromStart(start, None) => start..size,
        ByteRange::FromStart(start, Some(length)) => start..start.checked_add(length)?,
        ByteRange::Suffix(length) => size.checked_sub(length)?..size,
    };
    (range.start <= range.end && range.end <= size).then_some(range)
}

/// That an object is not there is an answer, not an error.
fn found<T>(result: celltile::Result<T>) -> Result<Option<T>, StorageError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(celltile::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(fault(error)),
    }
}

fn fault(error: celltile::Error) -> StorageError {
    StorageError::IOError(Arc::new(io::Error::other(error)))
}
