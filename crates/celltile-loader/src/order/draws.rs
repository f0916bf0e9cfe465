//! Orders in which each place has a slot of its own.

use super::permutation::Permutation;
use super::rng::{hash, unit};
use super::selection::Selection;
use crate::options::Weighting;

/// The slot of each place of an epoch.
#[derive(Debug)]
pub(crate) enum Draws {
    /// Each slot once, in random order.
    Permuted { permutation: Permutation, len: u64 },
    /// Slots drawn by weight, each time from all of them. The sums of the weights, 8 bytes a selected cell.
    Replaced { sums: Vec<f64>, key: u64, len: u64 },
    /// Slots drawn by weight, each time from those that are left.
    Ordered { slots: Vec<u64> },
}

impl Draws {
    pub(super) fn permuted(selection: &Selection, key: &[u64]) -> Self {
        let len = selection.len();
        Self::Permuted { permutation: Permutation::new(len, key), len }
    }

    pub(super) fn weighted(selection: &Selection, weighting: &Weighting, key: &[u64]) -> Self {
        let key = hash(key);
        let len = count(selection, weighting);
        let weights = (0..selection.len()).map(|slot| weight(selection, weighting, slot));
        if weighting.replacement {
            let sums = weights.scan(0.0, |sum, weight| {
                *sum += weight;
                Some(*sum)
            });
            return Self::Replaced { sums: sums.collect(), key, len };
        }
        // Efraimidis and Spirakis: with exponential variables of these rates, the order in which they come up is that of
        // drawing by weight from what is left.
        let mut arrivals: Vec<(f64, u64)> = (0..)
            .zip(weights)
            .filter(|(_, weight)| *weight > 0.0)
            .map(|(slot, weight)| (-(1.0 - unit(hash(&[key, slot]))).ln() / weight, slot))
            .collect();
        arrivals.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        arrivals.truncate(usize::try_from(len).unwrap_or(usize::MAX));
        Self::Ordered { slots: arrivals.into_iter().map(|(_, slot)| slot).collect() }
    }

    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Permuted { len, .. } | Self::Replaced { len, .. } => *len,
            Self::Ordered { slots } => slots.len() as u64,
        }
    }

    pub(super) fn slot(&self, place: u64) -> u64 {
        match self {
            Self::Permuted { permutation, .. } => permutation.at(place),
            Self::Replaced { sums, key, .. } => {
                let total = sums.last().copied().unwrap_or_default();
                let drawn = unit(hash(&[*key, place])) * total;
                let at = sums.partition_point(|&sum| sum <= drawn);
                // Rounding could carry a draw to the very end, past slots of no weight.
                if at < sums.len() { at as u64 } else { sums.partition_point(|&sum| sum < total) as u64 }
            }
            Self::Ordered { slots } => {
                usize::try_from(place).ok().and_then(|at| slots.get(at)).copied().unwrap_or_default()
            }
        }
    }
}

fn weight(selection: &Selection, weighting: &Weighting, slot: u64) -> f64 {
    let cell = usize::try_from(selection.cell(slot)).unwrap_or(usize::MAX);
    weighting.weights.get(cell).copied().unwrap_or_default()
}

/// How many draws an epoch has.
pub(super) fn count(selection: &Selection, weighting: &Weighting) -> u64 {
    if weighting.replacement {
        return weighting.draws.unwrap_or(selection.len());
    }
    let positive =
        (0..selection.len()).filter(|&slot| weight(selection, weighting, slot) > 0.0).count() as u64;
    weighting.draws.unwrap_or(positive).min(positive)
}
