//! What can go wrong with a loader.

use celltile::Error as DatasetError;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Anything that can go wrong when batches are loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The dataset is damaged or cannot be read; says which tile.
    #[error(transparent)]
    Dataset(#[from] celltile::Error),

    /// An option that makes no sense, or not for this dataset.
    #[error("{what}: found {found}, expected {expected}")]
    Option {
        /// The option.
        what: &'static str,
        /// What was given.
        found: String,
        /// What would do.
        expected: String,
    },

    /// A state that does not belong to this loader.
    #[error("the state does not fit this loader: {what} is {found}, expected {expected}")]
    State {
        /// The part of the state.
        what: &'static str,
        /// What it says.
        found: String,
        /// What would do.
        expected: String,
    },

    /// A thread of the loader could not be started, or ended before its time.
    #[error("a thread of the loader {0}")]
    Thread(String),
}

impl Error {
    #[allow(clippy::needless_pass_by_value, reason = "numbers and text alike")]
    pub(crate) fn option(what: &'static str, found: impl ToString, expected: impl Into<String>) -> Self {
        Self::Option { what, found: found.to_string(), expected: expected.into() }
    }
}

/// Whether an error says that what is stored is damaged, as opposed to out of reach or not as asked for.
pub(crate) fn is_damage(error: &DatasetError) -> bool {
    match error {
        DatasetError::Tile { source, .. } => !matches!(
            source.as_ref(),
            celltile::TileError::InexactCount { .. }
                | celltile::TileError::OutOfMemory { .. }
                | celltile::TileError::Buffer { .. }
        ),
        DatasetError::TileMismatch { .. }
        | DatasetError::Checksum { .. }
        | DatasetError::Size { .. }
        | DatasetError::NotFound { .. } => true,
        _ => false,
    }
}
