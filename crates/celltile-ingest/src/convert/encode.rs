use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use celltile::{Csr, DatasetWriter};
use rayon::prelude::*;

use super::copies::Copies;
use super::options::{ConvertOptions, Stage};
use super::supply::{From, Supply};
use super::tally::Tally;
use super::work::{MadeTile, TileShare, Work};
use crate::error::{Error, Result};
use crate::plan::Plan;

/// What each input gives to each tile in the making.
type Shares = Arc<Mutex<HashMap<u64, BTreeMap<usize, Tally>>>>;

/// Encodes tiles of a range that are not there yet.
pub(super) fn encode(
    plan: &Plan,
    work: &Work,
    options: &ConvertOptions,
    supply: &mut Supply<'_>,
    order: &[i32],
    tiles: Range<u64>,
) -> Result<()> {
    let map = inverse(order);
    let tile_size = plan.settings.tile_size.max(1);
    let all = plan.cells();
    let cells_of = |tiles: &Range<u64>| {
        tiles.start.saturating_mul(tile_size).min(all)..tiles.end.saturating_mul(tile_size).min(all)
    };
    let mut there = work.encoded()?;
    for copies in Copies::of(plan, options)? {
        let own = copies.tiles();
        let copied: Vec<u64> = (tiles.start.max(own.start)..tiles.end.min(own.end))
            .filter(|tile| there.binary_search(tile).is_err())
            .collect();
        copied.par_iter().try_for_each(|&tile| {
            options.read.check_cancelled()?;
            let cells = cells_of(&(tile..tile + 1));
            copies.take(work, tile, cells.end - cells.start)
        })?;
        there.extend(copied);
        there.sort_unstable();
    }
    let total = cells_of(&tiles);
    let total = total.end - total.start;
    let mut done = total;
    let runs = missing(tiles, &there);
    for run in &runs {
        let cells = cells_of(run);
        done -= cells.end - cells.start;
    }
    options.step(Stage::Encode, done, total)?;
    for run in runs {
        let shares: Shares = Arc::default();
        let on_tile = {
            let (shares, storage) = (Arc::clone(&shares), Arc::clone(&work.storage));
            Arc::new(move |tile: u64, record: &celltile::writer::TileRecord| {
                let own =
                    shares.lock().unwrap_or_else(PoisonError::into_inner).remove(&tile).unwrap_or_default();
                let own: Vec<TileShare> =
                    own.into_iter().map(|(input, t)| (input, t.cells, t.nonzeros, t.sum)).collect();
                let made = MadeTile { record: record.clone(), shares: own, copied: false };
                Work::write_tile(storage.as_ref(), tile, &made)
            })
        };
        let storage = Arc::clone(&work.storage);
        let genes = order.len() as u64;
        let mut writer =
            DatasetWriter::some_tiles(storage, genes, &options.writing(), run.start, Some(on_tile))?;
        let cells = cells_of(&run);
        let mut at = cells.start;
        supply.cells(cells.clone(), &mut |csr, from| {
            tally(&shares, csr, &from, at, tile_size);
            let view = csr.view().map_err(|error| Error::Options(error.to_string()))?;
            writer.push_source(view, &map)?;
            at += csr.n_cells() as u64;
            done += csr.n_cells() as u64;
            options.step(Stage::Encode, done, total)
        })?;
        if at != cells.end {
            let what = format!("{} cells came, {} were asked for", at - cells.start, cells.end - cells.start);
            return Err(Error::Damaged { file: work.storage.locate(""), at: "cells".into(), what });
        }
        writer.finish_tiles()?;
    }
    Ok(())
}

/// Runs of tiles that are not there.
fn missing(tiles: Range<u64>, there: &[u64]) -> Vec<Range<u64>> {
    let mut runs = Vec::new();
    let mut start = tiles.start;
    for &tile in there.iter().filter(|tile| tiles.contains(tile)) {
        if start < tile {
            runs.push(start..tile);
        }
        start = tile + 1;
    }
    if start < tiles.end {
        runs.push(start..tiles.end);
    }
    runs
}

/// Adds up what comes to which tile from which input, before it can be written.
fn tally(shares: &Shares, csr: &Csr, from: &From<'_>, first: u64, tile_size: u64) {
    let mut shares = shares.lock().unwrap_or_else(PoisonError::into_inner);
    let bound = |at: usize| csr.indptr.get(at).and_then(|&at| usize::try_from(at).ok()).unwrap_or(0);
    let mut cell = 0;
    while cell < csr.n_cells() {
        let tile = (first + cell as u64) / tile_size;
        let left = (tile + 1).saturating_mul(tile_size) - (first + cell as u64);
        let end = csr.n_cells().min(cell.saturating_add(usize::try_from(left).unwrap_or(usize::MAX)));
        let shares = shares.entry(tile).or_default();
        let mut add = |input: usize, cells: Range<usize>| {
            let entries = bound(cells.start)..bound(cells.end);
            let counts = csr.counts.get(entries).unwrap_or(&[]);
            let sum = counts.iter().map(|&count| u64::from(count.unsigned_abs())).sum();
            let tally =
                Tally { cells: cells.len() as u64, nonzeros: counts.len() as u64, sum, ..Tally::default() };
            *shares.entry(input).or_default() += tally;
        };
        match from {
            From::One(input) => add(*input, cell..end),
            From::Each(inputs) => {
                for cell in cell..end {
                    add(inputs.get(cell).copied().unwrap_or(usize::MAX), cell..cell + 1);
                }
            }
        }
        cell = end;
    }
}

/// For each of the plan's genes its place in the order; negative for one that is not in it.
fn inverse(order: &[i32]) -> Arc<[i32]> {
    let mut map = vec![-1; order.len()];
    for (place, &column) in (0..).zip(order) {
        if let Some(to) = usize::try_from(column).ok().and_then(|column| map.get_mut(column)) {
            *to = place;
        }
    }
    map.into()
}

#[cfg(test)]
mod tests {
    use super::missing;

    #[test]
    fn test_runs_of_missing_tiles() {
        assert_eq!(missing(0..5, &[]), std::slice::from_ref(&(0..5)));
        assert_eq!(missing(0..5, &[0, 2, 3, 7]), [1..2, 4..5]);
        assert_eq!(missing(2..4, &[2, 3]), []);
        assert_eq!(missing(0..0, &[]), []);
    }
}
