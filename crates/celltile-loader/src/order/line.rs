//! Groups of slots in a random order, dealt out in stretches, shuffled a fill at a time.

use std::ops::Range;
use std::sync::Arc;

use super::deal::Deal;
use super::rng::Rng;
use super::selection::Selection;
use crate::options::Seat;
use crate::state::Segment;

/// Slots of one group that stay together until the buffer is shuffled: consecutive slots, or entries of a list.
#[derive(Debug, Clone, Copy)]
struct Item {
    /// The first slot, or the first entry of the list.
    start: u64,
    len: u32,
    /// Number of the list; [`SLOTS`] for consecutive slots.
    list: u32,
}

const SLOTS: u32 = u32::MAX;

/// Longest item: longer groups are several.
const LONGEST: u64 = u32::MAX as u64;

/// The slots of (the rest of) an epoch, each once.
#[derive(Debug, Clone)]
pub(super) struct Line {
    items: Vec<Item>,
    /// Where each item ends in the line, once that is indexed.
    ends: Vec<u64>,
    lists: Vec<Arc<[u64]>>,
    len: u64,
}

impl Line {
    /// All slots, in order.
    pub(super) fn whole(selection: &Selection) -> Self {
        let mut line = Self { items: Vec::new(), ends: Vec::new(), lists: Vec::new(), len: 0 };
        for group in selection.groups() {
            line.push(SLOTS, group);
        }
        line
    }

    fn push(&mut self, list: u32, range: Range<u64>) {
        let mut start = range.start;
        while start < range.end {
            let len = (range.end - start).min(LONGEST);
            self.items.push(Item { start, len: u32::try_from(len).unwrap_or(u32::MAX), list });
            self.len += len;
            start += len;
        }
    }

    /// Puts the items into a random order if there is a key, and says that they stay as they are now.
    pub(super) fn settle(mut self, key: Option<[u64; 4]>) -> Self {
        if let Some(key) = key {
            Rng::new(&key).shuffle(&mut self.items);
        }
        self.ends.clear();
        self.ends.extend(self.items.iter().scan(0, |end, item| {
            *end += u64::from(item.len);
            Some(*end)
        }));
        self
    }

    /// The items of a stretch of the line, cut at its ends.
    fn stretch(&self, range: Range<u64>, out: &mut Vec<Item>) {
        let first = self.ends.partition_point(|&end| end <= range.start);
        let mut at =
            first.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or_default();
        for item in self.items.iter().skip(first) {
            let end = at + u64::from(item.len);
            let (low, high) = (range.start.max(at), range.end.min(end));
            if low < high {
                let len = u32::try_from(high - low).unwrap_or(u32::MAX);
                out.push(Item { start: item.start + (low - at), len, list: item.list });
            }
            at = end;
            if at >= range.end {
                break;
            }
        }
    }

    /// The lane of a seat. `key` is that of its fills; without one they stay in order.
    pub(super) fn lane(&self, deal: &Deal, segment: &Segment, seat: Seat, key: Option<[u64; 4]>) -> LineLane {
        let stretch = deal.stretch(self.len, seat);
        let mut items = Vec::new();
        let own = stretch.start.min(self.len)..stretch.end.min(self.len);
        self.stretch(own.clone(), &mut items);
        // Past the end the line begins anew, more than once if there are more lanes than cells.
        let mut padding = (stretch.end - stretch.start) - (own.end - own.start);
        let mut from = stretch.start.max(self.len).checked_rem(self.len).unwrap_or_default();
        while padding > 0 && self.len > 0 {
            let to = self.len.min(from + padding);
            self.stretch(from..to, &mut items);
            padding -= to - from;
            from = 0;
        }
        let number = seat.rank * deal.workers() + seat.worker;
        LineLane::new(items, self, own.end - own.start, segment.buffer.max(1), key.map(|key| (key, number)))
    }

    /// What is left after every rank took so many steps, in no random order.
    pub(super) fn after(
        &self,
        selection: &Selection,
        deal: &Deal,
        steps: u64,
        lane: impl Fn(&Self, Seat) -> LineLane,
    ) -> Self {
        let mut left = Self { items: Vec::new(), ends: Vec::new(), lists: self.lists.clone(), len: 0 };
        for rank in 0..deal.world() {
            for worker in 0..deal.workers() {
                let seat = Seat { rank, world: deal.world(), worker, workers: deal.workers() };
                let lane = lane(self, seat);
                let taken = deal.lane_steps(steps, worker).saturating_mul(deal.batch());
                lane.rest(taken.min(deal.delivered(lane.len())), selection, &mut left);
            }
        }
        let mut never_dealt = Vec::new();
        self.stretch(deal.dealt(self.len)..self.len, &mut never_dealt);
        left.extend(never_dealt);
        left
    }

    fn extend(&mut self, items: impl IntoIterator<Item = Item>) {
        for item in items {
            self.len += u64::from(item.len);
            self.items.push(item);
        }
    }
}

