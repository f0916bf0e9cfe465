use std::sync::atomic::{AtomicU64, Ordering};

/// The smallest position reported from any thread.
#[derive(Debug)]
pub(crate) struct First(AtomicU64);

impl Default for First {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

impl First {
    pub(crate) fn report(&self, position: u64) {
        self.0.fetch_min(position, Ordering::Relaxed);
    }

    /// Reports the first place in `values` that holds the sentinel, counted from `start`.
    pub(crate) fn report_bad(&self, values: &[u32], start: u64) {
        // One pass without a branch an element finds nothing in nearly every piece.
        if values.iter().fold(0, |all, &value| all.max(value)) == super::numbers::BAD
            && let Some(at) = values.iter().position(|&value| value == super::numbers::BAD)
        {
            self.report(start + at as u64);
        }
    }

    pub(crate) fn get(&self) -> Option<u64> {
        match self.0.load(Ordering::Relaxed) {
            u64::MAX => None,
            position => Some(position),
        }
    }
}
