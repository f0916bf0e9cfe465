//! The command line: every command and what all of them share. Help and completions are made from it.

use clap::{Parser, Subcommand};

use crate::commands;
use crate::ui::ProgressMode;

/// Single-cell count matrices, small, fast and verified: converts h5ad and 10x files to deltacells datasets and back.
#[derive(Debug, Parser)]
#[command(name = "celltile", version, arg_required_else_help = true, propagate_version = true)]
pub(crate) struct Cli {
    /// How progress is shown on standard error.
    #[arg(long, global = true, value_enum, default_value_t, value_name = "HOW")]
    pub(crate) progress: ProgressMode,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Convert(Box<commands::convert::Args>),
    Append(Box<commands::append::AppendArgs>),
    Merge(Box<commands::append::MergeArgs>),
    Check(Box<commands::check::Args>),
    Plan(Box<commands::stages::PlanArgs>),
    Count(commands::stages::CountArgs),
    Scatter(commands::stages::ScatterArgs),
    Encode(commands::stages::EncodeArgs),
    Finish(commands::stages::FinishArgs),
    Info(commands::info::Args),
    Verify(commands::verify::Args),
    Rows(commands::rows::Args),
    Obs(commands::obs::Args),
    Export(commands::export::Args),
    Serve(commands::serve::Args),
    Zarr(commands::zarr::Args),
    Simulate(commands::simulate::Args),
    Bench(commands::bench::Args),
    Completions(commands::completions::Args),
}
