use std::sync::Arc;

use celltile::genes::{GeneOrder, VarNames};
use celltile::obs::write_obs;
use celltile::storage::Storage;
use celltile::{Csr, DatasetWriter, Written, keys};
use rayon::prelude::*;
use serde_json::{Map, Value, json};

use super::clean::{Cleaner, Duplicates, fault_error, parts};
use super::options::{ConvertOptions, Stage};
use super::survey::Survey;
use crate::error::{Error, Result};
use crate::matrix::{CellBlock, Rounding};
use crate::plan::Plan;
use crate::source::Source;

/// Fails early if there is a dataset that must not be replaced: the writer would say so after the first pass.
pub(super) fn check_free(storage: &dyn Storage, options: &ConvertOptions) -> Result<()> {
    if options.writer.overwrite {
        return Ok(());
    }
    match storage.size(keys::MANIFEST) {
        Ok(_) => Err(celltile::Error::Occupied {
            path: storage.locate(""),
            reason: "there is a dataset already; it is replaced only with --overwrite".into(),
        }
        .into()),
        Err(_) => Ok(()),
    }
}

/// The second pass: writes the dataset.
pub(super) fn encode(
    plan: &Plan,
    storage: Arc<dyn Storage>,
    options: &ConvertOptions,
    survey: &mut Survey,
    order: &[i32],
) -> Result<Written> {
    let source = plan.source();
    let total = source.info().shape.cells;
    let mut writer = DatasetWriter::create(storage, order.len() as u64, &options.writing())?;
    let map = inverse(order);
    let mut cells = Csr::new();
    let mut done = 0;
    options.step(Stage::Encode, 0, total)?;
    for packed in std::mem::take(&mut survey.packed) {
        cells.clear();
        packed.unpack(&mut cells);
        done += packed.cells() as u64;
        drop(packed);
        push(&mut writer, &cells, &map)?;
        options.step(Stage::Encode, done, total)?;
    }
    if done < total {
        let mut blocks = source.cells(done..total, &options.reading(source))?;
        let mut block = CellBlock::default();
        while blocks.next_block(&mut block)? {
            to_csr(&block, source, options, &mut cells)?;
            push(&mut writer, &cells, &map)?;
            done += block.cells() as u64;
            options.step(Stage::Encode, done, total)?;
        }
    }
    genes(&mut writer, plan, order)?;
    let tile_size = options.writer.tile_size;
    let obs = write_obs(Arc::clone(writer.storage()), plan.obs(), None, tile_size, options.obs)?;
    writer.set_obs_table(&obs)?;
    metadata(&mut writer, source, survey, options);
    let written = writer.finish()?;
    let found = (written.manifest.n_cells, written.manifest.nnz());
    if found != (survey.cells, survey.nonzeros) {
        return Err(Error::Damaged {
            file: source.info().file.clone(),
            at: source.info().matrix.clone(),
            what: format!(
                "changed while it was read: {} cells and {} nonzeros were written, {} and {} counted before",
                found.0, found.1, survey.cells, survey.nonzeros
            ),
        });
    }
    Ok(written)
}

fn push(writer: &mut DatasetWriter, cells: &Csr, map: &Arc<[i32]>) -> Result<()> {
    let view = cells.view().map_err(|error| Error::Options(error.to_string()))?;
    Ok(writer.push_source(view, map)?)
}

/// For each of the source's columns its place in the order.
fn inverse(order: &[i32]) -> Arc<[i32]> {
    let mut map = vec![-1; order.len()];
    for (place, &column) in (0..).zip(order) {
        if let Some(to) = usize::try_from(column).ok().and_then(|column| map.get_mut(column)) {
            *to = place;
        }
    }
    map.into()
}