/// The slots that one seat is given, in order.
#[derive(Debug)]
pub(crate) struct LineLane {
    items: Vec<Item>,
    lists: Vec<Arc<[u64]>>,
    /// One past the last item of each fill, and where it ends in the lane.
    fills: Vec<(usize, u64)>,
    /// Places before the padding.
    own: u64,
    len: u64,
    line_len: u64,
    key: Option<([u64; 4], u64)>,
}

impl LineLane {
    fn new(items: Vec<Item>, line: &Line, own: u64, buffer: u64, key: Option<([u64; 4], u64)>) -> Self {
        let len: u64 = items.iter().map(|item| u64::from(item.len)).sum();
        // Fills of equal size, as near as whole items allow: a short last one would mix few cells.
        let n_fills = len.div_ceil(buffer).max(1);
        let mut fills = Vec::new();
        let (mut at, mut start) = (0_u64, 0_u64);
        for (index, item) in items.iter().enumerate() {
            let end = at + u64::from(item.len);
            let share = u128::from(len) * u128::from(fills.len() as u64 + 1) / u128::from(n_fills);
            if u128::from(end) > share && at > start {
                fills.push((index, at));
                start = at;
            }
            at = end;
        }
        if len > start {
            fills.push((items.len(), len));
        }
        Self { items, lists: line.lists.clone(), fills, own, len, line_len: line.len, key }
    }

    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// Places of the line that this lane was cut from.
    pub(super) const fn line_len(&self) -> u64 {
        self.line_len
    }

    /// The fill that holds a place: its number, its places and its items.
    fn fill_at(&self, place: u64) -> Option<(u64, Range<u64>, &[Item])> {
        let number = self.fills.partition_point(|(_, end)| *end <= place);
        let (last_item, end) = *self.fills.get(number)?;
        let (first_item, start) =
            number.checked_sub(1).and_then(|before| self.fills.get(before)).copied().unwrap_or_default();
        Some((number as u64, start..end, self.items.get(first_item..last_item)?))
    }

    fn slots(&self, item: &Item, out: &mut Vec<u64>) {
        let range = item.start..item.start + u64::from(item.len);
        match usize::try_from(item.list).ok().and_then(|list| self.lists.get(list)) {
            Some(list) if item.list != SLOTS => {
                let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
                out.extend_from_slice(list.get(index(range.start)..index(range.end)).unwrap_or_default());
            }
            _ => out.extend(range),
        }
    }

    /// The slots of the fill that holds a place, in the order in which they are delivered, and the fill's places.
    pub(super) fn fill(&self, place: u64, out: &mut Vec<u64>) -> Range<u64> {
        out.clear();
        let Some((number, places, items)) = self.fill_at(place) else { return place..place };
        items.iter().for_each(|item| self.slots(item, out));
        self.mix(number, out);
        places
    }

    fn mix<T>(&self, number: u64, items: &mut [T]) {
        if let Some(([a, b, c, d], lane)) = self.key {
            Rng::new(&[a, b, c, d, lane, number]).shuffle(items);
        }
    }

    /// Adds what is left from a place on, padding left out, to a line.
    fn rest(&self, place: u64, selection: &Selection, left: &mut Line) {
        let Some((number, places, items)) = self.fill_at(place) else { return };
        let mut next_item = self.fills.get(usize::try_from(number).unwrap_or_default()).map_or(0, |f| f.0);
        if place == places.start {
            next_item -= items.len();
        } else {
            // Part of a fill is a random choice of its slots: they are listed, by group.
            let mut slots = Vec::new();
            items.iter().for_each(|item| self.slots(item, &mut slots));
            let mut marked: Vec<(u64, bool)> =
                (places.start..).zip(slots).map(|(at, slot)| (slot, at < self.own)).collect();
            self.mix(number, &mut marked);
            let taken = usize::try_from(place - places.start).unwrap_or(usize::MAX);
            let mut rest: Vec<u64> =
                marked.iter().skip(taken).filter(|(_, own)| *own).map(|(slot, _)| *slot).collect();
            rest.sort_unstable();
            let list = u32::try_from(left.lists.len()).unwrap_or(SLOTS - 1);
            let mut start = 0;
            while let Some(&first) = rest.get(start) {
                let end = selection.group_end(first);
                let len = rest.get(start..).map_or(0, |rest| rest.partition_point(|&slot| slot < end));
                left.push(list, start as u64..(start + len) as u64);
                start += len.max(1);
            }
            left.lists.push(rest.into());
        }
        // Whole fills after it, up to the padding.
        let mut at = if place == places.start { places.start } else { places.end };
        for item in self.items.iter().skip(next_item) {
            let len = u64::from(item.len).min(self.own.saturating_sub(at));
            if len == 0 {
                break;
            }
            left.extend([Item { len: u32::try_from(len).unwrap_or(u32::MAX), ..*item }]);
            at += u64::from(item.len);
        }
    }
}
