//! The pieces of work that go to the encoding threads.

use std::ops::Range;
use std::sync::Arc;

use celltile_tile::{Csr, EncodedChunk};

use super::staged::{StagedBatch, StagedTile};

/// A batch is handed over once it has this many nonzeros: few enough to keep all threads busy, many enough to make the
/// handing over cheap.
pub(super) const BATCH_NNZ: u64 = 64 << 10;

/// Consecutive cells of one tile, as they were pushed: whole tile chunks.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) cells: Csr,
    /// Where tile chunks end, in cells of the batch; the last is the number of its cells.
    pub(super) ends: Vec<usize>,
    /// How the cells are numbered: each span up to the start of the next.
    pub(super) spans: Vec<Span>,
    /// Number of the first cell in the dataset.
    pub(super) first_cell: u64,
}

/// Cells from `start` on, whose genes this map renumbers; none for cells in the dataset's order.
#[derive(Debug, Clone)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) map: Option<Arc<[i32]>>,
}

impl Default for Batch {
    fn default() -> Self {
        Self::new(Csr::new())
    }
}

impl Batch {
    /// An empty batch in memory that is used again.
    pub(super) fn new(mut cells: Csr) -> Self {
        cells.clear();
        Self { cells, ends: Vec::new(), spans: Vec::new(), first_cell: 0 }
    }

    pub(super) fn push_cell(&mut self, genes: &[i32], counts: &[i32], map: Option<&Arc<[i32]>>) {
        let same = self.spans.last().is_some_and(|span| match (&span.map, map) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        });
        if !same {
            self.spans.push(Span { start: self.cells.n_cells(), map: map.map(Arc::clone) });
        }
        self.cells.genes.extend_from_slice(genes);
        self.cells.counts.extend_from_slice(counts);
        self.cells.indptr.push(i64::try_from(self.cells.genes.len()).unwrap_or(i64::MAX));
    }

    /// The tile chunk that is being filled ends here.
    pub(super) fn end_chunk(&mut self) {
        let end = self.cells.n_cells();
        if end > self.ends.last().copied().unwrap_or_default() {
            self.ends.push(end);
        }
    }

    /// The cells of each tile chunk.
    pub(super) fn chunks(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(self.ends.iter().copied()).map(|(start, end)| start..end)
    }

    /// Bytes of memory it takes.
    pub(super) fn bytes(&self) -> u64 {
        let elements = self.cells.genes.len().saturating_add(self.cells.indptr.len());
        u64::try_from(elements.saturating_mul(8)).unwrap_or(u64::MAX)
    }
}

/// Work for an encoding thread.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) tile: u64,
    /// Number of the job within its tile, in the order of the cells.
    pub(super) number: usize,
    pub(super) work: Work,
    /// Bytes that are free again once it is done.
    pub(super) bytes: u64,
    /// First cell of the job in the dataset: of several errors, the first cell's is told.
    pub(super) first_cell: u64,
}

/// What is to be done.
#[derive(Debug)]
pub(super) enum Work {
    /// Encode these tile chunks.
    Encode(Batch),
    /// Pack these cells until their tile is complete.
    Stage(Batch),
    /// Encode one tile chunk of a complete tile.
    EncodeStaged(Arc<StagedTile>, Range<usize>),
}

/// What has become of it.
#[derive(Debug)]
pub(super) enum Done {
    Encoded(Vec<EncodedChunk>),
    Staged(StagedBatch),
}
