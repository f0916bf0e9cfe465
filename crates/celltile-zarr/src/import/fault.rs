//! Errors of this crate as errors of a conversion.

use celltile_ingest::Error;
use zarrs::storage::StorageError;

use crate::error::ZarrError;

/// What is wrong with a node of a store.
pub(super) fn of_zarr(file: &str, error: ZarrError) -> Error {
    let at = |node: &str| node.trim_start_matches('/').to_owned();
    let file = file.to_owned();
    match error {
        ZarrError::Dataset(error) => Error::Dataset(*error),
        ZarrError::Store(error) => of_store(&file, &error),
        ZarrError::NotFound { node } => Error::Missing { file, at: at(&node), hint: String::new() },
        ZarrError::ChunkTooLarge { node, chunk, bytes, limit } => Error::Memory {
            file,
            at: format!("{}: chunk {chunk:?}", at(&node)),
            needed: format!("{bytes} bytes"),
            allowed: format!("{limit} bytes"),
        },
        ZarrError::Grid { node, source } => {
            Error::Damaged { file, at: at(&node), what: format!("chunk grid: {source}") }
        }
        ZarrError::Metadata { node, reason } => Error::Damaged { file, at: at(&node), what: reason },
        ZarrError::Create { node, source } => {
            Error::Unsupported { file, at: at(&node), what: source.to_string() }
        }
        other => Error::Damaged { file, at: "store".into(), what: other.to_string() },
    }
}

/// A store that could not be read.
pub(super) fn of_store(file: &str, error: &StorageError) -> Error {
    Error::Io { path: file.into(), action: "read", source: std::io::Error::other(error.to_string()) }
}
