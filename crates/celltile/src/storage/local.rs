//! A folder of the local file system.
//!
//! Files are read by position (never mapped: a mapped file that shrinks kills the process) and written under a
//! temporary name beside their own, synced, renamed, and the folder synced.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::{Entry, EntryKind, Object, ObjectWriter, Place, Storage, check_key};
use crate::error::{Error, Result};

/// How the names of unfinished files end.
const TEMPORARY_SUFFIX: &str = ".celltile-tmp";

/// A folder of the local file system.
#[derive(Debug, Clone)]
pub struct LocalStorage {
    root: PathBuf,
}

impl LocalStorage {
    /// The folder need not exist: it is made by the first write.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn path(&self, key: &str) -> Result<PathBuf> {
        check_key(key)?;
        Ok(self.root.join(key))
    }

    /// A name beside a path that nobody else uses.
    #[allow(clippy::unused_self, reason = "names are those of a storage")]
    fn temporary(&self, folder: &Path, path: &Path) -> PathBuf {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        folder.join(format!(".{name}.{}-{number}{TEMPORARY_SUFFIX}", std::process::id()))
    }

    fn open_local(&self, key: &str) -> Result<LocalObject> {
        let path = self.path(key)?;
        let fault = |e| Error::io(shown(&path), "open", e);
        // Asked first: to open a pipe is to wait for its other end.
        let kind = fs::metadata(&path).map_err(fault)?.file_type();
        if !kind.is_file() && !kind.is_dir() {
            return Err(fault(io::Error::new(io::ErrorKind::InvalidInput, "a pipe or a device, not a file")));
        }
        let file = File::open(&path).map_err(fault)?;
        Ok(LocalObject { file, path })
    }
}

impl Storage for LocalStorage {
    fn locate(&self, key: &str) -> String {
        if key.is_empty() { shown(&self.root) } else { shown(&self.root.join(key)) }
    }

    fn open(&self, key: &str) -> Result<Box<dyn Object>> {
        Ok(Box::new(self.open_local(key)?))
    }

    fn read(&self, key: &str) -> Result<Bytes> {
        let object = self.open_local(key)?;
        let size = object.size()?;
        read_exactly(&object, 0, size)
    }

