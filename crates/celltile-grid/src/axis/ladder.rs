//! A static search tree over ever-growing values that are only appended.

/// How many values share a group: 16 of 8 bytes are two cache lines, fetched together.
pub(super) const GROUP: usize = 16;

/// Finds the group of 16 values that holds a value, without touching the others.
///
/// Every group but the last hands its largest value to level 0; every full group of level `k` hands its largest to level
/// `k + 1`. A million values have five levels of 0.53 bytes a value together, all but the lowest of which stay in the
/// nearest caches, where a plain binary search jumps through the whole list.
#[derive(Debug, Clone, Default)]
pub(super) struct Ladder {
    levels: Vec<Vec<u64>>,
}

impl Ladder {
    /// Adds the largest value of a group that is full and will not change.
    pub(super) fn push(&mut self, largest: u64) {
        for level in &mut self.levels {
            level.push(largest);
            if !level.len().is_multiple_of(GROUP) {
                return;
            }
        }
        self.levels.push(vec![largest]);
    }

    /// The first group that holds a value above `x`, or the last one.
    pub(super) fn group(&self, x: u64) -> usize {
        let mut group = 0;
        for level in self.levels.iter().rev() {
            let start = group * GROUP;
            group = start + count_up_to(window(level, start), x);
        }
        group
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let values: usize = self.levels.iter().map(|level| level.capacity() * size_of::<u64>()).sum();
        values + self.levels.capacity() * size_of::<Vec<u64>>()
    }
}

/// At most one group of `values`, from `start`.
pub(super) fn window<T>(values: &[T], start: usize) -> &[T] {
    let rest = values.get(start..).unwrap_or_default();
    rest.get(..GROUP).unwrap_or(rest)
}

/// How many of a group's values are at most `x`.
fn count_up_to(group: &[u64], x: u64) -> usize {
    // All are compared, since a branch on each would be guessed wrong half of the time.
    group.iter().map(|&value| usize::from(value <= x)).sum()
}
