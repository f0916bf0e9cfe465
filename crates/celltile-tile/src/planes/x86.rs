//! The loops with AVX2.

#![allow(unsafe_code, reason = "vector loads and stores, and calls that need AVX2")]

use std::arch::x86_64::*;

use super::{Planes, Stores, for_each_cell, scalar};

/// Proof that the CPU has AVX2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Avx2(());

impl Avx2 {
    pub(super) fn detect() -> Option<Self> {
        is_x86_feature_detected!("avx2").then_some(Self(()))
    }

    /// See [`super::Kernel::join_i32`].
    pub(super) fn join_i32(self, planes: Planes<'_>, out: &mut [i32], stores: Stores) {
        match stores {
            // SAFETY: `self` shows that the CPU has AVX2.
            Stores::Cached => unsafe { join_i32::<false>(planes, out) },
            // SAFETY: as above.
            Stores::Streamed => unsafe { join_i32::<true>(planes, out) },
        }
    }

    /// See [`super::Kernel::join_f32`].
    pub(super) fn join_f32(self, planes: Planes<'_>, out: &mut [f32], stores: Stores) {
        match stores {
            // SAFETY: `self` shows that the CPU has AVX2.
            Stores::Cached => unsafe { join_f32::<false>(planes, out) },
            // SAFETY: as above.
            Stores::Streamed => unsafe { join_f32::<true>(planes, out) },
        }
    }

    /// See [`super::Kernel::prefix_sums`].
    pub(super) fn prefix_sums(
        self,
        planes: Planes<'_>,
        indptr: &[i64],
        n_genes: u32,
        genes: &mut [i32],
        stores: Stores,
    ) -> bool {
        match stores {
            // SAFETY: `self` shows that the CPU has AVX2.
            Stores::Cached => unsafe { prefix_sums::<false>(planes, indptr, n_genes, genes) },
            // SAFETY: as above.
            Stores::Streamed => unsafe { prefix_sums::<true>(planes, indptr, n_genes, genes) },
        }
    }
}

/// Values handled at a time.
const STEP: usize = 16;

/// Two vectors of eight values, joined from sixteen low and sixteen high bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn join_step(low: &[u8; STEP], high: &[u8; STEP]) -> (__m256i, __m256i) {
    // SAFETY: the array has the sixteen bytes that are read, and no alignment is asked for.
    let low = unsafe { _mm_loadu_si128(low.as_ptr().cast()) };
    // SAFETY: as above.
    let high = unsafe { _mm_loadu_si128(high.as_ptr().cast()) };
    (_mm256_cvtepu16_epi32(_mm_unpacklo_epi8(low, high)), _mm256_cvtepu16_epi32(_mm_unpackhi_epi8(low, high)))
}

/// Stores two vectors of eight. Streamed, `out` must be on a boundary of 32 bytes, as [`lead`] says.
#[inline]
#[target_feature(enable = "avx2")]
fn store_step<const STREAMED: bool, T: Element>(out: &mut [T; STEP], first: __m256i, second: __m256i) {
    let out = out.as_mut_ptr().cast::<__m256i>();
    if STREAMED {
        debug_assert!(out.is_aligned());
        // SAFETY: `Element` is four bytes that may hold any bits, so the array has the 64 bytes that the two stores write;
        // the boundary is what the callers saw to. `join` and `prefix_sums` end with a fence.
        unsafe { _mm256_stream_si256(out, first) };
        // SAFETY: as above.
        unsafe { _mm256_stream_si256(out.wrapping_add(1), second) };
    } else {
        // SAFETY: as above, and no alignment is asked for.
        unsafe { _mm256_storeu_si256(out, first) };
        // SAFETY: as above.
        unsafe { _mm256_storeu_si256(out.wrapping_add(1), second) };
    }
}

/// How many elements lie before the first whole cache line, of 64 bytes, if stores are streamed.
#[inline]
fn lead<const STREAMED: bool, T: Element>(out: &[T]) -> usize {
    // Four bytes each.
    let before = (out.as_ptr().addr() / 4).wrapping_neg() % 16;
    if STREAMED { before.min(out.len()) } else { 0 }
}

