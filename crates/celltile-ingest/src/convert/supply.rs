//! Cells in the order of the dataset, from wherever they are.

use std::collections::BTreeMap;
use std::ops::Range;

use celltile::Csr;
use rayon::prelude::*;

use super::cells::Input;
use super::options::ConvertOptions;
use super::packed::{Packed, unpack};
use super::placement::Shuffle;
use super::scatter::{BucketIndex, BucketTotals, PartIndex, Segment, read_index, read_segment};
use super::work::Work;
use crate::error::{Error, Result};
use crate::plan::{Plan, PlannedInput};

/// What is where of inputs, and what each bucket holds together.
type Found = (Vec<(usize, Vec<PartIndex>)>, BucketTotals);

/// Shuffled cells that a thread unpacks at a time.
const UNPACKED: usize = 128;

/// The inputs that cells are from.
pub(super) enum From<'a> {
    /// All of them from one.
    One(usize),
    /// Each from its own.
    Each(&'a [usize]),
}

/// Takes some cells, in the genes of the plan.
pub(super) type Take<'a> = dyn FnMut(&Csr, From<'_>) -> Result<()> + 'a;

/// Packed cells of each input that are in memory, by the number of their first cell.
pub(super) type Cache = BTreeMap<usize, BTreeMap<u64, Packed>>;

pub(super) struct Supply<'a> {
    plan: &'a Plan,
    options: &'a ConvertOptions,
    work: &'a Work,
    cache: Cache,
    /// Whether the cache holds all cells.
    whole: bool,
    /// Number of each input's first cell among those of all inputs.
    offsets: Vec<u64>,
    scattered: Vec<Option<Vec<PartIndex>>>,
    /// The buckets that the indices of parts hold: all of them would take more memory than cells, where inputs and buckets
    /// are many.
    window: Range<usize>,
    totals: BucketTotals,
    bucket: Option<Bucket>,
    open: Option<Input>,
    /// Cells that were read from an input once more.
    pub(super) read_again: u64,
}

/// The cells of a bucket, in the order of the dataset.
struct Bucket {
    number: usize,
    /// Place of the first.
    first: u64,
    segments: Vec<Segment>,
    /// Segment and number within it of each.
    order: Vec<(u32, u32)>,
    /// Places that are in memory.
    loaded: Range<u64>,
}

