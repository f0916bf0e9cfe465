//! What an interrupted regridding leaves behind, so that the next run knows whether it may go on.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use zarrs::storage::{Bytes, ReadableWritableStorageTraits, StoreKey};

use crate::array::{ZarrArray, metadata_key};
use crate::error::{Result, ZarrError};

const NAME: &str = ".celltile-regrid.json";

/// What is being written, and from what.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Content {
    /// SHA-256 of the old array's metadata.
    source: String,
    /// SHA-256 of the new array's.
    target: String,
}

/// A regridding under way.
#[derive(Debug)]
pub(super) struct Plan<D: ?Sized> {
    store: Arc<D>,
    path: String,
    key: StoreKey,
    resumed: bool,
}

impl<D: ?Sized + ReadableWritableStorageTraits + 'static> Plan<D> {
    /// Starts at a place where there is nothing, or goes on with the same plan.
    pub(super) fn start<S: ?Sized>(
        store: &Arc<D>,
        path: &str,
        source: &ZarrArray<S>,
        text: &str,
    ) -> Result<Self> {
        let key = metadata_key(path, NAME)?;
        let fault = |error: serde_json::Error| ZarrError::metadata(path, format!("{NAME}: {error}"));
        let old = serde_json::to_vec(source.array().metadata()).map_err(fault)?;
        let content = Content { source: digest(&old), target: digest(text.as_bytes()) };
        let resumed = match store.get(&key)? {
            Some(found) => {
                let found: Content = serde_json::from_slice(&found).map_err(fault)?;
                if found != content {
                    let reason = format!(
                        "holds an interrupted regridding of other arrays or to another grid ({NAME})"
                    );
                    return Err(ZarrError::metadata(path, reason));
                }
                true
            }
            None => {
                if store.get(&metadata_key(path, "zarr.json")?)?.is_some() {
                    return Err(ZarrError::metadata(path, "is there already"));
                }
                store.set(&key, Bytes::from(serde_json::to_vec(&content).map_err(fault)?))?;
                false
            }
        };
        Ok(Self { store: Arc::clone(store), path: path.to_owned(), key, resumed })
    }

    /// Removes what an interrupted run left beside an array that is complete.
    pub(super) fn forget(store: &D, path: &str) -> Result<()> {
        let key = metadata_key(path, NAME)?;
        if store.size_key(&key)?.is_some() {
            store.erase(&key)?;
        }
        Ok(())
    }

    /// Whether an earlier run has started this.
    pub(super) fn resumed(&self) -> bool {
        self.resumed
    }

    /// Makes the new array visible.
    pub(super) fn finish(self, text: &str) -> Result<()> {
        self.store.set(&metadata_key(&self.path, "zarr.json")?, Bytes::from(text.to_owned()))?;
        Ok(self.store.erase(&self.key)?)
    }
}

fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}
