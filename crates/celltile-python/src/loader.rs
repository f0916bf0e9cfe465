//! `Loader`: batches of a dataset's cells.

mod arrays;
mod options;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use celltile_loader::{Batch, Element, LoaderOptions, Next, State, Stats};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use self::options::Asked;
use crate::dataset::Dataset;
use crate::error::{Failure, Result};
use crate::long::{READING, long};
use crate::per_process::PerProcess;

/// How often the interpreter is asked for signals while a batch is waited for.
const TICK: Duration = Duration::from_millis(50);

/// A loader of one of the two kinds of counts.
#[derive(Debug)]
enum Kind {
    F32(Box<celltile_loader::Loader<f32>>),
    I32(Box<celltile_loader::Loader<i32>>),
}

/// Calls the same function of either kind.
macro_rules! either {
    ($kind:expr, $loader:ident => $call:expr) => {
        match $kind {
            Kind::F32($loader) => $call,
            Kind::I32($loader) => $call,
        }
    };
}

/// The same without the interpreter's lock: another thread may hold the loader while it waits for a batch.
macro_rules! detached {
    ($self:expr, $py:expr, $loader:ident => $call:expr) => {{
        let kind = $self.get()?;
        $py.detach(|| either!(&mut *lock(&kind), $loader => $call))
    }};
}

/// Batches of a dataset's cells. Private: use `Dataset.loader`.
#[pyclass(frozen, module = "celltile._native")]
#[derive(Debug)]
pub(crate) struct Loader {
    kind: PerProcess<Mutex<Kind>>,
}

impl Loader {
    /// This process's loader. A child of a fork has no use for its parent's: it makes its own, by way of Python.
    fn get(&self) -> Result<Arc<Mutex<Kind>>> {
        self.kind.get(|| {
            Err(Failure::Argument(
                "this loader belongs to the process that forked this one; make another".into(),
            ))
        })
    }
}

fn lock(kind: &Mutex<Kind>) -> MutexGuard<'_, Kind> {
    kind.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What waiting for a batch came to, with no lock held.
enum Waited {
    F32(Box<Batch<f32>>),
    I32(Box<Batch<i32>>),
    Waiting,
    End,
}

fn wait<C: Element>(
    loader: &mut celltile_loader::Loader<C>,
    batch: impl FnOnce(Box<Batch<C>>) -> Waited,
) -> celltile_loader::Result<Waited> {
    Ok(match loader.next_within(TICK)? {
        Next::Batch(next) => batch(next),
        Next::Waiting => Waited::Waiting,
        Next::End => Waited::End,
    })
}

#[pymethods]
impl Loader {
    /// A loader of a dataset; the options are those of `celltile.Loader`, with names made positions.
    #[new]
    #[pyo3(signature = (dataset, **options))]
    fn new(py: Python<'_>, dataset: &Dataset, options: Option<&Bound<'_, PyDict>>) -> Result<Self> {
        let Asked { float32, options } = options::parse(options, dataset.how().cache())?;
        let dataset = dataset.get()?;
        let make = move || {
            Ok(if float32 {
                Kind::F32(Box::new(celltile_loader::Loader::new(dataset, options)?))
            } else {
                Kind::I32(Box::new(celltile_loader::Loader::new(dataset, options)?))
            })
        };
        let kind = long(py, READING, &Arc::default(), make, |_| Ok(()))?;
        Ok(Self { kind: PerProcess::new(Mutex::new(kind)) })
    }

    /// The next batch as `(indptr, indices, data, cells, totals, obs, lost)`; none at the end of an epoch. The arrays are
    /// those of the batch: its memory is used again when all of them are gone.
    fn next<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyTuple>>> {
        let kind = self.get()?;
        loop {
            let waited = py.detach(|| match &mut *lock(&kind) {
                Kind::F32(loader) => wait(loader, Waited::F32),
                Kind::I32(loader) => wait(loader, Waited::I32),
            })?;
            match waited {
                Waited::F32(batch) => return arrays::of_batch(py, *batch).map(Some),
                Waited::I32(batch) => return arrays::of_batch(py, *batch).map(Some),
                Waited::End => return Ok(None),
                Waited::Waiting => py.check_signals()?,
            }
        }
    }

