//! Cells of one input as all stages take them: checked, in order, in the genes of the plan.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use celltile::Csr;
use rayon::prelude::*;

use super::clean::{Cleaner, Fault, Findings, fault_error, parts};
use super::options::ConvertOptions;
use super::packed::Packed;
use super::tally::Tally;
use crate::error::{Error, Result};
use crate::matrix::CellBlock;
use crate::plan::{GeneMap, Plan};
use crate::source::Source;

/// Entries of a part of a block that one thread takes.
const PART_ENTRIES: usize = 1 << 16;

/// Where clean cells go.
pub(super) trait Sink: Send {
    fn with_room(cells: usize, nonzeros: usize) -> Self;
    fn push(&mut self, genes: &[u32], counts: &[u32]);
}

/// Cells that only count.
impl Sink for () {
    fn with_room(_: usize, _: usize) -> Self {}

    fn push(&mut self, _: &[u32], _: &[u32]) {}
}

impl Sink for Packed {
    fn with_room(cells: usize, nonzeros: usize) -> Self {
        Self::with_room(cells, nonzeros)
    }

    fn push(&mut self, genes: &[u32], counts: &[u32]) {
        self.push(genes, counts);
    }
}

impl Sink for Csr {
    fn with_room(cells: usize, nonzeros: usize) -> Self {
        let mut csr = Self::new();
        csr.indptr.reserve(cells);
        csr.genes.reserve(nonzeros);
        csr.counts.reserve(nonzeros);
        csr
    }

    fn push(&mut self, genes: &[u32], counts: &[u32]) {
        self.genes.extend(genes.iter().map(|gene| gene.cast_signed()));
        self.counts.extend(counts.iter().map(|count| count.cast_signed()));
        self.indptr.push(i64::try_from(self.genes.len()).unwrap_or(i64::MAX));
    }
}

/// Some consecutive cells of an input.
pub(super) struct Part<S> {
    /// Number of the first one in the input.
    pub(super) first_cell: u64,
    pub(super) cells: S,
    pub(super) tally: Tally,
    pub(super) findings: Findings,
    fault: Option<(usize, Fault)>,
}

/// An input that is open.
pub(super) struct Input {
    pub(super) number: usize,
    pub(super) source: Arc<dyn Source>,
    map: Option<GeneMap>,
}

/// Sums by gene, one a thread that is at work.
pub(super) struct Totals {
    genes: usize,
    idle: Mutex<Vec<Vec<u64>>>,
}

impl Totals {
    pub(super) fn new(genes: usize) -> Self {
        Self { genes, idle: Mutex::default() }
    }

    fn with<R>(&self, f: impl FnOnce(&mut [u64]) -> R) -> R {
        let idle = self.idle.lock().ok().and_then(|mut idle| idle.pop());
        let mut totals = idle.unwrap_or_else(|| vec![0; self.genes]);
        let result = f(&mut totals);
        if let Ok(mut idle) = self.idle.lock() {
            idle.push(totals);
        }
        result
    }

    /// The sums of all threads.
    pub(super) fn sum(self) -> Vec<u64> {
        let mut sum = vec![0_u64; self.genes];
        for one in self.idle.into_inner().unwrap_or_default() {
            for (total, more) in sum.iter_mut().zip(one) {
                *total = total.saturating_add(more);
            }
        }
        sum
    }
}

impl Input {
    pub(super) fn open(plan: &Plan, number: usize, options: &ConvertOptions) -> Result<Self> {
        let source = plan.open(number, options)?;
        let map = plan.genes.map(source.as_ref())?;
        Ok(Self { number, source, map })
    }

    /// Reads cells of the input, and hands them on in order, some parts at a time.
    pub(super) fn read<S: Sink>(
        &self,
        cells: Range<u64>,
        options: &ConvertOptions,
        totals: Option<&Totals>,
        each: &mut dyn FnMut(Vec<Part<S>>) -> Result<()>,
    ) -> Result<()> {
        let source = self.source.as_ref();
        let mut done = cells.start;
        let mut blocks = source.cells(cells.clone(), &options.reading(source))?;
        let mut block = CellBlock::default();
        while blocks.next_block(&mut block)? {
            let mut made: Vec<Part<S>> = parts(&block.indptr, PART_ENTRIES)
                .into_par_iter()
                .map_init(Cleaner::default, |cleaner, cells| match totals {
                    None => self.part(&block, cells, cleaner, None, options),
                    Some(totals) => totals.with(|t| self.part(&block, cells, cleaner, Some(t), options)),
                })
                .collect();
            for part in &mut made {
                if let Some((cell, fault)) = part.fault.take() {
                    return Err(fault_error(&fault, block.first_cell + cell as u64, source));
                }
            }
            done += block.cells() as u64;
            each(made)?;
        }
        if done == cells.end {
            return Ok(());
        }
        Err(Error::Damaged {
            file: source.info().file.clone(),
            at: source.info().matrix.clone(),
            what: format!("{} cells were read; expected {}", done - cells.start, cells.end - cells.start),
        })
    }