/// A block in the form that the writer takes. It sorts and drops zeros itself, but never adds up.
fn to_csr(block: &CellBlock, source: &dyn Source, options: &ConvertOptions, out: &mut Csr) -> Result<()> {
    out.clear();
    if options.duplicates == Duplicates::Refuse {
        out.indptr.clear();
        out.indptr.extend(block.indptr.iter().map(|&offset| i64::try_from(offset).unwrap_or(i64::MAX)));
        out.genes.extend(block.genes.iter().map(|gene| gene.cast_signed()));
        out.counts.extend(block.counts.iter().map(|count| count.cast_signed()));
        return Ok(());
    }
    let cleaned: Vec<Result<Csr>> = parts(&block.indptr, 1 << 16)
        .into_par_iter()
        .map(|cells| {
            let (mut cleaner, mut part) = (Cleaner::default(), Csr::new());
            for cell in cells {
                let Some((genes, counts)) = block.cell(cell) else { continue };
                let cleaned = cleaner.clean(genes, counts, options.duplicates);
                let (genes, counts) =
                    cleaned.map_err(|fault| fault_error(&fault, block.first_cell + cell as u64, source))?;
                part.genes.extend(genes.iter().map(|gene| gene.cast_signed()));
                part.counts.extend(counts.iter().map(|count| count.cast_signed()));
                part.indptr.push(i64::try_from(part.genes.len()).unwrap_or(i64::MAX));
            }
            Ok(part)
        })
        .collect();
    for part in cleaned {
        let part = part?;
        let start = out.indptr.last().copied().unwrap_or(0);
        out.indptr.extend(part.indptr.iter().skip(1).map(|offset| start + offset));
        out.genes.extend_from_slice(&part.genes);
        out.counts.extend_from_slice(&part.counts);
    }
    Ok(())
}

fn genes(writer: &mut DatasetWriter, plan: &Plan, order: &[i32]) -> Result<()> {
    writer.set_gene_order(&GeneOrder::new(order.to_vec())?)?;
    let names = plan.source().gene_names();
    let column = |&column: &i32| usize::try_from(column).ok().and_then(|column| names.get(column));
    let ordered = order.iter().map(|place| column(place).unwrap_or_default().to_owned()).collect();
    // A name with a line end in it cannot stand in that file.
    if let Ok(names) = VarNames::new(ordered) {
        writer.set_var_names(&names)?;
    }
    let rows: Vec<u64> = order.iter().map(|&column| u64::try_from(column).unwrap_or(u64::MAX)).collect();
    Ok(writer.set_var(&plan.var().take(&rows)?)?)
}

/// What a reader, and an export, should know of where the cells came from: nothing of the machine or the path.
fn metadata(writer: &mut DatasetWriter, source: &dyn Source, survey: &Survey, options: &ConvertOptions) {
    let info = source.info();
    let not_carried: Vec<Value> = source
        .not_carried()
        .iter()
        .map(|part| json!({"path": part.path, "shape": part.shape, "what": part.what}))
        .collect();
    let mut chosen = info.options.clone();
    match options.read.rounding {
        Rounding::Refuse => None,
        Rounding::Nearest => chosen.insert("round".into(), json!("nearest")),
        Rounding::Floor => chosen.insert("round".into(), json!("floor")),
    };
    if options.duplicates == Duplicates::Sum {
        chosen.insert("duplicates".into(), json!("sum"));
    }
    let entry = json!({
        "format": info.format,
        "matrix": info.matrix,
        "encoding": info.encoding,
        "dtype": info.dtype,
        "cells": survey.cells,
        "nonzeros": survey.nonzeros,
        "sum": survey.sum,
        "unsorted_cells": survey.findings.unsorted,
        "zeros_dropped": survey.findings.zeros,
        "repeated_summed": survey.findings.repeated,
        "features_dropped": info.dropped,
        "options": chosen,
        "not_carried": not_carried,
    });
    let ours = writer.metadata_mut().entry("celltile").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(ours) = ours {
        ours.insert("source".into(), entry);
    }
}
