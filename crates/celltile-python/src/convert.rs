//! Conversions: of files, and of what is in memory.
//!
//! Options are those of `celltile convert`, as a command line: what that command learns, this module can.

mod memory;

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use celltile_cli::{Ended, Hooks};
use celltile_ingest::convert::Summary;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use self::memory::{MemorySource, Raised};
use crate::error::{Failure, Result};
use crate::long::{WRITING, long};
use crate::progress::Progress;

/// Runs `celltile convert` with these arguments, and says what it did.
#[pyfunction]
#[pyo3(signature = (args, *, progress=None))]
pub(crate) fn convert<'py>(
    py: Python<'py>,
    args: Vec<OsString>,
    progress: Option<Py<PyAny>>,
) -> Result<Bound<'py, PyDict>> {
    run(py, progress, move |hooks| celltile_cli::convert(args, hooks))
}

/// Writes what is in memory as a dataset: `parts` describes it, and `block(start, stop)` gives cells as
/// `(indptr, indices, data)`. `args` are those of `celltile convert`; its input is not looked at.
#[pyfunction]
#[pyo3(signature = (parts, block, args, *, progress=None))]
pub(crate) fn write<'py>(
    py: Python<'py>,
    parts: &Bound<'py, PyDict>,
    block: Py<PyAny>,
    args: Vec<OsString>,
    progress: Option<Py<PyAny>>,
) -> Result<Bound<'py, PyDict>> {
    let raised = Raised::default();
    let source = MemorySource::new(parts, block, raised.clone())?;
    let result = run(py, progress, move |hooks| celltile_cli::convert_source(args, hooks, Box::new(source)));
    match raised.take() {
        // What the caller's own code says is worth more than that it said something.
        Some(error) if result.is_err() => Err(error.into()),
        _ => result,
    }
}

fn run<'py>(
    py: Python<'py>,
    progress: Option<Py<PyAny>>,
    convert: impl FnOnce(Hooks) -> std::result::Result<Summary, Ended> + Send + 'static,
) -> Result<Bound<'py, PyDict>> {
    let told = Progress::new(progress);
    let (cancel, latest) = (Arc::<AtomicBool>::default(), told.latest());
    let hooks = Hooks {
        cancel: Arc::clone(&cancel),
        told: Arc::new(move |stage, unit, done, total| latest.tell(stage, unit, done, total)),
    };
    let summary = long(py, WRITING, &cancel, move || convert(hooks).map_err(ended), |py| told.tick(py))?;
    as_dict(py, &summary)
}

/// The error of the library crate that stopped a command.
fn ended(ended: Ended) -> Failure {
    let error = match ended {
        Ended::Usage(message) => return Failure::Argument(message),
        Ended::Interrupted => return celltile::Error::Cancelled.into(),
        Ended::Failed(error) => error,
        other => return Failure::Argument(format!("{other:?}")),
    };
    let error = match error.downcast::<celltile_ingest::Error>() {
        Ok(error) => return (*error).into(),
        Err(error) => error,
    };
    let error = match error.downcast::<celltile::Error>() {
        Ok(error) => return (*error).into(),
        Err(error) => error,
    };
    match error.downcast::<celltile_zarr::ZarrError>() {
        Ok(error) => (*error).into(),
        Err(error) => Failure::Argument(error.to_string()),
    }
}

fn as_dict<'py>(py: Python<'py>, summary: &Summary) -> Result<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("input", &summary.input)?;
    out.set_item("format", &summary.format)?;
    out.set_item("matrix", &summary.matrix)?;
    out.set_item("why", &summary.why)?;
    out.set_item("dtype", &summary.dtype)?;
    out.set_item("cells", summary.cells)?;
    out.set_item("genes", summary.genes)?;
    out.set_item("nonzeros", summary.nonzeros)?;
    out.set_item("sum", summary.sum)?;
    out.set_item("tiles", summary.tiles)?;
    out.set_item("tile_bytes", summary.tile_bytes)?;
    out.set_item("input_bytes", summary.input_bytes)?;
    out.set_item("unsorted_cells", summary.unsorted_cells)?;
    out.set_item("zeros_dropped", summary.zeros_dropped)?;
    out.set_item("repeated_summed", summary.repeated_summed)?;
    let not_carried: Vec<&str> = summary.not_carried.iter().map(|part| part.path.as_str()).collect();
    out.set_item("not_carried", not_carried)?;
    out.set_item("seconds", summary.time.as_secs_f64())?;
    out.set_item("text", summary.to_string())?;
    Ok(out)
}
