//! The last stage: what was written is held against what was read, then genes, obs and the manifest.

use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::Int64Array;
use celltile::genes::{GeneOrder, VarNames};
use celltile::obs::{ObsWriter, ObsWritten, write_obs};
use celltile::storage::Storage;
use celltile::table::{Categorical, Categories, Codes, Column, Numeric, Table, UNNAMED_INDEX};
use celltile::{DatasetWriter, Written};
use rayon::prelude::*;
use serde_json::{Map, Value, json};

use super::clean::Duplicates;
use super::copies::Copies;
use super::options::{ConvertOptions, Stage};
use super::placement::Shuffle;
use super::work::{Counted, MadeTile, Work, clear_temporaries};
use crate::error::{Error, Result};
use crate::matrix::Rounding;
use crate::plan::Plan;

/// What the column of a cell's number among those of all inputs is called.
pub(super) const SOURCE_CELL: &str = "source_cell";
/// What the column of inputs is called.
const SOURCE: &str = "source";

/// Writes all but the tiles.
pub(super) fn finish(
    plan: &Plan,
    work: &Work,
    options: &ConvertOptions,
    order: &[i32],
    counted: &mut [Counted],
) -> Result<Written> {
    let total = plan.cells();
    options.step(Stage::Finish, 0, total)?;
    let mut records = Vec::new();
    let mut written = vec![(0_u64, 0_u64, 0_u64); plan.inputs.len()];
    let read = |tile: u64| {
        work.read_tile(tile).map_err(|error| match error {
            Error::Dataset(error) if error.is_not_found() => Error::Options(format!(
                "tile {tile} is not encoded yet: celltile encode --tiles {tile}:{}",
                tile + 1
            )),
            error => error,
        })
    };
    let tiles: Vec<Result<_>> = (0..plan.n_tiles()).into_par_iter().map(read).collect();
    for tile in tiles {
        let MadeTile { record, shares, copied } = tile?;
        for (input, cells, nonzeros, sum) in shares {
            let Some(all) = written.get_mut(input) else { continue };
            all.0 += cells;
            all.1 += nonzeros;
            all.2 = all.2.saturating_add(sum);
            // What is taken over as it is, was not counted.
            if copied && let Some(Counted { tally: t, .. }) = counted.get_mut(input) {
                t.cells += cells;
                (t.nonzeros, t.read_nonzeros) = (t.nonzeros + nonzeros, t.read_nonzeros + nonzeros);
                (t.sum, t.read_sum) = (t.sum.saturating_add(sum), t.read_sum.saturating_add(sum));
            }
        }
        records.push(record);
    }
    for copies in Copies::of(plan, options)? {
        // What the tiles that were taken over hold is the rest of what the dataset says, and what is held against the tiles by
        // whoever verifies them.
        if let (Some(all), Some(Counted { tally: t, .. }), Some(written)) =
            (copies.declared_sum, counted.get_mut(copies.input), written.get_mut(copies.input))
        {
            let copied = all.checked_sub(t.sum).ok_or_else(|| Error::Changed {
                file: plan.inputs.get(copies.input).map(|input| input.path.clone()).unwrap_or_default(),
                what: format!("its last cells alone have a sum of counts of {}, all of them {all}", t.sum),
            })?;
            (t.sum, t.read_sum) = (t.sum + copied, t.read_sum + copied);
            written.2 = written.2.saturating_add(copied);
        }
    }
    for ((input, counted), written) in plan.inputs.iter().zip(&*counted).zip(&written) {
        let t = &counted.tally;
        if (t.cells, t.nonzeros, t.sum) != *written {
            return Err(Error::Changed {
                file: input.path.clone(),
                what: format!(
                    "{} cells, {} nonzeros and a sum of counts of {} were written, {}, {} and {} counted before",
                    written.0, written.1, written.2, t.cells, t.nonzeros, t.sum
                ),
            });
        }
    }
    clear_temporaries(work.storage.as_ref())?;
    let storage = Arc::clone(&work.storage);
    let mut writer = DatasetWriter::of_tiles(storage, order.len() as u64, &options.writing(), records)?;
    genes(&mut writer, plan, order)?;
    let mut extra = Extra::of(plan)?;
    let obs = obs(plan, work, options, &writer, &mut extra)?;
    writer.set_obs_table(&obs)?;
    metadata(&mut writer, plan, counted, options, &extra);
    Ok(writer.finish()?)
}

