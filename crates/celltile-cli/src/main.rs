//! The celltile command: what it is asked for goes to the library crates, what they answer goes to the terminal.
//!
//! Results go to standard output and everything else to standard error. Exit codes: 0, 1 for bad input or damaged data,
//! 2 for wrong usage, 130 after an interrupt.

mod args;
mod bench;
mod cli;
mod commands;
mod failure;
mod interrupt;
mod ui;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    interrupt::install();
    match commands::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
