//! How fast cells come from anywhere in a dataset.

use std::path::Path;

use celltile::{Csr, Dataset, OpenOptions, ReadOptions};

use super::clock::{Times, time};
use crate::failure::Failure;

/// Cells of one call.
pub(crate) const CELLS: usize = 4096;

/// Gathers random cells with so many threads. The first round, which reads the tiles' heads, does not count.
pub(crate) fn measure(path: &Path, threads: usize, rounds: usize) -> Result<Times, Failure> {
    let dataset = Dataset::open_with(path, &OpenOptions::default().threads(threads))?;
    let mut times = Times::default();
    let mut out = Csr::<i32>::new();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..=rounds {
        let random = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % dataset.n_cells()
        });
        let cells: Vec<u64> = random.take(CELLS).collect();
        let (took, result) = time(|| dataset.gather_into(&cells, &ReadOptions::default(), &mut out));
        result?;
        if round > 0 {
            times.push(took);
        }
    }
    Ok(times)
}
