//! How much each cell type of each donor expresses of each gene.

use rayon::prelude::*;

use super::anatomy::{self, BATCHES, CELL_TYPES, DONORS, LINEAGES};
use super::profile::{self, Profile};
use super::purpose;
use super::rng::Rng;

/// Standard deviation of the logarithms of gene means: the 10, 100 and 1,000 most expressed genes have about 14, 37 and
/// 72 % of all counts. In a 10x v3 tissue with 1,477 nonzeros a cell they have 13, 39 and 71 %.
const SPREAD: f64 = 2.3;
/// Share of the genes that no cell expresses.
const SILENT: f64 = 0.3;
/// Typical squared coefficient of variation of a gene's gamma among cells of one type and depth.
const DISPERSION: f64 = 0.4;

/// The parameters of all genes.
pub(super) struct Expression {
    /// A profile for each donor and cell type, donor-major.
    profiles: Vec<Profile>,
    /// What floats around in each batch, whatever the cell.
    ambient: Vec<Profile>,
    /// Median expected counts of a cell of size 1.
    pub(super) typical: f64,
    /// Genes from the most to the least expressed.
    pub(super) ranking: Vec<usize>,
}

/// A factor for each gene: log-normal with `spread` for a share of the genes, 1 for the others.
fn effects(rng: &mut Rng, genes: usize, share: f64, spread: f64) -> Vec<f64> {
    (0..genes).map(|_| if rng.uniform() < share { libm::exp(spread * rng.normal()) } else { 1.0 }).collect()
}

fn multiply(into: &mut [f64], by: &[f64]) {
    for (x, y) in into.iter_mut().zip(by) {
        *x *= y;
    }
}

fn normalise(shares: &mut [f64]) {
    let sum: f64 = shares.iter().sum();
    for x in shares {
        *x /= sum;
    }
}

impl Expression {
    /// The parameters for `genes` genes, such that cells have `nonzeros` nonzeros on average.
    pub(super) fn new(seed: u64, genes: usize, nonzeros: f64) -> Self {
        let base = base_shares(seed, genes);
        let mut ranking: Vec<usize> = (0..genes).collect();
        ranking.sort_by(|&a, &b| base.get(b).partial_cmp(&base.get(a)).unwrap_or(std::cmp::Ordering::Equal));

        let mut rng = Rng::new(seed, purpose::DISPERSION, 0);
        let dispersions: Vec<f64> = (0..genes).map(|_| DISPERSION * libm::exp(0.6 * rng.normal())).collect();
        let types = type_shares(seed, &base, &ranking);
        let typical = typical_depth(&types, &dispersions, nonzeros);

        let donors: Vec<Vec<f64>> = (0..DONORS.len())
            .map(|donor| {
                let mut rng = Rng::new(seed, purpose::DONOR, donor as u64);
                let mut factors = effects(&mut rng, genes, 1.0, 0.12);
                multiply(&mut factors, &effects(&mut rng, genes, 0.01, 0.8));
                let mut rng = Rng::new(seed, purpose::BATCH, anatomy::batch_of(donor) as u64);
                multiply(&mut factors, &effects(&mut rng, genes, 1.0, 0.1));
                multiply(&mut factors, &effects(&mut rng, genes, 0.02, 0.5));
                factors
            })
            .collect();
        let profiles = donors
            .par_iter()
            .flat_map(|donor| types.par_iter().map(move |shares| (donor, shares)))
            .map(|(donor, shares)| {
                let mut shares = shares.clone();
                multiply(&mut shares, donor);
                normalise(&mut shares);
                Profile::new(&shares, &dispersions, typical)
            })
            .collect();
        let ambient = (0..BATCHES.len())
            .map(|batch| {
                let mut shares = vec![0.0; genes];
                for (shares_of_type, cell_type) in types.iter().zip(&CELL_TYPES) {
                    for (x, y) in shares.iter_mut().zip(shares_of_type) {
                        *x += y * cell_type.weight * cell_type.size;
                    }
                }
                let first = (0..DONORS.len()).find(|&donor| anatomy::batch_of(donor) == batch);
                if let Some(factors) = first.and_then(|donor| donors.get(donor)) {
                    multiply(&mut shares, factors);
                }
                normalise(&mut shares);
                Profile::new(&shares, &dispersions, typical)
            })
            .collect();
        Self { profiles, ambient, typical, ranking }
    }