fn genes(writer: &mut DatasetWriter, plan: &Plan, order: &[i32]) -> Result<()> {
    writer.set_gene_order(&GeneOrder::new(order.to_vec())?)?;
    let name = |&column: &i32| usize::try_from(column).ok().and_then(|column| plan.genes.names.get(column));
    let ordered = order.iter().map(|place| name(place).cloned().unwrap_or_default()).collect();
    // A name with a line end in it cannot stand in that file.
    if let Ok(names) = VarNames::new(ordered) {
        writer.set_var_names(&names)?;
    }
    let rows: Vec<u64> = order.iter().map(|&column| u64::try_from(column).unwrap_or(u64::MAX)).collect();
    Ok(writer.set_var(&plan.var.take(&rows)?)?)
}

/// The columns that a conversion adds to obs.
struct Extra {
    /// Name of the column of inputs, and their names.
    source: Option<(String, Categories)>,
    /// Name of the column of cells' numbers.
    cell: Option<String>,
}

impl Extra {
    fn of(plan: &Plan) -> Result<Self> {
        let wanted = match plan.joining.source_column.as_deref() {
            _ if plan.joining.continued_source.is_some() => None,
            Some("") => None,
            Some(name) => Some(name),
            None => (plan.inputs.len() > 1).then_some(SOURCE),
        };
        let taken: Vec<String> = match (plan.union()?, &plan.opened) {
            (Some(union), _) => names(&union.empty()?),
            (None, Some(opened)) => names(&opened.obs),
            (None, None) => Vec::new(),
        };
        let source = match wanted {
            None => None,
            Some(name) => {
                let inputs = plan.inputs.iter().map(|input| input.name.as_str());
                Some((free(name, &taken), Categories::from_text(inputs)?))
            }
        };
        let cell = plan.joining.shuffle.map(|_| free(SOURCE_CELL, &taken));
        Ok(Self { source, cell })
    }

    /// A table of cells of one input with these columns: where the cells are from.
    fn add(&self, table: Table, inputs: &[u32], cells: &[u64]) -> Result<Table> {
        let (rows, index, mut columns) = table.into_parts();
        if let Some((name, categories)) = &self.source {
            let codes = Codes::collect(inputs.iter().map(|&input| i64::from(input)), categories.len())?;
            columns.push(Column::new(name.clone(), Categorical::new(codes, categories.clone(), false)?));
        }
        if let Some(name) = &self.cell {
            let numbers: Int64Array = cells.iter().map(|&cell| i64::try_from(cell).ok()).collect();
            columns.push(Column::new(name.clone(), Numeric::new(Arc::new(numbers), false)?));
        }
        Ok(Table::new(rows, index, columns)?)
    }
}

fn names(table: &Table) -> Vec<String> {
    let index = table.index().map(|index| index.name().unwrap_or(UNNAMED_INDEX).to_owned());
    index.into_iter().chain(table.columns().iter().map(|column| column.name().to_owned())).collect()
}

/// The name, with `_1`, `_2`, ... behind it while it is taken.
fn free(name: &str, taken: &[String]) -> String {
    let is_taken = |name: &str| taken.iter().any(|taken| taken == name);
    if !is_taken(name) {
        return name.to_owned();
    }
    (1_u64..).map(|n| format!("{name}_{n}")).find(|name| !is_taken(name)).unwrap_or_default()
}

fn obs(
    plan: &Plan,
    work: &Work,
    options: &ConvertOptions,
    writer: &DatasetWriter,
    extra: &mut Extra,
) -> Result<ObsWritten> {
    let storage = Arc::clone(writer.storage());
    let tile_size = plan.settings.tile_size;
    let total = plan.cells();
    let number = |input: usize| u32::try_from(input).unwrap_or(u32::MAX);
    if plan.inputs.len() == 1 && plan.joining.shuffle.is_none() {
        let obs = plan.obs_of(0, options)?;
        if plan.opened.is_none() && extra.source.is_some() {
            extra.source = extra.source.take().map(|(name, list)| (free(&name, &names(&obs)), list));
        }
        let (inputs, cells) = (vec![0; obs.rows()], Vec::new());
        let obs = extra.add(obs, &inputs, &cells)?;
        return Ok(write_obs(storage, &obs, None, tile_size, options.obs)?);
    }
    let Some(seed) = plan.joining.shuffle else {
        let Some(union) = plan.union()? else {
            return Err(Error::Options("the plan has no schema of obs".into()));
        };
        let like = extra.add(union.empty()?, &[], &[])?;
        let mut out = ObsWriter::create(storage, &like, tile_size, options.obs)?;
        let mut done = 0;
        for input in 0..plan.inputs.len() {
            let obs = plan.obs_of(input, options)?;
            let inputs = vec![number(input); obs.rows()];
            done += obs.rows() as u64;
            out.push(&extra.add(obs, &inputs, &[])?)?;
            options.step(Stage::Finish, done, total)?;
        }
        return Ok(out.finish()?);
    };
    shuffled_obs(plan, work, options, extra, &storage, Shuffle::new(seed))
}

