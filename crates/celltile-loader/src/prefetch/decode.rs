//! Decodes the jobs of a plan into batches, on many threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use celltile::{ChunkReader, Stores};

use super::near::Near;
use super::picked::{Picked, Row, deliver};
use super::plan::{Job, Plan};
use super::{GeneMap, Setup};
use crate::batch::{Element, OpenBatch};
use crate::error::Result;
use crate::options::Transform;
use crate::stats::Counters;

/// The state from fill to fill: a batch can begin in one and end in the next.
#[derive(Debug)]
pub(super) struct Decoding<'s, C: Element> {
    setup: &'s Setup<C>,
    batch_size: u64,
    stop: &'s AtomicBool,
    hands: Vec<Hand<C>>,
    open: Option<OpenBatch<C>>,
}

/// What a thread keeps from task to task.
#[derive(Debug)]
struct Hand<C> {
    /// Among the hands.
    number: usize,
    reader: ChunkReader,
    /// Counts of a cell that are not delivered as they are.
    integers: Vec<i32>,
    /// Cells of a fill with some of their genes, and of a job before they are transformed.
    picked: Picked<C>,
    raw: Picked<i32>,
}

/// Where a cell goes.
struct Place<'a, C> {
    /// The cell, within its tile.
    row: usize,
    genes: &'a mut [i32],
    counts: &'a mut [C],
    total: &'a mut i64,
}

/// What a thread works on: a job's number in the plan, the job, and what it needs.
type Task<'p, T> = (usize, &'p Job, T);

impl<'s, C: Element> Decoding<'s, C> {
    pub(super) fn new(setup: &'s Setup<C>, batch_size: u64, stop: &'s AtomicBool) -> Self {
        Self { setup, batch_size, stop, hands: Vec::new(), open: None }
    }

    /// Decodes a fill. Returns the batches that are complete with it; `len` is the length of the lane.
    pub(super) fn decode(&mut self, plan: &Plan, len: u64) -> Result<Vec<OpenBatch<C>>> {
        let mut batches: Vec<OpenBatch<C>> = self.open.take().into_iter().collect();
        let mut parts = self.cut(plan, &mut batches);
        // A batch has no more cells than the lane, however many were asked for.
        let expected = usize::try_from(self.batch_size.min(len)).unwrap_or(usize::MAX);
        let lost = match &self.setup.genes {
            None => self.decode_all_genes(plan, &mut batches, &parts, expected)?,
            Some(genes) => self.decode_some_genes(plan, genes, &mut batches, &parts, expected)?,
        };
        for position in lost.into_iter().chain(plan.lost.iter().copied()) {
            let position = position as usize;
            let at = parts.partition_point(|part| part.end <= position);
            if let (Some(batch), Some(part)) = (batches.get_mut(at), parts.get(at)) {
                // A part's cells are its batch's last.
                batch.lose(batch.cells.len() - part.len() + (position - part.start));
            }
        }
        let end = plan.end();
        if end < len && !end.is_multiple_of(self.batch_size) {
            self.open = batches.pop();
            parts.pop();
        }
        Ok(batches)
    }

    /// The positions of each batch in the plan. Opens the batches that are not yet.
    fn cut(&self, plan: &Plan, batches: &mut Vec<OpenBatch<C>>) -> Vec<std::ops::Range<usize>> {
        let mut parts = Vec::new();
        let mut start = 0;
        while start < plan.cells.len() {
            let place = plan.start + start as u64;
            let number = place / self.batch_size;
            let left = usize::try_from(self.batch_size - place % self.batch_size).unwrap_or(usize::MAX);
            let end = plan.cells.len().min(start.saturating_add(left));
            if batches.last().is_none_or(|batch| batch.number != number) {
                batches.push(OpenBatch::new(number, &self.setup.resting));
            }
            parts.push(start..end);
            start = end;
        }
        parts
    }

