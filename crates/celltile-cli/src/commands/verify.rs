//! `celltile verify`: is a dataset what it claims to be?

use std::io::{self, BufWriter, Write};
use std::time::Instant;

use celltile::manifest::Manifest;
use celltile::verify::{Level, VerifyOptions, verify};

use crate::args::Threads;
use crate::args::dataset::Source;
use crate::failure::Failure;
use crate::ui::{self, Progress, ProgressMode};

/// Check a dataset against its manifest, sizes, checksums and hashes, and tell everything that is wrong
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// Decode everything too, and check every rule of the format.
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    threads: Threads,
}

pub(crate) fn run(args: &Args, progress: ProgressMode) -> Result<(), Failure> {
    let start = Instant::now();
    let storage = args.source.storage()?;
    let level = if args.strict { Level::Strict } else { Level::Basic };
    let options = VerifyOptions::default().level(level).threads(args.threads.get());
    // What keeps the manifest from being read is for the verification to tell.
    let tiles = Manifest::read(storage.as_ref()).map_or(0, |manifest| manifest.n_tiles());
    let bar = Progress::new(progress, "verify", "tiles", tiles);
    let report = verify(storage.as_ref(), &options, &|at| bar.set(at.tiles))?;
    drop(bar);

    let mut out = BufWriter::new(io::stdout().lock());
    for fault in &report.faults {
        writeln!(out, "{fault}")?;
    }
    if let Some(why) = &report.unlisted {
        writeln!(out, "note: not looked for files too many: {why}")?;
    }
    let what = format!("{} tiles, {}", ui::count(report.tiles), ui::bytes(report.bytes));
    let time = ui::duration(start.elapsed());
    let how = if args.strict { "every count decoded" } else { "not decoded: --strict does" };
    if report.is_sound() {
        writeln!(out, "sound: {what}, {how}, {time}")?;
    } else {
        writeln!(out, "faults: {} in {what}, {how}, {time}", ui::count(report.faults.len() as u64))?;
    }
    out.flush()?;
    if report.is_sound() { Ok(()) } else { Err(Failure::Told) }
}
