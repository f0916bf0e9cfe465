//! A simulated count matrix that looks like a real one to an encoder, a loader and a classifier, a pure function of its options.
//!
//! # The model
//!
//! - A gene's share in all counts is log-normal (natural logarithms with standard deviation 2.3), and nothing for 30 % of the
//!   genes: a few dozen genes hold a quarter of the counts, and thousands are hardly ever seen.
//! - Twelve cell types in four lineages. A lineage changes 10 % of the genes by a log-normal factor, a type another 8 %, and
//!   each type has 40 markers, about ten times as high. Eight donors, two in each of four batches, whose factors touch
//!   every gene a little and some of them more.
//! - A cell has a donor (cells stand donor by donor), a type (drawn by the donor's own composition) and a depth
//!   (log-normal about the type's size), the expected number of its counts. About 5 % of the depth, differently in each
//!   cell, is ambient: drawn from the mean of its batch.
//! - A gene's count in a cell is gamma-Poisson (negative binomial): Poisson about a gamma whose squared coefficient of
//!   variation, at a typical depth, is that of the gene (0.4, log-normal between genes) and falls as 1/depth.
//!
//! The depth is set so that cells have the wanted number of nonzeros on average.
//!
//! Every cell has a random generator of its own, so any range of cells can be made alone, by any thread, in any order. All
//! functions of real numbers are computed in software (`libm`), not by the platform.

mod anatomy;
mod expression;
mod h5ad;
mod profile;
mod rng;

use std::ops::Range;

use celltile_tile::Csr;
use rayon::prelude::*;

use anatomy::{BATCHES, CELL_TYPES, DONORS};
use expression::Expression;
pub use h5ad::write_simulation;
use rng::Rng;

/// Spread of the logarithms of depths within a cell type.
const DEPTH_SPREAD: f64 = 0.5;

/// What a random generator is for: no two uses share one.
mod purpose {
    pub(super) const GENES: u64 = 1;
    pub(super) const DISPERSION: u64 = 2;
    pub(super) const LINEAGE: u64 = 3;
    pub(super) const CELL_TYPE: u64 = 4;
    pub(super) const DONOR: u64 = 5;
    pub(super) const BATCH: u64 = 6;
    pub(super) const COMPOSITION: u64 = 7;
    pub(super) const FACTS: u64 = 8;
    pub(super) const COUNTS: u64 = 9;
}

/// What to simulate.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct SimulateOptions {
    /// Number of cells, below 2^32.
    pub cells: u64,
    /// Number of genes, from 1 to 2^24.
    pub genes: u32,
    /// Mean number of nonzeros a cell, at most half the genes.
    pub nonzeros: f64,
    /// Everything is a function of this and the above.
    pub seed: u64,
}

impl SimulateOptions {
    /// `cells` cells of 36,601 genes with 2,000 nonzeros each.
    #[must_use]
    pub const fn new(cells: u64) -> Self {
        Self { cells, genes: 36_601, nonzeros: 2000.0, seed: 0 }
    }
}

/// Why something cannot be simulated.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SimulateError {
    /// More cells than barcodes.
    #[error("cannot simulate {0} cells, at most 4294967295")]
    Cells(u64),
    /// No genes, or too many.
    #[error("cannot simulate {0} genes, expected 1 to 16777216")]
    Genes(u32),
    /// Denser than counts are.
    #[error(
        "cannot simulate {nonzeros} nonzeros a cell of {genes} genes, expected more than 0 and at most half the genes"
    )]
    Nonzeros {
        /// What was asked for.
        nonzeros: f64,
        /// Number of genes.
        genes: u32,
    },
    /// A range that is not within the cells.
    #[error("there are no cells {start}..{end} among {cells} simulated ones")]
    Range {
        /// First cell asked for.
        start: u64,
        /// One past the last.
        end: u64,
        /// Number of cells.
        cells: u64,
    },
}

/// A simulated gene.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SimulatedGene {
    /// Its name, unique.
    pub name: String,
    /// Its accession, unique.
    pub id: String,
}

/// What is known of a simulated cell without its counts.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CellFacts {
    /// Sixteen bases and the number of the batch, unique.
    pub barcode: String,
    /// Index into [`Simulation::cell_types`].
    pub cell_type: usize,
    /// Index into [`Simulation::donors`].
    pub donor: usize,
    /// Index into [`Simulation::batches`].
    pub batch: usize,
    /// Expected number of counts, ambient ones included.
    pub depth: f64,
    /// Expected share of the ambient ones.
    pub ambient: f64,
}