    pub(super) fn profile(&self, donor: usize, cell_type: usize) -> Option<&Profile> {
        self.profiles.get(donor * CELL_TYPES.len() + cell_type)
    }

    pub(super) fn ambient(&self, batch: usize) -> Option<&Profile> {
        self.ambient.get(batch)
    }
}

/// The share of each gene in all counts, before anything makes cells differ.
fn base_shares(seed: u64, genes: usize) -> Vec<f64> {
    let mut rng = Rng::new(seed, purpose::GENES, 0);
    let mut shares: Vec<f64> = (0..genes)
        .map(|_| {
            let silent = rng.uniform() < SILENT;
            let share = libm::exp(SPREAD * rng.normal());
            if silent { 0.0 } else { share }
        })
        .collect();
    if let (Some(first), true) = (shares.first().copied(), shares.iter().all(|&x| x == 0.0)) {
        shares = vec![first.max(1.0); genes];
    }
    normalise(&mut shares);
    shares
}

/// The share of each gene in each cell type: programmes of the lineage, then of the type, then its markers.
fn type_shares(seed: u64, base: &[f64], ranking: &[usize]) -> Vec<Vec<f64>> {
    let genes = base.len();
    let lineages: Vec<Vec<f64>> = (0..LINEAGES)
        .map(|lineage| effects(&mut Rng::new(seed, purpose::LINEAGE, lineage as u64), genes, 0.1, 1.5))
        .collect();
    let of_type = |(number, cell_type): (usize, &anatomy::CellType)| {
        let mut rng = Rng::new(seed, purpose::CELL_TYPE, number as u64);
        let mut shares = base.to_vec();
        if let Some(factors) = lineages.get(cell_type.lineage) {
            multiply(&mut shares, factors);
        }
        multiply(&mut shares, &effects(&mut rng, genes, 0.08, 1.3));
        // Markers are genes of the upper third, but not the most expressed of all.
        let (from, to) = (genes / 100, genes / 3);
        for _ in 0..40.min(to - from) {
            let marker = ranking.get(from + rng.below(to - from)).copied();
            let factor = libm::exp(2.3 + 0.7 * rng.normal());
            if let Some(share) = marker.and_then(|gene| shares.get_mut(gene)) {
                *share *= factor;
            }
        }
        normalise(&mut shares);
        shares
    };
    CELL_TYPES.iter().enumerate().map(of_type).collect()
}

/// The median depth at which cells have `nonzeros` nonzeros on average.
fn typical_depth(types: &[Vec<f64>], dispersions: &[f64], nonzeros: f64) -> f64 {
    let weights: f64 = CELL_TYPES.iter().map(|t| t.weight).sum();
    // Two points stand for the log-normal spread of depths.
    let expected = |typical: f64| -> f64 {
        types
            .par_iter()
            .zip(&CELL_TYPES)
            .map(|(shares, cell_type)| {
                let depths =
                    [-1.0, 1.0].map(|z| typical * cell_type.size * libm::exp(super::DEPTH_SPREAD * z));
                let mut sum = 0.0;
                for (&share, &dispersion) in shares.iter().zip(dispersions) {
                    let rate = profile::burst_rate(share, dispersion, typical);
                    for depth in depths {
                        sum -= libm::expm1(-depth * rate) / 2.0;
                    }
                }
                sum * cell_type.weight / weights
            })
            .collect::<Vec<f64>>()
            .iter()
            .sum()
    };
    // Nearly a straight line in logarithms: a few secants.
    let off = |log_depth: f64| libm::log(expected(libm::exp(log_depth)) / nonzeros);
    let mut previous = libm::log(nonzeros);
    let mut previous_off = off(previous);
    let mut depth = previous - previous_off * 1.5;
    for _ in 0..8 {
        let depth_off = off(depth);
        let slope = (depth_off - previous_off) / (depth - previous);
        (previous, previous_off) = (depth, depth_off);
        if depth_off.abs() < 1e-3 || slope.is_nan() || slope <= 0.0 {
            break;
        }
        depth = (depth - (depth_off / slope).clamp(-2.0, 2.0)).clamp(-10.0, 20.0);
    }
    libm::exp(depth)
}
