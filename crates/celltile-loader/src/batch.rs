//! Where decoded cells live: batches, and the memory they are built in, used again when they are gone.

mod element;
mod memory;
mod open;

use std::sync::Arc;

use arrow_array::ArrayRef;
use celltile::{Csr, CsrView};

pub use element::Element;
pub(crate) use element::log1p_cp10k;
pub(crate) use memory::Memory;
pub(crate) use open::OpenBatch;

/// Cells of a batch, their counts and what else was asked for.
///
/// Row `i` of everything belongs to the same cell. When a batch is dropped, its memory goes back to the loader.
#[derive(Debug)]
pub struct Batch<C: Element> {
    x: Csr<C>,
    cells: Vec<u64>,
    totals: Option<Vec<i64>>,
    obs: Vec<ArrayRef>,
    lost: u64,
    memory: Arc<Memory<C>>,
}

impl<C: Element> Batch<C> {
    /// Number of cells.
    #[must_use]
    pub fn n_cells(&self) -> usize {
        self.cells.len()
    }

    /// The counts: a row a cell, a column a gene (of those asked for, in the order asked for). Columns increase within a
    /// row.
    ///
    /// # Errors
    /// Never: the arrays fit together.
    pub fn x(&self) -> Result<CsrView<'_, C>, celltile::Error> {
        self.x.view().map_err(|source| celltile::Error::Argument {
            what: "batch",
            found: source.to_string(),
            expected: "a matrix".to_owned(),
        })
    }

    /// `n_cells + 1` offsets into the other two arrays.
    #[must_use]
    pub fn indptr(&self) -> &[i64] {
        &self.x.indptr
    }

    /// The column of each nonzero.
    #[must_use]
    pub fn genes(&self) -> &[i32] {
        &self.x.genes
    }

    /// The count of each nonzero, or what the transform made of it.
    #[must_use]
    pub fn counts(&self) -> &[C] {
        &self.x.counts
    }

    /// `indptr`, `genes` and `counts`, to be changed in place.
    #[must_use]
    pub fn arrays_mut(&mut self) -> (&mut [i64], &mut [i32], &mut [C]) {
        (&mut self.x.indptr, &mut self.x.genes, &mut self.x.counts)
    }

    /// The cells' numbers in the dataset.
    #[must_use]
    pub fn cells(&self) -> &[u64] {
        &self.cells
    }

    /// Each cell's sum of counts over all genes, if asked for.
    #[must_use]
    pub fn totals(&self) -> Option<&[i64]> {
        self.totals.as_deref()
    }

    /// The obs columns asked for, in that order: codes for categories (-1 for missing), values for all else.
    #[must_use]
    pub fn obs(&self) -> &[ArrayRef] {
        &self.obs
    }

    /// Cells that are missing because their tile chunk is damaged.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Bytes of the arrays.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        bytes::<C>(self.x.nnz() as u64, self.cells.len() as u64)
    }
}

impl<C: Element> Drop for Batch<C> {
    fn drop(&mut self) {
        self.memory.put(std::mem::take(&mut self.x));
    }
}

/// Bytes of so many decoded cells.
pub(crate) fn bytes<C>(nnz: u64, cells: u64) -> u64 {
    let nonzero = size_of::<i32>() as u64 + size_of::<C>() as u64;
    nnz.saturating_mul(nonzero).saturating_add(cells.saturating_mul(24))
}