/// A simulated matrix, none of which is in memory: cells are made when they are asked for.
pub struct Simulation {
    options: SimulateOptions,
    expression: Expression,
    compositions: Vec<[f64; CELL_TYPES.len()]>,
}

impl std::fmt::Debug for Simulation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Simulation").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Simulation {
    /// Draws the parameters of all genes: some tens of megabytes, and a fraction of a second.
    ///
    /// # Errors
    ///
    /// [`SimulateError`] for numbers that no matrix of counts has.
    pub fn new(options: SimulateOptions) -> Result<Self, SimulateError> {
        let SimulateOptions { cells, genes, nonzeros, seed } = options;
        if u32::try_from(cells).is_err() {
            return Err(SimulateError::Cells(cells));
        }
        if genes == 0 || genes > 1 << 24 {
            return Err(SimulateError::Genes(genes));
        }
        if nonzeros.is_nan() || nonzeros <= 0.0 || nonzeros > f64::from(genes) / 2.0 {
            return Err(SimulateError::Nonzeros { nonzeros, genes });
        }
        let expression = Expression::new(seed, usize::try_from(genes).unwrap_or(usize::MAX), nonzeros);
        let compositions = (0..DONORS.len()).map(|donor| anatomy::composition(seed, donor)).collect();
        Ok(Self { options, expression, compositions })
    }

    /// What it was made from.
    #[must_use]
    pub const fn options(&self) -> &SimulateOptions {
        &self.options
    }

    /// Names of the cell types.
    #[must_use]
    pub fn cell_types() -> Vec<&'static str> {
        CELL_TYPES.iter().map(|t| t.name).collect()
    }

    /// Names of the donors.
    #[must_use]
    pub fn donors() -> Vec<&'static str> {
        DONORS.to_vec()
    }

    /// Names of the batches.
    #[must_use]
    pub fn batches() -> Vec<&'static str> {
        BATCHES.to_vec()
    }

    /// The genes, in column order, which is not that of their expression. Thirteen of the most expressed are called
    /// mitochondrial (`MT-1`) and eighty ribosomal (`RP-1`), as in real cells.
    #[must_use]
    pub fn genes(&self) -> Vec<SimulatedGene> {
        let mut genes: Vec<SimulatedGene> = (1..=self.options.genes)
            .map(|number| SimulatedGene { name: format!("G{number:05}"), id: format!("SIMG{number:011}") })
            .collect();
        let named = self.expression.ranking.len() / 100;
        let (mut mitochondrial, mut ribosomal) = (1..=13, 1..=80);
        for (rank, &gene) in self.expression.ranking.iter().take(named).enumerate().skip(1) {
            let name = if rank % 3 == 1 { mitochondrial.next().map(|n| format!("MT-{n}")) } else { None };
            let name = name.or_else(|| ribosomal.next().map(|n| format!("RP-{n}")));
            if let (Some(gene), Some(name)) = (genes.get_mut(gene), name) {
                gene.name = name;
            }
        }
        genes
    }

    /// What is known of a cell without its counts.
    ///
    /// # Errors
    ///
    /// [`SimulateError::Range`] if there is no such cell.
    pub fn facts(&self, cell: u64) -> Result<CellFacts, SimulateError> {
        self.check(&(cell..cell.saturating_add(1)))?;
        let donors = DONORS.len();
        let donor = u128::from(cell) * (donors as u128) / u128::from(self.options.cells);
        let donor = usize::try_from(donor).unwrap_or(0).min(donors - 1);
        let batch = anatomy::batch_of(donor);
        let mut rng = Rng::new(self.options.seed, purpose::FACTS, cell);
        let u = rng.uniform();
        let sums = self.compositions.get(donor).map_or(&[][..], |sums| &sums[..]);
        let cell_type = sums.partition_point(|&sum| sum <= u).min(CELL_TYPES.len() - 1);
        let size = CELL_TYPES.get(cell_type).map_or(1.0, |t| t.size);
        let depth = self.expression.typical * size * libm::exp(DEPTH_SPREAD * rng.normal());
        let ambient = (0.05 * libm::exp(0.5 * rng.normal())).min(0.5);
        let barcode = anatomy::barcode(self.options.seed, cell, batch);
        Ok(CellFacts { barcode, cell_type, donor, batch, depth, ambient })
    }

    /// The counts of a range of cells, genes increasing within each, made on all threads of the current pool.
    ///
    /// # Errors
    ///
    /// [`SimulateError::Range`] if it is not within the cells.
    pub fn cells(&self, range: Range<u64>) -> Result<Csr, SimulateError> {
        /// Cells of one type are drawn together, while its table is in the cache: enough cells a task for some of each.
        const TASK: usize = 256;
        self.check(&range)?;
        let starts: Vec<u64> = range.clone().step_by(TASK).collect();
        let parts: Vec<(Csr, Vec<usize>)> = starts
            .into_par_iter()
            .map_init(
                || Scratch::new(self.expression.ranking.len()),
                |scratch, start| {
                    let end = start.saturating_add(TASK as u64).min(range.end);
                    let facts = (start..end).map(|cell| self.facts(cell)).collect::<Result<Vec<_>, _>>()?;
                    let mut drawn: Vec<(u64, CellFacts)> = (start..end).zip(facts).collect();
                    drawn.sort_by_key(|(_, facts)| (facts.donor, facts.cell_type));
                    let mut part = Csr::new();
                    let mut places = vec![0; drawn.len()];
                    for (place, (cell, facts)) in drawn.iter().enumerate() {
                        self.draw(*cell, facts, scratch, &mut part);
                        let row = usize::try_from(cell - start).unwrap_or(usize::MAX);
                        if let Some(x) = places.get_mut(row) {
                            *x = place;
                        }
                    }
                    Ok((part, places))
                },
            )
            .collect::<Result<_, SimulateError>>()?;
        Ok(in_order(&parts))
    }

    fn check(&self, range: &Range<u64>) -> Result<(), SimulateError> {
        let cells = self.options.cells;
        if range.start > range.end || range.end > cells {
            return Err(SimulateError::Range { start: range.start, end: range.end, cells });
        }
        Ok(())
    }

    /// Appends one cell.
    fn draw(&self, cell: u64, facts: &CellFacts, scratch: &mut Scratch, into: &mut Csr) {
        let mut rng = Rng::new(self.options.seed, purpose::COUNTS, cell);
        let own = self.expression.profile(facts.donor, facts.cell_type);
        let ambient = self.expression.ambient(facts.batch);
        for (profile, share) in [(own, 1.0 - facts.ambient), (ambient, facts.ambient)] {
            if let Some(profile) = profile {
                let bursts = profile.bursts(facts.depth * share, &mut rng);
                profile.draw(bursts, &mut rng, |gene, counts| scratch.add(gene, counts));
            }
        }
        scratch.drain(into);
    }
}

