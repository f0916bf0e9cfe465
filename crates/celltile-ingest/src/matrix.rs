//! A count matrix in an HDF5 file or another container, sparse or dense, read as cells in blocks.

mod dense;
mod gene_rows;
mod grid;
pub(crate) mod numbers;
mod scan;
pub(crate) mod scatter;
mod sparse;
mod transpose;

pub use dense::DenseMatrix;
pub use gene_rows::GeneRows;
pub use numbers::Rounding;
pub use sparse::{Orientation, SparseMatrix};

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result, ValueError};
use crate::hdf5::{Dtype, NumberType};

/// Nonzeros that a block of cells aims at: enough chunks of any usual size to keep the cores busy.
pub(crate) const BLOCK_NONZEROS: u64 = 4 << 20;

/// Some consecutive cells as a source stores them: genes may come in any order, more than once, and with a count of
/// zero; counts are at most 2^31 - 1 and genes are in range.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct CellBlock {
    /// Position of the first cell in the matrix.
    pub first_cell: u64,
    /// Entry `i .. i + 1` bounds cell `i`'s part of the other two; starts at 0.
    pub indptr: Vec<usize>,
    /// Gene of each entry.
    pub genes: Vec<u32>,
    /// Count of each entry.
    pub counts: Vec<u32>,
}

impl CellBlock {
    /// Number of cells.
    pub fn cells(&self) -> usize {
        self.indptr.len().saturating_sub(1)
    }

    /// Genes and counts of the cell at a position within the block.
    pub fn cell(&self, at: usize) -> Option<(&[u32], &[u32])> {
        let range = *self.indptr.get(at)?..*self.indptr.get(at + 1)?;
        Some((self.genes.get(range.clone())?, self.counts.get(range)?))
    }
}

/// Cells in blocks, in order.
pub trait CellBlocks: Send {
    /// Reads the next block into `block`, whose buffers are used again; `false` at the end.
    ///
    /// # Errors
    ///
    /// Whatever is wrong with the next cells; of several faults the first in cell order, whatever the number of threads.
    fn next_block(&mut self, block: &mut CellBlock) -> Result<bool>;
}

/// How to read a matrix.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// Bytes that the reader may hold.
    pub memory: u64,
    /// What to do with fractional values.
    pub rounding: Rounding,
    /// Set by the caller to stop.
    pub cancel: Arc<AtomicBool>,
    /// Folder for what does not fit into the memory; the system's folder for temporary files if `None`. What is put
    /// there has no name, so that nothing is left of it however the program ends.
    pub spill: Option<PathBuf>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { memory: 1 << 29, rounding: Rounding::Refuse, cancel: Arc::default(), spill: None }
    }
}

impl ReadOptions {
    /// Fails if the caller asked to stop.
    pub(crate) fn check_cancelled(&self) -> Result<()> {
        if self.cancel.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Entries a block may have: eight bytes each, and no more than an eighth of the memory.
    pub(crate) fn block_entries(&self) -> u64 {
        BLOCK_NONZEROS.min(self.memory / 64).max(1 << 12)
    }
}

/// Cells and genes of a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Rows.
    pub cells: u64,
    /// Columns.
    pub genes: u64,
}

/// A count matrix.
#[derive(Debug, Clone)]
pub enum Matrix {
    /// Rows or columns of positions and values.
    Sparse(SparseMatrix),
    /// Every value.
    Dense(DenseMatrix),
    /// Every value, a row a gene.
    GeneRows(GeneRows),
}

impl Matrix {
    /// Cells and genes.
    pub fn shape(&self) -> Shape {
        match self {
            Self::Sparse(matrix) => matrix.shape(),
            Self::Dense(matrix) => matrix.shape(),
            Self::GeneRows(matrix) => matrix.shape(),
        }
    }

    /// How its values are stored.
    pub fn dtype(&self) -> &Dtype {
        match self {
            Self::Sparse(matrix) => matrix.data().dtype(),
            Self::Dense(matrix) => matrix.values().dtype(),
            Self::GeneRows(matrix) => matrix.values().dtype(),
        }
    }

    /// `csr`, `csc` or `dense`.
    pub fn encoding(&self) -> &'static str {
        match self {
            Self::Sparse(matrix) => match matrix.orientation() {
                Orientation::Csr => "csr",
                Orientation::Csc => "csc",
            },
            Self::Dense(_) | Self::GeneRows(_) => "dense",
        }
    }

    /// Entries stored, explicit zeros included; `None` for a dense matrix.
    pub fn stored(&self) -> Option<u64> {
        match self {
            Self::Sparse(matrix) => Some(matrix.stored()),
            Self::Dense(_) | Self::GeneRows(_) => None,
        }
    }

    /// Whether cells are put together from genes when they are read with so much memory: then to read some of them is to go
    /// through all.
    pub(crate) fn by_gene(&self, options: &ReadOptions) -> bool {
        match self {
            Self::Sparse(matrix) => matrix.orientation() == Orientation::Csc,
            Self::Dense(matrix) => matrix.is_tall(options.memory),
            Self::GeneRows(_) => true,
        }
    }

    /// Cells `range` in blocks.
    ///
    /// # Errors
    ///
    /// Whatever is wrong with the matrix as a whole.
    pub fn cells(&self, range: Range<u64>, options: &ReadOptions) -> Result<Box<dyn CellBlocks>> {
        match self {
            Self::Sparse(matrix) => matrix.cells(range, options),
            Self::Dense(matrix) => matrix.cells(range, options),
            Self::GeneRows(matrix) => matrix.cells(range, options),
        }
    }

    /// The first value among about `limit` at the start, the middle and the end that is no count.
    ///
    /// # Errors
    ///
    /// Whatever is wrong with the bytes.
    pub fn sample_fault(&self, limit: u64, options: &ReadOptions) -> Result<Option<ValueError>> {
        match self {
            Self::Sparse(matrix) => matrix.sample_fault(limit, options),
            Self::Dense(matrix) => matrix.sample_fault(limit, options),
            // There is no other matrix to take instead.
            Self::GeneRows(_) => Ok(None),
        }
    }
}

/// The number type of an integer, boolean or float dataset.
pub(crate) fn number_type(dtype: &Dtype) -> Option<NumberType> {
    use crate::hdf5::NumberKind;
    match dtype {
        Dtype::Number(number) => Some(*number),
        // Booleans are enums of one byte; any other value than 0 and 1 is refused as too large for neither.
        Dtype::Bool => Some(NumberType { kind: NumberKind::Unsigned, size: 1, big_endian: false }),
        _ => None,
    }
}
