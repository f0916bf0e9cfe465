use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};

/// Where a file's bytes come from: read by position, from many threads.
pub trait ByteSource: Send + Sync {
    /// The number of bytes there are.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buffer` with the bytes from `offset` on.
    ///
    /// # Errors
    ///
    /// The system's error, or `UnexpectedEof` where the bytes end before the buffer does.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<()>;
}

/// A local file. Its length is taken once, from the open descriptor.
pub(crate) struct LocalFile {
    file: File,
    len: u64,
}

impl LocalFile {
    pub(crate) fn new(file: File) -> std::io::Result<Self> {
        let len = file.metadata()?.len();
        Ok(Self { file, len })
    }
}

impl ByteSource for LocalFile {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }
}

/// A local file, for reading only.
pub(crate) fn open_local(path: &Path) -> Result<Arc<dyn ByteSource>> {
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
    let file = File::open(path).map_err(io("open"))?;
    Ok(Arc::new(LocalFile::new(file).map_err(io("look at"))?))
}

/// The bytes of a source behind the interface of the structure parser.
pub(crate) struct ParserStorage(pub(crate) Arc<dyn ByteSource>);

impl hdf5_reader::Storage for ParserStorage {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_range(&self, offset: u64, len: usize) -> hdf5_reader::error::Result<hdf5_reader::StorageBuffer> {
        let available = self.0.len().saturating_sub(offset);
        let needed = len as u64;
        // Checked before memory is taken: the length comes from the file.
        if needed > available {
            return Err(hdf5_reader::error::Error::UnexpectedEof { offset, needed, available });
        }
        let mut buffer = vec![0; len];
        self.0.read_at(offset, &mut buffer)?;
        Ok(hdf5_reader::StorageBuffer::from_vec(buffer))
    }
}
