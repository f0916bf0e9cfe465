//! One thing that is wrong with a dataset.

use std::fmt;

use crate::error::Error;

/// One thing that is wrong with a dataset, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// The object.
    pub path: String,
    /// The tile, if it is one.
    pub tile: Option<u64>,
    /// The tile chunk.
    pub chunk: Option<u64>,
    /// The cell, numbered in the dataset.
    pub cell: Option<u64>,
    /// What is wrong: what was found, what was expected.
    pub what: String,
}

impl Fault {
    /// Of a whole object.
    pub(crate) fn new(path: &str, what: impl fmt::Display) -> Self {
        Self { path: path.to_owned(), tile: None, chunk: None, cell: None, what: what.to_string() }
    }

    /// From an error that names the same object, or another one.
    pub(crate) fn of(path: &str, error: &Error) -> Self {
        let text = error.to_string();
        let what = text.strip_prefix(path).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&text);
        Self::new(path, what)
    }

    /// Of a tile whose cells start at `first_cell`.
    pub(super) fn of_tile(path: &str, tile: u64, what: impl fmt::Display) -> Self {
        Self { tile: Some(tile), ..Self::new(path, what) }
    }

    /// From a tile's own error.
    pub(super) fn of_tile_error(
        path: &str,
        tile: u64,
        first_cell: u64,
        what: String,
        error: &celltile_tile::Error,
    ) -> Self {
        use celltile_tile::Error as E;
        let (chunk, cell) = match *error {
            E::Gene { chunk, cell, .. }
            | E::StoredZero { chunk, cell, .. }
            | E::RepeatedGene { chunk, cell, .. } => (Some(chunk), Some(cell)),
            E::ChunkTable { chunk, .. }
            | E::Frame { chunk, .. }
            | E::ExceptionPosition { chunk, .. }
            | E::ExceptionPayload { chunk, .. }
            | E::ExceptionSlot { chunk, .. }
            | E::Unaligned { chunk, .. } => (Some(chunk), None),
            _ => (None, None),
        };
        let number = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        Self {
            chunk: chunk.map(number),
            cell: cell.map(|cell| first_cell.saturating_add(number(cell))),
            ..Self::of_tile(path, tile, what)
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        let places = [("tile", self.tile), ("tile chunk", self.chunk), ("cell of the dataset", self.cell)];
        let places: Vec<String> =
            places.iter().filter_map(|(name, number)| Some(format!("{name} {}", (*number)?))).collect();
        if !places.is_empty() {
            write!(f, " ({})", places.join(", "))?;
        }
        write!(f, ": {}", self.what)
    }
}
