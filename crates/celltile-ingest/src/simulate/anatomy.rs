//! The made-up tissue: its cell types, donors and batches, and how much of each there is.

use super::rng::Rng;

/// A cell type: its name, the lineage it belongs to, how common it is, and how large its cells are.
pub(super) struct CellType {
    pub(super) name: &'static str,
    pub(super) lineage: usize,
    pub(super) weight: f64,
    pub(super) size: f64,
}

const fn cell_type(name: &'static str, lineage: usize, weight: f64, size: f64) -> CellType {
    CellType { name, lineage, weight, size }
}

/// Number of lineages that cell types belong to.
pub(super) const LINEAGES: usize = 4;

/// The cell types.
pub(super) const CELL_TYPES: [CellType; 12] = [
    cell_type("CD4 T naive", 0, 18.0, 0.8),
    cell_type("CD4 T memory", 0, 14.0, 0.9),
    cell_type("CD8 T", 0, 12.0, 0.9),
    cell_type("NK", 0, 8.0, 0.85),
    cell_type("B naive", 1, 8.0, 0.8),
    cell_type("B memory", 1, 5.0, 0.85),
    cell_type("plasma", 1, 2.0, 1.6),
    cell_type("monocyte classical", 2, 14.0, 1.3),
    cell_type("monocyte nonclassical", 2, 6.0, 1.3),
    cell_type("dendritic", 2, 3.0, 1.7),
    cell_type("fibroblast", 3, 6.0, 1.5),
    cell_type("endothelial", 3, 4.0, 1.3),
];

/// The donors, whose cells stand one donor after the other.
pub(super) const DONORS: [&str; 8] =
    ["donor 1", "donor 2", "donor 3", "donor 4", "donor 5", "donor 6", "donor 7", "donor 8"];

/// The batches; two donors share one.
pub(super) const BATCHES: [&str; 4] = ["batch 1", "batch 2", "batch 3", "batch 4"];

/// The batch of a donor.
pub(super) const fn batch_of(donor: usize) -> usize {
    donor * BATCHES.len() / DONORS.len()
}

/// The cumulative shares of the cell types in a donor.
pub(super) fn composition(seed: u64, donor: usize) -> [f64; CELL_TYPES.len()] {
    let mut rng = Rng::new(seed, super::purpose::COMPOSITION, donor as u64);
    let mut sum = 0.0;
    let sums = CELL_TYPES.each_ref().map(|t| {
        sum += t.weight * rng.gamma(8.0);
        sum
    });
    sums.map(|x| x / sum)
}

/// A barcode of sixteen bases, a different one for each cell below 2^32.
pub(super) fn barcode(seed: u64, cell: u64, batch: usize) -> String {
    // Every step is a bijection of 32-bit numbers.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "cells are below 2^32, and any 32 bits of the seed will do"
    )]
    let (cell, key) = (cell as u32, (seed ^ (seed >> 32)) as u32 ^ 0x9e37_79b9);
    let mut x = cell ^ key;
    for multiplier in [0x7feb_352d_u32, 0x846c_a68b] {
        x = (x ^ (x >> 16)).wrapping_mul(multiplier);
        x ^= x >> 15;
    }
    let bases = (0..16).map(|i| match (x >> (2 * i)) & 3 {
        0 => 'A',
        1 => 'C',
        2 => 'G',
        _ => 'T',
    });
    let mut text: String = bases.collect();
    text.push_str(&format!("-{}", batch + 1));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_barcodes_differ() {
        let barcodes: std::collections::HashSet<String> =
            (0..200_000).map(|cell| barcode(5, cell, 0)).collect();
        assert_eq!(barcodes.len(), 200_000);
    }

    #[test]
    fn test_compositions_end_at_one() {
        for donor in 0..DONORS.len() {
            let sums = composition(1, donor);
            assert!(sums.is_sorted());
            assert_eq!(sums[CELL_TYPES.len() - 1], 1.0);
        }
    }
}
