//! `Dataset`: a dataset, open for reading.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use celltile::storage::TileCache;
use celltile::{Count, Csr, OpenOptions, ReadOptions, Verify};
use numpy::{Element, IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use crate::error::{Failure, Result};
use crate::long::long;

/// Nonzeros of a local dataset that are decoded without a thread of their own: a few hundredths of a second.
const QUICK: u64 = 1 << 21;

/// How a dataset was opened: enough to open it again.
#[derive(Debug, Clone)]
struct How {
    location: PathBuf,
    threads: Option<usize>,
    verify: Verify,
    tile_cache: Option<(PathBuf, u64)>,
    settings: Vec<(String, String)>,
}

impl How {
    fn open(&self) -> celltile::Result<celltile::Dataset> {
        let mut options = OpenOptions::default().verify(self.verify);
        if let Some(threads) = self.threads {
            options = options.threads(threads);
        }
        options.remote.settings.clone_from(&self.settings);
        options.tile_cache =
            self.tile_cache.as_ref().map(|(folder, limit)| Arc::new(TileCache::new(folder, *limit)));
        celltile::Dataset::open_with(&self.location, &options)
    }
}

/// The dataset as one process has it open. Threads do not survive a fork, and locks may be held for ever in the child: a
/// child opens the dataset anew, and leaks what it inherited.
#[derive(Debug)]
struct Opened {
    process: u32,
    dataset: Option<Arc<celltile::Dataset>>,
    in_child: OnceLock<Box<Opened>>,
}

impl Opened {
    fn new(dataset: celltile::Dataset) -> Self {
        Self { process: std::process::id(), dataset: Some(Arc::new(dataset)), in_child: OnceLock::new() }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.dataset.take());
        }
    }
}

/// A dataset, open for reading. Private: use `celltile.open`.
#[pyclass(frozen, module = "celltile._native")]
#[derive(Debug)]
pub(crate) struct Dataset {
    how: How,
    opened: Opened,
}

impl Dataset {
    /// The dataset, opened again if this process was forked off the one that opened it.
    pub(crate) fn get(&self) -> Result<Arc<celltile::Dataset>> {
        let process = std::process::id();
        let mut opened = &self.opened;
        while opened.process != process {
            opened = match opened.in_child.get() {
                Some(next) => next,
                None => {
                    let new = Box::new(Opened::new(self.how.open()?));
                    // Another thread's is as good.
                    opened.in_child.get_or_init(|| new)
                }
            };
        }
        opened.dataset.clone().ok_or(Failure::Panic)
    }

    /// Reads cells as `read` says, on a thread of its own where that may take long.
    fn read<'py, C>(
        &self,
        py: Python<'py>,
        expected_nnz: u64,
        options: OwnedOptions,
        read: impl FnOnce(&celltile::Dataset, &ReadOptions<'_>, &mut Csr<C>) -> celltile::Result<()>
        + Send
        + 'static,
    ) -> Result<Matrix<'py, C>>
    where
        C: Count + Element + Send + 'static,
    {
        let dataset = self.get()?;
        let cancel = Arc::new(AtomicBool::new(false));
        let quick = expected_nnz <= QUICK && !dataset.storage().is_remote();
        let flag = Arc::clone(&cancel);
        let work = move || {
            let mut read_options = ReadOptions::default().round_counts(options.round_counts).cancel(&flag);
            if let Some(map) = &options.gene_map {
                read_options = read_options.gene_map(map);
            }
            let mut out = Csr::new();
            read(&dataset, &read_options, &mut out)?;
            Ok(out)
        };
        let out = if quick { py.detach(work)? } else { long(py, &cancel, work, |_| Ok(()))? };
        let Csr { indptr, genes, counts } = out;
        Ok((indptr.into_pyarray(py), genes.into_pyarray(py), counts.into_pyarray(py)))
    }
}

/// indptr, indices, data.
type Matrix<'py, C> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<C>>);

struct OwnedOptions {
    gene_map: Option<Vec<i32>>,
    round_counts: bool,
}