    /// Straight into the batches: the heads say where each cell's nonzeros go.
    fn decode_all_genes(
        &mut self,
        plan: &Plan,
        batches: &mut [OpenBatch<C>],
        parts: &[std::ops::Range<usize>],
        expected: usize,
    ) -> Result<Vec<u32>> {
        let mut places: Vec<Option<Place<'_, C>>> = Vec::with_capacity(plan.cells.len());
        for (batch, part) in batches.iter_mut().zip(parts) {
            let (old_nnz, old_rows) = (batch.nnz(), batch.cells.len());
            let nnz = plan.nnz.get(part.clone()).unwrap_or_default();
            batch.add_rows(plan.cells.get(part.clone()).unwrap_or_default(), nnz, expected)?;
            let mut genes = batch.x.genes.get_mut(old_nnz..).unwrap_or_default();
            let mut counts = batch.x.counts.get_mut(old_nnz..).unwrap_or_default();
            let totals = batch.totals.get_mut(old_rows..).unwrap_or_default();
            for (&len, total) in nnz.iter().zip(totals) {
                // The lengths add up to what was added.
                let (own_genes, other_genes) = genes.split_at_mut_checked(len).unwrap_or_default();
                let (own_counts, other_counts) = counts.split_at_mut_checked(len).unwrap_or_default();
                (genes, counts) = (other_genes, other_counts);
                places.push(Some(Place { row: 0, genes: own_genes, counts: own_counts, total }));
            }
        }
        // In the order in which they are read: a job's are a slice.
        let mut in_order: Vec<Place<'_, C>> = Vec::with_capacity(plan.sorted.len());
        let mut lens = Vec::with_capacity(plan.jobs.len());
        for job in &plan.jobs {
            let before = in_order.len();
            let cells = plan.sorted.get(job.cells.clone()).unwrap_or_default();
            in_order.extend(cells.iter().filter_map(|(cell, position)| {
                let place = places.get_mut(*position as usize)?.take()?;
                Some(Place { row: usize::try_from(cell - job.first_cell).ok()?, ..place })
            }));
            lens.push(in_order.len() - before);
        }
        let mut rest = in_order.as_mut_slice();
        let tasks = plan.jobs.iter().enumerate().zip(lens).map(|((number, job), len)| {
            let (own, others) = std::mem::take(&mut rest).split_at_mut(len);
            rest = others;
            (number, job, own)
        });
        let tasks = tasks.collect();
        let setup = self.setup;
        let transformed = setup.transform != Transform::Counts;
        // What is transformed is looked at again; all else is next read by whoever takes the batch.
        let failed = self.run(tasks, |hand, (_, job, places), fetched| {
            let Hand { reader, integers, .. } = hand;
            let counts_stores = if transformed { Stores::Cached } else { Stores::Streamed };
            reader.set_stores(Stores::Streamed, counts_stores);
            setup.dataset.with_chunk(reader, &job.tile, job.chunk, fetched, setup.round_counts, |open| {
                for Place { row, genes, counts, total } in places {
                    let cell = *row..*row + 1;
                    if setup.totals || transformed {
                        // From what is stored: rounded counts add up to another total.
                        **total = i64::try_from(open.sum_counts(cell.clone())?).unwrap_or(i64::MAX);
                    }
                    if transformed {
                        // Rounded counts have other logarithms.
                        integers.resize(counts.len(), 0);
                        open.decode_cells(cell, genes, integers)?;
                        deliver(integers, setup.transform, **total, counts);
                    } else {
                        open.decode_cells(cell, genes, counts)?;
                    }
                }
                Ok(())
            })
        })?;
        Ok(positions(plan, &failed))
    }

    /// Into a matrix a thread, and from there into the batches: how much is left of a cell is known only then.
    fn decode_some_genes(
        &mut self,
        plan: &Plan,
        genes: &GeneMap,
        batches: &mut [OpenBatch<C>],
        parts: &[std::ops::Range<usize>],
        expected: usize,
    ) -> Result<Vec<u32>> {
        let setup = self.setup;
        self.hands.iter_mut().for_each(|hand| hand.picked.clear());
        // Which hand has the cells of a job, and from which row on.
        let found: Vec<OnceLock<(usize, usize)>> = plan.jobs.iter().map(|_| OnceLock::new()).collect();
        let tasks = plan.jobs.iter().enumerate().map(|(number, job)| (number, job, ())).collect();
        let failed = self.run(tasks, |hand, (number, job, ()), fetched| {
            let cells = plan.sorted.get(job.cells.clone()).unwrap_or_default();
            let rows =
                cells.iter().map(|(cell, _)| usize::try_from(cell - job.first_cell).unwrap_or(usize::MAX));
            let Hand { reader, picked, raw, .. } = hand;
            let first = picked.n_cells();
            let result =
                setup.dataset.with_chunk(reader, &job.tile, job.chunk, fetched, setup.round_counts, |open| {
                    if setup.transform == Transform::Counts {
                        return picked.add(open, rows, &genes.map);
                    }
                    raw.clear();
                    raw.add(open, rows, &genes.map)?;
                    picked.add_delivered(raw, setup.transform);
                    Ok(())
                });
            if result.is_err() {
                picked.truncate(first);
            } else {
                if !genes.ascends {
                    picked.sort_rows(first);
                }
                let _ = found.get(number).map(|place| place.set((hand.number, first)));
            }
            result
        })?;
        let views: Vec<_> = self.hands.iter().map(|hand| hand.picked.rows()).collect();
        let mut rows: Vec<Row<'_, C>> = plan.cells.iter().map(|_| Row::default()).collect();
        for (job, place) in plan.jobs.iter().zip(&found) {
            let Some(&(hand, first)) = place.get() else { continue };
            let cells = plan.sorted.get(job.cells.clone()).unwrap_or_default();
            let own = views.get(hand).and_then(|rows| rows.get(first..)).unwrap_or_default();
            for ((_, position), own) in cells.iter().zip(own) {
                if let Some(row) = rows.get_mut(*position as usize) {
                    *row = *own;
                }
            }
        }
        let work = Mutex::new(batches.iter_mut().zip(parts));
        let copy = || -> Result<()> {
            loop {
                let next = work.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((batch, part)) = next else { return Ok(()) };
                let rows = rows.get(part.clone()).unwrap_or_default();
                append(batch, plan.cells.get(part.clone()).unwrap_or_default(), rows, expected)?;
            }
        };
        std::thread::scope(|scope| {
            let others: Vec<_> =
                (1..self.setup.threads.min(parts.len())).map(|_| scope.spawn(copy)).collect();
            let result = copy();
            others.into_iter().fold(result, |result, other| result.and(other.join().unwrap_or(Ok(()))))
        })?;
        Ok(positions(plan, &failed))
    }

