//! `celltile._native`: the Rust crates as Python sees them.
//!
//! Nothing here decides anything: arguments become those of the crates, results become NumPy arrays and plain
//! values, and errors become the classes of `celltile._exceptions`. What users call is in `python/celltile`.

mod error;
mod long;

mod dataset;

mod cli;

/// What the Python package is made of. Private: use `celltile`.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::cli::run_cli;
    #[pymodule_export]
    use crate::dataset::Dataset;
    #[pymodule_export]
    use crate::error::error_kinds;

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
