//! Tiles of datasets that are taken over as they are.

use celltile::checksums::ChecksumFile;
use celltile::writer::TileRecord;
use celltile::{Dataset, OpenOptions, keys};

use super::options::ConvertOptions;
use super::work::Work;
use crate::error::{Error, Result};
use crate::plan::Plan;

/// A dataset among the inputs whose tiles fit.
pub(super) struct Copies {
    input: usize,
    dataset: Dataset,
    checksums: ChecksumFile,
    /// The tile of the new dataset that its first one becomes.
    first_tile: u64,
}

impl Copies {
    /// All inputs whose tiles are tiles of the new dataset: same genes in the same order, same tile size, cells that start
    /// where a tile does.
    pub(super) fn of(plan: &Plan, options: &ConvertOptions, order: &[i32]) -> Result<Vec<Self>> {
        let mut found = Vec::new();
        if !options.copy_tiles || plan.joining.shuffle.is_some() {
            return Ok(found);
        }
        for (input, planned) in plan.inputs.iter().enumerate() {
            let first = plan.first_cell(input);
            let tile_size = plan.settings.tile_size.max(1);
            if planned.format != "deltacells" || !first.is_multiple_of(tile_size) {
                continue;
            }
            let mut open = OpenOptions::default();
            open.remote = options.inputs_remote.clone();
            let dataset = Dataset::open_with(&planned.path, &open)?;
            let manifest = dataset.manifest();
            let (Some(record), Some(_)) = (&manifest.tile_checksums, &manifest.tile_sha256) else { continue };
            if manifest.tile_size != tile_size || manifest.n_genes != order.len() as u64 {
                continue;
            }
            let map = plan.genes.map(plan.open(input, options)?.as_ref())?;
            let same = ranks(&dataset)?.into_iter().zip(order).all(|(rank, &column)| {
                let place = match &map {
                    None => i32::try_from(rank).ok(),
                    Some(map) => map.places.get(rank).copied(),
                };
                place == Some(column)
            });
            if same {
                let checksums = ChecksumFile::open(dataset.storage().as_ref(), record, manifest.n_tiles())?;
                found.push(Self { input, dataset, checksums, first_tile: first / tile_size });
            }
        }
        Ok(found)
    }

    /// Takes over a tile of so many cells, if this dataset has it.
    pub(super) fn take(&self, work: &Work, tile: u64, cells: u64) -> Result<bool> {
        let Some(own) = tile.checked_sub(self.first_tile) else { return Ok(false) };
        let manifest = self.dataset.manifest();
        let at = usize::try_from(own).unwrap_or(usize::MAX);
        let (Some(&own_cells), Some(&nnz), Some(&bytes), Some(sha256)) = (
            manifest.tile_cells.get(at),
            manifest.tile_nnz.get(at),
            manifest.tile_bytes.get(at),
            manifest.tile_sha256.as_ref().and_then(|list| list.get(at)),
        ) else {
            return Ok(false);
        };
        if own_cells != cells {
            return Ok(false);
        }
        // Decoding it checks it, and gives the sum that is held against what was counted.
        let read = self.dataset.rows(self.dataset.tile_cells(own)?)?;
        let sum = read.counts.iter().map(|&count| u64::from(count.unsigned_abs())).sum();
        let (key, from) = (keys::tile(own), self.dataset.storage());
        if !work.storage.copy_in(&keys::tile(tile), from.as_ref(), &key)? {
            let content = from.read(&key)?;
            if celltile::digest::Sha256::of(&content) != *sha256 {
                return Err(Error::Damaged {
                    file: from.locate(&key),
                    at: "tile".into(),
                    what: "its SHA-256 is not the one in its manifest".into(),
                });
            }
            work.storage.write(&keys::tile(tile), &content)?;
        }
        let checksums = self.checksums.tile(from.as_ref(), own)?;
        let record = TileRecord { cells, nnz, bytes, sha256: *sha256, checksums };
        Work::write_tile(work.storage.as_ref(), tile, &record, &[(self.input, cells, nnz, sum)])?;
        Ok(true)
    }
}

/// For each gene of a dataset its place among those of its source.
fn ranks(dataset: &Dataset) -> Result<Vec<usize>> {
    let genes = usize::try_from(dataset.n_genes()).unwrap_or(usize::MAX);
    let Some(order) = dataset.gene_order()? else { return Ok((0..genes).collect()) };
    let mut columns: Vec<(i32, usize)> = order.columns().iter().copied().zip(0..).collect();
    columns.sort_unstable();
    let mut ranks = vec![0; columns.len()];
    for (rank, (_, gene)) in columns.into_iter().enumerate() {
        if let Some(place) = ranks.get_mut(gene) {
            *place = rank;
        }
    }
    Ok(ranks)
}
