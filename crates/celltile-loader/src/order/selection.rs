//! The cells of an epoch, in the dataset's order, and where they may be cut into groups.

use std::ops::Range;
use std::sync::Arc;

/// Slots: the selected cells, numbered in ascending order. Group `g` is the slots `ends[g - 1]..ends[g]`.
#[derive(Debug)]
pub(crate) struct Selection {
    /// The cell of each slot, where these are not all cells.
    cells: Option<Arc<[u64]>>,
    /// Where groups end, ascending and without empty groups.
    ends: Vec<u64>,
    len: u64,
}

impl Selection {
    /// All of `n_cells` cells, or the given ones, which ascend. `cuts` are cells where groups end.
    pub(crate) fn new(n_cells: u64, cells: Option<Arc<[u64]>>, cuts: impl Iterator<Item = u64>) -> Self {
        let len = cells.as_ref().map_or(n_cells, |cells| cells.len() as u64);
        let mut ends = Vec::new();
        let mut push = |end: u64| {
            if end > ends.last().copied().unwrap_or_default() {
                ends.push(end);
            }
        };
        match &cells {
            None => cuts.for_each(&mut push),
            Some(cells) => {
                let mut rest: &[u64] = cells;
                for cut in cuts {
                    let inside = rest.partition_point(|&cell| cell < cut);
                    rest = rest.get(inside..).unwrap_or_default();
                    push((cells.len() - rest.len()) as u64);
                }
            }
        }
        push(len);
        Self { cells, ends, len }
    }

    pub(crate) const fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn cell(&self, slot: u64) -> u64 {
        match &self.cells {
            None => slot,
            Some(cells) => {
                usize::try_from(slot).ok().and_then(|at| cells.get(at)).copied().unwrap_or_default()
            }
        }
    }

    /// All groups, in order.
    pub(crate) fn groups(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(self.ends.iter().copied()).map(|(start, end)| start..end)
    }

    /// One past the last slot of the group that holds a slot.
    pub(crate) fn group_end(&self, slot: u64) -> u64 {
        let at = self.ends.partition_point(|&end| end <= slot);
        self.ends.get(at).copied().unwrap_or(self.len)
    }
}
