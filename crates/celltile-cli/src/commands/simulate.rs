//! `celltile simulate`: cells that nobody's privacy hangs on.

use std::io::{self, BufWriter, Write};
use std::time::Instant;

use celltile_ingest::export::H5adOptions;
use celltile_ingest::simulate::{SimulateOptions, Simulation, write_simulation};

use crate::args::{Deflate, Target, Threads};
use crate::failure::Failure;
use crate::interrupt;
use crate::ui::{self, Progress, ProgressMode, Table};

/// Write an h5ad file of simulated cells
///
/// Counts look like those of real cells: gamma-Poisson with heavy-tailed gene means, twelve cell types, eight donors, four batches. The same
/// options give the same file.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Number of cells.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    cells: u64,
    /// Number of genes.
    #[arg(long, value_name = "N", default_value_t = 36_601)]
    genes: u32,
    /// Mean number of nonzeros a cell [default: 2000, or a tenth of the genes if that is less].
    #[arg(long, value_name = "N")]
    nonzeros: Option<f64>,
    /// Another seed gives other cells.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    deflate: Deflate,
    #[command(flatten)]
    threads: Threads,
}

pub(crate) fn run(args: &Args, progress: ProgressMode) -> Result<(), Failure> {
    let start = Instant::now();
    let target = args.target.free()?;
    let mut options = SimulateOptions::new(args.cells);
    options.genes = args.genes;
    options.nonzeros = args.nonzeros.unwrap_or_else(|| f64::from(args.genes / 10).clamp(0.5, 2000.0));
    options.seed = args.seed;
    let bar = Progress::new(progress, "simulate", "cells", args.cells);
    let cancel = interrupt::cooperate();
    let told = |done, _| bar.set(done);
    let mut writing = H5adOptions::default();
    writing.level = args.deflate.get();
    writing.cancel = Some(&*cancel);
    writing.progress = Some(&told);
    let result = args.threads.run(|| {
        // Options that no matrix has are the user's to mend.
        let simulation = Simulation::new(options).map_err(|error| Failure::Usage(error.to_string()))?;
        write_simulation(&simulation, target, &writing).map_err(Failure::of_ingest)
    })?;
    drop(bar);
    let summary = result?;
    let mut table = Table::new(0..0);
    table.row(["cells".to_owned(), ui::count(summary.cells)]);
    table.row(["genes".to_owned(), ui::count(summary.genes)]);
    table.row(["nonzeros".to_owned(), ui::count(summary.nonzeros)]);
    table.row(["size".to_owned(), ui::bytes(summary.bytes)]);
    table.row(["time".to_owned(), ui::duration(start.elapsed())]);
    let mut out = BufWriter::new(io::stdout().lock());
    table.write(&mut out)?;
    out.flush()?;
    Ok(())
}
