//! `Dataset`: a dataset, open for reading.

mod kept;
mod matrix;
mod obs;

use std::path::PathBuf;
use std::sync::Arc;

use celltile::verify::{Level, VerifyOptions, verify};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use self::kept::Kept;
use self::matrix::{Read, read};
use crate::error::Result;
use crate::frame;
use crate::how::How;
use crate::long::{READING, long};
use crate::per_process::PerProcess;
use crate::progress::Progress;

/// Name, kind and type of each column of obs, and which of them holds the cells' names.
type ObsSchema = (Vec<(String, String, String)>, Option<String>);

/// A dataset, open for reading. Private: use `celltile.open`.
#[pyclass(frozen, module = "celltile._native")]
#[derive(Debug)]
pub(crate) struct Dataset {
    how: How,
    opened: PerProcess<celltile::Dataset>,
    kept: PerProcess<Kept>,
}

impl Dataset {
    /// The dataset, opened again if this process was forked off the one that opened it.
    pub(crate) fn get(&self) -> Result<Arc<celltile::Dataset>> {
        self.opened.get(|| self.how.open())
    }

    fn kept(&self) -> Result<Arc<Kept>> {
        self.kept.get(|| Ok(Kept::default()))
    }

    /// How it was opened.
    pub(crate) fn how(&self) -> &How {
        &self.how
    }
}

#[pymethods]
impl Dataset {
    #[new]
    #[pyo3(signature = (location, *, threads=None, verify="full", cache_dir=None, tile_cache=None, settings=Vec::new()))]
    fn new(
        py: Python<'_>,
        location: PathBuf,
        threads: Option<usize>,
        verify: &str,
        cache_dir: Option<PathBuf>,
        tile_cache: Option<(PathBuf, u64)>,
        settings: Vec<(String, String)>,
    ) -> Result<Self> {
        let how = How::new(location, threads, verify, cache_dir, tile_cache, settings)?;
        let opening = how.clone();
        let dataset = long(py, READING, &Arc::default(), move || opening.open(), |_| Ok(()))?;
        Ok(Self { how, opened: PerProcess::new(dataset), kept: PerProcess::new(Kept::default()) })
    }

    /// Path or URL, without what a URL may have of secrets.
    #[getter]
    fn shown(&self) -> Result<String> {
        Ok(self.get()?.storage().locate(""))
    }

    /// Whether it is in a bucket or on a server.
    #[getter]
    fn is_remote(&self) -> Result<bool> {
        Ok(self.get()?.storage().is_remote())
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

    /// Bytes of all tiles.
    #[getter]
    fn tile_bytes(&self) -> Result<u64> {
        Ok(self.get()?.manifest().bytes())
    }

    #[getter]
    fn n_tiles(&self) -> Result<u64> {
        Ok(self.get()?.n_tiles())
    }

    /// Cells of each tile.
    #[getter]
    fn tile_cells(&self) -> Result<Vec<u64>> {
        Ok(self.get()?.manifest().tile_cells.clone())
    }

    /// Nonzeros of each tile.
    #[getter]
    fn tile_nnz(&self) -> Result<Vec<u64>> {
        Ok(self.get()?.manifest().tile_nnz.clone())
    }

    /// The manifest's metadata, as JSON.
    #[getter]
    fn metadata_json(&self) -> Result<String> {
        Ok(self.get()?.manifest().metadata_text().to_owned())
    }

    /// Names of the genes in the dataset's order; none if it has none.
    fn var_names(&self, py: Python<'_>) -> Result<Option<Vec<String>>> {
        let dataset = self.get()?;
        let read = move || Ok(dataset.gene_names()?);
        long(py, READING, &Arc::default(), read, |_| Ok(()))
    }

    /// The column of the source that each gene was; none if the dataset does not say.
    fn gene_order(&self, py: Python<'_>) -> Result<Option<Vec<i32>>> {
        let dataset = self.get()?;
        let read = move || Ok(dataset.gene_order()?.map(|order| order.columns().to_vec()));
        long(py, READING, &Arc::default(), read, |_| Ok(()))
    }

    /// The gene table as plain parts; none if the dataset has none.
    fn var<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyDict>>> {
        let dataset = self.get()?;
        let table = long(py, READING, &Arc::default(), move || Ok(dataset.var()?), |_| Ok(()))?;
        table.map(|table| frame::to_python(py, &table)).transpose()
    }

    /// Names, kinds and dtypes of the obs columns, and which of them holds the cell names.
    fn obs_schema(&self, py: Python<'_>) -> Result<ObsSchema> {
        let dataset = self.get()?;
        let read = move || {
            let Some(reader) = dataset.obs_reader()? else { return Ok((Vec::new(), None)) };
            let fields = reader.schema().fields().iter();
            let fields = fields
                .map(|f| (f.name.clone(), f.kind.name().to_owned(), f.type_name().to_owned()))
                .collect();
            Ok((fields, reader.index_column().map(str::to_owned)))
        };
        long(py, READING, &Arc::default(), read, |_| Ok(()))
    }

    /// Columns of the obs table as plain parts, of all cells or of those named.
    #[pyo3(signature = (columns, cells=None))]
    fn obs<'py>(
        &self,
        py: Python<'py>,
        columns: Vec<String>,
        cells: Option<PyReadonlyArray1<'py, u64>>,
    ) -> Result<Bound<'py, PyDict>> {
        let (dataset, cache) = (self.get()?, self.how.cache());
        let cells = cells.map(|cells| matrix::owned(&cells));
        let read = move || match cells {
            Some(cells) => obs::of_cells(&dataset, &columns, &cache, cells),
            None => Ok(dataset.obs_from(&columns, &cache)?.to_table()?),
        };
        let table = long(py, READING, &Arc::default(), read, |_| Ok(()))?;
        frame::to_python(py, &table)
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
        read(py, self.get()?, self.kept()?, Read::Rows(start..stop), float32, gene_map, round_counts)
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
        read(
            py,
            self.get()?,
            self.kept()?,
            Read::Gather(matrix::owned(&cells)),
            float32,
            gene_map,
            round_counts,
        )
    }

    /// Verifies the dataset and lists every fault, as text.
    #[pyo3(signature = (*, strict=false, progress=None))]
    fn verify(&self, py: Python<'_>, strict: bool, progress: Option<Py<PyAny>>) -> Result<Vec<String>> {
        let dataset = self.get()?;
        let level = if strict { Level::Strict } else { Level::Basic };
        let options = VerifyOptions::default().level(level).threads(dataset.threads());
        let told = Progress::new(progress);
        let (cancel, latest) = (Arc::default(), told.latest());
        let options = options.cancel(Arc::clone(&cancel));
        let work = move || {
            let report = verify(dataset.storage().as_ref(), &options, &|at| {
                latest.tell("verify", "tiles", at.tiles, at.n_tiles);
            })?;
            Ok(report.faults.iter().map(ToString::to_string).collect())
        };
        long(py, READING, &cancel, work, |py| told.tick(py))
    }
}
