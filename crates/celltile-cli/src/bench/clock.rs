//! Times of several rounds.

use std::time::{Duration, Instant};

/// The times that one thing took, round by round.
#[derive(Debug, Clone, Default)]
pub(crate) struct Times(Vec<f64>);

impl Times {
    pub(crate) fn push(&mut self, time: Duration) {
        self.0.push(time.as_secs_f64());
    }

    /// The shortest, in seconds: what the machine can do when nothing else disturbs it.
    pub(crate) fn best(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The middle of the ratios of each round to the same round of another.
    pub(crate) fn median_ratio(&self, other: &Self) -> f64 {
        let mut ratios: Vec<f64> = self.0.iter().zip(&other.0).map(|(a, b)| a / b).collect();
        ratios.sort_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

/// How long something takes, and what it returns.
pub(crate) fn time<T>(what: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let result = std::hint::black_box(what());
    (start.elapsed(), result)
}