    fn read_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        let object = self.open_local(key)?;
        let size = object.size()?;
        if range.end > size {
            return Err(Error::Size { path: self.locate(key), found: size, expected: range.end });
        }
        read_exactly(&object, range.start, range.end.saturating_sub(range.start))
    }

    fn list(&self, folder: &str) -> Result<Vec<Entry>> {
        let path = if folder.is_empty() { self.root.clone() } else { self.path(folder)? };
        let fault = |e| Error::io(shown(&path), "list", e);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(fault(e)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(fault)?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let kind = match fs::metadata(entry.path()) {
                Ok(_) if name.ends_with(TEMPORARY_SUFFIX) => EntryKind::Temporary,
                Ok(m) if m.is_file() => EntryKind::Object(m.len()),
                Ok(m) if m.is_dir() => EntryKind::Folder,
                Ok(_) | Err(_) => EntryKind::Other,
            };
            let key = if folder.is_empty() { name.into_owned() } else { format!("{folder}/{name}") };
            found.push(Entry { key, kind });
        }
        found.sort();
        Ok(found)
    }

    fn create(&self, key: &str) -> Result<Box<dyn ObjectWriter>> {
        let path = self.path(key)?;
        let folder = path.parent().unwrap_or(&self.root).to_path_buf();
        make_folders(&folder)?;
        let temporary = self.temporary(&folder, &path);
        // A leftover of an earlier process with our number is overwritten.
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&temporary)
            .map_err(|e| Error::io(shown(&temporary), "create", e))?;
        Ok(Box::new(LocalWriter { file, temporary, path, folder, written: 0, finished: false }))
    }

    fn remove(&self, key: &str) -> Result<()> {
        let path = self.path(key)?;
        match fs::remove_file(&path) {
            Ok(()) => sync_folder(path.parent().unwrap_or(&self.root)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(Error::io(shown(&path), "remove", e)),
        }
    }

    fn copy_in(&self, key: &str, from: &dyn Storage, from_key: &str) -> Result<bool> {
        let (path, Some(source)) = (self.path(key)?, from.file_of(from_key)) else { return Ok(false) };
        let folder = path.parent().unwrap_or(&self.root).to_path_buf();
        make_folders(&folder)?;
        let temporary = self.temporary(&folder, &path);
        // A leftover of an earlier process with our number.
        let _ = fs::remove_file(&temporary);
        // Other file systems, and some without such links, say no.
        if fs::hard_link(&source, &temporary).is_err() {
            return Ok(false);
        }
        let renamed = fs::rename(&temporary, &path);
        // Nothing happens where both are the same file already.
        let _ = fs::remove_file(&temporary);
        renamed.map_err(|e| Error::io(shown(&path), "rename", e))?;
        sync_folder(&folder)?;
        Ok(true)
    }

    fn file_of(&self, key: &str) -> Option<PathBuf> {
        self.path(key).ok()
    }

    fn place(&self) -> Option<Place> {
        Some(Place::of_path(&self.root))
    }

    fn remove_folder(&self, folder: &str) -> Result<()> {
        let path = self.path(folder)?;
        match fs::remove_dir_all(&path) {
            Ok(()) => sync_folder(path.parent().unwrap_or(&self.root)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(Error::io(shown(&path), "remove", e)),
        }
    }
}

/// An open file, read by position.
#[derive(Debug)]
struct LocalObject {
    file: File,
    path: PathBuf,
}

impl Object for LocalObject {
    fn size(&self) -> Result<u64> {
        let metadata = self.file.metadata().map_err(|e| Error::io(shown(&self.path), "read", e))?;
        if !metadata.is_file() {
            let source = io::Error::new(io::ErrorKind::IsADirectory, "not a file");
            return Err(Error::io(shown(&self.path), "read", source));
        }
        Ok(metadata.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        read_exact_at(&self.file, offset, buffer).map_err(|(found, e)| {
            if e.kind() == io::ErrorKind::UnexpectedEof {
                let wanted = u64::try_from(buffer.len()).unwrap_or(u64::MAX);
                let expected = offset.saturating_add(wanted);
                return Error::Size { path: shown(&self.path), found, expected };
            }
            Error::io(shown(&self.path), "read", e)
        })
    }
}

/// Fills the buffer, or says where it stopped and why.
#[cfg(unix)]
fn read_exact_at(file: &File, mut offset: u64, mut buffer: &mut [u8]) -> Result<(), (u64, io::Error)> {
    use std::os::unix::fs::FileExt;
    while !buffer.is_empty() {
        match file.read_at(buffer, offset) {
            Ok(0) => return Err((offset, io::ErrorKind::UnexpectedEof.into())),
            Ok(n) => {
                buffer = buffer.get_mut(n..).unwrap_or_default();
                offset = offset.saturating_add(u64::try_from(n).unwrap_or(u64::MAX));
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err((offset, e)),
        }
    }
    Ok(())
}

/// Fills the buffer, or says where it stopped and why.
#[cfg(windows)]
fn read_exact_at(file: &File, mut offset: u64, mut buffer: &mut [u8]) -> Result<(), (u64, io::Error)> {
    use std::os::windows::fs::FileExt;
    while !buffer.is_empty() {
        match file.seek_read(buffer, offset) {
            Ok(0) => return Err((offset, io::ErrorKind::UnexpectedEof.into())),
            Ok(n) => {
                buffer = buffer.get_mut(n..).unwrap_or_default();
                offset = offset.saturating_add(u64::try_from(n).unwrap_or(u64::MAX));
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err((offset, e)),
        }
    }
    Ok(())
}

/// A file being written under its temporary name.
#[derive(Debug)]
struct LocalWriter {
    file: File,
    temporary: PathBuf,
    path: PathBuf,
    folder: PathBuf,
    written: u64,
    finished: bool,
}

impl Write for LocalWriter {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let n = self.file.write(buffer)?;
        self.written = self.written.saturating_add(u64::try_from(n).unwrap_or(u64::MAX));
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl ObjectWriter for LocalWriter {
    fn finish(mut self: Box<Self>) -> Result<u64> {
        self.file.sync_all().map_err(|e| Error::io(shown(&self.temporary), "sync", e))?;
        fs::rename(&self.temporary, &self.path).map_err(|e| Error::io(shown(&self.path), "rename", e))?;
        self.finished = true;
        sync_folder(&self.folder)?;
        Ok(self.written)
    }
}

impl Drop for LocalWriter {
    fn drop(&mut self) {
        if !self.finished {
            // Nothing can be done about a failure here: the next writer clears temporaries away.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Reads `length` bytes that are known to be there, so that memory is taken only for bytes that exist.
fn read_exactly(object: &LocalObject, offset: u64, length: u64) -> Result<Bytes> {
    let length = usize::try_from(length).map_err(|_| Error::OutOfRange {
        what: "byte",
        index: length,
        len: u64::MAX,
    })?;
    let mut buffer = Vec::new();
    // A sparse file can be larger than any memory: an error, not the end of the process.
    let reserved = buffer.try_reserve_exact(length);
    reserved.map_err(|_| {
        let what = format!("its {length} bytes are more than there is memory for");
        Error::io(shown(&object.path), "read", io::Error::new(io::ErrorKind::OutOfMemory, what))
    })?;
    buffer.resize(length, 0);
    object.read_at(offset, &mut buffer)?;
    Ok(buffer.into())
}

/// Makes a folder and those above it, and makes their names durable.
fn make_folders(folder: &Path) -> Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    let parent = folder.parent();
    if let Some(parent) = parent {
        make_folders(parent)?;
    }
    match fs::create_dir(folder) {
        Ok(()) => parent.map_or(Ok(()), sync_folder),
        Err(_) if folder.is_dir() => Ok(()),
        Err(e) => Err(Error::Io { path: shown(folder), action: "create", source: e }),
    }
}

/// Makes renames and removals in a folder durable.
#[cfg(unix)]
fn sync_folder(folder: &Path) -> Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let sync = || File::open(folder)?.sync_all();
    match sync() {
        // Some network file systems cannot sync a folder; their own protocol orders the rename.
        Err(e) if matches!(e.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        result => result.map_err(|e| Error::io(shown(folder), "sync", e)),
    }
}

/// Makes renames and removals in a folder durable: elsewhere than on Unix the system does so by itself.
#[cfg(not(unix))]
fn sync_folder(_folder: &Path) -> Result<()> {
    Ok(())
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::{LocalStorage, Storage};
    use crate::error::Error;
    use crate::storage::EntryKind;

    #[test]
    fn test_unfinished_write_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let storage = LocalStorage::new(folder.path());
        let mut writer = storage.create("tiles/a").unwrap();
        writer.write_all(b"abc").unwrap();
        assert_eq!(storage.list("tiles").unwrap()[0].kind, EntryKind::Temporary);
        drop(writer);
        assert!(storage.list("tiles").unwrap().is_empty());
        assert!(matches!(storage.read("tiles/a"), Err(Error::NotFound { .. })));
    }

    #[test]
    fn test_file_that_shrinks_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let storage = LocalStorage::new(folder.path());
        storage.write("a", b"0123456789").unwrap();
        let object = storage.open("a").unwrap();
        fs::OpenOptions::new().write(true).open(folder.path().join("a")).unwrap().set_len(4).unwrap();
        let error = object.read_at(0, &mut [0; 10]).unwrap_err();
        assert!(matches!(error, Error::Size { found: 4, expected: 10, .. }), "{error}");
    }

    #[test]
    fn test_write_into_a_file_as_folder_names_the_path() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("tiles"), b"x").unwrap();
        let error = LocalStorage::new(folder.path()).write("tiles/a", b"").unwrap_err();
        assert!(error.to_string().contains("tiles"), "{error}");
    }
}
