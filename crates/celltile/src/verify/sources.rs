//! What a dataset says of the inputs that it was converted from: cells, nonzeros and sum of counts of each are held against
//! the decoded tiles.

use std::sync::{Mutex, PoisonError};

use celltile_tile::{Csr, Decoder, Tile};
use serde_json::Value;

use super::{Context, Fault};
use crate::keys;

/// The inputs of a conversion, by `metadata.celltile.sources`.
pub(super) struct Sources {
    names: Vec<String>,
    /// Cells, nonzeros, sum of counts.
    expected: Vec<[u64; 3]>,
    /// Number of the first cell after each, among the cells of all.
    ends: Vec<u64>,
    /// The column of obs with each cell's number among the cells of all, if they are in another order.
    column: Option<String>,
    found: Mutex<Vec<[u64; 3]>>,
}

impl Sources {
    /// Nothing if the dataset does not say.
    pub(super) fn of(context: &Context<'_>) -> Option<Self> {
        let metadata = context.manifest.metadata();
        let ours = metadata.get("celltile")?;
        let list = ours.get("sources")?.as_array()?;
        let number = |source: &Value, key: &str| source.get(key)?.as_u64();
        let expected = list
            .iter()
            .map(|s| Some([number(s, "cells")?, number(s, "nonzeros")?, number(s, "sum")?]))
            .collect::<Option<Vec<_>>>()?;
        let mut ends = Vec::with_capacity(expected.len());
        let mut end = 0_u64;
        for [cells, ..] in &expected {
            end = end.saturating_add(*cells);
            ends.push(end);
        }
        let name = |s: &Value| s.get("name").and_then(Value::as_str).unwrap_or("?").to_owned();
        let conversion = ours.get("conversion");
        let column = conversion.and_then(|c| c.get("source_cell_column")).and_then(Value::as_str);
        let found = Mutex::new(vec![[0; 3]; expected.len()]);
        Some(Self {
            names: list.iter().map(name).collect(),
            expected,
            ends,
            column: column.map(str::to_owned),
            found,
        })
    }

    /// Adds up the cells of a tile that was found sound.
    pub(super) fn add(&self, context: &Context<'_>, tile: u64, parsed: &Tile<'_>) -> Result<(), String> {
        let mut decoder = Decoder::new().map_err(|e| e.to_string())?;
        let numbers = match &self.column {
            None => None,
            Some(name) => Some(
                crate::obs::verify::integers_of_tile(context.storage, context.manifest, name, tile)
                    .map_err(|e| e.to_string())?,
            ),
        };
        let first = tile.saturating_mul(context.manifest.tile_size);
        let mut sums = vec![[0_u64; 3]; self.expected.len()];
        // A tile chunk at a time: a tile may hold more than memory does.
        let mut cells = Csr::<i32>::new();
        let head = parsed.head();
        for chunk in 0..head.n_chunks() {
            cells.clear();
            let held = head.chunk_cells(chunk).map_err(|e| e.to_string())?;
            let frames = parsed.frames(chunk).map_err(|e| e.to_string())?;
            decoder
                .append_cells(head, chunk, &frames, held.clone(), None, &mut cells)
                .map_err(|e| e.to_string())?;
            let view = cells.view().map_err(|e| e.to_string())?;
            for (at, (_, counts)) in held.zip(view.iter()) {
                let number = match &numbers {
                    None => Some(first.saturating_add(at as u64)),
                    Some(numbers) => numbers.get(at).and_then(|&number| u64::try_from(number).ok()),
                };
                let source = number.map(|number| self.ends.partition_point(|&end| end <= number));
                let Some(sum) = source.and_then(|source| sums.get_mut(source)) else {
                    return Err(format!("cell {} is of none of the inputs", first.saturating_add(at as u64)));
                };
                let counts_sum: u64 = counts.iter().map(|&count| u64::from(count.unsigned_abs())).sum();
                for (sum, more) in sum.iter_mut().zip([1, counts.len() as u64, counts_sum]) {
                    *sum = sum.saturating_add(more);
                }
            }
        }
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        for (all, one) in found.iter_mut().zip(sums) {
            for (sum, more) in all.iter_mut().zip(one) {
                *sum = sum.saturating_add(more);
            }
        }
        Ok(())
    }

    /// Inputs whose figures are not those of the tiles.
    pub(super) fn check(self, context: &Context<'_>, faults: &mut Vec<Fault>) {
        let path = context.storage.locate(keys::MANIFEST);
        let found = self.found.into_inner().unwrap_or_else(PoisonError::into_inner);
        for ((name, expected), found) in self.names.iter().zip(&self.expected).zip(&found) {
            if expected != found {
                let text = |[cells, nonzeros, sum]: &[u64; 3]| {
                    format!("{cells} cells, {nonzeros} nonzeros and a sum of counts of {sum}")
                };
                let what = format!(
                    "metadata.celltile.sources: input {name:?} has {}, the tiles {}",
                    text(expected),
                    text(found)
                );
                faults.push(Fault::new(&path, what));
            }
        }
    }
}