    fn part<S: Sink>(
        &self,
        block: &CellBlock,
        cells: Range<usize>,
        cleaner: &mut Cleaner,
        mut totals: Option<&mut [u64]>,
        options: &ConvertOptions,
    ) -> Part<S> {
        cleaner.findings = Findings::default();
        let bound = |at: usize| block.indptr.get(at).copied().unwrap_or(0);
        let mut sink = S::with_room(cells.len(), bound(cells.end) - bound(cells.start));
        let first_cell = block.first_cell + cells.start as u64;
        let (mut tally, mut fault) = (Tally::default(), None);
        let mut placed = Placed::default();
        for cell in cells {
            let Some((genes, counts)) = block.cell(cell) else { continue };
            let clean = cleaner.clean(genes, counts, options.duplicates);
            let done = clean.and_then(|(genes, counts)| {
                tally.read_nonzeros += genes.len() as u64;
                tally.read_sum += sum(counts);
                match &self.map {
                    None => Ok((genes, counts)),
                    Some(map) => placed.place(map, genes, counts),
                }
            });
            match done {
                Ok((genes, counts)) => {
                    tally.cells += 1;
                    tally.nonzeros += genes.len() as u64;
                    tally.sum += sum(counts);
                    if let Some(totals) = totals.as_deref_mut() {
                        for (&gene, &count) in genes.iter().zip(counts) {
                            if let Some(total) = totals.get_mut(gene as usize) {
                                *total += u64::from(count);
                            }
                        }
                    }
                    sink.push(genes, counts);
                }
                Err(found) => {
                    fault = Some((cell, found));
                    break;
                }
            }
        }
        Part { first_cell, cells: sink, tally, findings: cleaner.findings, fault }
    }
}

/// The sum of counts.
pub(super) fn sum(counts: &[u32]) -> u64 {
    counts.iter().map(|&count| u64::from(count)).sum()
}

/// Renumbers the genes of cells.
#[derive(Default)]
struct Placed {
    pairs: Vec<(u32, u32)>,
    genes: Vec<u32>,
    counts: Vec<u32>,
}

impl Placed {
    fn place<'a>(
        &'a mut self,
        map: &GeneMap,
        genes: &[u32],
        counts: &[u32],
    ) -> Result<(&'a [u32], &'a [u32]), Fault> {
        self.pairs.clear();
        for (&gene, &count) in genes.iter().zip(counts) {
            if let Some(place) = map.places.get(gene as usize).and_then(|&place| u32::try_from(place).ok()) {
                self.pairs.push((place, count));
            }
        }
        self.pairs.sort_unstable_by_key(|pair| pair.0);
        self.genes.clear();
        self.counts.clear();
        for &(gene, count) in &self.pairs {
            match (self.genes.last(), self.counts.last_mut()) {
                (Some(&last), Some(sum)) if last == gene && map.many => {
                    let both = u64::from(*sum) + u64::from(count);
                    *sum =
                        i32::try_from(both).map_err(|_| too_large(map, gene, genes, counts))?.unsigned_abs();
                }
                _ => {
                    self.genes.push(gene);
                    self.counts.push(count);
                }
            }
        }
        Ok((&self.genes, &self.counts))
    }
}

/// The fault of genes that become one whose counts are too many together: it names the first of them as the input does.
fn too_large(map: &GeneMap, place: u32, genes: &[u32], counts: &[u32]) -> Fault {
    let goes = |gene: u32| map.places.get(gene as usize).is_some_and(|&to| u32::try_from(to) == Ok(place));
    let parts: Vec<(u32, u32)> =
        genes.iter().copied().zip(counts.iter().copied()).filter(|(gene, _)| goes(*gene)).collect();
    let first = parts.first().map_or(place, |(gene, _)| *gene);
    Fault::too_large(first, parts.into_iter().map(|(_, count)| count).take(8).collect())
}
