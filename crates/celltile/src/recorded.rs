//! Files whose size and hash the manifest records.

use bytes::Bytes;

use crate::digest::Sha256;
use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::storage::Storage;

/// A file beside the tiles, whole, and the one that the manifest records if it records it.
pub(crate) fn read(storage: &dyn Storage, manifest: &Manifest, key: &str) -> Result<Bytes> {
    let bytes = storage.read(key)?;
    let Some(record) = manifest.files.get(key) else { return Ok(bytes) };
    let path = storage.locate(key);
    let found = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if found != record.bytes {
        return Err(Error::Size { path, found, expected: record.bytes });
    }
    let found = Sha256::of(&bytes);
    if found == record.sha256 {
        return Ok(bytes);
    }
    Err(Error::Checksum {
        path,
        what: "the file".to_owned(),
        found: found.to_string(),
        expected: record.sha256.to_string(),
    })
}
