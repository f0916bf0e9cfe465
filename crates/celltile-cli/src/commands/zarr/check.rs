//! `celltile zarr check`: what is wrong with a store.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use celltile_zarr::inspect::{Severity, check};

use crate::failure::Failure;
use crate::ui;

/// Say what is wrong with a store's grids, by array and axis
///
/// Edges and metadata that the specification does not allow, shards that do not divide, chunks past an array's end, consolidated
/// metadata that differ from the nodes' own, sparse matrices whose arrays do not fit together.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The store: a folder or URL.
    store: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let findings = check(&super::open(&args.store)?)?;
    let mut out = BufWriter::new(io::stdout().lock());
    for finding in &findings {
        writeln!(out, "{finding}")?;
    }
    let faults = findings.iter().filter(|finding| finding.severity == Severity::Fault).count();
    let notes = findings.len() - faults;
    writeln!(out, "faults: {}, notes: {}", ui::count(faults as u64), ui::count(notes as u64))?;
    out.flush()?;
    if faults == 0 { Ok(()) } else { Err(Failure::Told) }
}
