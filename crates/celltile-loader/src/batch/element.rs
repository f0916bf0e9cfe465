//! What counts are delivered as.

use celltile::Count;

/// `f32` or `i32`.
pub trait Element: Count {
    /// Whether a transform can be stored in it.
    const IS_FLOAT: bool;

    /// Its value.
    fn value(self) -> f64;

    /// The nearest element; counts stay as they are where the element holds integers.
    fn from_value(value: f64) -> Self;
}

impl Element for i32 {
    const IS_FLOAT: bool = false;

    fn value(self) -> f64 {
        self.into()
    }

    #[allow(clippy::cast_possible_truncation, reason = "saturates, and is used for counts only")]
    fn from_value(value: f64) -> Self {
        value as Self
    }
}

impl Element for f32 {
    const IS_FLOAT: bool = true;

    fn value(self) -> f64 {
        self.into()
    }

    #[allow(clippy::cast_possible_truncation, reason = "rounds, as float32 results do")]
    fn from_value(value: f64) -> Self {
        value as Self
    }
}

/// The sum of a cell's counts: integers below 2^31 each, so the sum of doubles is exact.
#[allow(clippy::cast_possible_truncation, reason = "an integer far below 2^63")]
pub(crate) fn total<C: Element>(counts: &[C]) -> i64 {
    // Several sums at a time: one alone waits for each addition.
    let mut sums = [0.0; 8];
    let (whole, rest) = counts.as_chunks::<8>();
    for counts in whole {
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum += count.value();
        }
    }
    let rest: f64 = rest.iter().map(|count| count.value()).sum();
    (sums.iter().sum::<f64>() + rest) as i64
}

/// Counts up to which logarithms are taken once a cell: nearly all counts of a cell are below.
const TABLE: usize = 24;

/// `ln(1 + count * 10,000 / total)`, computed in double precision.
#[allow(clippy::cast_precision_loss, reason = "totals below 2^53")]
pub(crate) fn log1p_cp10k<C: Element>(counts: &mut [C], total: i64) {
    let scale = if total > 0 { 10_000.0 / total as f64 } else { 0.0 };
    let log = |count: f64| C::from_value((count * scale).ln_1p());
    let mut table = [C::default(); TABLE];
    if counts.len() > TABLE {
        let mut count = 0.0;
        for entry in &mut table {
            *entry = log(count);
            count += 1.0;
        }
    }
    let by_table = counts.len() > TABLE;
    for count in counts {
        let value = count.value();
        let entry = if by_table { small(value).and_then(|at| table.get(at)) } else { None };
        *count = entry.copied().unwrap_or_else(|| log(value));
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small integer, as compared")]
fn small(value: f64) -> Option<usize> {
    (value < TABLE as f64).then_some(value as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_totals_are_exact() {
        let counts: Vec<i32> = (0..1003).map(|i| 16_777_217 + i).collect();
        assert_eq!(total(&counts), counts.iter().map(|&c| i64::from(c)).sum::<i64>());
        assert_eq!(total::<f32>(&[]), 0);
    }

    #[test]
    fn test_logarithms_are_those_of_each_count() {
        let counts: Vec<f32> = (0..200_u16).map(|i| f32::from(i % 60)).collect();
        let sum = total(&counts);
        let mut logs = counts.clone();
        log1p_cp10k(&mut logs, sum);
        for (log, count) in logs.iter().zip(&counts) {
            let expected = (f64::from(*count) * (10_000.0 / sum as f64)).ln_1p();
            assert_eq!(*log, f32::from_value(expected));
        }
    }
}
