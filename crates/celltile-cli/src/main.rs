//! The `celltile` command; all of it is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(celltile_cli::run(std::env::args_os()))
}