#[pymethods]
impl Dataset {
    #[new]
    #[pyo3(signature = (location, *, threads=None, verify="full", tile_cache=None, settings=Vec::new()))]
    fn new(
        py: Python<'_>,
        location: PathBuf,
        threads: Option<usize>,
        verify: &str,
        tile_cache: Option<(PathBuf, u64)>,
        settings: Vec<(String, String)>,
    ) -> Result<Self> {
        let verify = match verify {
            "full" => Verify::Full,
            "structure" => Verify::Structure,
            other => {
                return Err(Failure::Argument(format!(
                    "verify: found {other:?}, expected \"full\" or \"structure\""
                )));
            }
        };
        let how = How { location, threads, verify, tile_cache, settings };
        let opening = how.clone();
        let dataset = long(py, &Arc::default(), move || Ok(opening.open()?), |_| Ok(()))?;
        Ok(Self { how, opened: Opened::new(dataset) })
    }

    #[getter]
    fn n_cells(&self) -> Result<u64> {
        Ok(self.get()?.n_cells())
    }

    #[getter]
    fn n_genes(&self) -> Result<u64> {
        Ok(self.get()?.n_genes())
    }

    #[getter]
    fn nnz(&self) -> Result<u64> {
        Ok(self.get()?.manifest().nnz())
    }

    /// Consecutive cells as `(indptr, indices, data)`; data is int32, or float32 if `float32`.
    #[pyo3(signature = (start, stop, *, float32=false, gene_map=None, round_counts=false))]
    fn rows<'py>(
        &self,
        py: Python<'py>,
        start: u64,
        stop: u64,
        float32: bool,
        gene_map: Option<PyReadonlyArray1<'py, i32>>,
        round_counts: bool,
    ) -> Result<Py<PyAny>> {
        let options = owned_options(gene_map, round_counts)?;
        let expected = self.expect(stop.saturating_sub(start))?;
        if float32 {
            any(
                py,
                self.read::<f32>(py, expected, options, move |d, o, out| d.rows_into(start..stop, o, out))?,
            )
        } else {
            any(
                py,
                self.read::<i32>(py, expected, options, move |d, o, out| d.rows_into(start..stop, o, out))?,
            )
        }
    }

    /// Cells in any order, repeats allowed, as `rows` returns them.
    #[pyo3(signature = (cells, *, float32=false, gene_map=None, round_counts=false))]
    fn gather<'py>(
        &self,
        py: Python<'py>,
        cells: PyReadonlyArray1<'py, u64>,
        float32: bool,
        gene_map: Option<PyReadonlyArray1<'py, i32>>,
        round_counts: bool,
    ) -> Result<Py<PyAny>> {
        let options = owned_options(gene_map, round_counts)?;
        let cells = owned(&cells);
        let expected = self.expect(u64::try_from(cells.len()).unwrap_or(u64::MAX))?;
        if float32 {
            any(py, self.read::<f32>(py, expected, options, move |d, o, out| d.gather_into(&cells, o, out))?)
        } else {
            any(py, self.read::<i32>(py, expected, options, move |d, o, out| d.gather_into(&cells, o, out))?)
        }
    }
}

impl Dataset {
    /// Nonzeros that so many cells have on average.
    fn expect(&self, cells: u64) -> Result<u64> {
        let dataset = self.get()?;
        let mean = dataset.manifest().nnz().checked_div(dataset.n_cells()).unwrap_or_default();
        Ok(cells.saturating_mul(mean.saturating_add(1)))
    }
}

fn any<'py, T: IntoPyObject<'py>>(py: Python<'py>, value: T) -> Result<Py<PyAny>> {
    Ok(value.into_py_any(py)?)
}

fn owned<T: Element + Copy>(array: &PyReadonlyArray1<'_, T>) -> Vec<T> {
    array.as_array().iter().copied().collect()
}

fn owned_options(map: Option<PyReadonlyArray1<'_, i32>>, round_counts: bool) -> Result<OwnedOptions> {
    Ok(OwnedOptions { gene_map: map.map(|map| owned(&map)), round_counts })
}
