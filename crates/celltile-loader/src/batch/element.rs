//! What counts are delivered as.

use celltile::Count;

/// `f32` or `i32`.
pub trait Element: Count {
    /// Whether a transform can be stored in it.
    const IS_FLOAT: bool;

    /// The nearest element; counts stay as they are where the element holds integers.
    fn from_value(value: f64) -> Self;
}

impl Element for i32 {
    const IS_FLOAT: bool = false;

    #[allow(clippy::cast_possible_truncation, reason = "saturates, and is used for counts only")]
    fn from_value(value: f64) -> Self {
        value as Self
    }
}

impl Element for f32 {
    const IS_FLOAT: bool = true;

    #[allow(clippy::cast_possible_truncation, reason = "rounds, as float32 results do")]
    fn from_value(value: f64) -> Self {
        value as Self
    }
}

/// Counts up to which logarithms are taken once a cell: nearly all counts of a cell are below.
const TABLE: usize = 24;

/// `ln(1 + count * 10,000 / total)` of each count, computed in double precision and rounded once.
#[allow(clippy::cast_precision_loss, reason = "totals below 2^53")]
pub(crate) fn log1p_cp10k<C: Element>(counts: &[i32], total: i64, out: &mut [C]) {
    let scale = if total > 0 { 10_000.0 / total as f64 } else { 0.0 };
    let log = |count: i32| C::from_value((f64::from(count) * scale).ln_1p());
    let mut table = [C::default(); TABLE];
    let by_table = counts.len() > TABLE;
    if by_table {
        for (count, entry) in (0..).zip(&mut table) {
            *entry = log(count);
        }
    }
    for (&count, out) in counts.iter().zip(out) {
        let entry = usize::try_from(count).ok().filter(|_| by_table).and_then(|at| table.get(at));
        *out = entry.copied().unwrap_or_else(|| log(count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_logarithms_are_those_of_each_count() {
        let counts: Vec<i32> = (0..200).map(|i| if i == 7 { (1 << 24) + 1 } else { i % 60 }).collect();
        let sum: i64 = counts.iter().map(|&count| i64::from(count)).sum();
        let mut logs = vec![0.0_f32; counts.len()];
        log1p_cp10k(&counts, sum, &mut logs);
        for (log, count) in logs.iter().zip(&counts) {
            let expected = (f64::from(*count) * (10_000.0 / sum as f64)).ln_1p();
            assert_eq!(*log, f32::from_value(expected));
        }
    }
}
