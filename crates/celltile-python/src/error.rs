//! Errors of the crates as exceptions of `celltile._exceptions`.

use celltile::ErrorKind;
use celltile_grid::GridError;
use celltile_ingest::ErrorKind as IngestKind;
use celltile_zarr::ZarrError;
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyType;

/// Why a call ends without a result.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Of a dataset.
    Dataset(celltile::Error),
    /// Of what other tools write.
    Ingest(celltile_ingest::Error),
    /// Of a chunk grid.
    Grid(GridError),
    /// Of a Zarr store.
    Zarr(ZarrError),
    /// An argument that Rust's own types do not refuse.
    Argument(String),
    /// An exception that is one already.
    Python(PyErr),
    /// A thread of ours panicked.
    Panic,
}

/// The result of what Python calls.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    fn into_exception(self) -> PyErr {
        match self {
            Self::Dataset(error) => of_dataset(&error),
            Self::Ingest(error) => of_ingest(error),
            Self::Grid(error) => raise(of_grid(&error), &error, &[]),
            Self::Zarr(ZarrError::Dataset(error)) => of_dataset(&error),
            Self::Zarr(error) => raise(of_zarr(&error), &error, &[]),
            Self::Argument(message) => raise("ArgumentError", &message, &[]),
            Self::Python(error) => error,
            Self::Panic => PyRuntimeError::new_err("celltile: a thread panicked; please report this"),
        }
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        failure.into_exception()
    }
}

impl From<celltile::Error> for Failure {
    fn from(error: celltile::Error) -> Self {
        Self::Dataset(error)
    }
}

impl From<celltile_ingest::Error> for Failure {
    fn from(error: celltile_ingest::Error) -> Self {
        Self::Ingest(error)
    }
}

impl From<GridError> for Failure {
    fn from(error: GridError) -> Self {
        Self::Grid(error)
    }
}

impl From<ZarrError> for Failure {
    fn from(error: ZarrError) -> Self {
        Self::Zarr(error)
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

/// The class of a kind of error of datasets; none for what is no class of ours.
fn class_of_dataset(kind: ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::Io => "StorageError",
        ErrorKind::NotFound => "NotFoundError",
        ErrorKind::Size | ErrorKind::File => "CorruptFileError",
        ErrorKind::Changed => "ChangedError",
        ErrorKind::Key | ErrorKind::Argument => "ArgumentError",
        ErrorKind::NotADataset => "NotADatasetError",
        ErrorKind::Manifest => "CorruptManifestError",
        ErrorKind::Tile | ErrorKind::TileMismatch | ErrorKind::Checksum => "CorruptTileError",
        ErrorKind::OutOfRange => "OutOfRangeError",
        ErrorKind::Cell => "CountError",
        ErrorKind::Table => "TableError",
        ErrorKind::NoColumn => "NoColumnError",
        ErrorKind::Cache => "CacheError",
        ErrorKind::Occupied => "OccupiedError",
        ErrorKind::WriterStopped => "WriterStoppedError",
        ErrorKind::BigEndianHost => "UnsupportedHostError",
        _ => return None,
    })
}

fn class_of_ingest(kind: IngestKind) -> Option<&'static str> {
    Some(match kind {
        IngestKind::Io | IngestKind::Write => "StorageError",
        IngestKind::Locked => "LockedError",
        IngestKind::NotRecognised => "NotRecognisedError",
        IngestKind::Truncated | IngestKind::Damaged | IngestKind::Length | IngestKind::Changed => {
            "CorruptInputError"
        }
        IngestKind::Unsupported | IngestKind::Unfit => "UnsupportedError",
        IngestKind::Missing => "MissingPartError",
        IngestKind::Value | IngestKind::Repeated => "CountError",
        IngestKind::Columns | IngestKind::Table => "TableError",
        IngestKind::Memory => "MemoryLimitError",
        IngestKind::Options | IngestKind::Simulate => "ArgumentError",
        _ => return None,
    })
}

fn of_grid(error: &GridError) -> &'static str {
    match error {
        GridError::IndexOutside { .. }
        | GridError::RangeOutside { .. }
        | GridError::ChunkOutside { .. }
        | GridError::AxisOutside { .. } => "OutOfRangeError",
        _ => "GridError",
    }
}

fn of_zarr(error: &ZarrError) -> &'static str {
    match error {
        ZarrError::NotFound { .. } => "NotFoundError",
        ZarrError::Store(_) => "StorageError",
        _ => "ZarrError",
    }
}

fn of_dataset(error: &celltile::Error) -> PyErr {
    use celltile::Error;
    if matches!(error, Error::Cancelled) {
        return PyKeyboardInterrupt::new_err(());
    }
    let class = match error {
        // Whatever is no tile's is a file's.
        Error::Checksum { path, .. } if !is_tile(path) => "CorruptFileError",
        Error::Size { path, .. } if is_tile(path) => "CorruptTileError",
        _ => class_of_dataset(error.kind()).unwrap_or("CelltileError"),
    };
    match error {
        Error::Tile { tile, .. } | Error::TileMismatch { tile, .. } => {
            raise(class, error, &[("tile", *tile)])
        }
        Error::Size { path, .. } | Error::Checksum { path, .. } => match tile_of(path) {
            Some(tile) => raise(class, error, &[("tile", tile)]),
            None => raise(class, error, &[]),
        },
        Error::Cell { cell, .. } => raise(class, error, &[("cell", *cell)]),
        _ => raise(class, error, &[]),
    }
}

fn of_ingest(error: celltile_ingest::Error) -> PyErr {
    use celltile_ingest::Error;
    match error {
        Error::Cancelled => PyKeyboardInterrupt::new_err(()),
        Error::Dataset(error) => of_dataset(&error),
        Error::Io { ref source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            raise("NotFoundError", &error, &[])
        }
        error => raise(class_of_ingest(error.kind()).unwrap_or("CelltileError"), &error, &[]),
    }
}

/// The index of the tile whose object is at a path or URL.
fn tile_of(path: &str) -> Option<u64> {
    let at = path.rfind("tiles/tile_")?;
    celltile::keys::tile_index(path.get(at..)?)
}

fn is_tile(path: &str) -> bool {
    tile_of(path).is_some()
}

/// The error and its causes in one line, each said once.
fn message(error: &dyn std::fmt::Display) -> String {
    error.to_string()
}

/// An exception of a class of `celltile._exceptions`, with facts as attributes.
fn raise(class: &str, error: &dyn std::fmt::Display, facts: &[(&str, u64)]) -> PyErr {
    Python::attach(|py| match class_named(py, class) {
        Ok(class) => {
            let exception = PyErr::from_type(class, (message(error),));
            for (name, value) in facts {
                // An exception without the fact is better than another exception.
                let _ = exception.value(py).setattr(*name, *value);
            }
            exception
        }
        Err(error) => error,
    })
}

fn class_named<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyType>> {
    Ok(py.import("celltile._exceptions")?.getattr(name)?.cast_into::<PyType>()?)
}

/// Every kind of error that the crates know and the class that it becomes: `(crate, kind, class)`. Kinds without a class
/// have the text `""`: interrupts, and those that only wrap another.
#[pyfunction]
pub(crate) fn error_kinds() -> Vec<(&'static str, &'static str, &'static str)> {
    let dataset = ErrorKind::ALL
        .iter()
        .map(|kind| ("celltile", kind.name(), class_of_dataset(*kind).unwrap_or_default()));
    let ingest = IngestKind::ALL
        .iter()
        .map(|kind| ("celltile-ingest", kind.name(), class_of_ingest(*kind).unwrap_or_default()));
    dataset.chain(ingest).collect()
}
