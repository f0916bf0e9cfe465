//! How many cells and batches each seat is given.

use std::ops::Range;

use crate::options::{Seat, Uneven};
use crate::state::Segment;

/// A way of dealing places to ranks and workers: equal numbers of batches to each rank, whatever there is to deal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deal {
    world: u64,
    workers: u64,
    batch: u64,
    uneven: Uneven,
    drop_last: bool,
}

impl Deal {
    pub(crate) fn new(segment: &Segment, uneven: Uneven, drop_last: bool) -> Self {
        Self {
            world: segment.world.max(1),
            workers: segment.workers.max(1),
            batch: segment.batch_size.max(1),
            uneven,
            drop_last,
        }
    }

    pub(crate) const fn world(&self) -> u64 {
        self.world
    }

    pub(crate) const fn batch(&self) -> u64 {
        self.batch
    }

    pub(crate) const fn workers(&self) -> u64 {
        self.workers
    }

    /// `len / world`, up or down.
    fn share(&self, len: u64) -> u64 {
        match self.uneven {
            Uneven::Drop => len / self.world,
            Uneven::Pad => len.div_ceil(self.world),
        }
    }

    /// Steps of one worker's lane after so many of its rank's.
    pub(crate) fn lane_steps(&self, steps: u64, worker: u64) -> u64 {
        steps.saturating_add(self.workers - 1).saturating_sub(worker) / self.workers
    }

    // Lines: each rank has a stretch of the line, and each of its workers a stretch of that.

    /// The places of a line of `len` that a seat is given. Those past the end begin again at the line's start.
    pub(crate) fn stretch(&self, len: u64, seat: Seat) -> Range<u64> {
        let rank_len = self.share(len);
        let (each, more) = (rank_len / self.workers, rank_len % self.workers);
        let start =
            seat.rank.saturating_mul(rank_len) + seat.worker.saturating_mul(each) + seat.worker.min(more);
        start..start + each + u64::from(seat.worker < more)
    }

    /// The first place of a line of `len` that nobody is given.
    pub(crate) fn dealt(&self, len: u64) -> u64 {
        self.share(len).saturating_mul(self.world).min(len)
    }

    /// Cells of a lane of `len` that are delivered.
    pub(crate) fn delivered(&self, len: u64) -> u64 {
        if self.drop_last { len - len % self.batch } else { len }
    }

    /// Batches of each rank, of a line of `len`.
    pub(crate) fn line_batches(&self, len: u64) -> u64 {
        let lanes = (0..self.workers).map(|worker| {
            let places =
                self.stretch(len, Seat { rank: 0, world: self.world, worker, workers: self.workers });
            self.delivered(places.end - places.start).div_ceil(self.batch)
        });
        lanes.sum()
    }

    // Draws: batch `b` of rank `r` is batch `b * world + r` of the draws; a rank's workers take its batches in turn.

    /// Full rounds of batches in `left` draws, and the places of each rank in the round after.
    fn rounds(&self, left: u64) -> (u64, u64) {
        let round = self.batch.saturating_mul(self.world);
        let last = self.share(left % round);
        (left / round, if self.drop_last && last < self.batch { 0 } else { last })
    }

    /// Batches of each rank.
    pub(crate) fn draw_batches(&self, left: u64) -> u64 {
        let (full, last) = self.rounds(left);
        full + u64::from(last > 0)
    }

    /// The draws of a rank's batch, of those left. Those past the end begin again at the first.
    pub(crate) fn draw_batch(&self, left: u64, rank: u64, batch: u64) -> Range<u64> {
        let (full, last) = self.rounds(left);
        let start = batch.saturating_mul(self.batch).saturating_mul(self.world);
        let len = if batch < full {
            self.batch
        } else if batch == full {
            last
        } else {
            0
        };
        let start = start + rank.saturating_mul(len);
        start..start + len
    }

    /// Draws that are done with after so many steps of every rank, of those left.
    pub(crate) fn drawn(&self, left: u64, steps: u64) -> u64 {
        let (full, last) = self.rounds(left);
        let round = self.batch.saturating_mul(self.world);
        let last = if steps > full { last.saturating_mul(self.world) } else { 0 };
        steps.min(full).saturating_mul(round).saturating_add(last).min(left)
    }
}
