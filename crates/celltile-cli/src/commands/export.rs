//! `celltile export`: a dataset -> a file that other tools read.

use std::io::{self, BufWriter, Write};
use std::time::Instant;

use celltile_ingest::export::{ExportSummary, H5adOptions, export_h5ad};

use crate::args::dataset::{KeepTiles, Source};
use crate::args::{Deflate, Target, Threads};
use crate::failure::Failure;
use crate::interrupt;
use crate::ui::{self, Progress, ProgressMode, Table};

/// Write a dataset as an h5ad file
///
/// Genes come back in the order of the source and counts in its dtype where the dataset knows them; int32 otherwise.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    deflate: Deflate,
    #[command(flatten)]
    keep: KeepTiles,
    #[command(flatten)]
    threads: Threads,
}

pub(crate) fn run(args: &Args, progress: ProgressMode) -> Result<(), Failure> {
    let start = Instant::now();
    let threads = args.threads.get();
    let target = args.target.free()?;
    let dataset = args.source.open_kept(threads, &args.keep)?;
    let bar = Progress::new(progress, "export", "cells", dataset.n_cells());
    let cancel = interrupt::cooperate();
    let told = |done, _| bar.set(done);
    let mut options = H5adOptions::default();
    options.level = args.deflate.get();
    options.cancel = Some(&*cancel);
    options.progress = Some(&told);
    let result = args.threads.run(|| export_h5ad(&dataset, target, &options))?;
    drop(bar);
    let summary = result.map_err(Failure::of_ingest)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut table = as_table(&summary);
    table.row(["time".to_owned(), ui::duration(start.elapsed())]);
    table.write(&mut out)?;
    out.flush()?;
    Ok(())
}

fn as_table(summary: &ExportSummary) -> Table {
    let mut table = Table::new(0..0);
    table.row(["cells".to_owned(), ui::count(summary.cells)]);
    table.row(["genes".to_owned(), ui::count(summary.genes)]);
    table.row(["nonzeros".to_owned(), ui::count(summary.nonzeros)]);
    table.row(["counts as", summary.dtype]);
    table.row(["gene order", if summary.source_order { "the source's" } else { "the dataset's" }]);
    table.row(["size".to_owned(), ui::bytes(summary.bytes)]);
    for part in &summary.not_carried {
        table.row(["not in the dataset".to_owned(), super::not_carried(part)]);
    }
    table
}
