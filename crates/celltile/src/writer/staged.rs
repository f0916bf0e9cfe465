//! Cells packed to about two bytes a nonzero, for tiles whose tile chunks can be cut only once they are complete.

use std::ops::Range;

use celltile_tile::Csr;

/// The cells of one batch: gaps and counts as variable-length integers, one after the other.
#[derive(Debug, Default)]
pub(super) struct StagedBatch {
    bytes: Vec<u8>,
    /// Where each cell's bytes end.
    ends: Vec<usize>,
    cell_nnz: Vec<i64>,
}

/// All cells of a tile.
#[derive(Debug)]
pub(super) struct StagedTile {
    batches: Vec<StagedBatch>,
    /// Offsets of the tile's cells.
    pub(super) indptr: Vec<i64>,
}

impl StagedBatch {
    /// Packs cells, whose genes increase and whose counts are at least 1. A cell that breaks these rules is packed all
    /// the same, and refused when it is encoded.
    pub(super) fn pack(cells: &celltile_tile::CsrView<'_>) -> Self {
        let mut batch = Self::default();
        for (genes, counts) in cells.iter() {
            let mut previous = 0;
            for (gene, count) in genes.iter().zip(counts) {
                // Wraps where genes fall, and unwraps when they are read.
                push(&mut batch.bytes, gene.wrapping_sub(previous).cast_unsigned());
                push(&mut batch.bytes, count.cast_unsigned());
                previous = *gene;
            }
            batch.ends.push(batch.bytes.len());
            batch.cell_nnz.push(i64::try_from(genes.len()).unwrap_or(i64::MAX));
        }
        batch.bytes.shrink_to_fit();
        batch
    }

    fn unpack(&self, cells: Range<usize>, out: &mut Csr) {
        let end_of = |cell: usize| self.ends.get(cell).copied().unwrap_or_default();
        let start = cells.start.checked_sub(1).map_or(0, end_of);
        let mut bytes = self.bytes.get(start..).unwrap_or_default().iter().copied();
        for nnz in self.cell_nnz.get(cells).unwrap_or_default() {
            let mut gene = 0_i32;
            for _ in 0..*nnz {
                gene = gene.wrapping_add(pop(&mut bytes).cast_signed());
                out.genes.push(gene);
                out.counts.push(pop(&mut bytes).cast_signed());
            }
            out.indptr.push(i64::try_from(out.genes.len()).unwrap_or(i64::MAX));
        }
    }
}

impl StagedTile {
    /// A tile of these batches.
    pub(super) fn new(batches: Vec<StagedBatch>) -> Self {
        let mut indptr = vec![0_i64];
        let mut end = 0_i64;
        for nnz in batches.iter().flat_map(|batch| &batch.cell_nnz) {
            end = end.saturating_add(*nnz);
            indptr.push(end);
        }
        Self { batches, indptr }
    }

    /// Some of its cells.
    pub(super) fn unpack(&self, cells: Range<usize>, out: &mut Csr) {
        out.clear();
        let mut first = 0_usize;
        for batch in &self.batches {
            let len = batch.ends.len();
            let own = cells.start.saturating_sub(first).min(len)..cells.end.saturating_sub(first).min(len);
            if !own.is_empty() {
                batch.unpack(own, out);
            }
            first = first.saturating_add(len);
        }
    }
}

fn push(bytes: &mut Vec<u8>, mut value: u32) {
    while let [low, _, _, _] = value.to_le_bytes()
        && value >= 0x80
    {
        bytes.push(low | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
}

fn pop(bytes: &mut impl Iterator<Item = u8>) -> u32 {
    let (mut value, mut shift) = (0_u32, 0_u32);
    for byte in bytes {
        value |= u32::from(byte & 0x7f).checked_shl(shift).unwrap_or_default();
        shift = shift.saturating_add(7);
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use celltile_tile::Csr;

    use super::{StagedBatch, StagedTile};

    #[test]
    fn test_any_cells_come_back() {
        let a = Csr {
            indptr: vec![0, 3, 3, 5],
            genes: vec![0, 127, i32::MAX, 128, 5],
            counts: vec![1, 128, i32::MAX, 0, -7],
        };
        let b = Csr { indptr: vec![0, 1], genes: vec![300], counts: vec![70_000] };
        let batches = [&a, &b].map(|cells| StagedBatch::pack(&cells.view().unwrap())).into();
        let tile = StagedTile::new(batches);
        assert_eq!(tile.indptr, [0, 3, 3, 5, 6]);
        let mut out = Csr::new();
        tile.unpack(0..3, &mut out);
        assert_eq!(out, a);
        tile.unpack(2..4, &mut out);
        assert_eq!(out, Csr { indptr: vec![0, 2, 3], genes: vec![128, 5, 300], counts: vec![0, -7, 70_000] });
    }
}
