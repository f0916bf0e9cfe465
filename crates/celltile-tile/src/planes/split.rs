//! Values to byte planes. Plain Rust: compilers make vector code of it, and zstd takes far longer in any case.

/// The two planes to be filled, of the same length.
#[derive(Debug)]
pub(crate) struct PlanesMut<'a> {
    low: &'a mut [u8],
    high: &'a mut [u8],
}

/// What was seen while splitting.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SplitCheck {
    any_bits: u32,
    zero: bool,
}

impl SplitCheck {
    /// Whether all values were 1 to 65535. If not, some planes hold the low 16 bits of a value that is none.
    pub(crate) const fn all_fit(self) -> bool {
        self.any_bits <= 0xffff && !self.zero
    }
}

impl<'a> PlanesMut<'a> {
    /// The planes that the content of a frame will be: its first half and its second.
    pub(crate) fn new(content: &'a mut [u8]) -> Self {
        let half = content.len() / 2;
        let (low, high) = content.split_at_mut(half);
        Self { low, high }
    }

    /// Splits the planes of the first `len` values off. None if there are not so many.
    pub(crate) fn take(&mut self, len: usize) -> Option<PlanesMut<'a>> {
        Some(PlanesMut { low: self.low.split_off_mut(..len)?, high: self.high.split_off_mut(..len)? })
    }

    /// Splits counts, of as many nonzeros as the planes have.
    pub(crate) fn counts(&mut self, counts: &[i32]) -> SplitCheck {
        debug_assert_eq!(counts.len(), self.low.len());
        let mut check = SplitCheck::default();
        for ((count, low), high) in counts.iter().zip(&mut *self.low).zip(&mut *self.high) {
            let count = count.cast_unsigned();
            check.any_bits |= count;
            check.zero |= count == 0;
            [*low, *high, ..] = count.to_le_bytes();
        }
        check
    }

    /// Splits the gaps between the genes of one cell, of as many nonzeros as the planes have. The first gap is the first
    /// gene, and may be 0 all the same.
    pub(crate) fn gaps(&mut self, genes: &[i32]) -> SplitCheck {
        debug_assert_eq!(genes.len(), self.low.len());
        let mut check = SplitCheck::default();
        let (Some((first, later)), Some((low, lows)), Some((high, highs))) =
            (genes.split_first(), self.low.split_first_mut(), self.high.split_first_mut())
        else {
            return check;
        };
        check.any_bits = first.cast_unsigned();
        [*low, *high, ..] = first.to_le_bytes();
        for (((gene, before), low), high) in later.iter().zip(genes).zip(lows).zip(highs) {
            // A negative gap has high bits too.
            let gap = gene.cast_unsigned().wrapping_sub(before.cast_unsigned());
            check.any_bits |= gap;
            check.zero |= gap == 0;
            [*low, *high, ..] = gap.to_le_bytes();
        }
        check
    }

    /// Overwrites one value.
    pub(crate) fn set(&mut self, index: usize, value: u16) {
        if let (Some(low), Some(high)) = (self.low.get_mut(index), self.high.get_mut(index)) {
            [*low, *high] = value.to_le_bytes();
        }
    }
}