impl<'a> Supply<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        options: &'a ConvertOptions,
        work: &'a Work,
        cache: Cache,
        whole: bool,
    ) -> Result<Self> {
        let mut first = 0_u64;
        let mut offsets = Vec::with_capacity(plan.inputs.len());
        for input in &plan.inputs {
            offsets.push(first);
            first = first.saturating_add(input.cells);
        }
        let mut supply = Self {
            plan,
            options,
            work,
            cache,
            whole,
            offsets,
            scattered: plan.inputs.iter().map(|_| None).collect(),
            window: 0..0,
            totals: Vec::new(),
            bucket: None,
            open: None,
            read_again: 0,
        };
        if !whole {
            supply.look_up(0)?;
        }
        Ok(supply)
    }

    /// Reads what is where of a bucket and of as many after it as may be held.
    fn look_up(&mut self, bucket: usize) -> Result<()> {
        let packed = self.plan.inputs.iter().map(PlannedInput::packed).fold(0, u64::saturating_add);
        let parts = packed / self.work.layout.part_bytes.max(1) + self.plan.inputs.len() as u64;
        let room = self.options.memory / 16 / size_of::<BucketIndex>() as u64;
        let buckets = usize::try_from(room / parts.max(1)).unwrap_or(usize::MAX).max(1);
        self.window = bucket..bucket.saturating_add(buckets);
        let (window, plan, work) = (&self.window, self.plan, self.work);
        let there = work.scattered()?.into_par_iter().filter_map(|input| usize::try_from(input).ok());
        let there = there.filter(|input| *input < plan.inputs.len());
        let found = there
            .try_fold(Found::default, |(mut indices, mut totals), input| {
                indices.push((input, read_index(work, plan, input, window, &mut totals)?));
                Ok((indices, totals))
            })
            .try_reduce(Found::default, |(mut indices, mut totals), (more, more_totals)| {
                indices.extend(more);
                totals.resize(totals.len().max(more_totals.len()), (0, 0));
                for (total, more) in totals.iter_mut().zip(more_totals) {
                    *total = (total.0.saturating_add(more.0), total.1.saturating_add(more.1));
                }
                Ok::<_, Error>((indices, totals))
            });
        let (indices, totals) = found?;
        for (input, index) in indices {
            if let Some(place) = self.scattered.get_mut(input) {
                *place = Some(index);
            }
        }
        self.totals = totals;
        Ok(())
    }

    /// The cells at these places of the dataset.
    pub(super) fn cells(&mut self, places: Range<u64>, take: &mut Take<'_>) -> Result<()> {
        match self.plan.joining.shuffle {
            Some(seed) => self.shuffled(Shuffle::new(seed), places, take),
            None => self.in_order(places, take),
        }
    }

    fn in_order(&mut self, places: Range<u64>, take: &mut Take<'_>) -> Result<()> {
        let mut first = 0_u64;
        for input in 0..self.plan.inputs.len() {
            let cells = self.plan.inputs.get(input).map_or(0, |input| input.cells);
            let end = first.saturating_add(cells);
            let own = places.start.max(first)..places.end.min(end);
            if own.start < own.end {
                self.of_input(input, own.start - first..own.end - first, take)?;
            }
            first = end;
        }
        Ok(())
    }

    fn of_input(&mut self, input: usize, cells: Range<u64>, take: &mut Take<'_>) -> Result<()> {
        let mut at = cells.start;
        let mut csr = Csr::new();
        while at < cells.end {
            let kept = self.cache.get(&input);
            // What was kept goes away as it is taken: nobody asks for it twice.
            if let Some((&first, packed)) = kept.and_then(|kept| kept.range(..=at).next_back())
                && at < first + packed.cells() as u64
            {
                let until = cells.end.min(first + packed.cells() as u64);
                csr.clear();
                let local = |cell: u64| usize::try_from(cell - first).unwrap_or(usize::MAX);
                packed.unpack(local(at)..local(until), &mut csr);
                let done = until == first + packed.cells() as u64;
                take(&csr, From::One(input))?;
                at = until;
                if done && let Some(kept) = self.cache.get_mut(&input) {
                    kept.remove(&first);
                }
                continue;
            }
            let next = kept.and_then(|kept| kept.range(at..).next()).map_or(cells.end, |(&first, _)| first);
            let until = next.min(cells.end);
            if self.scattered.get(input).is_some_and(Option::is_some) {
                self.parts(input, at..until, take)?;
            } else {
                self.read_again += until - at;
                let from = match self.open.take().filter(|open| open.number == input) {
                    Some(open) => open,
                    None => Input::open(self.plan, input, self.options)?,
                };
                from.read::<Csr>(at..until, self.options, None, &mut |parts| {
                    for part in parts {
                        take(&part.cells, From::One(input))?;
                    }
                    Ok(())
                })?;
                self.open = Some(from);
            }
            at = until;
        }
        Ok(())
    }

    /// Cells that were put aside in their own order.
    fn parts(&self, input: usize, cells: Range<u64>, take: &mut Take<'_>) -> Result<()> {
        let Some(Some(index)) = self.scattered.get(input) else { return Ok(()) };
        let mut csr = Csr::new();
        for (number, part) in index.iter().enumerate() {
            let own = cells.start.max(part.first_cell)..cells.end.min(part.first_cell + part.cells);
            if own.start >= own.end {
                continue;
            }
            let Some(segment) = read_segment(self.work, 0, input, number, part, 0)? else { continue };
            let local = |cell: u64| usize::try_from(cell - part.first_cell).unwrap_or(usize::MAX);
            let (mut at, end) = (local(own.start), local(own.end));
            while at < end {
                let until = end.min(at + UNPACKED);
                csr.clear();
                segment.packed.unpack(at..until, &mut csr);
                take(&csr, From::One(input))?;
                at = until;
            }
        }
        Ok(())
    }

    fn shuffled(&mut self, shuffle: Shuffle, places: Range<u64>, take: &mut Take<'_>) -> Result<()> {
        let mut at = places.start;
        while at < places.end {
            let inside = |bucket: &&Bucket| bucket.loaded.contains(&at);
            if self.bucket.as_ref().filter(inside).is_none() {
                self.load(shuffle, at)?;
            }
            let Some(bucket) = self.bucket.as_ref().filter(|bucket| bucket.loaded.contains(&at)) else {
                return Err(Error::Options(format!("no cell is at place {at}")));
            };
            let until = bucket
                .loaded
                .end
                .min(places.end)
                .min(at + (UNPACKED * 4 * rayon::current_num_threads()) as u64);
            let local = |place: u64| usize::try_from(place - bucket.first).unwrap_or(usize::MAX);
            let cells = bucket.order.get(local(at)..local(until)).unwrap_or(&[]);
            let made: Vec<(Csr, Vec<usize>)> = cells
                .par_chunks(UNPACKED)
                .map(|cells| {
                    let (mut csr, mut inputs) = (Csr::new(), Vec::with_capacity(cells.len()));
                    for &(segment, cell) in cells {
                        if let Some(segment) = bucket.segments.get(segment as usize) {
                            unpack(segment.packed.cell(cell as usize), &mut csr);
                            inputs.push(segment.input);
                        }
                    }
                    (csr, inputs)
                })
                .collect();
            for (csr, inputs) in &made {
                take(csr, From::Each(inputs))?;
            }
            at = until;
        }
        Ok(())
    }

    /// Takes up the bucket with a place in it, or as much of it as the memory allows.
    fn load(&mut self, shuffle: Shuffle, place: u64) -> Result<()> {
        self.options.read.check_cancelled()?;
        if self.whole {
            let segments = self.cached();
            let order = order(shuffle, &segments);
            let loaded = 0..order.len() as u64;
            self.bucket = Some(Bucket { number: 0, first: 0, segments, order, loaded });
            return Ok(());
        }
        if let Some(missing) = self.scattered.iter().position(Option::is_none) {
            return Err(Error::Options(format!("input {missing} is not scattered yet")));
        }
        let (mut first, mut number) = (0_u64, 0_usize);
        let bytes = loop {
            let Some(&(cells, bytes)) = self.totals.get(number) else {
                return Err(Error::Options(format!("no cell is at place {place}")));
            };
            if place < first + cells {
                break bytes;
            }
            (first, number) = (first + cells, number + 1);
        };
        let room = (self.options.memory / 3).max(1);
        // The old one goes before the new one comes.
        self.bucket = None;
        if !self.window.contains(&number) {
            self.look_up(number)?;
        }
        let all = self.scattered.iter().enumerate();
        let parts: Vec<(usize, usize, &PartIndex)> = all
            .flat_map(|(input, index)| {
                index.iter().flatten().enumerate().map(move |(part, index)| (input, part, index))
            })
            .collect();
        let read = |&(input, part, index): &(usize, usize, &PartIndex)| {
            let offset = self.offsets.get(input).copied().unwrap_or(0);
            read_segment(self.work, offset, input, part, index, number - self.window.start)
        };
        let passes = bytes.div_ceil(room);
        if passes <= 1 {
            let segments: Vec<Result<Option<Segment>>> = parts.par_iter().map(read).collect();
            let mut found = Vec::new();
            for segment in segments {
                found.extend(segment?);
            }
            let order = order(shuffle, &found);
            let loaded = first..first + order.len() as u64;
            self.bucket = Some(Bucket { number, first, segments: found, order, loaded });
            return Ok(());
        }
        // More than fits: first only the numbers of the cells, to know which of them to keep.
        let mut heads = Vec::new();
        for part in &parts {
            if let Some(segment) = read(part)? {
                heads.push(Segment { packed: Packed::default(), ..segment });
            }
        }
        let all = order(shuffle, &heads);
        let step = (all.len() as u64).div_ceil(passes).max(1);
        let from = (place - first) / step * step;
        let loaded = from..(from + step).min(all.len() as u64);
        let range = usize::try_from(loaded.start).unwrap_or(0)..usize::try_from(loaded.end).unwrap_or(0);
        let mut wanted: Vec<Vec<(u32, usize)>> = heads.iter().map(|_| Vec::new()).collect();
        for (at, &(segment, cell)) in all.get(range.clone()).unwrap_or(&[]).iter().enumerate() {
            if let Some(wanted) = wanted.get_mut(segment as usize) {
                wanted.push((cell, at));
            }
        }
        let mut order = vec![(0_u32, 0_u32); all.len()];
        let mut segments = Vec::new();
        let mut wanted = wanted.into_iter();
        for part in &parts {
            let Some(segment) = read(part)? else { continue };
            let mut kept = Segment { input: segment.input, numbers: Vec::new(), packed: Packed::default() };
            for (cell, at) in wanted.next().unwrap_or_default() {
                if let Some(place) = order.get_mut(range.start + at) {
                    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
                    *place = (number(segments.len()), number(kept.packed.cells()));
                }
                kept.packed.push_bytes(segment.packed.cell(cell as usize));
            }
            segments.push(kept);
        }
        let loaded = first + loaded.start..first + loaded.end;
        self.bucket = Some(Bucket { number, first, segments, order, loaded });
        Ok(())
    }

    /// All cells that are in memory.
    fn cached(&mut self) -> Vec<Segment> {
        let mut segments = Vec::new();
        for (input, parts) in std::mem::take(&mut self.cache) {
            let offset = self.offsets.get(input).copied().unwrap_or(0);
            for (first, packed) in parts {
                let first = offset + first;
                let numbers = (first..first + packed.cells() as u64).collect();
                segments.push(Segment { input, numbers, packed });
            }
        }
        segments
    }
}

/// The order of the cells of some segments.
fn order(shuffle: Shuffle, segments: &[Segment]) -> Vec<(u32, u32)> {
    let mut keyed: Vec<(u64, u64, u32, u32)> = segments
        .iter()
        .zip(0_u32..)
        .flat_map(|(segment, at)| {
            segment
                .numbers
                .iter()
                .zip(0_u32..)
                .map(move |(&number, cell)| (shuffle.key(number), number, at, cell))
        })
        .collect();
    keyed.par_sort_unstable();
    keyed.into_iter().map(|(_, _, segment, cell)| (segment, cell)).collect()
}

impl std::fmt::Debug for Bucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bucket")
            .field("number", &self.number)
            .field("loaded", &self.loaded)
            .finish_non_exhaustive()
    }
}