/// Makes streamed stores visible to other threads before anything that comes after.
#[inline]
fn fence<const STREAMED: bool>() {
    if STREAMED {
        // SAFETY: every CPU of this architecture has SSE.
        unsafe { _mm_sfence() };
    }
}

/// A type of four bytes any of whose bit patterns is a value.
///
/// # Safety
///
/// Just that.
unsafe trait Element: Sized {}
// SAFETY: it is.
unsafe impl Element for i32 {}
// SAFETY: it is.
unsafe impl Element for f32 {}

/// Splits planes and output into steps and what is left over at the ends, and handles both.
#[inline]
#[target_feature(enable = "avx2")]
fn join<const STREAMED: bool, T: Element>(
    planes: Planes<'_>,
    out: &mut [T],
    mut step: impl FnMut(&[u8; STEP], &[u8; STEP]) -> (__m256i, __m256i),
    rest: impl Fn(Planes<'_>, &mut [T]),
) {
    let lead = lead::<STREAMED, T>(out);
    let (first, planes) = planes.split_at(lead);
    let (first_out, out) = out.split_at_mut(lead);
    rest(first, first_out);
    let (low, low_rest) = planes.low.as_chunks::<STEP>();
    let (high, high_rest) = planes.high.as_chunks::<STEP>();
    let (out, out_rest) = out.as_chunks_mut::<STEP>();
    for ((low, high), out) in low.iter().zip(high).zip(out) {
        let (first, second) = step(low, high);
        store_step::<STREAMED, T>(out, first, second);
    }
    rest(Planes { low: low_rest, high: high_rest }, out_rest);
    fence::<STREAMED>();
}

#[target_feature(enable = "avx2")]
fn join_i32<const STREAMED: bool>(planes: Planes<'_>, out: &mut [i32]) {
    let step = |low: &_, high: &_| join_step(low, high);
    join::<STREAMED, i32>(planes, out, step, |planes, out| scalar::join(planes, out, i32::from));
}

#[target_feature(enable = "avx2")]
fn join_f32<const STREAMED: bool>(planes: Planes<'_>, out: &mut [f32]) {
    let step = |low: &_, high: &_| {
        let (first, second) = join_step(low, high);
        let float = |vector| _mm256_castps_si256(_mm256_cvtepi32_ps(vector));
        (float(first), float(second))
    };
    join::<STREAMED, f32>(planes, out, step, |planes, out| scalar::join(planes, out, f32::from));
}

#[target_feature(enable = "avx2")]
fn prefix_sums<const STREAMED: bool>(
    planes: Planes<'_>,
    indptr: &[i64],
    n_genes: u32,
    genes: &mut [i32],
) -> bool {
    let ok = for_each_cell(planes, indptr, genes, |planes, genes| {
        let lead = lead::<STREAMED, i32>(genes);
        let (first, planes) = planes.split_at(lead);
        let (first_genes, genes) = genes.split_at_mut(lead);
        let sum = scalar::prefix_sum(first, 0, first_genes);
        prefix_sum::<STREAMED>(planes, sum, genes) < n_genes
    });
    fence::<STREAMED>();
    ok
}

/// Steps for which the high bytes are looked at together.
const STEPS: usize = 2;

/// Sums up the gaps of one cell from `sum` on, and returns the largest sum, or a number of at least 2^31 if a sum passed that.
/// What comes before, at most 15 gaps, is far below it.
///
/// A sum cannot wrap unseen: a turn of the loop adds at most 32 * 65535 < 2^21 to the sum before it, so the first sum that
/// passes 2^31 is still below 2^32, and the running maximum keeps it, whatever the sums after it wrap to. Until then sums
/// do not fall, so that the last of a turn is its largest, and the maximum over the last ones is that over all.
#[inline]
#[target_feature(enable = "avx2")]
fn prefix_sum<const STREAMED: bool>(planes: Planes<'_>, sum: u32, genes: &mut [i32]) -> u32 {
    // The sum so far, in all lanes, and the largest of these.
    let mut sum = _mm256_set1_epi32(sum.cast_signed());
    let mut max = sum;
    let (low, low_rest) = planes.low.as_chunks::<{ STEP * STEPS }>();
    let (high, high_rest) = planes.high.as_chunks::<{ STEP * STEPS }>();
    let (out, out_rest) = genes.as_chunks_mut::<{ STEP * STEPS }>();
    for ((low, high), out) in low.iter().zip(high).zip(out) {
        let (low_steps, _) = low.as_chunks::<STEP>();
        let (high_steps, _) = high.as_chunks::<STEP>();
        let (out_steps, _) = out.as_chunks_mut::<STEP>();
        if is_zero(high) {
            for (low, out) in low_steps.iter().zip(out_steps) {
                let sums = sum_bytes(low);
                sum = store_sums::<STREAMED>(sums, sum, out);
            }
        } else {
            for ((low, high), out) in low_steps.iter().zip(high_steps).zip(out_steps) {
                let (low, high) = (sum_bytes(low), sum_bytes(high));
                let join = |low, high| _mm256_add_epi32(low, _mm256_slli_epi32::<8>(high));
                let sums = Sums {
                    first: join(low.first, high.first),
                    second: join(low.second, high.second),
                    first_total: join(low.first_total, high.first_total),
                    second_total: join(low.second_total, high.second_total),
                };
                sum = store_sums::<STREAMED>(sums, sum, out);
            }
        }
        max = _mm256_max_epu32(max, sum);
    }
    let max = _mm_cvtsi128_si32(_mm256_castsi256_si128(max)).cast_unsigned();
    let sum = _mm_cvtsi128_si32(_mm256_castsi256_si128(sum)).cast_unsigned();
    max.max(scalar::prefix_sum(Planes { low: low_rest, high: high_rest }, sum, out_rest))
}

/// The prefix sums of the first eight and of the second eight of sixteen values, and their totals in all lanes.
#[derive(Clone, Copy)]
struct Sums {
    first: __m256i,
    second: __m256i,
    first_total: __m256i,
    second_total: __m256i,
}

/// Adds the sum so far, stores the sums, and returns the new sum so far.
#[inline]
#[target_feature(enable = "avx2")]
fn store_sums<const STREAMED: bool>(sums: Sums, so_far: __m256i, out: &mut [i32; STEP]) -> __m256i {
    let middle = _mm256_add_epi32(so_far, sums.first_total);
    store_step::<STREAMED, i32>(
        out,
        _mm256_add_epi32(sums.first, so_far),
        _mm256_add_epi32(sums.second, middle),
    );
    _mm256_add_epi32(middle, sums.second_total)
}

/// Sums up sixteen bytes: every lane adds those bytes that its row of a triangle of ones picks.
#[inline]
#[target_feature(enable = "avx2")]
fn sum_bytes(bytes: &[u8; STEP]) -> Sums {
    // SAFETY: the array has the sixteen bytes that are read, and no alignment is asked for.
    let bytes = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
    let bytes = _mm256_broadcastsi128_si256(bytes);
    let all = 0x01_01_01_01;
    let triangle = _mm256_setr_epi32(0x01, 0x01_01, 0x01_01_01, all, all, all, all, all);
    let later_triangle = _mm256_setr_epi32(0, 0, 0, 0, 0x01, 0x01_01, 0x01_01_01, all);
    // Sums of two bytes of one quarter and two of the next, at most 1020, and then of these.
    let sums = |quarter, next| {
        let pairs = _mm256_maddubs_epi16(quarter, triangle);
        let pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(next, later_triangle));
        _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
    };
    // The totals of eight bytes each: first, second, first, second.
    let totals = _mm256_sad_epu8(bytes, _mm256_setzero_si256());
    Sums {
        first: sums(_mm256_shuffle_epi32::<0x00>(bytes), _mm256_shuffle_epi32::<0x55>(bytes)),
        second: sums(_mm256_shuffle_epi32::<0xaa>(bytes), _mm256_shuffle_epi32::<0xff>(bytes)),
        first_total: _mm256_shuffle_epi32::<0x00>(totals),
        second_total: _mm256_shuffle_epi32::<0xaa>(totals),
    }
}

/// Whether all bytes are 0.
#[inline]
#[target_feature(enable = "avx2")]
fn is_zero(bytes: &[u8; STEP * STEPS]) -> bool {
    // SAFETY: the array has the 32 bytes that are read, and no alignment is asked for.
    let bytes = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
    _mm256_testz_si256(bytes, bytes) == 1
}
