//! Matrices to write, and a reference that does it all slowly.

#![allow(dead_code, reason = "each test binary uses its share")]

use std::sync::Arc;

use celltile::storage::Storage;
use celltile::{ChunkCut, Csr, DatasetWriter, EncodeOptions, Preset, WriterOptions, Written};

/// A generator of numbers, the same everywhere and for ever.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Cells of up to `most` nonzeros, some of them empty, with a few counts above 65535.
pub(crate) fn matrix(seed: u64, n_cells: usize, n_genes: i32, most: u64) -> Csr {
    let mut numbers = Numbers(seed);
    let mut out = Csr::new();
    for _ in 0..n_cells {
        let nnz = if numbers.below(8) == 0 { 0 } else { numbers.below(most + 1) };
        let genes: std::collections::BTreeSet<i32> = (0..nnz)
            .map(|_| i32::try_from(numbers.below(u64::try_from(n_genes).unwrap())).unwrap())
            .collect();
        for gene in genes {
            out.genes.push(gene);
            out.counts.push(match numbers.below(500) {
                0 => 65_535 + i32::try_from(numbers.below(5)).unwrap(),
                n => 1 + i32::try_from(n % 7).unwrap(),
            });
        }
        out.indptr.push(i64::try_from(out.genes.len()).unwrap());
    }
    out
}

/// The cells asked for, one by one.
pub(crate) fn select(all: &Csr, cells: impl IntoIterator<Item = u64>) -> Csr {
    let mut out = Csr::new();
    for cell in cells {
        let cell = usize::try_from(cell).unwrap();
        let range =
            usize::try_from(all.indptr[cell]).unwrap()..usize::try_from(all.indptr[cell + 1]).unwrap();
        out.genes.extend_from_slice(&all.genes[range.clone()]);
        out.counts.extend_from_slice(&all.counts[range]);
        out.indptr.push(i64::try_from(out.genes.len()).unwrap());
    }
    out
}

pub(crate) fn options(tile_size: u64, cut: ChunkCut, threads: usize) -> WriterOptions {
    let mut options = WriterOptions::default();
    options.tile_size = tile_size;
    options.threads = threads;
    options.encode = EncodeOptions { compression: celltile::Compression::Preset(Preset::Fast), cut };
    options
}

/// Writes all cells, in pieces.
pub(crate) fn write(
    storage: Arc<dyn Storage>,
    cells: &Csr,
    n_genes: u64,
    options: &WriterOptions,
    piece: usize,
) -> Written {
    let mut writer = DatasetWriter::create(storage, n_genes, options).unwrap();
    let view = cells.view().unwrap();
    let mut start = 0;
    while start < cells.n_cells() {
        let end = cells.n_cells().min(start + piece);
        writer.push(view.cells(start..end).unwrap()).unwrap();
        start = end;
    }
    writer.finish().unwrap()
}