/// Joins parts whose cells stand in another order: cell `i` of a part is at place `places[i]`.
fn in_order(parts: &[(Csr, Vec<usize>)]) -> Csr {
    let mut whole = Csr::new();
    let nnz = parts.iter().map(|(part, _)| part.nnz()).sum();
    whole.genes.reserve_exact(nnz);
    whole.counts.reserve_exact(nnz);
    let mut end = 0_i64;
    for (part, places) in parts {
        for &place in places {
            let bound = |i: usize| part.indptr.get(i).and_then(|&x| usize::try_from(x).ok()).unwrap_or(0);
            let entries = bound(place)..bound(place + 1);
            end = end.saturating_add(i64::try_from(entries.len()).unwrap_or(i64::MAX));
            whole.indptr.push(end);
            whole.genes.extend_from_slice(part.genes.get(entries.clone()).unwrap_or_default());
            whole.counts.extend_from_slice(part.counts.get(entries).unwrap_or_default());
        }
    }
    whole
}

/// The counts of the cell that is being drawn.
struct Scratch {
    counts: Vec<u32>,
    /// A bit a gene: it has counts.
    touched: Vec<u64>,
}

impl Scratch {
    fn new(genes: usize) -> Self {
        Self { counts: vec![0; genes], touched: vec![0; genes.div_ceil(64)] }
    }

    #[inline]
    fn add(&mut self, gene: u32, counts: u32) {
        let gene = gene as usize;
        if let (Some(count), Some(word)) = (self.counts.get_mut(gene), self.touched.get_mut(gene / 64)) {
            *count = count.saturating_add(counts);
            *word |= 1 << (gene % 64);
        }
    }

    /// Appends the cell, its genes in increasing order, and forgets it.
    #[allow(clippy::cast_possible_wrap, clippy::cast_possible_truncation, reason = "at most 2^24 genes")]
    fn drain(&mut self, into: &mut Csr) {
        for (number, word) in self.touched.iter_mut().enumerate() {
            let mut bits = std::mem::take(word);
            while bits != 0 {
                let gene = number * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if let Some(count) = self.counts.get_mut(gene) {
                    into.genes.push(gene as i32);
                    into.counts.push(i32::try_from(std::mem::take(count)).unwrap_or(i32::MAX));
                }
            }
        }
        into.indptr.push(into.genes.len() as i64);
    }
}
