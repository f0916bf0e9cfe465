//! `celltile info`: what a dataset is, from its manifest and the schema of its cell table.

mod columns;

use std::io::{self, BufWriter, Write};

use celltile::Manifest;
use serde_json::{Value, json};

use self::columns::Columns;
use crate::args::dataset::Source;
use crate::failure::Failure;
use crate::ui::{self, Table};

/// Tell what a dataset holds
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let dataset = args.source.open(1)?;
    let columns = Columns::of(&dataset)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let place = args.source.place();
    if args.json {
        let mut json = as_json(&place, dataset.manifest());
        if let Some(fields) = json.as_object_mut() {
            fields.insert("obs".to_owned(), columns.as_ref().map_or(Value::Null, Columns::as_json));
        }
        serde_json::to_writer_pretty(&mut out, &json).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        as_table(&place, dataset.manifest()).write(&mut out)?;
        if let Some(columns) = &columns {
            writeln!(out)?;
            columns.as_table().write(&mut out)?;
        }
    }
    out.flush()?;
    Ok(())
}

fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b as f64
}

/// `null` where there is nothing to divide by.
fn ratio_json(a: u64, b: u64) -> Value {
    if b == 0 { Value::Null } else { json!(ratio(a, b)) }
}

fn as_json(place: &str, manifest: &Manifest) -> Value {
    let (cells, nonzeros, bytes) = (manifest.n_cells, manifest.nnz(), manifest.bytes());
    json!({
        "dataset": place,
        "format": celltile::manifest::FORMAT,
        "version": celltile::manifest::VERSION,
        "n_cells": cells,
        "n_genes": manifest.n_genes,
        "nnz": nonzeros,
        "n_tiles": manifest.n_tiles(),
        "tile_size": manifest.tile_size,
        "n_chunks": manifest.n_chunks,
        "zstd_level": manifest.zstd_level,
        "tile_bytes": bytes,
        "bytes_per_cell": ratio_json(bytes, cells),
        "bytes_per_nonzero": ratio_json(bytes, nonzeros),
        "nonzeros_per_cell": ratio_json(nonzeros, cells),
        "has_gene_order": manifest.has_gene_order,
        "has_var_names": manifest.has_var_names,
        "has_var_table": manifest.has_var_table,
        "has_obs": manifest.obs.is_some(),
        "has_tile_checksums": manifest.tile_checksums.is_some(),
        "metadata": manifest.metadata(),
    })
}

fn as_table(place: &str, manifest: &Manifest) -> Table {
    let (cells, nonzeros, bytes) = (manifest.n_cells, manifest.nnz(), manifest.bytes());
    let metadata = manifest.metadata();
    let mut table = Table::new(0..0);
    table.row(["dataset", place]);
    table.row(["written by", &writer(metadata.get("encoder"))]);
    table.row(["cells".to_owned(), ui::count(cells)]);
    table.row(["genes".to_owned(), ui::count(manifest.n_genes)]);
    let mut text = ui::count(nonzeros);
    if cells > 0 {
        let a_cell = ratio(nonzeros, cells);
        let density = ui::percent(a_cell / manifest.n_genes as f64);
        text.push_str(&format!(" ({} a cell, {density} of all entries)", ui::decimal(a_cell)));
    }
    table.row(["nonzeros".to_owned(), text]);
    let mut text = ui::bytes(bytes);
    if nonzeros > 0 {
        let (a_cell, a_nonzero) = (ui::decimal(ratio(bytes, cells)), ui::decimal(ratio(bytes, nonzeros)));
        text.push_str(&format!(" ({a_cell} bytes a cell, {a_nonzero} a nonzero)"));
    }
    table.row(["tiles' size".to_owned(), text]);
    let tiles = ui::count(manifest.n_tiles());
    let size = ui::count(manifest.tile_size);
    let chunks = ui::count(manifest.n_chunks);
    table.row(["tiles".to_owned(), format!("{tiles} of {size} cells, up to {chunks} tile chunks each")]);
    let files = [
        ("gene_order", manifest.has_gene_order),
        ("var_names", manifest.has_var_names),
        ("var table", manifest.has_var_table),
        ("obs", manifest.obs.is_some()),
        ("tile checksums", manifest.tile_checksums.is_some()),
    ];
    let there: Vec<&str> = files.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect();
    table.row(["with".to_owned(), if there.is_empty() { "tiles only".to_owned() } else { there.join(", ") }]);
    for (key, value) in metadata.iter().filter(|(key, _)| *key != "encoder" && *key != "celltile") {
        table.row([format!("metadata.{key}"), short(value)]);
    }
    table
}

/// The name, version and setting of the encoder, as far as the metadata say.
fn writer(encoder: Option<&Value>) -> String {
    let Some(encoder) = encoder else { return "unknown".to_owned() };
    let Some(fields) = encoder.as_object() else { return short(encoder) };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let name =
        ["name", "version"].iter().filter_map(|key| fields.get(*key).map(text)).collect::<Vec<_>>().join(" ");
    let rest = fields.iter().filter(|(key, _)| *key != "name" && *key != "version");
    rest.fold(name, |line, (key, value)| format!("{line}, {key} {}", text(value)))
}

/// A value on one line of bearable length.
fn short(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let head: String = clean.clone().take(100).collect();
    if clean.count() > 100 { format!("{head}...") } else { head }
}
