//! The loops in plain Rust: what the others are tested against.

use super::{Planes, for_each_cell};

/// Joins the planes and converts each value.
pub(super) fn join<T>(planes: Planes<'_>, out: &mut [T], convert: impl Fn(u16) -> T) {
    for ((low, high), out) in planes.low.iter().zip(planes.high).zip(out) {
        *out = convert(u16::from_le_bytes([*low, *high]));
    }
}

/// See [`super::Kernel::prefix_sums`].
pub(super) fn prefix_sums(planes: Planes<'_>, indptr: &[i64], n_genes: u32, genes: &mut [i32]) -> bool {
    for_each_cell(planes, indptr, genes, |planes, genes| prefix_sum(planes, 0, genes) < n_genes)
}

/// Joins the planes of one cell, or the end of one, to gaps and sums them up from `sum` on. Returns the largest sum, which
/// is the last: sums saturate, so that one past 2^32 cannot come back as a small gene.
pub(super) fn prefix_sum(planes: Planes<'_>, mut sum: u32, genes: &mut [i32]) -> u32 {
    for ((low, high), gene) in planes.low.iter().zip(planes.high).zip(genes) {
        sum = sum.saturating_add(u16::from_le_bytes([*low, *high]).into());
        *gene = sum.cast_signed();
    }
    sum
}
