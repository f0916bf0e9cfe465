use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use celltile::Result;
use celltile::storage::{Entry, Object, ObjectWriter, Place, ReadRequest, Storage};

/// A folder of a storage, as a storage of its own.
#[derive(Debug, Clone)]
pub(super) struct Beneath {
    storage: Arc<dyn Storage>,
    folder: &'static str,
}

impl Beneath {
    pub(super) fn new(storage: Arc<dyn Storage>, folder: &'static str) -> Self {
        Self { storage, folder }
    }

    fn key(&self, key: &str) -> String {
        if key.is_empty() { self.folder.to_owned() } else { format!("{}/{key}", self.folder) }
    }
}

impl Storage for Beneath {
    fn locate(&self, key: &str) -> String {
        self.storage.locate(&self.key(key))
    }

    fn is_remote(&self) -> bool {
        self.storage.is_remote()
    }

    fn open(&self, key: &str) -> Result<Box<dyn Object>> {
        self.storage.open(&self.key(key))
    }

    fn size(&self, key: &str) -> Result<u64> {
        self.storage.size(&self.key(key))
    }

    fn version(&self, key: &str) -> Result<Option<String>> {
        self.storage.version(&self.key(key))
    }

    fn read(&self, key: &str) -> Result<Bytes> {
        self.storage.read(&self.key(key))
    }

    fn read_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        self.storage.read_range(&self.key(key), range)
    }

    fn read_many(&self, requests: &[ReadRequest<'_>]) -> Vec<Result<Bytes>> {
        let keys: Vec<String> = requests.iter().map(|request| self.key(request.key)).collect();
        let requests = requests.iter().zip(&keys);
        let requests: Vec<_> =
            requests.map(|(request, key)| ReadRequest { key, range: request.range.clone() }).collect();
        self.storage.read_many(&requests)
    }

    fn list(&self, folder: &str) -> Result<Vec<Entry>> {
        let mut entries = self.storage.list(&self.key(folder))?;
        for entry in &mut entries {
            let own = entry.key.strip_prefix(self.folder).and_then(|key| key.strip_prefix('/'));
            if let Some(own) = own {
                entry.key = own.to_owned();
            }
        }
        Ok(entries)
    }

    fn write(&self, key: &str, bytes: &[u8]) -> Result<()> {
        self.storage.write(&self.key(key), bytes)
    }

    fn write_if(&self, key: &str, bytes: &[u8], expected: Option<&[u8]>) -> Result<bool> {
        self.storage.write_if(&self.key(key), bytes, expected)
    }

    fn create(&self, key: &str) -> Result<Box<dyn ObjectWriter>> {
        self.storage.create(&self.key(key))
    }

    fn remove(&self, key: &str) -> Result<()> {
        self.storage.remove(&self.key(key))
    }

    fn copy_in(&self, key: &str, from: &dyn Storage, from_key: &str) -> Result<bool> {
        self.storage.copy_in(&self.key(key), from, from_key)
    }

    fn file_of(&self, key: &str) -> Option<PathBuf> {
        self.storage.file_of(&self.key(key))
    }

    fn bucket_of(&self, key: &str) -> Option<(String, String)> {
        self.storage.bucket_of(&self.key(key))
    }

    fn place(&self) -> Option<Place> {
        // Whoever compares places means the whole.
        self.storage.place()
    }

    fn remove_folder(&self, folder: &str) -> Result<()> {
        self.storage.remove_folder(&self.key(folder))
    }
}
