//! `celltile._native`: the Rust crates as Python sees them.
//!
//! Nothing here decides anything: arguments become those of the crates, results become NumPy arrays and plain
//! values, and errors become the classes of `celltile._exceptions`. What users call is in `python/celltile`.

#![allow(clippy::needless_pass_by_value, reason = "arguments are made for the call out of Python's objects")]

mod error;
mod long;
mod per_process;
mod progress;
mod shared;

mod frame;
mod how;

mod convert;
mod dataset;
mod grid;
mod loader;
mod zarr;

mod cli;

/// What the Python package is made of. Private: use `celltile`.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::cli::run_cli;
    #[pymodule_export]
    use crate::convert::{convert, write};
    #[pymodule_export]
    use crate::dataset::Dataset;
    #[pymodule_export]
    use crate::error::error_kinds;
    #[pymodule_export]
    use crate::grid::Grid;
    #[pymodule_export]
    use crate::loader::{Loader, balanced_weights};
    #[pymodule_export]
    use crate::zarr::{ZarrView, zarr_export};

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