    /// Runs every task on some thread, with the frames of its job if they were read. Returns the numbers of the jobs that found damage, where that is passed over.
    fn run<T: Send>(
        &mut self,
        tasks: Vec<Task<'_, T>>,
        work: impl Fn(&mut Hand<C>, Task<'_, T>, Option<&[u8]>) -> Result<(), celltile::Error> + Sync,
    ) -> Result<Vec<usize>> {
        let n_threads = self.setup.threads.min(tasks.len()).max(1);
        while self.hands.len() < n_threads {
            self.hands.push(Hand {
                number: self.hands.len(),
                reader: ChunkReader::new()?,
                integers: Vec::new(),
                picked: Picked::default(),
                raw: Picked::default(),
            });
        }
        let setup = self.setup;
        // Small tasks are taken several at a time.
        let several = (tasks.len() / n_threads / 16).clamp(1, 32);
        let queue = Mutex::new(tasks.into_iter());
        let failed = Mutex::new(Vec::new());
        let give_up = AtomicBool::new(false);
        let loop_over_tasks = |hand: &mut Hand<C>| {
            let started = Instant::now();
            let mut bytes = 0_u64;
            let mut own: Vec<Task<'_, T>> = Vec::with_capacity(several);
            let mut near = Near::default();
            loop {
                own.extend(queue.lock().unwrap_or_else(PoisonError::into_inner).by_ref().take(several));
                if own.is_empty() {
                    break;
                }
                near.read(&setup.dataset, own.iter().map(|(_, job, _)| *job));
                for (at, task) in own.drain(..).enumerate() {
                    if give_up.load(Ordering::Relaxed) || self.stop.load(Ordering::Relaxed) {
                        continue;
                    }
                    let number = task.0;
                    bytes = bytes.saturating_add(task.1.bytes);
                    let fetched = task.1.fetched.as_deref().or_else(|| near.of(at));
                    if let Err(error) = work(hand, task, fetched) {
                        let fatal = !setup.on_damage.skips(&error);
                        give_up.fetch_or(fatal, Ordering::Relaxed);
                        failed.lock().unwrap_or_else(PoisonError::into_inner).push((number, fatal, error));
                    }
                }
            }
            Counters::add(&setup.counters.bytes, bytes);
            Counters::add_time(&setup.counters.decode, started);
        };
        std::thread::scope(|scope| {
            let mut hands = self.hands.iter_mut().take(n_threads);
            let own = hands.next();
            for hand in hands {
                scope.spawn(|| loop_over_tasks(hand));
            }
            if let Some(hand) = own {
                loop_over_tasks(hand);
            }
        });
        let mut failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        failed.sort_by_key(|(number, ..)| *number);
        let mut lost = Vec::new();
        for (number, fatal, error) in failed {
            if fatal {
                return Err(error.into());
            }
            Counters::add(&setup.counters.damaged_chunks, 1);
            lost.push(number);
        }
        Ok(lost)
    }
}

fn append<C: Element>(
    batch: &mut OpenBatch<C>,
    cells: &[u64],
    rows: &[Row<'_, C>],
    expected: usize,
) -> Result<()> {
    let (mut at, old_rows) = (batch.nnz(), batch.cells.len());
    let nnz: Vec<usize> = rows.iter().map(|row| row.genes.len()).collect();
    batch.add_rows(cells, &nnz, expected)?;
    for (row, total) in rows.iter().zip(batch.totals.iter_mut().skip(old_rows)) {
        let end = at + row.genes.len();
        if let Some(genes) = batch.x.genes.get_mut(at..end) {
            genes.copy_from_slice(row.genes);
        }
        if let Some(counts) = batch.x.counts.get_mut(at..end) {
            counts.copy_from_slice(row.counts);
        }
        *total = row.total;
        at = end;
    }
    Ok(())
}

/// Positions of the cells of some jobs.
fn positions(plan: &Plan, jobs: &[usize]) -> Vec<u32> {
    let cells = jobs.iter().filter_map(|&job| plan.sorted.get(plan.jobs.get(job)?.cells.clone()));
    cells.flatten().map(|(_, position)| *position).collect()
}
