//! Small datasets.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::sync::Arc;

use celltile::storage::{MemoryStorage, Storage};
use celltile::writer::{DatasetWriter, WriterOptions};
use celltile::{ChunkCut, Csr, Dataset, OpenOptions};

use super::support::Numbers;

/// Cells with a few genes each; none in the tiles named.
pub(crate) fn cells(seed: u64, n_cells: u64, n_genes: u64, tile_size: u64, empty_tiles: &[u64]) -> Csr<i32> {
    let mut numbers = Numbers::new(seed);
    let mut csr = Csr { indptr: vec![0], genes: Vec::new(), counts: Vec::new() };
    for cell in 0..n_cells {
        if !empty_tiles.contains(&(cell / tile_size)) {
            for gene in 0..n_genes {
                if numbers.between(0, 3) == 0 {
                    csr.genes.push(gene as i32);
                    csr.counts.push(if numbers.between(0, 50) == 0 {
                        70_000
                    } else {
                        numbers.between(1, 9) as i32
                    });
                }
            }
        }
        csr.indptr.push(i64::try_from(csr.genes.len()).unwrap());
    }
    csr
}

/// A dataset of these cells, with tile chunks of few nonzeros, in that storage.
pub(crate) fn write(storage: Arc<dyn Storage>, csr: &Csr<i32>, n_genes: u64, tile_size: u64) {
    let mut options = WriterOptions::default();
    options.tile_size = tile_size;
    options.encode.cut = ChunkCut::Nonzeros(40);
    let mut writer = DatasetWriter::create(storage, n_genes, &options).unwrap();
    writer.push(csr.view().unwrap()).unwrap();
    writer.finish().unwrap();
}

pub(crate) fn dataset(csr: &Csr<i32>, n_genes: u64, tile_size: u64) -> Arc<Dataset> {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    write(Arc::clone(&storage), csr, n_genes, tile_size);
    Arc::new(Dataset::open_storage(storage, &OpenOptions::default()).unwrap())
}
