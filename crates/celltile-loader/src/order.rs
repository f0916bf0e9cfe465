//! Which cells when: a pure function of dataset, seed, epoch and options. Nothing here reads, decodes or waits.
//!
//! The selected cells of an epoch are *slots*, numbered in the dataset's order. There are two kinds of order:
//!
//! - In *lines*, slots are cut into groups (tile chunks, or tiles) that are put into a random order, the line; the line is
//!   dealt to lanes in equal parts; a lane is cut into fills of the buffer, each of which is shuffled.
//! - In *draws*, place `k` of the epoch has a slot of its own, whatever stands beside it (a permutation, or weights), and
//!   batches are dealt to lanes in turn.
//!
//! What is left of an epoch after some steps is again a line, or the rest of the draws: that is how an epoch goes on with
//! another number of ranks.

mod deal;
mod draws;
mod lane;
mod line;
mod permutation;
mod rng;
mod selection;

pub(crate) use deal::Deal;
use draws::Draws;
pub(crate) use lane::Lane;
use line::Line;
pub(crate) use rng::hash;
pub(crate) use selection::Selection;

use std::sync::{Mutex, PoisonError};

use crate::options::{Seat, Shuffle, Uneven, Weighting};
use crate::state::Segment;

/// What a random number is for: no two uses share a key.
mod purpose {
    pub(super) const LINE: u64 = 1;
    pub(super) const FILL: u64 = 2;
    pub(super) const CELLS: u64 = 3;
    pub(super) const WEIGHTS: u64 = 4;
}

/// The orders of all epochs.
#[derive(Debug)]
pub(crate) struct Order {
    seed: u64,
    uneven: Uneven,
    drop_last: bool,
    selection: Selection,
    kind: Kind,
    len: u64,
    counted: Mutex<Option<Counted>>,
}

/// Batches of each rank in a stretch of an epoch. They are asked for after every batch, and take a walk through the line
/// where an epoch was resumed.
#[derive(Debug)]
struct Counted {
    epoch: u64,
    before: Vec<Segment>,
    now: Segment,
    batches: u64,
}

#[derive(Debug)]
enum Kind {
    Line { shuffled: bool },
    Permuted,
    Weighted { weighting: Weighting },
}

impl Order {
    pub(crate) fn new(
        selection: Selection,
        shuffle: Shuffle,
        weighting: Option<Weighting>,
        (seed, uneven, drop_last): (u64, Uneven, bool),
    ) -> Self {
        let kind = match (weighting, shuffle) {
            (Some(weighting), _) => Kind::Weighted { weighting },
            (None, Shuffle::Cells) => Kind::Permuted,
            (None, shuffle) => Kind::Line { shuffled: shuffle != Shuffle::None },
        };
        let len = match &kind {
            Kind::Line { .. } | Kind::Permuted => selection.len(),
            Kind::Weighted { weighting } => draws::count(&selection, weighting),
        };
        Self { seed, uneven, drop_last, selection, kind, len, counted: Mutex::default() }
    }

    /// The lane of one seat, from the start of the stretch that comes after `before` and is dealt as `now` says.
    pub(crate) fn lane(&self, epoch: u64, before: &[Segment], now: &Segment, seat: Seat) -> Lane<'_> {
        match &self.kind {
            Kind::Line { shuffled } => {
                let key = |number: u64| shuffled.then_some([purpose::LINE, self.seed, epoch, number]);
                let mut line = Line::whole(&self.selection).settle(key(0));
                for (number, segment) in (1..).zip(before) {
                    let lane = |line: &Line, seat| self.line_lane(line, epoch, number - 1, segment, seat);
                    line = line.after(&self.selection, &self.deal(segment), segment.steps, lane);
                    line = line.settle(key(number));
                }
                Lane::line(&self.selection, self.line_lane(&line, epoch, before.len() as u64, now, seat))
            }
            Kind::Permuted => {
                let key = [purpose::CELLS, self.seed, epoch];
                Lane::draws(&self.selection, Draws::permuted(&self.selection, &key), self, before, now, seat)
            }
            Kind::Weighted { weighting } => {
                let key = [purpose::WEIGHTS, self.seed, epoch];
                let draws = Draws::weighted(&self.selection, weighting, &key);
                Lane::draws(&self.selection, draws, self, before, now, seat)
            }
        }
    }

    fn line_lane(
        &self,
        line: &Line,
        epoch: u64,
        number: u64,
        segment: &Segment,
        seat: Seat,
    ) -> line::LineLane {
        let key = match self.kind {
            Kind::Line { shuffled: true } => Some([purpose::FILL, self.seed, epoch, number]),
            _ => None,
        };
        line.lane(&self.deal(segment), segment, seat, key)
    }

    fn deal(&self, segment: &Segment) -> Deal {
        Deal::new(segment, self.uneven, self.drop_last)
    }

    /// Places of an epoch: cells, or draws.
    pub(crate) const fn len(&self) -> u64 {
        self.len
    }

    /// Batches of each rank in the stretch that `now` describes.
    pub(crate) fn rank_batches(&self, epoch: u64, before: &[Segment], now: &Segment) -> u64 {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = &*counted
            && last.epoch == epoch
            && last.before == before
            && last.now.deals_like(now)
        {
            return last.batches;
        }
        let batches = self.count_batches(epoch, before, now);
        *counted = Some(Counted { epoch, before: before.to_vec(), now: *now, batches });
        batches
    }

    fn count_batches(&self, epoch: u64, before: &[Segment], now: &Segment) -> u64 {
        if let Kind::Line { .. } = self.kind {
            let left = if before.is_empty() {
                self.len
            } else {
                // What a line has left depends on its fills no more than on their sizes, but the line knows best.
                let seat = Seat { rank: 0, world: now.world, worker: 0, workers: now.workers };
                match self.lane(epoch, before, now, seat) {
                    Lane::Line { lane, .. } => lane.line_len(),
                    Lane::Draws { .. } => 0,
                }
            };
            return self.deal(now).line_batches(left);
        }
        let deals = before.iter().map(|segment| (self.deal(segment), segment.steps));
        let left = deals.fold(self.len, |left, (deal, steps)| left.saturating_sub(deal.drawn(left, steps)));
        self.deal(now).draw_batches(left)
    }
}

#[cfg(test)]
mod tests;
