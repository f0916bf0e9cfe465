//! The loops in plain Rust: what the others are tested against.

use super::Planes;

/// Joins the planes and converts each value.
pub(super) fn join<T>(planes: Planes<'_>, out: &mut [T], convert: impl Fn(u16) -> T) {
    for ((low, high), out) in planes.low.iter().zip(planes.high).zip(out) {
        *out = convert(u16::from_le_bytes([*low, *high]));
    }
}

/// Joins the planes of one cell to gaps and sums them up from 0. Returns the largest sum, which is the last: sums
/// saturate, so that one past 2^32 cannot come back as a small gene.
pub(super) fn prefix_sum(planes: Planes<'_>, genes: &mut [i32]) -> u32 {
    let mut sum: u32 = 0;
    for ((low, high), gene) in planes.low.iter().zip(planes.high).zip(genes) {
        sum = sum.saturating_add(u16::from_le_bytes([*low, *high]).into());
        *gene = sum.cast_signed();
    }
    sum
}
