//! The `celltile` command inside a Python process.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the command line of `celltile`, the program's name first, and returns the exit code.
///
/// For the command that the package installs: it takes over the process's handling of interrupts and may end it.
#[pyfunction]
pub(crate) fn run_cli(py: Python<'_>, args: Vec<OsString>) -> u8 {
    py.detach(|| celltile_cli::run(args))
}
