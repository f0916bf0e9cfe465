//! What a loader has done and how long it took.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Counters since the loader was made.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Batches handed out.
    pub batches: u64,
    /// Cells handed out.
    pub cells: u64,
    /// Cells handed out, divided by the time since the first batch was asked for.
    pub cells_per_second: f64,
    /// Time that the caller waited for batches: storage and decoding together were slower than the caller by that.
    pub wait: Duration,
    /// Time that threads spent decoding, added up.
    pub decode: Duration,
    /// Time spent on opening tiles and fetching their bytes ahead; local tiles are read while they are decoded.
    pub fetch: Duration,
    /// Bytes of tile chunks that were read.
    pub bytes: u64,
    /// Cells left out because their tile chunk is damaged.
    pub lost_cells: u64,
    /// Tile chunks found damaged, each time they were.
    pub damaged_chunks: u64,
}

/// The counters, shared by threads.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) batches: AtomicU64,
    pub(crate) cells: AtomicU64,
    pub(crate) wait: AtomicU64,
    pub(crate) decode: AtomicU64,
    pub(crate) fetch: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) lost_cells: AtomicU64,
    pub(crate) damaged_chunks: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, more: u64) {
        counter.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn add_time(counter: &AtomicU64, since: Instant) {
        Self::add(counter, u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn stats(&self, since: Option<Instant>) -> Stats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let time = |counter| Duration::from_nanos(get(counter));
        let seconds = since.map_or(0.0, |since| since.elapsed().as_secs_f64());
        #[allow(clippy::cast_precision_loss, reason = "a rate need not be exact")]
        let rate = if seconds > 0.0 { get(&self.cells) as f64 / seconds } else { 0.0 };
        Stats {
            batches: get(&self.batches),
            cells: get(&self.cells),
            cells_per_second: rate,
            wait: time(&self.wait),
            decode: time(&self.decode),
            fetch: time(&self.fetch),
            bytes: get(&self.bytes),
            lost_cells: get(&self.lost_cells),
            damaged_chunks: get(&self.damaged_chunks),
        }
    }
}
