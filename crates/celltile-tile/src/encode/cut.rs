//! Where a tile chunk ends.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::layout::MAX_CHUNK_NNZ;

/// The rule by which a tile is cut into tile chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChunkCut {
    /// Chunks of about so many nonzeros: a chunk ends where the next cell would take it further from this number.
    Nonzeros(u64),
    /// Chunks of so many cells, the last of a tile may have fewer. 1 gives random access to every cell.
    Cells(u64),
    /// So many chunks a tile, of about as many nonzeros each; fewer if the tile has fewer cells.
    Count(u32),
}

impl Default for ChunkCut {
    /// 128 Ki nonzeros: small enough for random access, large enough for zstd.
    fn default() -> Self {
        Self::Nonzeros(128 << 10)
    }
}

impl ChunkCut {
    fn check(self) -> Result<()> {
        let (option, found, ok) = match self {
            Self::Nonzeros(n) => ("nonzeros of a tile chunk", n, (1..=MAX_CHUNK_NNZ).contains(&n)),
            Self::Cells(n) => ("cells of a tile chunk", n, n >= 1),
            Self::Count(n) => ("tile chunks", n.into(), n >= 1),
        };
        let expected = "at least 1, and nonzeros of a chunk fewer than 2^32";
        if ok { Ok(()) } else { Err(Error::Option { option, found: found.to_string(), expected }) }
    }

    /// The cells of each tile chunk of a tile whose offsets are `indptr`: contiguous ranges that cover all cells and are
    /// never empty.
    ///
    /// # Errors
    ///
    /// [`Error::Option`] for a rule out of range, [`Error::TooLarge`] for a cell of 2^32 nonzeros.
    pub fn chunks(self, indptr: &[i64]) -> Result<Vec<Range<usize>>> {
        self.check()?;
        let n_cells = indptr.len().saturating_sub(1);
        let mut chunks = Vec::new();
        let mut start = 0;
        let mut close = |end: usize| {
            if end > start {
                chunks.push(start..end);
                start = end;
            }
        };
        if let Self::Count(count) = self {
            let first = indptr.first().copied().unwrap_or_default();
            let total = u128::from(indptr.last().copied().unwrap_or_default().abs_diff(first));
            let count = u64::from(count).min(n_cells as u64);
            let mut end = 0;
            for chunk in 1..count {
                // The cell boundary nearest to its share of the nonzeros, but a cell for each chunk.
                let share = total * u128::from(chunk) / u128::from(count.max(1));
                let offset = |cell: usize| indptr.get(cell).map_or(total, |o| u128::from(o.abs_diff(first)));
                let above = indptr.partition_point(|o| u128::from(o.abs_diff(first)) < share);
                let below = above.saturating_sub(1);
                let nearest = if share - offset(below).min(share) < offset(above).saturating_sub(share) {
                    below
                } else {
                    above
                };
                let left = usize::try_from(count - chunk).unwrap_or(usize::MAX);
                end = nearest.clamp(end + 1, n_cells.saturating_sub(left).max(end + 1));
                close(end);
            }
        } else {
            let mut cutter = ChunkCutter::new(self)?;
            for (cell, (low, high)) in indptr.iter().zip(indptr.iter().skip(1)).enumerate() {
                if cutter.push(high.abs_diff(*low))? {
                    close(cell);
                }
            }
        }
        close(n_cells);
        Ok(chunks)
    }
}

/// Decides cell by cell where a tile chunk ends, so that a writer need not hold a whole tile.
#[derive(Debug, Clone)]
pub struct ChunkCutter {
    cut: ChunkCut,
    cells: u64,
    nnz: u64,
}

impl ChunkCutter {
    /// A cutter at the start of a tile.
    ///
    /// # Errors
    ///
    /// [`Error::Option`] for a rule out of range. [`ChunkCut::Count`] needs the whole tile, so here it never ends a chunk.
    pub fn new(cut: ChunkCut) -> Result<Self> {
        cut.check()?;
        Ok(Self { cut, cells: 0, nnz: 0 })
    }

    /// Takes the next cell's number of nonzeros, and returns whether a new tile chunk starts with this cell.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] for a cell of 2^32 nonzeros or more.
    pub fn push(&mut self, nnz: u64) -> Result<bool> {
        if nnz > MAX_CHUNK_NNZ {
            return Err(Error::TooLarge { what: "cell", found: nnz, most: MAX_CHUNK_NNZ });
        }
        let grown = self.nnz.saturating_add(nnz);
        let starts = self.cells > 0
            && match self.cut {
                // A chunk of nothing but empty cells takes the next cell, whatever its size.
                ChunkCut::Nonzeros(target) => {
                    self.nnz > 0 && grown.abs_diff(target) > self.nnz.abs_diff(target)
                }
                ChunkCut::Cells(target) => self.cells >= target,
                ChunkCut::Count(_) => false,
            };
        let starts = starts || grown > MAX_CHUNK_NNZ;
        (self.cells, self.nnz) = if starts { (1, nnz) } else { (self.cells.saturating_add(1), grown) };
        Ok(starts)
    }

    /// Starts again, as at the start of a tile.
    pub const fn reset(&mut self) {
        self.cells = 0;
        self.nnz = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(cut: ChunkCut, cells: &[i64]) -> Vec<Range<usize>> {
        let mut indptr = vec![5];
        for nnz in cells {
            indptr.push(indptr.last().unwrap() + nnz);
        }
        cut.chunks(&indptr).unwrap()
    }

    #[test]
    fn test_nonzeros_closes_where_the_next_cell_leads_away() {
        assert_eq!(cut(ChunkCut::Nonzeros(10), &[4, 4, 4, 4]), [0..3, 3..4]);
        assert_eq!(cut(ChunkCut::Nonzeros(10), &[4, 4, 5, 4]), [0..2, 2..4]);
        assert_eq!(cut(ChunkCut::Nonzeros(10), &[0, 0, 50, 0, 0, 3, 3]), [0..5, 5..7]);
        assert_eq!(cut(ChunkCut::Nonzeros(10), &[0, 0, 0, 7, 7]), [0..4, 4..5]);
        assert_eq!(cut(ChunkCut::Nonzeros(1), &[2, 2, 2]), [0..1, 1..2, 2..3]);
        assert_eq!(cut(ChunkCut::Nonzeros(10), &[]), []);
    }

    #[test]
    fn test_cells_cuts_by_number() {
        assert_eq!(cut(ChunkCut::Cells(1), &[0, 5, 0]), [0..1, 1..2, 2..3]);
        assert_eq!(cut(ChunkCut::Cells(2), &[1, 1, 1]), [0..2, 2..3]);
    }

    #[test]
    fn test_count_gives_every_chunk_a_cell() {
        assert_eq!(cut(ChunkCut::Count(2), &[1, 1, 1, 1]), [0..2, 2..4]);
        assert_eq!(cut(ChunkCut::Count(8), &[0, 0, 9]), [0..1, 1..2, 2..3]);
        assert_eq!(cut(ChunkCut::Count(3), &[100, 1, 1, 1]), [0..1, 1..2, 2..4]);
        assert_eq!(cut(ChunkCut::Count(4), &[]), []);
        assert_eq!(cut(ChunkCut::Count(2), &[0, 0, 0, 0]).len(), 2);
    }

    #[test]
    fn test_out_of_range_is_refused() {
        for bad in
            [ChunkCut::Nonzeros(0), ChunkCut::Nonzeros(1 << 32), ChunkCut::Cells(0), ChunkCut::Count(0)]
        {
            assert!(matches!(bad.chunks(&[0, 1]), Err(Error::Option { .. })));
        }
    }
}
