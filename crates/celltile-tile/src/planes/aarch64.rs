//! The loops with NEON.

#![allow(unsafe_code, reason = "vector loads and stores, and calls that need NEON")]

use std::arch::aarch64::*;
use std::arch::is_aarch64_feature_detected;

use super::{Planes, for_each_cell, scalar};

/// Values handled at a time.
const STEP: usize = 16;

/// Proof that the CPU has NEON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Neon(());

impl Neon {
    pub(super) fn detect() -> Option<Self> {
        is_aarch64_feature_detected!("neon").then_some(Self(()))
    }

    /// See [`super::Kernel::join_i32`].
    pub(super) fn join_i32(self, planes: Planes<'_>, out: &mut [i32]) {
        // SAFETY: `self` shows that the CPU has NEON.
        unsafe { join_i32(planes, out) }
    }

    /// See [`super::Kernel::join_f32`].
    pub(super) fn join_f32(self, planes: Planes<'_>, out: &mut [f32]) {
        // SAFETY: `self` shows that the CPU has NEON.
        unsafe { join_f32(planes, out) }
    }

    /// See [`super::Kernel::prefix_sums`].
    pub(super) fn prefix_sums(
        self,
        planes: Planes<'_>,
        indptr: &[i64],
        n_genes: u32,
        genes: &mut [i32],
    ) -> bool {
        // SAFETY: `self` shows that the CPU has NEON.
        unsafe { prefix_sums(planes, indptr, n_genes, genes) }
    }
}

/// Sixteen values of 16 bits, joined from as many low and high bytes.
#[inline]
#[target_feature(enable = "neon")]
fn join_step(low: &[u8; STEP], high: &[u8; STEP]) -> [uint16x8_t; 2] {
    // SAFETY: the array has the sixteen bytes that are read, and no alignment is asked for.
    let low = unsafe { vld1q_u8(low.as_ptr()) };
    // SAFETY: as above.
    let high = unsafe { vld1q_u8(high.as_ptr()) };
    [vreinterpretq_u16_u8(vzip1q_u8(low, high)), vreinterpretq_u16_u8(vzip2q_u8(low, high))]
}

/// The same as vectors of 32 bits.
#[inline]
#[target_feature(enable = "neon")]
fn widen([first, second]: [uint16x8_t; 2]) -> [uint32x4_t; 4] {
    [
        vmovl_u16(vget_low_u16(first)),
        vmovl_high_u16(first),
        vmovl_u16(vget_low_u16(second)),
        vmovl_high_u16(second),
    ]
}

#[target_feature(enable = "neon")]
fn join_i32(planes: Planes<'_>, out: &mut [i32]) {
    let (low, low_rest) = planes.low.as_chunks::<STEP>();
    let (high, high_rest) = planes.high.as_chunks::<STEP>();
    let (out, out_rest) = out.as_chunks_mut::<STEP>();
    for ((low, high), out) in low.iter().zip(high).zip(out) {
        for (vector, out) in widen(join_step(low, high)).into_iter().zip(out.as_chunks_mut::<4>().0) {
            // SAFETY: the array has the sixteen bytes that are written.
            unsafe { vst1q_s32(out.as_mut_ptr(), vreinterpretq_s32_u32(vector)) };
        }
    }
    scalar::join(Planes { low: low_rest, high: high_rest }, out_rest, i32::from);
}

#[target_feature(enable = "neon")]
fn join_f32(planes: Planes<'_>, out: &mut [f32]) {
    let (low, low_rest) = planes.low.as_chunks::<STEP>();
    let (high, high_rest) = planes.high.as_chunks::<STEP>();
    let (out, out_rest) = out.as_chunks_mut::<STEP>();
    for ((low, high), out) in low.iter().zip(high).zip(out) {
        for (vector, out) in widen(join_step(low, high)).into_iter().zip(out.as_chunks_mut::<4>().0) {
            // SAFETY: the array has the sixteen bytes that are written.
            unsafe { vst1q_f32(out.as_mut_ptr(), vcvtq_f32_u32(vector)) };
        }
    }
    scalar::join(Planes { low: low_rest, high: high_rest }, out_rest, f32::from);
}

#[target_feature(enable = "neon")]
fn prefix_sums(planes: Planes<'_>, indptr: &[i64], n_genes: u32, genes: &mut [i32]) -> bool {
    for_each_cell(planes, indptr, genes, |planes, genes| prefix_sum(planes, genes) < n_genes)
}

/// Sums up the gaps of one cell, and returns the largest sum, or a number of at least 2^31 if a sum passed that.
///
/// A sum cannot wrap unseen: a turn of the loop adds at most 16 * 65535 < 2^20 to the sum before it, so the first sum that
/// passes 2^31 is still below 2^32, and the running maximum keeps it, whatever the sums after it wrap to. Until then sums
/// do not fall, so that the last of a turn is its largest, and the maximum over the last ones is that over all.
#[inline]
#[target_feature(enable = "neon")]
fn prefix_sum(planes: Planes<'_>, genes: &mut [i32]) -> u32 {
    // The sum so far, in all lanes, and the largest of these.
    let mut sum = vdupq_n_u32(0);
    let mut max = vdupq_n_u32(0);
    let (low, low_rest) = planes.low.as_chunks::<STEP>();
    let (high, high_rest) = planes.high.as_chunks::<STEP>();
    let (out, out_rest) = genes.as_chunks_mut::<STEP>();
    for ((low, high), out) in low.iter().zip(high).zip(out) {
        for (vector, out) in widen(join_step(low, high)).into_iter().zip(out.as_chunks_mut::<4>().0) {
            let sums = sum_up(vector);
            // SAFETY: the array has the sixteen bytes that are written.
            unsafe { vst1q_s32(out.as_mut_ptr(), vreinterpretq_s32_u32(vaddq_u32(sums, sum))) };
            // Not taken from what was stored: so the next vector waits for one addition only.
            sum = vaddq_u32(sum, vdupq_laneq_u32::<3>(sums));
        }
        max = vmaxq_u32(max, sum);
    }
    let (max, sum) = (vgetq_lane_u32::<0>(max), vgetq_lane_u32::<0>(sum));
    max.max(scalar::prefix_sum(Planes { low: low_rest, high: high_rest }, sum, out_rest))
}

/// Prefix sums of four integers.
#[inline]
#[target_feature(enable = "neon")]
fn sum_up(vector: uint32x4_t) -> uint32x4_t {
    let zero = vdupq_n_u32(0);
    let vector = vaddq_u32(vector, vextq_u32::<3>(zero, vector));
    vaddq_u32(vector, vextq_u32::<2>(zero, vector))
}
