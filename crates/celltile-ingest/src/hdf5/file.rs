use std::path::Path;
use std::sync::Arc;

use hdf5_reader::Hdf5File;

use super::elsewhere::Elsewhere;
use super::group::Group;
use super::storage::{ByteSource, LocalFile, ParserStorage};
use crate::error::{Error, Result};

/// How to open a file.
#[derive(Debug, Clone, Copy)]
pub struct OpenOptions {
    /// Whether to take the shared lock that HDF5's own library takes, and to refuse a file that is open for writing.
    pub lock: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { lock: true }
    }
}

/// An HDF5 file opened for reading; cheap to clone, usable from many threads.
#[derive(Clone)]
pub struct File {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) parsed: Hdf5File,
    pub(crate) bytes: Arc<dyn ByteSource>,
    pub(crate) base: u64,
    pub(crate) strings: super::strings::HeapCache,
    pub(super) elsewhere: Elsewhere,
}

impl Shared {
    pub(crate) fn damaged(&self, at: impl Into<String>, what: impl Into<String>) -> Error {
        Error::Damaged { file: self.name.clone(), at: at.into(), what: what.into() }
    }

    pub(crate) fn unsupported(&self, at: impl Into<String>, what: impl Into<String>) -> Error {
        Error::Unsupported { file: self.name.clone(), at: at.into(), what: what.into() }
    }
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File").field("name", &self.shared.name).finish_non_exhaustive()
    }
}

impl File {
    /// Opens a local file, for reading only.
    ///
    /// # Errors
    ///
    /// What the system says; [`Error::Locked`]; [`Error::NotRecognised`] for a file that is not HDF5;
    /// [`Error::Truncated`] for one that ends before its header says it does; [`Error::Damaged`].
    pub fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<Self> {
        let path = path.as_ref();
        let io = |action| move |source| Error::Io { path: path.to_owned(), action, source };
        // Asked first: to open a pipe is to wait for its other end.
        let metadata = std::fs::metadata(path).map_err(io("open"))?;
        if metadata.is_dir() {
            return Err(io("read")(std::io::Error::from(std::io::ErrorKind::IsADirectory)));
        }
        if !metadata.is_file() {
            let what = "a pipe or a device, not a file";
            return Err(io("read")(std::io::Error::new(std::io::ErrorKind::InvalidInput, what)));
        }
        let file = std::fs::File::open(path).map_err(io("open"))?;
        if options.lock {
            // File systems without locks answer with an error: then there is nothing to respect.
            if let Err(std::fs::TryLockError::WouldBlock) = file.try_lock_shared() {
                return Err(Error::Locked { path: path.to_owned() });
            }
        }
        let bytes = LocalFile::new(file).map_err(io("look at"))?;
        Self::from_bytes(path.display().to_string(), Arc::new(bytes))
    }

    /// Opens a file whose bytes come from elsewhere; `name` is what error messages call it.
    ///
    /// # Errors
    ///
    /// As [`File::open`], but for the lock.
    pub fn from_bytes(name: String, bytes: Arc<dyn ByteSource>) -> Result<Self> {
        let elsewhere = Elsewhere::default();
        let parsed = match Hdf5File::from_storage_with_options(
            Arc::new(ParserStorage(Arc::clone(&bytes))),
            hdf5_reader::OpenOptions::default()
                .with_chunk_cache_bytes(0)
                .with_external_link_resolver(Arc::new(elsewhere.clone())),
        ) {
            Ok(parsed) => parsed,
            Err(hdf5_reader::error::Error::InvalidMagic) => {
                return Err(Error::NotRecognised {
                    file: name,
                    found: "not an HDF5 file".into(),
                    expected: "an h5ad or 10x HDF5 file".into(),
                });
            }
            Err(hdf5_reader::error::Error::UnexpectedEof { offset, needed, .. }) => {
                let expected = offset.saturating_add(needed);
                return Err(Error::Truncated { file: name, expected, actual: bytes.len() });
            }
            Err(error) => {
                return Err(Error::Damaged { file: name, at: "header".into(), what: error.to_string() });
            }
        };
        let superblock = parsed.superblock();
        // The end address counts from the start of the file, a user block included.
        let expected = superblock.eof_address;
        if expected > bytes.len() {
            return Err(Error::Truncated { file: name, expected, actual: bytes.len() });
        }
        let base = superblock.base_address;
        let strings = super::strings::HeapCache::default();
        Ok(Self { shared: Arc::new(Shared { name, parsed, bytes, base, strings, elsewhere }) })
    }

    /// What error messages call the file.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Bytes in the file.
    pub fn size(&self) -> u64 {
        self.shared.bytes.len()
    }

    /// The root group.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if its header cannot be read.
    pub fn root(&self) -> Result<Group> {
        let group =
            self.shared.parsed.root_group().map_err(|error| self.shared.damaged("/", error.to_string()))?;
        Ok(Group::new(Arc::clone(&self.shared), String::new(), group))
    }
}
