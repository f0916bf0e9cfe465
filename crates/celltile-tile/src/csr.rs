//! A count matrix in compressed sparse row form: one row a cell, one column a gene.

use std::ops::Range;

use crate::error::{Error, Result};

/// A CSR matrix that owns its arrays. `C` is `i32` or `f32`.
///
/// The nonzeros of cell `r` are the entries `indptr[r]..indptr[r + 1]` of `genes` and `counts`.
#[derive(Debug, Clone, PartialEq)]
pub struct Csr<C = i32> {
    /// `n_cells + 1` offsets into the other two, non-decreasing from 0.
    pub indptr: Vec<i64>,
    /// Gene index of each nonzero.
    pub genes: Vec<i32>,
    /// Count of each nonzero.
    pub counts: Vec<C>,
}

impl<C> Default for Csr<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C> Csr<C> {
    /// A matrix of no cells.
    #[must_use]
    pub fn new() -> Self {
        Self { indptr: vec![0], genes: Vec::new(), counts: Vec::new() }
    }

    /// Makes it a matrix of no cells again, and keeps the memory.
    pub fn clear(&mut self) {
        self.indptr.clear();
        self.indptr.push(0);
        self.genes.clear();
        self.counts.clear();
    }

    /// Number of cells.
    #[must_use]
    pub const fn n_cells(&self) -> usize {
        self.indptr.len().saturating_sub(1)
    }

    /// Number of stored nonzeros.
    #[must_use]
    pub const fn nnz(&self) -> usize {
        self.genes.len()
    }

    /// Borrows the matrix, after a check that its arrays fit together.
    ///
    /// # Errors
    ///
    /// [`Error::NotCsr`] where they do not.
    pub fn view(&self) -> Result<CsrView<'_, C>> {
        CsrView::new(&self.indptr, &self.genes, &self.counts)
    }
}

/// A CSR matrix that borrows its arrays, whose lengths are known to fit together.
///
/// Its `indptr` need not start at 0: nonzero `k` of the matrix has the offset `indptr[0] + k`, so that a part of a larger
/// matrix is a view too ([`CsrView::cells`]).
#[derive(Debug)]
pub struct CsrView<'a, C = i32> {
    indptr: &'a [i64],
    genes: &'a [i32],
    counts: &'a [C],
}

// Not derived: that would ask `C: Clone`.
impl<C> Clone for CsrView<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for CsrView<'_, C> {}

impl<'a, C> CsrView<'a, C> {
    /// Borrows the three arrays of a matrix.
    ///
    /// # Errors
    ///
    /// [`Error::NotCsr`] if `indptr` is empty, falls or spans another number of nonzeros than `genes` and `counts` have.
    pub fn new(indptr: &'a [i64], genes: &'a [i32], counts: &'a [C]) -> Result<Self> {
        let (Some(&first), Some(&last)) = (indptr.first(), indptr.last()) else {
            return Err(Error::NotCsr("indptr is empty, expected an entry more than there are cells".into()));
        };
        if let Some(cell) = indptr.iter().zip(indptr.iter().skip(1)).position(|(low, high)| low > high) {
            return Err(Error::NotCsr(format!("indptr falls at cell {cell}")));
        }
        let nnz = last.checked_sub(first).and_then(|n| usize::try_from(n).ok());
        if nnz != Some(genes.len()) || genes.len() != counts.len() {
            return Err(Error::NotCsr(format!(
                "indptr goes from {first} to {last}, but there are {} genes and {} counts",
                genes.len(),
                counts.len()
            )));
        }
        Ok(Self { indptr, genes, counts })
    }

    /// `n_cells + 1` offsets, non-decreasing.
    #[must_use]
    pub const fn indptr(&self) -> &'a [i64] {
        self.indptr
    }

    /// Gene index of each nonzero.
    #[must_use]
    pub const fn genes(&self) -> &'a [i32] {
        self.genes
    }

    /// Count of each nonzero.
    #[must_use]
    pub const fn counts(&self) -> &'a [C] {
        self.counts
    }

    /// Number of cells.
    #[must_use]
    pub const fn n_cells(&self) -> usize {
        self.indptr.len().saturating_sub(1)
    }

    /// Number of nonzeros.
    #[must_use]
    pub const fn nnz(&self) -> usize {
        self.genes.len()
    }

    /// Some of its cells, as a view of the same arrays.
    ///
    /// # Errors
    ///
    /// [`Error::Cells`] if there are no such cells.
    pub fn cells(&self, cells: Range<usize>) -> Result<Self> {
        let missing = || Error::Cells { start: cells.start, end: cells.end, low: 0, high: self.n_cells() };
        let end = cells.end.checked_add(1).ok_or_else(missing)?;
        let indptr = self.indptr.get(cells.start..end).ok_or_else(missing)?;
        // The constructor showed that every entry of indptr lies in the arrays.
        let (Some(&first), Some(&low), Some(&high)) = (self.indptr.first(), indptr.first(), indptr.last())
        else {
            return Err(missing());
        };
        let start = usize::try_from(low.saturating_sub(first)).map_err(|_| missing())?;
        let end = usize::try_from(high.saturating_sub(first)).map_err(|_| missing())?;
        let genes = self.genes.get(start..end).ok_or_else(missing)?;
        let counts = self.counts.get(start..end).ok_or_else(missing)?;
        Ok(Self { indptr, genes, counts })
    }

    /// The genes and counts of each cell, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [i32], &'a [C])> + use<'a, C> {
        let (mut genes, mut counts) = (self.genes, self.counts);
        self.indptr.iter().zip(self.indptr.iter().skip(1)).map(move |(low, high)| {
            let len = usize::try_from(high.saturating_sub(*low)).unwrap_or_default();
            // The constructor showed that the lengths add up, so nothing is ever missing here.
            let (cell_genes, other_genes) = genes.split_at_checked(len).unwrap_or_default();
            let (cell_counts, other_counts) = counts.split_at_checked(len).unwrap_or_default();
            (genes, counts) = (other_genes, other_counts);
            (cell_genes, cell_counts)
        })
    }
}

impl<C: Clone> CsrView<'_, C> {
    /// Copies it, with an indptr that starts at 0.
    #[must_use]
    pub fn to_csr(&self) -> Csr<C> {
        let first = self.indptr.first().copied().unwrap_or_default();
        Csr {
            indptr: self.indptr.iter().map(|offset| offset.saturating_sub(first)).collect(),
            genes: self.genes.to_vec(),
            counts: self.counts.to_vec(),
        }
    }
}
