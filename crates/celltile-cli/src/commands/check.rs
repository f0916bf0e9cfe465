//! `celltile check`: what would be converted, and what is wrong with it.

use std::io::{self, BufWriter, Write};

use celltile_ingest::plan::{ColumnReport, Plan, Report};

use crate::args::conversion::{Conversion, Inputs, told};
use crate::failure::Failure;
use crate::ui::{self, ProgressMode, Stages, Table};

/// Look at inputs without reading their cells, and tell what would be converted and everything that is wrong
///
/// It takes the options of convert, and fails if anything is wrong with any input, or with all of them together.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    inputs: Inputs,
    /// As JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    conversion: Conversion,
}

pub(crate) fn run(args: &Args, progress: ProgressMode) -> Result<(), Failure> {
    let stages = Stages::new(progress);
    let (mut source, mut options) = args.conversion.options()?;
    options.progress = Some(told(&stages));
    source.read = options.read.clone();
    let looked = Plan::look(&args.inputs.find()?, &source, &options);
    stages.end();
    let report = looked.map_err(Failure::of_ingest)?.report;
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        serde_json::to_writer_pretty(&mut out, &report.to_json()).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        write(&report, &mut out)?;
    }
    out.flush()?;
    if report.is_fit() { Ok(()) } else { Err(Failure::Told) }
}

fn write(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let mut table = Table::new(1..4);
    table.row(["input", "cells", "genes", "nonzeros stored", "kind", "matrix", "type"]);
    for input in &report.inputs {
        match &input.input {
            None => table.row([input.path.as_str(), "-", "-", "-"]),
            Some(found) => {
                let stored = found.stored.map_or_else(|| "-".to_owned(), ui::count);
                let kind = format!("{}, {}", found.format, found.encoding);
                let matrix = if found.why.is_empty() {
                    found.matrix.clone()
                } else {
                    format!("{} ({})", found.matrix, found.why)
                };
                let (cells, genes) = (ui::count(found.cells), ui::count(found.genes));
                table.row([input.path.clone(), cells, genes, stored, kind, matrix, found.dtype.clone()]);
            }
        }
    }
    table.write(out)?;
    for input in &report.inputs {
        let Some(found) = &input.input else { continue };
        for note in &found.notes {
            writeln!(out, "{}: {note}", input.path)?;
        }
        for dropped in &found.dropped {
            writeln!(out, "{}: leaves out {dropped}", input.path)?;
        }
        for part in &found.not_carried {
            writeln!(out, "{}: does not carry {}", input.path, super::not_carried(part))?;
        }
    }
    writeln!(out, "\ntogether: {} cells, {} genes", ui::count(report.cells), ui::count(report.genes))?;
    if !report.joined_by.is_empty() {
        writeln!(out, "genes joined by {}", report.joined_by)?;
    }
    let inputs = report.inputs.len() as u64;
    writeln!(out, "obs: {}", columns(&report.obs, inputs))?;
    writeln!(out, "var: {}", columns(&report.var, inputs))?;
    for note in &report.notes {
        writeln!(out, "note: {note}")?;
    }
    let problems = report.all_problems();
    if problems.is_empty() {
        return writeln!(out, "nothing is wrong");
    }
    writeln!(out, "\nwrong:")?;
    problems.iter().try_for_each(|problem| writeln!(out, "  {}", problem.replace('\n', "\n  ")))
}

fn columns(columns: &[ColumnReport], inputs: u64) -> String {
    if columns.is_empty() {
        return "no columns".to_owned();
    }
    let one = |column: &ColumnReport| {
        let kinds = column.kinds.join(" or ");
        let few = if column.inputs < inputs {
            format!(", in {} of {inputs} inputs", column.inputs)
        } else {
            String::new()
        };
        format!("{} ({kinds}{few})", column.name)
    };
    columns.iter().map(one).collect::<Vec<_>>().join(", ")
}
