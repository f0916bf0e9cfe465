//! Tiles of datasets that are taken over as they are.

use std::ops::Range;

use celltile::checksums::ChecksumFile;
use celltile::writer::TileRecord;
use celltile::{Dataset, Manifest, OpenOptions, keys};

use super::options::ConvertOptions;
use super::work::{MadeTile, Work};
use crate::error::{Error, Result};
use crate::plan::Plan;

/// A dataset among the inputs whose tiles fit.
pub(super) struct Copies {
    pub(super) input: usize,
    dataset: Dataset,
    checksums: ChecksumFile,
    /// The tile of the new dataset that its first one becomes.
    first_tile: u64,
    /// How many of its tiles are taken over: the first ones.
    tiles: u64,
    /// The sum of all its counts, if it says so.
    pub(super) declared_sum: Option<u64>,
}

impl Copies {
    /// All inputs whose tiles are tiles of the new dataset: same genes in the same order, same tile size, cells that start
    /// where a tile does.
    pub(super) fn of(plan: &Plan, options: &ConvertOptions) -> Result<Vec<Self>> {
        let mut found = Vec::new();
        let (Some(order), tile_size) = (&plan.gene_order, plan.settings.tile_size.max(1)) else {
            return Ok(found);
        };
        if !plan.settings.copy_tiles || plan.joining.shuffle.is_some() {
            return Ok(found);
        }
        let (all, mut next) = (plan.cells(), 0_u64);
        for (input, planned) in plan.inputs.iter().enumerate() {
            let first = next;
            next = first.saturating_add(planned.cells);
            // A tile that is not full can only be the last one of all.
            let tiles =
                if next == all { planned.cells.div_ceil(tile_size) } else { planned.cells / tile_size };
            if planned.format != "deltacells" || !first.is_multiple_of(tile_size) || tiles == 0 {
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
                let declared_sum = declared_sum(manifest);
                found.push(Self {
                    input,
                    checksums,
                    first_tile: first / tile_size,
                    tiles,
                    declared_sum,
                    dataset,
                });
            }
        }
        Ok(found)
    }

    /// For each input how many of its first cells are in tiles that are taken over, so that nobody has to read them.
    pub(super) fn skipped(plan: &Plan, options: &ConvertOptions) -> Result<Vec<u64>> {
        let mut skipped = vec![0; plan.inputs.len()];
        for copies in Self::of(plan, options)? {
            let cells = plan.inputs.get(copies.input).map_or(0, |input| input.cells);
            if let Some(skipped) = skipped.get_mut(copies.input) {
                *skipped = cells.min(copies.tiles.saturating_mul(plan.settings.tile_size.max(1)));
            }
        }
        Ok(skipped)
    }

    /// The tiles of the new dataset that are taken over.
    pub(super) fn tiles(&self) -> Range<u64> {
        self.first_tile..self.first_tile.saturating_add(self.tiles)
    }

    /// Takes over a tile of so many cells.
    pub(super) fn take(&self, work: &Work, tile: u64, cells: u64) -> Result<()> {
        let own = tile.saturating_sub(self.first_tile);
        let (key, from, to) = (keys::tile(own), self.dataset.storage(), work.storage.as_ref());
        let damaged =
            |what: &str| Error::Damaged { file: from.locate(&key), at: "tile".into(), what: what.into() };
        let manifest = self.dataset.manifest();
        let at = usize::try_from(own).unwrap_or(usize::MAX);
        let (Some(&own_cells), Some(&nnz), Some(&bytes), Some(sha256)) = (
            manifest.tile_cells.get(at),
            manifest.tile_nnz.get(at),
            manifest.tile_bytes.get(at),
            manifest.tile_sha256.as_ref().and_then(|list| list.get(at)),
        ) else {
            return Err(damaged("it is not in its manifest"));
        };
        if own_cells != cells {
            return Err(damaged(&format!("{own_cells} cells; expected {cells}")));
        }
        // Of the one that has long been there: the size of what has just been written is not asked for by name.
        let found = from.size(&key)?;
        if found != bytes {
            return Err(damaged(&format!("{found} bytes; expected {bytes}")));
        }
        if !to.copy_in(&keys::tile(tile), from.as_ref(), &key)? {
            let content = from.read(&key)?;
            if celltile::digest::Sha256::of(&content) != *sha256 {
                return Err(damaged("its SHA-256 is not the one in its manifest"));
            }
            to.write(&keys::tile(tile), &content)?;
        }
        // A dataset that does not say its sum is added up.
        let sum = match self.declared_sum {
            Some(_) => 0,
            None => {
                let read = self.dataset.rows(self.dataset.tile_cells(own)?)?;
                read.counts.iter().map(|&count| u64::from(count.unsigned_abs())).sum()
            }
        };
        let checksums = self.checksums.tile(from.as_ref(), own)?;
        let record = TileRecord { cells, nnz, bytes, sha256: *sha256, checksums };
        let made = MadeTile { record, shares: vec![(self.input, cells, nnz, sum)], copied: true };
        Ok(Work::write_tile(to, tile, &made)?)
    }
}

/// The sum of all counts of a dataset, if it says so.
fn declared_sum(manifest: &Manifest) -> Option<u64> {
    let metadata = manifest.metadata();
    let sources = metadata.get("celltile")?.get("sources")?.as_array()?;
    sources.iter().map(|source| source.get("sum")?.as_u64()).sum()
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
