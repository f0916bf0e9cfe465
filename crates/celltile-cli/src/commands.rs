//! One module a command: its arguments and what it does with them.

pub(crate) mod append;
pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod export;
pub(crate) mod info;
pub(crate) mod obs;
pub(crate) mod rows;
pub(crate) mod serve;
pub(crate) mod simulate;
pub(crate) mod stages;
pub(crate) mod verify;
pub(crate) mod zarr;

use celltile_ingest::source::NotCarried;

use crate::cli::{Cli, Command};
use crate::failure::Failure;
use crate::ui;

/// Runs the command that was asked for.
pub(crate) fn run(cli: Cli) -> Result<(), Failure> {
    let progress = cli.progress;
    match cli.command {
        Command::Convert(args) => convert::run(&args, progress),
        Command::Append(args) => append::append(&args, progress),
        Command::Merge(args) => append::merge(&args, progress),
        Command::Check(args) => check::run(&args, progress),
        Command::Plan(args) => stages::plan(&args, progress),
        Command::Count(args) => stages::count(&args, progress),
        Command::Scatter(args) => stages::scatter(&args, progress),
        Command::Encode(args) => stages::encode(&args, progress),
        Command::Finish(args) => stages::finish(&args, progress),
        Command::Info(args) => info::run(&args),
        Command::Verify(args) => verify::run(&args, progress),
        Command::Rows(args) => rows::run(&args),
        Command::Obs(args) => obs::run(&args),
        Command::Export(args) => export::run(&args, progress),
        Command::Serve(args) => serve::run(&args),
        Command::Zarr(args) => zarr::run(&args, progress),
        Command::Simulate(args) => simulate::run(&args, progress),
        Command::Bench(args) => bench::run(&args),
        Command::Completions(args) => completions::run(&args),
    }
}

/// Something that a dataset does not carry, on one line: `obsm/X_pca (2,700 x 50, array)`.
fn not_carried(part: &NotCarried) -> String {
    let shape: Vec<String> = part.shape.iter().map(|&n| ui::count(n)).collect();
    let facts = [shape.join(" x "), part.what.clone()];
    let facts: Vec<&str> = facts.iter().map(String::as_str).filter(|fact| !fact.is_empty()).collect();
    format!("{} ({})", part.path, facts.join(", "))
}
