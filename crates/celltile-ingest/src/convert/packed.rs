use celltile::Csr;

/// Stands before four bytes that hold a number too large for one.
const WIDE: u8 = u8::MAX;

/// Clean cells in about two bytes a nonzero: for each its number of nonzeros, then gap and count of each.
#[derive(Debug, Default)]
pub(super) struct Packed {
    bytes: Vec<u8>,
    /// Where each cell's bytes end.
    ends: Vec<u32>,
}

impl Packed {
    /// Room for that many nonzeros and cells.
    pub(super) fn with_room(cells: usize, nonzeros: usize) -> Self {
        Self {
            ends: Vec::with_capacity(cells),
            bytes: Vec::with_capacity(2 * nonzeros + nonzeros / 8 + 5 * cells),
        }
    }

    /// Cells that were packed elsewhere: the length of each in bytes, and these.
    pub(super) fn of(lengths: impl Iterator<Item = u32>, bytes: Vec<u8>) -> Option<Self> {
        let mut end = 0_u32;
        let mut ends = Vec::with_capacity(lengths.size_hint().0);
        for length in lengths {
            end = end.checked_add(length)?;
            ends.push(end);
        }
        (end as usize == bytes.len()).then_some(Self { bytes, ends })
    }

    /// Bytes of memory it takes.
    pub(super) fn memory(&self) -> u64 {
        (self.bytes.capacity() + 4 * self.ends.capacity() + size_of::<Self>()) as u64
    }

    /// Number of cells.
    pub(super) fn cells(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of a cell.
    pub(super) fn cell(&self, at: usize) -> &[u8] {
        let end = self.ends.get(at).copied().unwrap_or(0);
        let start = at.checked_sub(1).and_then(|at| self.ends.get(at)).copied().unwrap_or(0);
        self.bytes.get(start as usize..end as usize).unwrap_or(&[])
    }

    /// Appends the bytes of a cell.
    pub(super) fn push_bytes(&mut self, cell: &[u8]) {
        self.bytes.extend_from_slice(cell);
        self.ends.push(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX));
    }

    /// Appends a clean cell.
    pub(super) fn push(&mut self, genes: &[u32], counts: &[u32]) {
        self.number(u32::try_from(genes.len()).unwrap_or(u32::MAX));
        let mut last = 0;
        for (&gene, &count) in genes.iter().zip(counts) {
            let gap = gene.wrapping_sub(last);
            last = gene;
            match (u8::try_from(gap), u8::try_from(count)) {
                (Ok(gap), Ok(count)) if gap != WIDE && count != WIDE => {
                    self.bytes.extend_from_slice(&[gap, count]);
                }
                _ => {
                    self.number(gap);
                    self.number(count);
                }
            }
        }
        self.ends.push(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX));
    }

    fn number(&mut self, number: u32) {
        match u8::try_from(number) {
            Ok(byte) if byte != WIDE => self.bytes.push(byte),
            _ => {
                self.bytes.push(WIDE);
                self.bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
    }

    /// Appends some of the cells to `out`.
    pub(super) fn unpack(&self, cells: std::ops::Range<usize>, out: &mut Csr) {
        for cell in cells {
            unpack(self.cell(cell), out);
        }
    }
}

/// Appends a cell to `out`.
pub(super) fn unpack(mut rest: &[u8], out: &mut Csr) {
    let nonzeros = take(&mut rest);
    let mut gene = 0_u32;
    for _ in 0..nonzeros {
        let count = match rest {
            [gap, count, after @ ..] if *gap != WIDE && *count != WIDE => {
                gene = gene.wrapping_add(u32::from(*gap));
                rest = after;
                u32::from(*count)
            }
            _ => {
                gene = gene.wrapping_add(take(&mut rest));
                take(&mut rest)
            }
        };
        out.genes.push(gene.cast_signed());
        out.counts.push(count.cast_signed());
    }
    out.indptr.push(i64::try_from(out.genes.len()).unwrap_or(i64::MAX));
}

fn take(rest: &mut &[u8]) -> u32 {
    let number = match rest.split_first() {
        Some((&WIDE, after)) => {
            after.split_first_chunk::<4>().map(|(bytes, rest)| (u32::from_le_bytes(*bytes), rest))
        }
        Some((&byte, after)) => Some((u32::from(byte), after)),
        None => None,
    };
    match number {
        Some((number, after)) => {
            *rest = after;
            number
        }
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_with_wide_numbers() {
        let most = i32::MAX.unsigned_abs();
        let cells: [(&[u32], &[u32]); 4] = [
            (&[0, 254, 509, 510, 2_000_000_000], &[1, 254, 255, 256, most]),
            (&[], &[]),
            (&[255], &[1]),
            (&[7, 8], &[255, 2]),
        ];
        let mut packed = Packed::with_room(4, 8);
        let mut expected = Csr::new();
        for (genes, counts) in cells {
            packed.push(genes, counts);
            expected.genes.extend(genes.iter().map(|gene| gene.cast_signed()));
            expected.counts.extend(counts.iter().map(|count| count.cast_signed()));
            expected.indptr.push(i64::try_from(expected.genes.len()).unwrap());
        }
        let mut out = Csr::new();
        packed.unpack(0..4, &mut out);
        assert_eq!(out, expected);
        let mut copy = Packed::default();
        (0..4).for_each(|cell| copy.push_bytes(packed.cell(cell)));
        let lengths: Vec<u32> = (0..4).map(|cell| u32::try_from(packed.cell(cell).len()).unwrap()).collect();
        let copy = Packed::of(lengths.into_iter(), copy.bytes).unwrap();
        out.clear();
        copy.unpack(0..4, &mut out);
        assert_eq!(out, expected);
    }
}