/// Rows in the order of shuffled cells: cut into buckets of keys, as the cells are, that fit into memory one by one.
fn shuffled_obs(
    plan: &Plan,
    work: &Work,
    options: &ConvertOptions,
    extra: &mut Extra,
    storage: &Arc<dyn Storage>,
    shuffle: Shuffle,
) -> Result<ObsWritten> {
    let total = plan.cells();
    let mut buckets = 0_u32;
    let mut like: Option<Table> = None;
    // Of each bucket the rows that are in memory, or where they are.
    let mut kept: Vec<Vec<Table>> = Vec::new();
    let mut aside: Vec<Vec<(String, Range<u64>)>> = Vec::new();
    let mut first = 0_u64;
    for input in 0..plan.inputs.len() {
        let obs = plan.obs_of(input, options)?;
        let rows = obs.rows() as u64;
        if like.is_none() && plan.opened.is_none() && plan.union()?.is_none() {
            let taken = names(&obs);
            extra.source = extra.source.take().map(|(name, list)| (free(&name, &taken), list));
            extra.cell = extra.cell.take().map(|name| free(&name, &taken));
        }
        let inputs = vec![u32::try_from(input).unwrap_or(u32::MAX); obs.rows()];
        let cells: Vec<u64> = (first..first + rows).collect();
        let table = extra.add(obs, &inputs, &cells)?;
        if like.is_none() {
            like = Some(table.slice(0, 0)?);
        }
        if buckets == 0 && rows > 0 {
            // As many as the first rows make likely to fit.
            let sample = table.slice(0, table.rows().min(10_000))?;
            let bytes = sample.rows_to_bytes()?.len() as u64 / sample.rows().max(1) as u64 + 1;
            let needed = bytes.saturating_mul(total).div_ceil((options.memory / 8).max(1));
            buckets = u32::try_from(needed.clamp(1, 1 << 12)).unwrap_or(1);
            kept = (0..buckets).map(|_| Vec::new()).collect();
            aside = (0..buckets).map(|_| Vec::new()).collect();
        }
        if buckets == 1 {
            if let Some(kept) = kept.first_mut() {
                kept.push(table);
            }
        } else if rows > 0 {
            let mut of_bucket: Vec<Vec<u64>> = (0..buckets).map(|_| Vec::new()).collect();
            for (row, &cell) in (0..).zip(&cells) {
                let bucket = Shuffle::bucket(shuffle.key(cell), buckets) as usize;
                if let Some(rows) = of_bucket.get_mut(bucket) {
                    rows.push(row);
                }
            }
            let key = work.obs_part(input);
            let mut writer = work.spill.create(&key)?;
            let mut offset = 0_u64;
            for (rows, aside) in of_bucket.iter().zip(&mut aside) {
                if rows.is_empty() {
                    continue;
                }
                let bytes = table.take(rows)?.rows_to_bytes()?;
                writer.write_all(&bytes).map_err(|source| Error::Io {
                    path: work.spill.locate(&key).into(),
                    action: "write",
                    source,
                })?;
                aside.push((key.clone(), offset..offset + bytes.len() as u64));
                offset += bytes.len() as u64;
            }
            writer.finish()?;
        }
        first += rows;
        options.step(Stage::Finish, first / 2, total)?;
    }
    let like = like.unwrap_or_else(Table::empty);
    let mut out: Option<ObsWriter> = None;
    let mut done = 0_u64;
    for bucket in 0..buckets.max(1) {
        let at = bucket as usize;
        let mut tables = kept.get_mut(at).map(std::mem::take).unwrap_or_default();
        for (key, range) in aside.get(at).into_iter().flatten() {
            tables.push(like.of_bytes(&work.spill.read_range(key, range.clone())?)?);
        }
        let table =
            if tables.is_empty() { like.clone() } else { Table::concat(&tables.iter().collect::<Vec<_>>())? };
        drop(tables);
        // Within a bucket rows are by number.
        let mut keyed: Vec<(u64, u64, u64)> = (0..total)
            .map(|cell| (shuffle.key(cell), cell))
            .filter(|(key, _)| Shuffle::bucket(*key, buckets.max(1)) == bucket)
            .zip(0..)
            .map(|((key, cell), row)| (key, cell, row))
            .collect();
        keyed.sort_unstable();
        let order: Vec<u64> = keyed.into_iter().map(|(_, _, row)| row).collect();
        let writer = match &mut out {
            Some(writer) => writer,
            none => {
                let of_all = if buckets <= 1 { &table } else { &like };
                none.insert(ObsWriter::create(
                    Arc::clone(storage),
                    of_all,
                    plan.settings.tile_size,
                    options.obs,
                )?)
            }
        };
        for rows in order.chunks(1 << 14) {
            writer.push(&table.take(rows)?)?;
        }
        done += order.len() as u64;
        options.step(Stage::Finish, (total + done) / 2, total)?;
    }
    match out {
        Some(writer) => Ok(writer.finish()?),
        None => Err(Error::Options("there is no obs".into())),
    }
}

