//! `celltile bench`: how fast a dataset is decoded here, and what libzstd alone would take.

use std::io::{self, BufWriter, Write};

use celltile::Dataset;
use serde_json::{Value, json};

use crate::args::dataset::Source;
use crate::args::{self, Threads};
use crate::bench::{clock::Times, decode::Held, encode, gather};
use crate::failure::Failure;
use crate::ui::{self, Table};

/// Measure how fast a dataset is decoded on this machine
///
/// `over_zstd` is the time to decode with one thread into a buffer reused from tile chunk to tile chunk, CRC included, divided by
/// the time that libzstd alone takes for the same frames. The two take turns, and the best of several rounds counts; the median of the
/// rounds' ratios stands beside it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// As JSON.
    #[arg(long)]
    json: bool,
    /// Rounds to take the best of.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Bytes of tiles to read, at least one tile.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = args::bytes)]
    read: u64,
    /// Also encode the first tile with each preset, and with zstd level 19 in 8 tile chunks (slow).
    #[arg(long)]
    encode: bool,
    #[command(flatten)]
    threads: Threads,
}

/// Rounds of encoding, all but the first without the slow reference.
const ENCODE_ROUNDS: usize = 3;

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let threads = args.threads.get();
    let dataset = args.source.open(threads)?;
    let rounds = usize::from(args.rounds);
    let held = Held::read(&dataset, args.read)?;
    if held.nonzeros == 0 {
        let place = args.source.place();
        return Err(Failure::Bad(format!("{place}: nothing to decode: there are no nonzeros").into()));
    }
    let mut result = decoding(&held, rounds, threads)?;
    let mut add = |key: &str, value| {
        if let Some(fields) = result.as_object_mut() {
            fields.insert(key.to_owned(), value);
        }
    };
    add("dataset", json!(args.source.place()));
    add("gather", gathering(args, rounds, threads)?);
    if args.encode {
        add("encode", encoding(&dataset)?);
    }
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        serde_json::to_writer_pretty(&mut out, &result).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        write_tables(&result, &mut out)?;
    }
    out.flush()?;
    Ok(())
}

fn decoding(held: &Held, rounds: usize, threads: usize) -> Result<Value, Failure> {
    let times = held.measure(rounds, threads)?;
    let way = |way: &Times| {
        let best = way.best();
        json!({
            "seconds": best,
            "cells_per_second": held.cells as f64 / best,
            "nonzeros_per_second": held.nonzeros as f64 / best,
            "over_zstd": best / times.zstd.best(),
            "over_zstd_median": way.median_ratio(&times.zstd),
        })
    };
    Ok(json!({
        "cells": held.cells,
        "nonzeros": held.nonzeros,
        "tile_bytes": held.bytes,
        "bytes_per_cell": held.bytes as f64 / held.cells as f64,
        "bytes_per_nonzero": held.bytes as f64 / held.nonzeros as f64,
        "rounds": rounds,
        "threads": threads,
        "over_zstd": times.chunks.best() / times.zstd.best(),
        "over_zstd_median": times.chunks.median_ratio(&times.zstd),
        "zstd": way(&times.zstd),
        "decode": way(&times.chunks),
        "decode_whole_tiles": way(&times.tiles),
        "decode_all_threads": way(&times.threads),
    }))
}

fn gathering(args: &Args, rounds: usize, threads: usize) -> Result<Value, Failure> {
    let rate = |threads| -> Result<f64, Failure> {
        Ok(gather::CELLS as f64 / gather::measure(args.source.path(), threads, rounds)?.best())
    };
    Ok(json!({
        "cells": gather::CELLS,
        "cells_per_second_one_thread": rate(1)?,
        "cells_per_second_all_threads": rate(threads)?,
    }))
}

fn encoding(dataset: &Dataset) -> Result<Value, Failure> {
    let cells = dataset.tile(0)?;
    let n_genes = u32::try_from(dataset.n_genes()).unwrap_or(u32::MAX);
    let ways = encode::measure(&cells, n_genes, ENCODE_ROUNDS)?;
    let n_cells = cells.n_cells() as f64;
    let (reference_bytes, reference_time) =
        ways.first().map_or((1, 1.0), |way| (way.bytes, way.times.best()));
    let rows = ways.iter().map(|way| {
        json!({
            "name": way.name,
            "cells": cells.n_cells(),
            "bytes_per_cell": way.bytes as f64 / n_cells,
            "bytes_per_nonzero": way.bytes as f64 / cells.nnz() as f64,
            "cells_per_second": n_cells / way.times.best(),
            "size_over_level_19": way.bytes as f64 / reference_bytes as f64,
            "speed_over_level_19": reference_time / way.times.best(),
        })
    });
    Ok(Value::Array(rows.collect()))
}

fn write_tables(result: &Value, out: &mut impl Write) -> io::Result<()> {
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let whole = |value: &Value| ui::count(value.as_u64().unwrap_or(0));
    writeln!(
        out,
        "{} cells, {} nonzeros, {} bytes a cell, best of {} rounds",
        whole(&result["cells"]),
        whole(&result["nonzeros"]),
        ui::decimal(number(&result["bytes_per_cell"])),
        result["rounds"],
    )?;
    writeln!(out)?;
    let mut table = Table::new(1..5);
    table.row(["decoding", "cells/s", "nonzeros/s", "over zstd", "median"]);
    let threads = format!("all {} threads", result["threads"]);
    for (name, key) in [
        ("libzstd alone", "zstd"),
        ("by tile chunk", "decode"),
        ("by whole tile", "decode_whole_tiles"),
        (&threads, "decode_all_threads"),
    ] {
        let way = &result[key];
        table.row([
            name.to_owned(),
            ui::decimal(number(&way["cells_per_second"])),
            ui::decimal(number(&way["nonzeros_per_second"])),
            format!("{:.3}", number(&way["over_zstd"])),
            format!("{:.3}", number(&way["over_zstd_median"])),
        ]);
    }
    table.write(out)?;
    writeln!(out)?;
    let gather = &result["gather"];
    writeln!(
        out,
        "gathering {} random cells: {} cells/s with one thread, {} with all",
        whole(&gather["cells"]),
        ui::decimal(number(&gather["cells_per_second_one_thread"])),
        ui::decimal(number(&gather["cells_per_second_all_threads"])),
    )?;
    if let Some(ways) = result["encode"].as_array() {
        writeln!(out)?;
        let mut table = Table::new(1..6);
        table.row(["encoding, one thread", "bytes a cell", "bytes a nonzero", "size", "cells/s", "speed"]);
        for way in ways {
            table.row([
                way["name"].as_str().unwrap_or_default().to_owned(),
                ui::decimal(number(&way["bytes_per_cell"])),
                format!("{:.3}", number(&way["bytes_per_nonzero"])),
                format!("{:+.1} %", (number(&way["size_over_level_19"]) - 1.0) * 100.0),
                ui::decimal(number(&way["cells_per_second"])),
                format!("{}x", ui::decimal(number(&way["speed_over_level_19"]))),
            ]);
        }
        table.write(out)?;
    }
    writeln!(out)?;
    writeln!(out, "over_zstd {:.3}", number(&result["over_zstd"]))
}
