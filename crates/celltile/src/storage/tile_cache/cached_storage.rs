//! A storage whose tiles are kept on disk once they have been read as a whole.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::super::{Entry, Object, ObjectWriter, ReadRequest, Storage};
use super::{TileCache, TileKey};
use crate::digest::Sha256;
use crate::error::{Error, Result};
use crate::keys;

/// A dataset's storage whose tiles are kept in a [`TileCache`] once they have been read as a whole. Ranges of a tile
/// come from the cache if it is there, else from the storage, and are not kept.
#[derive(Debug)]
pub struct CachedStorage {
    inner: Arc<dyn Storage>,
    cache: Arc<TileCache>,
    sizes: Vec<u64>,
    digests: Option<Vec<Sha256>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The versions of the tiles, where there are no digests.
    versions: HashMap<u64, String>,
    /// The tiles whose kept bytes this process has found undamaged.
    checked: HashSet<u64>,
}

impl CachedStorage {
    /// Over the storage of one open dataset, with its manifest's `tile_bytes` and `tile_sha256`, if it has them.
    #[must_use]
    pub fn new(
        inner: Arc<dyn Storage>,
        cache: Arc<TileCache>,
        tile_bytes: Vec<u64>,
        tile_sha256: Option<Vec<Sha256>>,
    ) -> Self {
        Self { inner, cache, sizes: tile_bytes, digests: tile_sha256, state: Mutex::default() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a tile is kept under; `None` for other objects, and for tiles of which nothing tells the version.
    fn key(&self, key: &str) -> Option<(u64, TileKey)> {
        let tile = keys::tile_index(key)?;
        let position = usize::try_from(tile).ok()?;
        let size = *self.sizes.get(position)?;
        if let Some(digests) = &self.digests {
            return Some((tile, TileKey::of_digest(digests.get(position)?, size)));
        }
        let known = self.state().versions.get(&tile).cloned();
        let version = match known {
            Some(version) => version,
            None => {
                let version = self.inner.version(key).ok()??;
                self.state().versions.insert(tile, version.clone());
                version
            }
        };
        Some((tile, TileKey::of_version(&self.inner.locate(""), tile, size, &version)))
    }

    /// Whether fetched bytes are what the key says.
    fn is_genuine(&self, key: &str, tile: u64, bytes: &[u8]) -> bool {
        match &self.digests {
            Some(digests) => usize::try_from(tile)
                .ok()
                .and_then(|t| digests.get(t))
                .is_some_and(|digest| *digest == Sha256::of(bytes)),
            // The version was asked for before the bytes were; if it is the same after, they are of that version.
            None => {
                let before = self.state().versions.get(&tile).cloned();
                before.is_some() && self.inner.version(key).ok().flatten() == before
            }
        }
    }

    /// Keeps a tile that was fetched as a whole.
    fn keep(&self, key: &str, bytes: &[u8]) {
        let Some((tile, tile_key)) = self.key(key) else { return };
        self.state().checked.remove(&tile);
        if self.is_genuine(key, tile, bytes) {
            self.cache.put(&tile_key, bytes);
        }
    }

    /// Whether a range is all of a tile.
    fn is_whole(&self, key: &str, range: &Range<u64>) -> bool {
        let size = keys::tile_index(key)
            .and_then(|tile| usize::try_from(tile).ok())
            .and_then(|position| self.sizes.get(position));
        range.start == 0 && size == Some(&range.end)
    }

    fn kept_range(&self, key: &str, range: &Range<u64>) -> Option<Bytes> {
        let (tile, tile_key) = self.key(key)?;
        if self.state().checked.contains(&tile) {
            return self.cache.get_range(&tile_key, range);
        }
        let bytes = self.cache.get(&tile_key)?;
        self.state().checked.insert(tile);
        let start = usize::try_from(range.start).ok()?;
        let end = usize::try_from(range.end).ok()?;
        (start <= end && end <= bytes.len()).then(|| bytes.slice(start..end))
    }
}

impl Storage for CachedStorage {
    fn locate(&self, key: &str) -> String {
        self.inner.locate(key)
    }

    fn is_remote(&self) -> bool {
        self.inner.is_remote()
    }

    fn open(&self, key: &str) -> Result<Box<dyn Object>> {
        let Some((_, tile_key)) = self.key(key) else { return self.inner.open(key) };
        match self.cache.get(&tile_key) {
            Some(bytes) => Ok(Box::new(KeptObject { bytes, path: self.locate(key) })),
            None => self.inner.open(key),
        }
    }

    fn size(&self, key: &str) -> Result<u64> {
        self.inner.size(key)
    }

    fn version(&self, key: &str) -> Result<Option<String>> {
        self.inner.version(key)
    }

    fn read(&self, key: &str) -> Result<Bytes> {
        let Some((tile, tile_key)) = self.key(key) else { return self.inner.read(key) };
        if let Some(bytes) = self.cache.get(&tile_key) {
            self.state().checked.insert(tile);
            return Ok(bytes);
        }
        let bytes = self.inner.read(key)?;
        self.keep(key, &bytes);
        Ok(bytes)
    }

    fn read_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        if let Some(bytes) = self.kept_range(key, &range) {
            return Ok(bytes);
        }
        let whole = self.is_whole(key, &range);
        let bytes = self.inner.read_range(key, range)?;
        if whole {
            self.keep(key, &bytes);
        }
        Ok(bytes)
    }

    fn read_many(&self, requests: &[ReadRequest<'_>]) -> Vec<Result<Bytes>> {
        let kept: Vec<_> = requests.iter().map(|r| self.kept_range(r.key, &r.range)).collect();
        let missing: Vec<_> =
            requests.iter().zip(&kept).filter(|(_, k)| k.is_none()).map(|(r, _)| r.clone()).collect();
        let mut fetched = self.inner.read_many(&missing).into_iter();
        let answer = |(kept, request): (Option<Bytes>, &ReadRequest<'_>)| {
            if let Some(bytes) = kept {
                return Ok(bytes);
            }
            // One answer a request.
            let none = || Err(Error::NotFound { path: self.locate(request.key) });
            let bytes = fetched.next().unwrap_or_else(none)?;
            if self.is_whole(request.key, &request.range) {
                self.keep(request.key, &bytes);
            }
            Ok(bytes)
        };
        kept.into_iter().zip(requests).map(answer).collect()
    }

    fn list(&self, folder: &str) -> Result<Vec<Entry>> {
        self.inner.list(folder)
    }

    fn write(&self, key: &str, bytes: &[u8]) -> Result<()> {
        self.inner.write(key, bytes)
    }

    fn create(&self, key: &str) -> Result<Box<dyn ObjectWriter>> {
        self.inner.create(key)
    }

    fn remove(&self, key: &str) -> Result<()> {
        self.inner.remove(key)
    }
}

/// A tile from the cache.
#[derive(Debug)]
struct KeptObject {
    bytes: Bytes,
    path: String,
}

impl Object for KeptObject {
    fn size(&self) -> Result<u64> {
        Ok(u64::try_from(self.bytes.len()).unwrap_or(u64::MAX))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let found = u64::try_from(self.bytes.len()).unwrap_or(u64::MAX);
        let expected = offset.saturating_add(u64::try_from(buffer.len()).unwrap_or(u64::MAX));
        let part = usize::try_from(offset)
            .ok()
            .and_then(|start| self.bytes.get(start..start.checked_add(buffer.len())?))
            .ok_or_else(|| Error::Size { path: self.path.clone(), found, expected })?;
        buffer.copy_from_slice(part);
        Ok(())
    }
}
