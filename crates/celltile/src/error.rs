//! What can go wrong with a dataset: every error says where, what was found and what was expected.

mod kind;

use std::io;

pub use kind::ErrorKind;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Anything that can go wrong when a dataset is read, written or verified.
///
/// `path` is always what [`Storage::locate`](crate::storage::Storage::locate) says of the object: a path of the
/// file system or a URL, ready to be shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation on a file or directory.
    #[error("{path}: cannot {action}: {source}")]
    Io {
        /// The file or directory.
        path: String,
        /// What was tried, as a verb: "read", "write", "rename".
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },

    /// An object that must be there is not.
    #[error("{path}: no such file or object")]
    NotFound {
        /// The missing object.
        path: String,
    },

    /// An object is shorter or longer than what is asked of it.
    #[error("{path}: {found} bytes, expected {expected}")]
    Size {
        /// The object.
        path: String,
        /// Its size, or where it ended.
        found: u64,
        /// What the manifest or the request says.
        expected: u64,
    },

    /// An object of which parts had been read, and which is not that object any more.
    #[error("{path}: replaced by another object while it was being read; open the dataset again")]
    Changed {
        /// The object.
        path: String,
    },

    /// A key that could leave the dataset's folder, or that no storage can hold.
    #[error("{key:?} is not a valid key: {reason}")]
    Key {
        /// The key.
        key: String,
        /// The rule it breaks.
        reason: &'static str,
    },

    /// There is no complete dataset here.
    #[error("{path}: {reason}")]
    NotADataset {
        /// The folder or URL that was opened.
        path: String,
        /// What is missing or different.
        reason: String,
    },

    /// The manifest breaks a rule of the format.
    #[error("{path}: {fault}")]
    Manifest {
        /// The manifest.
        path: String,
        /// Which field, what was found, what was expected.
        fault: Box<ManifestFault>,
    },

    /// A tile's bytes break a rule of the format.
    #[error("{path} (tile {tile}): {source}")]
    Tile {
        /// The tile's object.
        path: String,
        /// The tile's index.
        tile: u64,
        /// The rule, with the place inside the tile.
        source: Box<celltile_tile::Error>,
    },

    /// A tile does not agree with the manifest.
    #[error("{path} (tile {tile}): {what} is {found}, the manifest says {expected}")]
    TileMismatch {
        /// The tile's object.
        path: String,
        /// The tile's index.
        tile: u64,
        /// The figure that differs.
        what: &'static str,
        /// The tile's figure.
        found: u64,
        /// The manifest's figure.
        expected: u64,
    },

    /// Bytes whose checksum is not the recorded one.
    #[error("{path}: damaged: {what} has checksum {found}, expected {expected}")]
    Checksum {
        /// The object.
        path: String,
        /// Which bytes of it: "the whole tile", "tile chunk 3", "the file".
        what: String,
        /// The checksum of the bytes read, in hexadecimal.
        found: String,
        /// The recorded checksum, in hexadecimal.
        expected: String,
    },

    /// A file beside the tiles (genes, checksums) breaks its own layout.
    #[error("{path}: {what}: found {found}, expected {expected}")]
    File {
        /// The file.
        path: String,
        /// The part of the file.
        what: String,
        /// What is there.
        found: String,
        /// What should be.
        expected: String,
    },

    /// An index past the end of what it indexes.
    #[error("{what} {index} is out of range: there are {len}")]
    OutOfRange {
        /// What was indexed: "cell", "tile", "gene".
        what: &'static str,
        /// The index.
        index: u64,
        /// How many there are.
        len: u64,
    },

    /// An argument or option that makes no sense.
    #[error("{what}: found {found}, expected {expected}")]
    Argument {
        /// The argument or option.
        what: &'static str,
        /// What was given.
        found: String,
        /// What would do.
        expected: String,
    },

    /// A cell that cannot be stored: it breaks a rule of the format.
    #[error("cell {cell}: {reason}")]
    Cell {
        /// The cell, counted from the first one pushed.
        cell: u64,
        /// The rule, with the gene and the count.
        reason: CellFault,
    },

    /// A table (obs, genes) that does not fit together.
    #[error("{path}: {source}")]
    Table {
        /// The table or the file it came from.
        path: String,
        /// What is wrong.
        source: Box<crate::table::TableError>,
    },

    /// An obs column that there is not.
    #[error("there is no obs column {name:?}; there are {}", list(.columns))]
    NoColumn {
        /// The name asked for.
        name: String,
        /// The columns that there are.
        columns: Vec<String>,
    },

    /// The local cache cannot be used.
    #[error("{path}: {reason}")]
    Cache {
        /// The file or folder.
        path: String,
        /// Why, and what would help.
        reason: String,
    },

    /// A folder that must not be written to.
    #[error("{path}: {reason}")]
    Occupied {
        /// The folder or URL.
        path: String,
        /// What is in the way, and which option would help.
        reason: String,
    },

    /// The writer has failed before; its dataset stays incomplete.
    #[error("an earlier error has stopped this writer: {0}")]
    WriterStopped(String),

    /// The caller asked to stop.
    #[error("stopped on request")]
    Cancelled,

    /// The format is little-endian and this host is not.
    #[error("this host is big-endian: the deltacells format is for little-endian hosts")]
    BigEndianHost,
}

