//! Decodes the jobs of a plan into batches, on many threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use celltile::{ChunkReader, Count, Csr, OpenChunk};

use super::plan::{Job, Plan};
use super::{GeneMap, Setup};
use crate::batch::{Element, OpenBatch, log1p_cp10k, total};
use crate::error::Result;
use crate::options::Transform;
use crate::stats::Counters;

/// The state from fill to fill: a batch can begin in one and end in the next.
#[derive(Debug)]
pub(super) struct Decoding<'s, C: Element> {
    setup: &'s Setup<C>,
    batch_size: u64,
    stop: &'s AtomicBool,
    hands: Vec<Hand>,
    open: Option<OpenBatch<C>>,
}

/// What a thread keeps from task to task.
#[derive(Debug)]
struct Hand {
    reader: ChunkReader,
    /// Counts of a cell that are not delivered as they are.
    integers: Vec<i32>,
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

/// The cells of a job with some of their genes.
struct Picked<C> {
    x: Csr<C>,
    totals: Vec<i64>,
}

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
        let mut tasks = Vec::with_capacity(plan.jobs.len());
        for (number, job) in plan.jobs.iter().enumerate() {
            let cells = plan.sorted.get(job.cells.clone()).unwrap_or_default();
            let own = cells.iter().filter_map(|(cell, position)| {
                let place = places.get_mut(*position as usize)?.take()?;
                Some(Place { row: usize::try_from(cell - job.first_cell).ok()?, ..place })
            });
            tasks.push((number, job, own.collect::<Vec<_>>()));
        }
        let setup = self.setup;
        // Rounded counts add up to another total, and have other logarithms.
        let from_integers =
            setup.transform != Transform::Counts || (setup.totals && setup.round_counts && C::IS_FLOAT);
        let failed = self.run(tasks, |hand, (_, job, places)| {
            let (tile, fetched) = (&job.tile, job.fetched.as_deref());
            let Hand { reader, integers } = hand;
            setup.dataset.with_chunk(reader, tile, job.chunk, fetched, setup.round_counts, |open| {
                for Place { row, genes, counts, total: sum } in places {
                    if from_integers {
                        integers.resize(counts.len(), 0);
                        open.decode_cells(row..row + 1, genes, integers)?;
                        *sum = total(integers);
                        deliver(integers, setup.transform, *sum, counts);
                    } else {
                        open.decode_cells(row..row + 1, genes, counts)?;
                        if setup.totals {
                            *sum = total(counts);
                        }
                    }
                }
                Ok(())
            })
        })?;
        Ok(positions(plan, &failed))
    }

    /// Into a matrix a job, and from there into the batches: how much is left of a cell is known only then.
    fn decode_some_genes(
        &mut self,
        plan: &Plan,
        genes: &GeneMap,
        batches: &mut [OpenBatch<C>],
        parts: &[std::ops::Range<usize>],
        expected: usize,
    ) -> Result<Vec<u32>> {
        let setup = self.setup;
        let picked: Vec<Mutex<Option<Picked<C>>>> = plan.jobs.iter().map(|_| Mutex::new(None)).collect();
        let tasks = plan.jobs.iter().enumerate().map(|(number, job)| (number, job, ())).collect();
        let failed = self.run(tasks, |Hand { reader, .. }, (number, job, ())| {
            let cells = plan.sorted.get(job.cells.clone()).unwrap_or_default();
            let (tile, fetched) = (&job.tile, job.fetched.as_deref());
            let mut own =
                setup.dataset.with_chunk(reader, tile, job.chunk, fetched, setup.round_counts, |open| {
                    match setup.transform {
                        Transform::Counts => Picked::new(open, job, cells, &genes.map),
                        transform => Ok(Picked::new(open, job, cells, &genes.map)?.transformed(transform)),
                    }
                })?;
            if !genes.ascends {
                own.sort_rows();
            }
            if let Some(slot) = picked.get(number) {
                *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(own);
            }
            Ok(())
        })?;
        let picked: Vec<Option<Picked<C>>> = picked
            .into_iter()
            .map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner))
            .collect();
        let mut rows: Vec<Row<'_, C>> = plan.cells.iter().map(|_| Row::default()).collect();
        for (job, own) in plan.jobs.iter().zip(&picked) {
            let Some(own) = own else { continue };
            let cells = plan.sorted.get(job.cells.clone()).unwrap_or_default();
            let Ok(view) = own.x.view() else { continue };
            for (((_, position), (genes, counts)), total) in cells.iter().zip(view.iter()).zip(&own.totals) {
                if let Some(row) = rows.get_mut(*position as usize) {
                    *row = Row { genes, counts, total: *total };
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

    /// Runs every task on some thread. Returns the numbers of the jobs that found damage, where that is passed over.
    fn run<T: Send>(
        &mut self,
        tasks: Vec<Task<'_, T>>,
        work: impl Fn(&mut Hand, Task<'_, T>) -> Result<(), celltile::Error> + Sync,
    ) -> Result<Vec<usize>> {
        let n_threads = self.setup.threads.min(tasks.len()).max(1);
        while self.hands.len() < n_threads {
            self.hands.push(Hand { reader: ChunkReader::new()?, integers: Vec::new() });
        }
        let setup = self.setup;
        // Small tasks are taken several at a time.
        let several = (tasks.len() / n_threads / 16).clamp(1, 32);
        let queue = Mutex::new(tasks.into_iter());
        let failed = Mutex::new(Vec::new());
        let give_up = AtomicBool::new(false);
        let loop_over_tasks = |hand: &mut Hand| {
            let started = Instant::now();
            let mut bytes = 0_u64;
            let mut own: Vec<Task<'_, T>> = Vec::with_capacity(several);
            loop {
                own.extend(queue.lock().unwrap_or_else(PoisonError::into_inner).by_ref().take(several));
                if own.is_empty() {
                    break;
                }
                for task in own.drain(..) {
                    if give_up.load(Ordering::Relaxed) || self.stop.load(Ordering::Relaxed) {
                        continue;
                    }
                    let number = task.0;
                    bytes = bytes.saturating_add(task.1.bytes);
                    if let Err(error) = work(hand, task) {
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

impl<C: Count> Picked<C> {
    fn new(
        open: &mut OpenChunk<'_>,
        job: &Job,
        cells: &[(u64, u32)],
        map: &[i32],
    ) -> Result<Self, celltile::TileError> {
        let mut own = Self { x: Csr::new(), totals: Vec::with_capacity(cells.len()) };
        for (cell, _) in cells {
            let row = usize::try_from(cell - job.first_cell).unwrap_or(usize::MAX);
            let total = |sum| own.totals.push(i64::try_from(sum).unwrap_or(i64::MAX));
            open.append_mapped_cells(row..row.saturating_add(1), map, total, &mut own.x)?;
        }
        Ok(own)
    }

    /// Puts the columns of each row into order.
    fn sort_rows(&mut self) {
        let Csr { indptr, genes, counts } = &mut self.x;
        let (mut genes, mut counts) = (genes.as_mut_slice(), counts.as_mut_slice());
        let mut pairs = Vec::new();
        for (low, high) in indptr.iter().zip(indptr.iter().skip(1)) {
            let len = usize::try_from(high - low).unwrap_or_default();
            let (own_genes, other_genes) = genes.split_at_mut_checked(len).unwrap_or_default();
            let (own_counts, other_counts) = counts.split_at_mut_checked(len).unwrap_or_default();
            (genes, counts) = (other_genes, other_counts);
            pairs.clear();
            pairs.extend(own_genes.iter().copied().zip(own_counts.iter().copied()));
            pairs.sort_by_key(|(gene, _)| *gene);
            for ((gene, count), pair) in own_genes.iter_mut().zip(own_counts).zip(&pairs) {
                (*gene, *count) = *pair;
            }
        }
    }
}

impl Picked<i32> {
    fn transformed<C: Element>(self, transform: Transform) -> Picked<C> {
        let Csr { indptr, genes, counts } = self.x;
        let mut out = vec![C::default(); counts.len()];
        let (mut integers, mut rest) = (counts.as_slice(), out.as_mut_slice());
        for ((low, high), &total) in indptr.iter().zip(indptr.iter().skip(1)).zip(&self.totals) {
            let len = usize::try_from(high - low).unwrap_or_default();
            let (own, other) = integers.split_at_checked(len).unwrap_or_default();
            let (own_out, other_out) = rest.split_at_mut_checked(len).unwrap_or_default();
            (integers, rest) = (other, other_out);
            deliver(own, transform, total, own_out);
        }
        Picked { x: Csr { indptr, genes, counts: out }, totals: self.totals }
    }
}

/// Counts of a cell as they are handed out.
fn deliver<C: Element>(integers: &[i32], transform: Transform, total: i64, out: &mut [C]) {
    match transform {
        Transform::Counts => {
            for (&count, out) in integers.iter().zip(out) {
                *out = C::from_count(count);
            }
        }
        Transform::Log1pCp10k => log1p_cp10k(integers, total, out),
    }
}

/// A decoded cell.
#[derive(Clone, Copy)]
struct Row<'a, C> {
    genes: &'a [i32],
    counts: &'a [C],
    total: i64,
}

impl<C> Default for Row<'_, C> {
    fn default() -> Self {
        Self { genes: &[], counts: &[], total: 0 }
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
