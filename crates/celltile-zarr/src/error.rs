//! What can go wrong between celltile and Zarr: which node, what was found, what was expected.

use celltile_grid::GridError;
use zarrs::array::{ArrayCreateError, ArrayError, CodecError};
use zarrs::storage::StorageError;

/// An error of this crate.
///
/// Errors of zarrs are boxed: this crate is the only one that knows zarrs, and its types may change with it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ZarrError {
    /// A chunk grid that the specification does not allow, or a question that the grid cannot answer.
    #[error("array {node}: chunk grid: {source}")]
    Grid {
        /// Path of the array in its store.
        node: String,
        /// What is wrong, with axis, position and value.
        source: GridError,
    },
    /// There is no such array or group.
    #[error("{node}: no array or group there (no zarr.json, .zarray or .zgroup)")]
    NotFound {
        /// Path in the store.
        node: String,
    },
    /// Metadata that is not what the specification asks for.
    #[error("{node}: {reason}")]
    Metadata {
        /// Path in the store.
        node: String,
        /// What was found and what was expected.
        reason: String,
    },
    /// zarrs refused to make an array of valid grid.
    #[error("array {node}: {source}")]
    Create {
        /// Path of the array in its store.
        node: String,
        /// What zarrs says.
        source: Box<ArrayCreateError>,
    },
    /// Reading or writing chunks failed.
    #[error("array {node}: {source}")]
    Array {
        /// Path of the array in its store.
        node: String,
        /// What zarrs says.
        source: Box<ArrayError>,
    },
    /// A codec failed.
    #[error("array {node}, chunk {chunk:?}: {source}")]
    Codec {
        /// Path of the array in its store.
        node: String,
        /// The chunk.
        chunk: Vec<u64>,
        /// What zarrs says.
        source: Box<CodecError>,
    },
    /// A chunk that would take more memory than is allowed.
    #[error("array {node}, chunk {chunk:?}: {bytes} bytes decoded, more than the {limit} allowed")]
    ChunkTooLarge {
        /// Path of the array in its store.
        node: String,
        /// The chunk.
        chunk: Vec<u64>,
        /// Its decoded size.
        bytes: u128,
        /// The limit.
        limit: u64,
    },
    /// The store could not be read or written.
    #[error(transparent)]
    Store(#[from] StorageError),
    /// The dataset could not be read or is damaged.
    #[error(transparent)]
    Dataset(Box<celltile::Error>),
    /// Data of another shape or type than the array's.
    #[error("array {node}: {what} is {found}, expected {expected}")]
    Mismatch {
        /// Path of the array in its store.
        node: String,
        /// What does not fit.
        what: &'static str,
        /// What it is.
        found: String,
        /// What it should be.
        expected: String,
    },
}

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, ZarrError>;

impl ZarrError {
    pub(crate) fn grid(node: &str) -> impl FnOnce(GridError) -> Self + '_ {
        move |source| Self::Grid { node: node.to_owned(), source }
    }

    pub(crate) fn metadata(node: &str, reason: impl Into<String>) -> Self {
        Self::Metadata { node: node.to_owned(), reason: reason.into() }
    }

    pub(crate) fn array(node: &str) -> impl Fn(ArrayError) -> Self + '_ {
        move |source| Self::Array { node: node.to_owned(), source: Box::new(source) }
    }

    pub(crate) fn create(node: &str) -> impl FnOnce(ArrayCreateError) -> Self + '_ {
        move |source| Self::Create { node: node.to_owned(), source: Box::new(source) }
    }
}

impl From<celltile::Error> for ZarrError {
    fn from(error: celltile::Error) -> Self {
        Self::Dataset(Box::new(error))
    }
}
