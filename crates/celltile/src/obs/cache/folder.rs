//! The cache's folder of one dataset.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::ArrayRef;

use super::file::{self, Found, Writer};
use crate::error::{Error, Result};
use crate::obs::{ObsField, ObsReader, cache_file_name};

/// How the names of unfinished files end. Quoted column names end in `.arrow`.
const TEMPORARY: &str = ".tmp";

/// `<cache>/<fingerprint>`.
pub(super) struct Folder<'a> {
    root: PathBuf,
    reader: &'a ObsReader,
}

impl<'a> Folder<'a> {
    pub(super) fn new(cache: &Path, reader: &'a ObsReader) -> Self {
        Self { root: cache.join(reader.fingerprint()), reader }
    }

    /// Maps columns, fetching those that are not there or disagree with the manifest.
    pub(super) fn columns(&self, columns: &[usize]) -> Result<Vec<Vec<ArrayRef>>> {
        let files: Vec<_> = columns.iter().filter_map(|&column| self.file(column)).collect();
        let mut found = files.iter().map(|file| self.open(file)).collect::<Result<Vec<_>>>()?;
        if !found.iter().all(|found| matches!(found, Found::Column(_))) {
            let lock = self.lock()?;
            // Another process may have fetched some of them meanwhile.
            for (found, file) in found.iter_mut().zip(&files) {
                if !matches!(found, Found::Column(_)) {
                    *found = self.open(file)?;
                }
            }
            let missing: Vec<_> = files
                .iter()
                .zip(&found)
                .filter(|(_, f)| !matches!(f, Found::Column(_)))
                .map(|(f, _)| f)
                .collect();
            if lock.is_some() {
                self.sweep();
            }
            if !missing.is_empty() {
                self.fetch(&missing)?;
            }
            for (found, file) in found.iter_mut().zip(&files) {
                if !matches!(found, Found::Column(_)) {
                    *found = self.open(file)?;
                }
            }
        }
        found
            .into_iter()
            .zip(&files)
            .map(|(found, file)| match found {
                Found::Column(tiles) => Ok(tiles),
                Found::Nothing | Found::Stale => Err(Error::Cache {
                    path: file.path.display().to_string(),
                    reason: "what was just written reads back differently: is the disk damaged?".to_owned(),
                }),
            })
            .collect()
    }

    fn obs(&self) -> PathBuf {
        self.root.join("obs")
    }

    fn file(&self, column: usize) -> Option<ColumnFile<'a>> {
        let field = self.reader.field(column)?;
        let names = self.reader.schema().fields().iter().map(|field| field.name.as_str());
        Some(ColumnFile { column, field, path: self.obs().join(cache_file_name(&field.name, names)) })
    }

    fn open(&self, file: &ColumnFile<'_>) -> Result<Found> {
        file::open(&file.path, file.field, self.reader.tile_cells())
            .map_err(|e| cache_error(&file.path, "read", &e))
    }

    /// Takes the lock of this dataset's folder; it ends with the file handle, also if the process is killed.
    /// Nothing where the file system knows no locks: then a column may be fetched twice, and the later one stays.
    fn lock(&self) -> Result<Option<File>> {
        let obs = self.obs();
        fs::create_dir_all(&obs).map_err(|e| cache_error(&obs, "create", &e))?;
        let path = self.root.join("obs.lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(|e| cache_error(&path, "create", &e))?;
        match file.lock() {
            Ok(()) => Ok(Some(file)),
            Err(e) if e.kind() == ErrorKind::Unsupported => Ok(None),
            Err(e) => Err(cache_error(&path, "lock", &e)),
        }
    }

    /// Removes what killed processes left. Only under the lock, so that nobody writes meanwhile.
    fn sweep(&self) {
        let Ok(entries) = fs::read_dir(self.obs()) else { return };
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().ends_with(TEMPORARY) {
                // What cannot be removed is in nobody's way.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Fetches columns into temporary files, then gives those their names.
    fn fetch(&self, files: &[&ColumnFile<'_>]) -> Result<()> {
        let mut pending = files.iter().map(|file| Pending::create(file)).collect::<Result<Vec<_>>>()?;
        let columns: Vec<_> = files.iter().map(|file| file.column).collect();
        self.reader.fetch(&columns, |tile| {
            pending.iter_mut().zip(tile).try_for_each(|(pending, array)| pending.write(array))
        })?;
        pending.into_iter().try_for_each(Pending::finish)?;
        sync_folder(&self.obs())
    }
}

struct ColumnFile<'a> {
    column: usize,
    field: &'a ObsField,
    path: PathBuf,
}

/// A column that is being written; removed unless finished.
struct Pending<'a> {
    path: &'a Path,
    temporary: PathBuf,
    writer: Option<Writer>,
}

impl<'a> Pending<'a> {
    fn create(file: &'a ColumnFile<'_>) -> Result<Self> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let temporary = file.path.with_file_name(format!("{}-{number}{TEMPORARY}", process::id()));
        let writer = File::create(&temporary).and_then(|out| Writer::new(out, file.field));
        match writer {
            Ok(writer) => Ok(Self { path: &file.path, temporary, writer: Some(writer) }),
            Err(e) => {
                let _ = fs::remove_file(&temporary);
                Err(cache_error(&temporary, "write", &e))
            }
        }
    }

    fn write(&mut self, array: ArrayRef) -> Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.write(array).map_err(|e| cache_error(&self.temporary, "write", &e))
    }

    fn finish(mut self) -> Result<()> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let done = writer.finish().and_then(|()| {
            // A damaged file of that name is replaced; who has it mapped keeps the old one.
            fs::rename(&self.temporary, self.path)
        });
        done.map_err(|e| {
            let _ = fs::remove_file(&self.temporary);
            cache_error(&self.temporary, "write", &e)
        })
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if self.writer.take().is_some() {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

fn sync_folder(path: &Path) -> Result<()> {
    // Windows cannot open folders; there a rename is as durable as it gets.
    if cfg!(windows) {
        return Ok(());
    }
    File::open(path).and_then(|folder| folder.sync_all()).map_err(|e| cache_error(path, "write", &e))
}

fn cache_error(path: &Path, action: &str, error: &io::Error) -> Error {
    let advice = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "the disk is full",
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => "the folder cannot be written",
        _ => "the folder cannot be used",
    };
    Error::Cache {
        path: path.display().to_string(),
        reason: format!(
            "cannot {action}: {error} ({advice}; name another one in DELTACELLS_CACHE, or read obs without a cache)"
        ),
    }
}
