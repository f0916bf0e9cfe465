//! The cells that one seat is given, in order, a fill at a time.

use std::ops::Range;

use super::deal::Deal;
use super::draws::Draws;
use super::line::LineLane;
use super::selection::Selection;
use super::{Kind, Order};
use crate::options::Seat;
use crate::state::Segment;

/// One seat's part of an epoch: places from 0 to [`len`](Self::len), cut into batches at multiples of the batch size.
#[derive(Debug)]
pub(crate) enum Lane<'o> {
    Line {
        selection: &'o Selection,
        lane: LineLane,
    },
    Draws {
        selection: &'o Selection,
        draws: Draws,
        deal: Deal,
        seat: Seat,
        /// Draws that earlier stretches of the epoch took.
        done: u64,
        /// Batches of a fill.
        batches: u64,
    },
}

impl<'o> Lane<'o> {
    pub(super) const fn line(selection: &'o Selection, lane: LineLane) -> Self {
        Self::Line { selection, lane }
    }

    pub(super) fn draws(
        selection: &'o Selection,
        draws: Draws,
        order: &'o Order,
        before: &[Segment],
        now: &Segment,
        seat: Seat,
    ) -> Self {
        debug_assert!(!matches!(order.kind, Kind::Line { .. }), "lines are dealt otherwise");
        let deals = before.iter().map(|segment| (order.deal(segment), segment.steps));
        let left = deals.fold(draws.len(), |left, (deal, steps)| left - deal.drawn(left, steps));
        let done = draws.len() - left;
        let batches = (now.buffer / now.batch_size.max(1)).max(1);
        Self::Draws { selection, draws, deal: order.deal(now), seat, done, batches }
    }

    /// Places, those of an incomplete batch that is left out not among them.
    pub(crate) fn len(&self, deal: &Deal) -> u64 {
        match self {
            Self::Line { lane, .. } => deal.delivered(lane.len()),
            Self::Draws { draws, done, seat, .. } => {
                let left = draws.len() - done;
                let batches = deal.lane_steps(deal.draw_batches(left), seat.worker);
                let Some(before) = batches.checked_sub(1) else { return 0 };
                // All but the last batch are full.
                let last = deal.draw_batch(left, seat.rank, before * seat.workers + seat.worker);
                before * deal.batch() + (last.end - last.start)
            }
        }
    }

    /// The cells of the fill that holds a place, in the order in which they are delivered, and the fill's places.
    pub(crate) fn fill(&self, place: u64, out: &mut Vec<u64>) -> Range<u64> {
        match self {
            Self::Line { selection, lane } => {
                let places = lane.fill(place, out);
                out.iter_mut().for_each(|slot| *slot = selection.cell(*slot));
                places
            }
            Self::Draws { selection, draws, deal, seat, done, batches } => {
                out.clear();
                let left = draws.len() - done;
                let first = place / deal.batch() / batches * batches;
                for batch in first..first + batches {
                    let range = deal.draw_batch(left, seat.rank, batch * seat.workers + seat.worker);
                    out.extend(range.map(|draw| selection.cell(draws.slot(done + draw % left.max(1)))));
                }
                let start = first * deal.batch();
                start..start + out.len() as u64
            }
        }
    }
}
