//! The celltile command: what it is asked for goes to the library crates, what they answer goes to the terminal.
//!
//! Results go to standard output and everything else to standard error. Exit codes: 0, 1 for bad input or damaged data,
//! 2 for wrong usage, 130 after an interrupt. The binary `celltile` and the command of the Python package are this
//! one function.

mod args;
mod bench;
mod cli;
mod commands;
mod failure;
mod interrupt;
mod ui;

use std::ffi::OsString;

use clap::Parser;

/// Runs a command line, the program's name first, and says with which code the process should end.
///
/// It listens for interrupts from then on, which may end the process.
pub fn run(args: impl IntoIterator<Item = OsString>) -> u8 {
    let cli = match cli::Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(message) => {
            // That nobody reads it is no error.
            let _ = message.print();
            return u8::try_from(message.exit_code()).unwrap_or(2);
        }
    };
    interrupt::install();
    match commands::run(cli) {
        Ok(()) => 0,
        Err(failure) => failure.report(),
    }
}