/// What is wrong with a manifest: field, position, found and expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}{}: found {found}, expected {expected}", .index.map(|i| format!("[{i}]")).unwrap_or_default())]
pub struct ManifestFault {
    /// The key, with dots for keys inside keys; "JSON" where the text itself is at fault.
    pub field: String,
    /// The position in the list, for a list.
    pub index: Option<u64>,
    /// What is there.
    pub found: String,
    /// What should be.
    pub expected: String,
}

/// Why a cell cannot be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CellFault {
    /// A gene occurs twice in the cell.
    #[error("gene {gene} occurs more than once (counts {first} and {second})")]
    RepeatedGene {
        /// The gene, in the order in which it was pushed.
        gene: i64,
        /// One of the counts.
        first: i64,
        /// Another one.
        second: i64,
    },
    /// A gene index past the end.
    #[error("gene {gene} is out of range: there are {n_genes} genes")]
    GeneOutOfRange {
        /// The gene.
        gene: i64,
        /// Genes of the order in which cells are pushed.
        n_genes: u64,
    },
    /// The genes of a cell pushed as sorted are not.
    #[error("gene {gene} comes after gene {previous}, but genes must increase")]
    Unsorted {
        /// The gene.
        gene: i64,
        /// The one before it.
        previous: i64,
    },
    /// More nonzeros than any tile chunk can hold.
    #[error("{found} nonzeros, expected fewer than 2^32")]
    TooManyGenes {
        /// How many.
        found: u64,
    },
    /// A count that is not in 1 ..= 2^31 - 1.
    #[error("gene {gene} has count {count}, expected 1 to 2147483647")]
    Count {
        /// The gene.
        gene: i64,
        /// Its count.
        count: i64,
    },
}

/// Names for a message: the first few.
fn list(names: &[String]) -> String {
    const SHOWN: usize = 20;
    let mut text = names.iter().take(SHOWN).map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(" and {} more", names.len() - SHOWN));
    }
    if text.is_empty() { "none".to_owned() } else { text }
}

impl Error {
    /// An [`Error::Io`], or [`Error::NotFound`] where the system says that there is nothing there.
    pub(crate) fn io(path: impl Into<String>, action: &'static str, source: io::Error) -> Self {
        let path = path.into();
        if source.kind() == io::ErrorKind::NotFound {
            return Self::NotFound { path };
        }
        Self::Io { path, action, source }
    }

    /// Whether this says that an object is not there.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }
}
