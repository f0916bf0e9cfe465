//! A dataset as an AnnData store of Zarr: written, or live.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use celltile::storage::{
    Entry, LocalStorage, Object, ObjectWriter, RemoteOptions, Storage, is_url, open_storage,
};
use celltile_zarr::{Compression, Cut, Hierarchy, LiveView, StoreOptions};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::dataset::Dataset;
use crate::error::{Failure, Result};
use crate::how::How;
use crate::long::{READING, WRITING, long};
use crate::per_process::PerProcess;
use crate::progress::Progress;

fn options(cut: &str, nonzeros: u64, zstd_level: Option<i32>, float32: bool) -> Result<StoreOptions> {
    if nonzeros == 0 {
        return Err(Failure::Argument("nonzeros: found 0, expected at least 1".to_owned()));
    }
    let cut = match cut {
        "tile" => Cut::Tile,
        "chunk" => Cut::TileChunk { nonzeros },
        "regular" => Cut::Regular { nonzeros },
        other => {
            let message = format!("cut: found {other:?}, expected \"tile\", \"chunk\" or \"regular\"");
            return Err(Failure::Argument(message));
        }
    };
    let compression = zstd_level.map_or(Compression::None, Compression::Zstd);
    Ok(StoreOptions::default().cut(cut).compression(compression).float32(float32))
}

fn view(how: &How, options: &StoreOptions) -> Result<LiveView> {
    let dataset = Arc::new(how.open()?);
    Ok(LiveView::new(Hierarchy::open(dataset, &how.cache(), options.clone())?))
}

/// The keys and bytes of a Zarr store that is not written anywhere. Private: use `Dataset.zarr_store`.
#[pyclass(frozen, module = "celltile._native")]
#[derive(Debug)]
pub(crate) struct ZarrView {
    how: How,
    options: StoreOptions,
    view: PerProcess<LiveView>,
}

impl ZarrView {
    fn get_view(&self) -> Result<Arc<LiveView>> {
        self.view.get(|| view(&self.how, &self.options))
    }
}

#[pymethods]
impl ZarrView {
    #[new]
    #[pyo3(signature = (dataset, *, cut="chunk", nonzeros=1 << 20, zstd_level=None, float32=false))]
    fn new(
        py: Python<'_>,
        dataset: &Bound<'_, Dataset>,
        cut: &str,
        nonzeros: u64,
        zstd_level: Option<i32>,
        float32: bool,
    ) -> Result<Self> {
        let how = dataset.get().how().clone();
        let options = options(cut, nonzeros, zstd_level, float32)?;
        let (opening, chosen) = (how.clone(), options.clone());
        let view = long(py, READING, &Arc::default(), move || view(&opening, &chosen), |_| Ok(()))?;
        Ok(Self { how, options, view: PerProcess::new(view) })
    }

    /// The bytes of a key, or a range of them; none if there is no such key.
    #[pyo3(signature = (key, start=0, stop=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &str,
        start: usize,
        stop: Option<usize>,
    ) -> Result<Option<Bound<'py, PyBytes>>> {
        let view = self.get_view()?;
        let Some(value) = py.detach(|| view.value(key))? else { return Ok(None) };
        let stop = stop.unwrap_or(value.len()).min(value.len());
        let part = value.get(start.min(stop)..stop).unwrap_or_default();
        Ok(Some(PyBytes::new(py, part)))
    }

    /// The size of a key's value; none if there is no such key.
    fn size(&self, py: Python<'_>, key: &str) -> Result<Option<u64>> {
        let view = self.get_view()?;
        Ok(py.detach(|| view.size(key))?)
    }

    fn contains(&self, key: &str) -> Result<bool> {
        Ok(self.get_view()?.hierarchy().contains(key))
    }

    /// Every key that starts with a prefix.
    fn list_prefix(&self, py: Python<'_>, prefix: &str) -> Result<Vec<String>> {
        let view = self.get_view()?;
        Ok(py.detach(|| view.hierarchy().keys().filter(|key| key.starts_with(prefix)).collect()))
    }

    /// Names directly in a folder: keys and folders.
    fn list_dir(&self, folder: &str) -> Result<Vec<String>> {
        let (keys, folders) = self.get_view()?.hierarchy().list(folder.trim_matches('/'));
        Ok(keys.into_iter().chain(folders).collect())
    }

    /// Columns that have no place in a Zarr store because of their names.
    #[getter]
    fn left_out(&self) -> Result<Vec<String>> {
        Ok(self.get_view()?.hierarchy().left_out().to_vec())
    }
}

