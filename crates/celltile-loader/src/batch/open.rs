//! A batch that is being filled.

use std::sync::Arc;

use arrow_array::ArrayRef;
use celltile::Csr;
use celltile::memory::advise_large;

use super::{Batch, Element, Memory};
use crate::error::{Error, Result};

/// Rows of a batch, added in order; where each row's nonzeros go is known before they are decoded.
#[derive(Debug)]
pub(crate) struct OpenBatch<C: Element> {
    /// Number of the batch in its lane.
    pub(crate) number: u64,
    /// `genes` and `counts` are at least as long as `indptr` says.
    pub(crate) x: Csr<C>,
    pub(crate) cells: Vec<u64>,
    pub(crate) totals: Vec<i64>,
    /// Rows that could not be decoded, ascending.
    lost: Vec<usize>,
}

impl<C: Element> OpenBatch<C> {
    pub(crate) fn new(number: u64, memory: &Memory<C>) -> Self {
        Self { number, x: memory.take(), cells: Vec::new(), totals: Vec::new(), lost: Vec::new() }
    }

    /// Nonzeros so far.
    pub(crate) fn nnz(&self) -> usize {
        self.x.indptr.last().and_then(|&end| usize::try_from(end).ok()).unwrap_or_default()
    }

    /// Adds rows of so many nonzeros each, to be decoded; `expected` is about how many cells the batch will have.
    pub(crate) fn add_rows(&mut self, cells: &[u64], nnz: &[usize], expected: usize) -> Result<()> {
        let mut end = self.nnz();
        self.x.indptr.reserve(nnz.len());
        for len in nnz {
            end = end.saturating_add(*len);
            self.x.indptr.push(i64::try_from(end).unwrap_or(i64::MAX));
        }
        self.cells.extend_from_slice(cells);
        self.totals.resize(self.cells.len(), 0);
        // Room for the rows to come, so that nothing is moved when they do.
        let rows = self.cells.len().max(1);
        let room = (end / rows).saturating_mul(expected.saturating_sub(rows));
        let room = room.saturating_add(room / 16);
        lengthen(&mut self.x.genes, end, room)?;
        lengthen(&mut self.x.counts, end, room)
    }

    /// Marks the row of a cell that cannot be had.
    pub(crate) fn lose(&mut self, row: usize) {
        self.lost.push(row);
    }

    pub(crate) fn finish(
        mut self,
        totals: bool,
        memory: &Arc<Memory<C>>,
        obs: impl FnOnce(&[u64]) -> Result<Vec<ArrayRef>>,
    ) -> Result<Batch<C>> {
        let lost = self.lost.len() as u64;
        if lost > 0 {
            self.close_up();
        }
        let nnz = self.nnz();
        self.x.genes.truncate(nnz);
        self.x.counts.truncate(nnz);
        let obs = obs(&self.cells)?;
        Ok(Batch {
            x: self.x,
            obs,
            cells: self.cells,
            totals: totals.then_some(self.totals),
            lost,
            memory: Arc::clone(memory),
        })
    }

    /// Takes lost rows out.
    fn close_up(&mut self) {
        self.lost.sort_unstable();
        self.lost.dedup();
        let keep = |row: usize| self.lost.binary_search(&row).is_err();
        let index = |offset: &i64| usize::try_from(*offset).unwrap_or_default();
        let Csr { indptr, genes, counts } = &mut self.x;
        let old = std::mem::replace(indptr, vec![0]);
        let mut end = 0;
        for (row, (low, high)) in old.iter().zip(old.iter().skip(1)).enumerate() {
            if keep(row) {
                let range = index(low)..index(high);
                genes.copy_within(range.clone(), end);
                counts.copy_within(range.clone(), end);
                end += range.len();
                indptr.push(i64::try_from(end).unwrap_or(i64::MAX));
            }
        }
        let mut row = 0..;
        self.cells.retain(|_| row.next().is_none_or(keep));
        let mut row = 0..;
        self.totals.retain(|_| row.next().is_none_or(keep));
    }
}

/// Makes a buffer at least so long. If it has to move, it is given more room.
fn lengthen<T: Copy + Default>(buffer: &mut Vec<T>, len: usize, room: usize) -> Result<()> {
    if buffer.len() >= len {
        return Ok(());
    }
    if buffer.capacity() < len {
        let more = len.saturating_sub(buffer.len()).saturating_add(room).saturating_add(len / 32);
        buffer.try_reserve_exact(more).map_err(|e| {
            Error::option("batch_size", format!("a batch of {len} nonzeros"), format!("as many as fit: {e}"))
        })?;
        advise_large(buffer);
    }
    buffer.resize(len, T::default());
    Ok(())
}
