use std::ops::AddAssign;

/// What was counted of some cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    pub(super) cells: u64,
    /// Nonzeros and sum of counts in the input's own genes.
    pub(super) read_nonzeros: u64,
    pub(super) read_sum: u64,
    /// Nonzeros and sum of counts in the dataset's genes.
    pub(super) nonzeros: u64,
    pub(super) sum: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.cells += other.cells;
        self.read_nonzeros += other.read_nonzeros;
        self.read_sum = self.read_sum.saturating_add(other.read_sum);
        self.nonzeros += other.nonzeros;
        self.sum = self.sum.saturating_add(other.sum);
    }
}
