//! Files whose size and hash the manifest records.

use bytes::Bytes;

use crate::digest::Sha256;
use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::storage::Storage;

/// A file beside the tiles, whole, and the one that the manifest records if it records it.
pub(crate) fn read(storage: &dyn Storage, manifest: &Manifest, key: &str) -> Result<Bytes> {
    let Some(record) = manifest.files.get(key) else { return storage.read(key) };
    let path = storage.locate(key);
    let expected = record.bytes;
    let check = |found| {
        if found == expected { Ok(()) } else { Err(Error::Size { path: path.clone(), found, expected }) }
    };
    // Before any memory is taken for it, where asking costs nothing.
    if !storage.is_remote() {
        check(storage.size(key)?)?;
    }
    let bytes = storage.read(key)?;
    check(u64::try_from(bytes.len()).unwrap_or(u64::MAX))?;
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