    /// Goes back to where the epoch was begun.
    fn restart(&self, py: Python<'_>) -> Result<()> {
        Ok(detached!(self, py, loader => loader.restart())?)
    }

    /// Ends the threads that decode ahead.
    fn stop(&self, py: Python<'_>) -> Result<()> {
        detached!(self, py, loader => loader.stop());
        Ok(())
    }

    #[getter]
    fn epoch(&self, py: Python<'_>) -> Result<u64> {
        Ok(detached!(self, py, loader => loader.epoch()))
    }

    fn set_epoch(&self, py: Python<'_>, epoch: u64) -> Result<()> {
        detached!(self, py, loader => loader.set_epoch(epoch));
        Ok(())
    }

    /// Where the loader is, as JSON.
    fn state(&self, py: Python<'_>) -> Result<String> {
        Ok(detached!(self, py, loader => loader.state()).to_json()?)
    }

    /// Where a rank is after so many batches of so many workers, as JSON.
    fn state_after(&self, py: Python<'_>, workers: u64, steps: u64) -> Result<String> {
        Ok(detached!(self, py, loader => loader.state_after(workers, steps)).to_json()?)
    }

    fn load_state(&self, py: Python<'_>, state: &str) -> Result<()> {
        let state = State::from_json(state)?;
        Ok(detached!(self, py, loader => loader.load_state(&state))?)
    }

    /// Batches of each rank in this epoch, if each has so many workers.
    fn n_batches(&self, py: Python<'_>, workers: u64) -> Result<u64> {
        Ok(detached!(self, py, loader => loader.n_batches_of(workers)))
    }

    /// Cells of an epoch.
    #[getter]
    fn n_cells(&self, py: Python<'_>) -> Result<u64> {
        Ok(detached!(self, py, loader => loader.n_cells()))
    }

    /// Columns of a batch.
    #[getter]
    fn n_genes(&self, py: Python<'_>) -> Result<u64> {
        Ok(detached!(self, py, loader => loader.n_genes()))
    }

    /// Threads that decode.
    #[getter]
    fn threads(&self, py: Python<'_>) -> Result<usize> {
        Ok(detached!(self, py, loader => loader.options().threads))
    }

    fn stats<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>> {
        let stats: Stats = detached!(self, py, loader => loader.stats());
        let out = PyDict::new(py);
        out.set_item("batches", stats.batches)?;
        out.set_item("cells", stats.cells)?;
        out.set_item("cells_per_second", stats.cells_per_second)?;
        out.set_item("wait_seconds", stats.wait.as_secs_f64())?;
        out.set_item("decode_seconds", stats.decode.as_secs_f64())?;
        out.set_item("fetch_seconds", stats.fetch.as_secs_f64())?;
        out.set_item("bytes", stats.bytes)?;
        out.set_item("lost_cells", stats.lost_cells)?;
        out.set_item("damaged_chunks", stats.damaged_chunks)?;
        Ok(out)
    }
}

impl From<celltile_loader::Error> for Failure {
    fn from(error: celltile_loader::Error) -> Self {
        match error {
            celltile_loader::Error::Dataset(error) => Self::Dataset(error),
            error => Self::Argument(error.to_string()),
        }
    }
}

/// One over the size of each cell's class; 0 where the class is negative.
#[pyfunction]
#[pyo3(signature = (codes, cells=None))]
pub(crate) fn balanced_weights<'py>(
    py: Python<'py>,
    codes: numpy::PyReadonlyArray1<'py, i64>,
    cells: Option<numpy::PyReadonlyArray1<'py, u64>>,
) -> Bound<'py, numpy::PyArray1<f64>> {
    use numpy::IntoPyArray;
    let codes: Vec<i64> = codes.as_array().iter().copied().collect();
    let cells: Option<Vec<u64>> = cells.map(|cells| cells.as_array().iter().copied().collect());
    py.detach(|| celltile_loader::balanced_weights(&codes, cells.as_deref())).into_pyarray(py)
}

/// Options as they are when nothing is asked for.
fn defaults() -> LoaderOptions {
    LoaderOptions::default()
}
