//! One module a command: its arguments and what it does with them.

pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod info;
pub(crate) mod rows;
pub(crate) mod verify;

use crate::cli::{Cli, Command};
use crate::failure::Failure;

/// Runs the command that was asked for.
pub(crate) fn run(cli: Cli) -> Result<(), Failure> {
    let progress = cli.progress;
    match cli.command {
        Command::Info(args) => info::run(&args),
        Command::Verify(args) => verify::run(&args, progress),
        Command::Rows(args) => rows::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Completions(args) => completions::run(&args),
    }
}
