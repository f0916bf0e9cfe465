//! A dataset as a store of zarrs that is not written anywhere.

use std::sync::Arc;

use zarrs::storage::byte_range::ByteRangeIterator;
use zarrs::storage::{
    Bytes, ListableStorageTraits, MaybeBytes, MaybeBytesIterator, ReadableStorageTraits, StorageError,
    StoreKey, StoreKeys, StoreKeysPrefixes, StorePrefix,
};

use crate::cache::Cache;
use crate::error::{Result, ZarrError};
use crate::hierarchy::Hierarchy;
use crate::store::checked;

/// Bytes of encoded chunks kept, for readers that ask for a chunk's size or for parts of it before the rest.
const ENCODED: u64 = 64 << 20;

/// The live view: the keys and bytes that [`export`](crate::export::export) writes, made when they are asked for.
///
/// Read only, and nothing but the hierarchy's own keys exists: no key leads to any other file.
#[derive(Debug, Clone)]
pub struct LiveView {
    hierarchy: Arc<Hierarchy>,
    encoded: Arc<Cache<String, Bytes>>,
}

impl LiveView {
    /// The view of a hierarchy.
    #[must_use]
    pub fn new(hierarchy: Hierarchy) -> Self {
        Self { hierarchy: Arc::new(hierarchy), encoded: Arc::new(Cache::new(ENCODED)) }
    }

    /// What is seen.
    #[must_use]
    pub fn hierarchy(&self) -> &Hierarchy {
        &self.hierarchy
    }

    /// The bytes of a key; `None` if there is no such key.
    ///
    /// # Errors
    ///
    /// As [`Hierarchy::value`].
    pub fn value(&self, key: &str) -> Result<Option<Bytes>> {
        if !self.hierarchy.contains(key) {
            return Ok(None);
        }
        let bytes = self.encoded.get_sized(&key.to_owned(), || {
            let value = self.hierarchy.value(key)?.unwrap_or_default();
            let bytes = value.len() as u64;
            Ok::<_, ZarrError>((value, bytes))
        })?;
        Ok(Some(Bytes::clone(&bytes)))
    }

    /// The size of a key's value; `None` if there is no such key.
    ///
    /// # Errors
    ///
    /// As `Hierarchy::size`.
    pub fn size(&self, key: &str) -> Result<Option<u64>> {
        match self.hierarchy.quick_size(key) {
            Some(size) => Ok(Some(size)),
            None => Ok(self.value(key)?.map(|bytes| bytes.len() as u64)),
        }
    }
}

impl ReadableStorageTraits for LiveView {
    fn get(&self, key: &StoreKey) -> std::result::Result<MaybeBytes, StorageError> {
        self.value(key.as_str()).map_err(fault)
    }

    fn get_partial_many<'a>(
        &'a self,
        key: &StoreKey,
        ranges: ByteRangeIterator<'a>,
    ) -> std::result::Result<MaybeBytesIterator<'a>, StorageError> {
        let Some(bytes) = self.value(key.as_str()).map_err(fault)? else { return Ok(None) };
        let key = key.to_string();
        Ok(Some(Box::new(ranges.map(move |range| {
            let inside = checked(&range, bytes.len() as u64).and_then(|range| {
                let (start, end) = (usize::try_from(range.start).ok()?, usize::try_from(range.end).ok()?);
                Some(bytes.slice(start..end))
            });
            inside.ok_or_else(|| StorageError::Other(format!("{key}: {range} of {} bytes", bytes.len())))
        }))))
    }

    fn size_key(&self, key: &StoreKey) -> std::result::Result<Option<u64>, StorageError> {
        self.size(key.as_str()).map_err(fault)
    }

    fn supports_get_partial(&self) -> bool {
        true
    }
}

impl ListableStorageTraits for LiveView {
    fn list(&self) -> std::result::Result<StoreKeys, StorageError> {
        self.list_prefix(&StorePrefix::root())
    }

    fn list_prefix(&self, prefix: &StorePrefix) -> std::result::Result<StoreKeys, StorageError> {
        let keys = self.hierarchy.keys().filter(|key| key.starts_with(prefix.as_str()));
        keys.map(|key| StoreKey::new(key).map_err(|error| StorageError::Other(error.to_string()))).collect()
    }

    fn list_dir(&self, prefix: &StorePrefix) -> std::result::Result<StoreKeysPrefixes, StorageError> {
        let other = |error: &dyn std::fmt::Display| StorageError::Other(error.to_string());
        let (keys, folders) = self.hierarchy.list(prefix.as_str().trim_end_matches('/'));
        let keys =
            keys.iter().map(|name| StoreKey::new(format!("{prefix}{name}")).map_err(|error| other(&error)));
        let folders = folders
            .iter()
            .map(|name| StorePrefix::new(format!("{prefix}{name}/")).map_err(|error| other(&error)));
        Ok(StoreKeysPrefixes::new(
            keys.collect::<std::result::Result<_, _>>()?,
            folders.collect::<std::result::Result<_, _>>()?,
        ))
    }

    fn size_prefix(&self, prefix: &StorePrefix) -> std::result::Result<u64, StorageError> {
        let mut total = 0_u64;
        for key in self.hierarchy.keys().filter(|key| key.starts_with(prefix.as_str())) {
            total = total.saturating_add(self.size(&key).map_err(fault)?.unwrap_or_default());
        }
        Ok(total)
    }
}

fn fault(error: ZarrError) -> StorageError {
    StorageError::IOError(Arc::new(std::io::Error::other(error)))
}
