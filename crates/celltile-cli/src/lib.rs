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
mod host;
mod interrupt;
mod ui;

use std::ffi::OsString;

use celltile_ingest::convert::Summary;
use celltile_ingest::source::Source;
use clap::Parser;

pub use host::{Ended, Hooks, Told};

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

/// Runs `celltile convert` with these arguments, the command's name not among them, for a program that wants to hear of
/// progress and to have the summary.
///
/// # Errors
/// [`Ended`] says why there is no dataset.
pub fn convert(args: impl IntoIterator<Item = OsString>, hooks: Hooks) -> Result<Summary, Ended> {
    run_convert(args, hooks, None)
}

/// As [`convert`], of a source that the program brings; the input that the arguments name is not looked at.
///
/// # Errors
/// As [`convert`].
pub fn convert_source(
    args: impl IntoIterator<Item = OsString>,
    hooks: Hooks,
    source: Box<dyn Source>,
) -> Result<Summary, Ended> {
    run_convert(args, hooks, Some(source))
}

fn run_convert(
    args: impl IntoIterator<Item = OsString>,
    hooks: Hooks,
    source: Option<Box<dyn Source>>,
) -> Result<Summary, Ended> {
    let line = ["celltile", "convert"].into_iter().map(OsString::from).chain(args);
    let cli = cli::Cli::try_parse_from(line).map_err(|message| Ended::Usage(message.to_string()))?;
    let cli::Command::Convert(args) = cli.command else {
        return Err(Ended::Usage("not a conversion".to_owned()));
    };
    host::with(hooks, || commands::convert::execute(&args, source, cli.progress)).map_err(Ended::of)
}
