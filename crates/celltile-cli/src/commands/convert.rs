//! `celltile convert`: what other tools write -> a dataset.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use celltile_ingest::convert::{Summary, convert, convert_files};
use celltile_ingest::plan::Plan;
use celltile_ingest::source::Source;

use crate::args::conversion::{Conversion, Existing, Inputs, place, told};
use crate::failure::Failure;
use crate::ui::{self, ProgressMode, Stages, Table};

/// Inputs whose figures are shown one by one.
const SHOWN: usize = 20;

/// Convert h5ad, 10x and other files to one dataset
///
/// What kind of file an input is, its content says. All inputs are looked at before any is read, as `check` does. Every value is checked:
/// what is not a count is an error that names file, matrix, cell, gene and value. Genes are stored by falling total; where they
/// stood is kept.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    inputs: Inputs,
    /// The folder or URL (s3://, gs://, az://) to write the dataset to.
    #[arg(short, long, value_name = "DATASET")]
    output: PathBuf,
    #[command(flatten)]
    existing: Existing,
    #[command(flatten)]
    conversion: Conversion,
}

pub(crate) fn run(args: &Args, progress: ProgressMode) -> Result<(), Failure> {
    tell(&execute(args, None, progress)?)
}

/// Says what was converted.
pub(super) fn tell(summary: &Summary) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    as_table(summary).write(&mut out)?;
    out.flush()?;
    Ok(())
}

/// The conversion itself, without what is said of it; of the inputs that are named, unless a source is given.
pub(crate) fn execute(
    args: &Args,
    given: Option<Box<dyn Source>>,
    progress: ProgressMode,
) -> Result<Summary, Failure> {
    let stages = Stages::new(progress);
    let (source, mut options) = args.conversion.options()?;
    options.progress = Some(told(&stages));
    args.existing.tell(&mut options);
    let storage = place(&args.output)?;
    let result = match given {
        Some(given) => {
            Plan::of_source(given, &source, &options).and_then(|plan| convert(&plan, storage, &options))
        }
        None => convert_files(&args.inputs.find()?, storage, &source, &options),
    };
    stages.end();
    result.map_err(Failure::of_ingest)
}

/// What was converted, as a table.
fn as_table(summary: &Summary) -> Table {
    let mut table = Table::new(0..0);
    let mut line = |name: &str, text: String| table.row([name.to_owned(), text]);
    for input in summary.inputs.iter().take(SHOWN) {
        let planned = &input.input;
        line("input", format!("{} ({}, {})", planned.path, planned.format, ui::bytes(planned.bytes)));
        let why = if planned.why.is_empty() { String::new() } else { format!(": {}", planned.why) };
        line("matrix", format!("{} ({}){why}", planned.matrix, planned.dtype));
        for note in &planned.notes {
            line("note", note.clone());
        }
        if summary.inputs.len() > 1 {
            let (cells, nonzeros, sum) =
                (ui::count(input.cells), ui::count(input.nonzeros), ui::count(input.sum));
            line("read and written", format!("{cells} cells, {nonzeros} nonzeros, sum {sum}"));
        }
        if (input.read_nonzeros, input.read_sum) != (input.nonzeros, input.sum) {
            let (nonzeros, sum) = (ui::count(input.read_nonzeros), ui::count(input.read_sum));
            line("before joining", format!("{nonzeros} nonzeros, sum {sum}"));
        }
    }
    if summary.inputs.len() > SHOWN {
        line(
            "inputs",
            format!("{} more, each written as it was read", ui::count((summary.inputs.len() - SHOWN) as u64)),
        );
    }
    for note in &summary.notes {
        line("note", note.clone());
    }
    if summary.was_complete {
        line("note", "the dataset was complete already".to_owned());
    }
    line("cells", ui::count(summary.cells));
    line("genes", ui::count(summary.genes));
    line("nonzeros", ui::count(summary.nonzeros));
    line("sum of counts", ui::count(summary.sum));
    let (a_cell, a_nonzero) = (ui::decimal(summary.bytes_a_cell()), ui::decimal(summary.bytes_a_nonzero()));
    let size = ui::bytes(summary.tile_bytes);
    let tiles = ui::count(summary.tiles);
    line("tiles", format!("{tiles} of {size} together: {a_cell} bytes a cell, {a_nonzero} a nonzero"));
    line("ratio", format!("{} times smaller than the input", ui::decimal(summary.ratio_to_input())));
    for (count, what) in [
        (summary.unsorted_cells, "cells had their genes out of order"),
        (summary.zeros_dropped, "stored zeros dropped"),
        (summary.repeated_summed, "repeated entries added up"),
    ] {
        if count > 0 {
            line("note", format!("{} {what}", ui::count(count)));
        }
    }
    for dropped in &summary.features_dropped {
        line("left out", dropped.clone());
    }
    for part in &summary.not_carried {
        line("not carried", super::not_carried(part));
    }
    let rate = ui::decimal(summary.cells_a_second());
    line("time", format!("{}, {rate} cells/s", ui::duration(summary.time)));
    table
}