/// Writes a dataset as an AnnData store of Zarr v3, and says what was written.
#[pyfunction]
#[pyo3(signature = (dataset, target, *, cut="chunk", nonzeros=1 << 20, zstd_level=None, float32=false, threads=None, progress=None))]
#[allow(clippy::too_many_arguments, reason = "keywords in Python, where each has its name")]
pub(crate) fn zarr_export<'py>(
    py: Python<'py>,
    dataset: &Bound<'py, Dataset>,
    target: PathBuf,
    cut: &str,
    nonzeros: u64,
    zstd_level: Option<i32>,
    float32: bool,
    threads: Option<NonZeroUsize>,
    progress: Option<Py<PyAny>>,
) -> Result<Bound<'py, PyDict>> {
    let options = options(cut, nonzeros, zstd_level, float32)?;
    let (how, dataset) = (dataset.get().how().clone(), dataset.get().get()?);
    let told = Progress::new(progress);
    let (cancel, latest) = (Arc::<AtomicBool>::default(), told.latest());
    let flag = Arc::clone(&cancel);
    let work = move || {
        let hierarchy = Hierarchy::open(dataset, &how.cache(), options)?;
        let storage: Arc<dyn Storage> = match target.to_str() {
            Some(url) if is_url(url) => open_storage(url, &RemoteOptions::default())?,
            _ => Arc::new(LocalStorage::new(&target)),
        };
        let storage = Stoppable { inner: storage, stop: flag };
        let tell = |total, done| latest.tell("export", "chunks", done, total);
        Ok(celltile_zarr::export(&hierarchy, &storage, threads, &tell)?)
    };
    let report = long(py, WRITING, &cancel, work, |py| told.tick(py))?;
    let out = PyDict::new(py);
    out.set_item("objects", report.objects)?;
    out.set_item("bytes", report.bytes)?;
    out.set_item("left_out", report.left_out)?;
    Ok(out)
}

/// A storage that writes nothing more once it is asked to stop.
#[derive(Debug)]
struct Stoppable {
    inner: Arc<dyn Storage>,
    stop: Arc<AtomicBool>,
}

impl Storage for Stoppable {
    fn locate(&self, key: &str) -> String {
        self.inner.locate(key)
    }

    fn is_remote(&self) -> bool {
        self.inner.is_remote()
    }

    fn open(&self, key: &str) -> celltile::Result<Box<dyn Object>> {
        self.inner.open(key)
    }

    fn read(&self, key: &str) -> celltile::Result<Bytes> {
        self.inner.read(key)
    }

    fn read_range(&self, key: &str, range: std::ops::Range<u64>) -> celltile::Result<Bytes> {
        self.inner.read_range(key, range)
    }

    fn list(&self, folder: &str) -> celltile::Result<Vec<Entry>> {
        self.inner.list(folder)
    }

    fn write(&self, key: &str, bytes: &[u8]) -> celltile::Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(celltile::Error::Cancelled);
        }
        self.inner.write(key, bytes)
    }

    fn create(&self, key: &str) -> celltile::Result<Box<dyn ObjectWriter>> {
        self.inner.create(key)
    }

    fn remove(&self, key: &str) -> celltile::Result<()> {
        self.inner.remove(key)
    }
}