/// What a reader, and an export, should know of where the cells came from: nothing of the machine or the path.
fn metadata(
    writer: &mut DatasetWriter,
    plan: &Plan,
    counted: &[Counted],
    options: &ConvertOptions,
    extra: &Extra,
) {
    let mut chosen = Map::new();
    match options.read.rounding {
        Rounding::Refuse => None,
        Rounding::Nearest => chosen.insert("round".into(), json!("nearest")),
        Rounding::Floor => chosen.insert("round".into(), json!("floor")),
    };
    if options.duplicates == Duplicates::Sum {
        chosen.insert("duplicates".into(), json!("sum"));
    }
    let mut first = 0_u64;
    let mut sources = Vec::new();
    for (input, counted) in plan.inputs.iter().zip(counted) {
        let t = &counted.tally;
        let mut options = input.options.clone();
        options.extend(chosen.clone());
        let mut entry = json!({
            "name": input.name,
            "format": input.format,
            "matrix": input.matrix,
            "encoding": input.encoding,
            "dtype": input.dtype,
            "bytes": input.bytes,
            "fingerprint": input.fingerprint,
            "first_cell": first,
            "cells": t.cells,
            "nonzeros": t.nonzeros,
            "sum": t.sum,
            "unsorted_cells": counted.findings.unsorted,
            "zeros_dropped": counted.findings.zeros,
            "repeated_summed": counted.findings.repeated,
            "features_dropped": input.dropped,
            "options": options,
            "not_carried": input.not_carried,
        });
        if let Value::Object(entry) = &mut entry
            && (t.read_nonzeros, t.read_sum) != (t.nonzeros, t.sum)
        {
            entry.insert("read_nonzeros".into(), t.read_nonzeros.into());
            entry.insert("read_sum".into(), t.read_sum.into());
        }
        first += t.cells;
        sources.push(entry);
    }
    // What exports look at: of the one input, or what all share.
    let mut source = sources.first().cloned().unwrap_or_default();
    if let Value::Object(source) = &mut source
        && sources.len() > 1
    {
        source.retain(|key, value| sources.iter().all(|other| other.get(key) == Some(value)));
    }
    if let [only] = plan.inputs.as_slice() {
        for (key, value) in &only.metadata {
            writer.metadata_mut().insert(key.clone(), value.clone());
        }
    }
    let joining = &plan.joining;
    let conversion = json!({
        "plan": plan.digest(),
        "essence": compact(plan),
        "genes_joined_by": (plan.inputs.len() > 1).then(|| plan.genes.key.clone()),
        "join": joining.join,
        "shuffled": joining.shuffle.is_some(),
        "seed": joining.shuffle,
        "source_column": extra.source.as_ref().map(|(name, _)| name).or(joining.continued_source.as_ref()),
        "source_cell_column": extra.cell,
    });
    let ours = writer.metadata_mut().entry("celltile").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(ours) = ours {
        ours.insert("source".into(), source);
        ours.insert("sources".into(), sources.into());
        ours.insert("conversion".into(), conversion);
    }
}

/// The plan's essence without the inputs, which stand in `sources`.
fn compact(plan: &Plan) -> Value {
    let mut essence = plan.essence();
    if let Value::Object(essence) = &mut essence {
        essence.remove("inputs");
    }
    essence
}
