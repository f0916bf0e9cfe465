//! Byte planes and prefix sums: the loops that touch every nonzero ("Streams" in the specification).
//!
//! A stream of `n` values of 16 bits is stored as a plane of `n` low bytes and then a plane of `n` high bytes.

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod scalar;
mod split;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use split::PlanesMut;

use std::ops::Range;

/// The two byte planes of some values; both have the same length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Planes<'a> {
    low: &'a [u8],
    high: &'a [u8],
}

impl<'a> Planes<'a> {
    /// The planes in the content of a frame: its first half and its second.
    pub(crate) fn new(content: &'a [u8]) -> Self {
        let half = content.len() / 2;
        let (low, high) = content.split_at(half);
        Self { low, high: high.get(..half).unwrap_or_default() }
    }

    /// Those of the values `range`; none if there are not so many.
    pub(crate) fn range(&self, range: Range<usize>) -> Self {
        match (self.low.get(range.clone()), self.high.get(range)) {
            (Some(low), Some(high)) => Self { low, high },
            _ => Self { low: &[], high: &[] },
        }
    }

    /// The first `mid` values and the others; `mid` is no more than there are.
    #[cfg(target_arch = "x86_64")]
    fn split_at(self, mid: usize) -> (Self, Self) {
        let (low, low_rest) = self.low.split_at(mid);
        let (high, high_rest) = self.high.split_at(mid);
        (Self { low, high }, Self { low: low_rest, high: high_rest })
    }

    pub(crate) const fn len(&self) -> usize {
        self.low.len()
    }

    /// The sum of the values.
    pub(crate) fn sum(&self) -> u64 {
        // A part's sum fits into 32 bits, which vectors are made of.
        let plane = |bytes: &[u8]| -> u64 {
            let parts = bytes.chunks(1 << 20);
            parts.map(|part| u64::from(part.iter().map(|&byte| u32::from(byte)).sum::<u32>())).sum()
        };
        plane(self.low).saturating_add(plane(self.high) << 8)
    }

    /// The values, one by one.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u16> + use<'a> {
        self.low.iter().zip(self.high).map(|(low, high)| u16::from_le_bytes([*low, *high]))
    }
}

/// How results are written, where the machine has a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stores {
    /// Through the caches: best where the results are read soon.
    #[default]
    Cached,
    /// Past the caches, which saves reading the memory first: best for results larger than the caches, which others read later.
    Streamed,
}

/// Which implementation of the loops to use. All give the same results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// Plain Rust, on any machine.
    Scalar,
    /// Only made where the CPU was found to have AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx2(x86::Avx2),
    /// Only made where the CPU was found to have NEON.
    #[cfg(target_arch = "aarch64")]
    Neon(aarch64::Neon),
}

impl Kernel {
    /// The fastest one that this machine can run. Only AVX2 has stores to choose from.
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = x86::Avx2::detect() {
            return Self::Avx2(avx2);
        }
        #[cfg(target_arch = "aarch64")]
        if let Some(neon) = aarch64::Neon::detect() {
            return Self::Neon(neon);
        }
        Self::Scalar
    }

    /// All that this machine can run.
    #[cfg(test)]
    fn available() -> Vec<Self> {
        let mut kernels = vec![Self::Scalar];
        #[cfg(target_arch = "x86_64")]
        kernels.extend(x86::Avx2::detect().map(Self::Avx2));
        #[cfg(target_arch = "aarch64")]
        kernels.extend(aarch64::Neon::detect().map(Self::Neon));
        kernels
    }

    /// Joins the planes to integers. `out` has as many elements as the planes.
    pub(crate) fn join_i32(self, planes: Planes<'_>, out: &mut [i32], stores: Stores) {
        debug_assert_eq!(planes.len(), out.len());
        match self {
            Self::Scalar => scalar::join(planes, out, i32::from),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(avx2) => avx2.join_i32(planes, out, stores),
            #[cfg(target_arch = "aarch64")]
            Self::Neon(neon) => neon.join_i32(planes, out),
        }
    }

    /// Joins the planes to float32, which holds every 16-bit value exactly.
    pub(crate) fn join_f32(self, planes: Planes<'_>, out: &mut [f32], stores: Stores) {
        debug_assert_eq!(planes.len(), out.len());
        match self {
            Self::Scalar => scalar::join(planes, out, f32::from),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(avx2) => avx2.join_f32(planes, out, stores),
            #[cfg(target_arch = "aarch64")]
            Self::Neon(neon) => neon.join_f32(planes, out),
        }
    }

    /// Joins the planes to gaps and sums these up from 0 in each cell. `indptr` are the offsets of the cells: one more
    /// than there are cells, and spanning as many nonzeros as the planes and `genes` have.
    ///
    /// Returns whether every gene index is below `n_genes`, which is at most 2^31. If not, `genes` hold anything.
    pub(crate) fn prefix_sums(
        self,
        planes: Planes<'_>,
        indptr: &[i64],
        n_genes: u32,
        genes: &mut [i32],
        stores: Stores,
    ) -> bool {
        debug_assert_eq!(planes.len(), genes.len());
        match self {
            Self::Scalar => scalar::prefix_sums(planes, indptr, n_genes, genes),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(avx2) => avx2.prefix_sums(planes, indptr, n_genes, genes, stores),
            #[cfg(target_arch = "aarch64")]
            Self::Neon(neon) => neon.prefix_sums(planes, indptr, n_genes, genes),
        }
    }
}

/// Calls `sum` with the planes and the genes of every cell that has any, and returns whether it always said `true`.
#[inline(always)]
fn for_each_cell(
    mut planes: Planes<'_>,
    indptr: &[i64],
    mut genes: &mut [i32],
    mut sum: impl FnMut(Planes<'_>, &mut [i32]) -> bool,
) -> bool {
    let mut ok = true;
    for (low, high) in indptr.iter().zip(indptr.iter().skip(1)) {
        // The lengths add up to those of the planes, so the minimum is never taken.
        let len =
            usize::try_from(high.abs_diff(*low)).unwrap_or(usize::MAX).min(planes.len()).min(genes.len());
        if len == 0 {
            continue;
        }
        let (low, other_low) = planes.low.split_at(len);
        let (high, other_high) = planes.high.split_at(len);
        planes = Planes { low: other_low, high: other_high };
        let (cell, others) = genes.split_at_mut(len);
        genes = others;
        ok &= sum(Planes { low, high }, cell);
    }
    ok
}

#[cfg(test)]
mod tests;
