//! Where a dataset's objects are: a folder, or something that behaves like a bucket.
//!
//! Keys are relative paths with forward slashes, as in the format: `manifest.json`, `tiles/tile_000000.dct`.
//! Everything above this module works on keys and byte ranges, so the same reader, writer and verification run over
//! local files and object stores.

mod local;
mod memory;
pub(crate) mod mmap;
mod place;
#[cfg(feature = "client")]
mod remote;
mod remote_options;
mod tile_cache;
mod url;

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

use bytes::Bytes;

pub use self::local::LocalStorage;
pub use self::memory::MemoryStorage;
pub use self::place::Place;
#[cfg(feature = "client")]
pub use self::remote::{RemoteStorage, Traffic};
pub use self::remote_options::RemoteOptions;
pub use self::tile_cache::{CachedStorage, TileCache, TileKey};
pub(crate) use self::url::open_path;
pub use self::url::{is_url, open_storage};
use crate::error::{Error, Result};

/// What [`Storage::list`] finds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The whole key, or, for a folder, the prefix without its final slash.
    pub key: String,
    /// What it is.
    pub kind: EntryKind,
}

/// What an [`Entry`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    /// An object of so many bytes.
    Object(u64),
    /// A folder, or a common prefix of keys.
    Folder,
    /// What a write that never ended left behind; no reader sees it.
    Temporary,
    /// Something that is neither (a socket, a device, a broken link).
    Other,
}

/// A byte range of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadRequest<'a> {
    /// The object.
    pub key: &'a str,
    /// Its bytes.
    pub range: Range<u64>,
}

/// A folder of objects, local or remote.
///
/// Calls block. An implementation over a network bounds the requests it has under way at once, retries what is worth
/// retrying and applies its own timeout; callers hand it as many ranges as they can at once
/// ([`read_many`](Self::read_many)) instead of bringing threads of their own.
pub trait Storage: fmt::Debug + Send + Sync {
    /// The object's path or URL, for messages. The empty key is the root.
    fn locate(&self, key: &str) -> String;

    /// Whether reads cost a network round trip, so that few large ones are worth more than many small ones.
    fn is_remote(&self) -> bool {
        false
    }

    /// Opens an object for reading by position. All reads of one [`Object`] see the same object, even if another one
    /// is put in its place meanwhile (as far as the storage can tell).
    ///
    /// # Errors
    /// [`Error::NotFound`] if it is not there (a remote storage may say so only at the first read).
    fn open(&self, key: &str) -> Result<Box<dyn Object>>;

    /// The object's size in bytes.
    ///
    /// # Errors
    /// [`Error::NotFound`] if it is not there.
    fn size(&self, key: &str) -> Result<u64> {
        self.open(key)?.size()
    }

    /// A text that changes when another object is put in this one's place, if the storage knows one that holds
    /// elsewhere and later too (an ETag): what a cache can be keyed by.
    ///
    /// # Errors
    /// [`Error::NotFound`] if it is not there, or what the storage reports.
    fn version(&self, key: &str) -> Result<Option<String>> {
        let _ = key;
        Ok(None)
    }

    /// The whole object.
    ///
    /// # Errors
    /// [`Error::NotFound`] if it is not there, or what the storage reports.
    fn read(&self, key: &str) -> Result<Bytes>;

    /// A byte range of the object: exactly those bytes.
    ///
    /// # Errors
    /// [`Error::Size`] if the object ends before the range does, before any memory is taken for it.
    fn read_range(&self, key: &str, range: Range<u64>) -> Result<Bytes>;

    /// Many ranges of any objects, answered in order. Remote storages join neighbours and ask at once.
    fn read_many(&self, requests: &[ReadRequest<'_>]) -> Vec<Result<Bytes>> {
        requests.iter().map(|r| self.read_range(r.key, r.range.clone())).collect()
    }

    /// What lies directly in a folder (the empty string: the root), sorted by key; empty if there is no such folder.
    ///
    /// # Errors
    /// What the storage reports.
    fn list(&self, folder: &str) -> Result<Vec<Entry>>;

    /// Writes a whole object, atomically: a reader sees the old one, the new one or none, whatever happens.
    /// When it returns the object is as durable as the storage can make it.
    ///
    /// # Errors
    /// What the storage reports, with the path; nothing new is visible then.
    fn write(&self, key: &str, bytes: &[u8]) -> Result<()> {
        let mut writer = self.create(key)?;
        io::Write::write_all(&mut writer, bytes).map_err(|e| Error::io(self.locate(key), "write", e))?;
        let found = writer.finish()?;
        let expected = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if found == expected { Ok(()) } else { Err(Error::Size { path: self.locate(key), found, expected }) }
    }

    /// Writes a whole object, if what is there is `expected` (nothing, if that is `None`); `false` if it is something
    /// else. A bucket decides that itself, where it can; elsewhere the object is looked at just before, which is exact as
    /// long as no other writer comes in that moment.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    fn write_if(&self, key: &str, bytes: &[u8], expected: Option<&[u8]>) -> Result<bool> {
        let mut writer = self.create(key)?;
        io::Write::write_all(&mut writer, bytes).map_err(|e| Error::io(self.locate(key), "write", e))?;
        let there = match self.read(key) {
            Ok(there) => Some(there),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        };
        if there.as_deref() != expected {
            return Ok(false);
        }
        writer.finish()?;
        Ok(true)
    }

    /// Starts an object that is written piece by piece and appears when finished.
    ///
    /// # Errors
    /// What the storage reports.
    fn create(&self, key: &str) -> Result<Box<dyn ObjectWriter>>;

    /// Removes an object or a temporary; that it is not there is no error.
    ///
    /// # Errors
    /// What the storage reports.
    fn remove(&self, key: &str) -> Result<()>;

    /// Makes an object a copy of one in another storage without its bytes passing through this process: a second name of
    /// the same file, or a copy that the bucket makes. `false` if that cannot be done.
    ///
    /// # Errors
    /// What the storage reports.
    fn copy_in(&self, key: &str, from: &dyn Storage, from_key: &str) -> Result<bool> {
        let _ = (key, from, from_key);
        Ok(false)
    }

    /// The file that an object is, where objects are files.
    fn file_of(&self, key: &str) -> Option<PathBuf> {
        let _ = key;
        None
    }

    /// The bucket that an object is in, with what tells it from others, and its name there.
    fn bucket_of(&self, key: &str) -> Option<(String, String)> {
        let _ = key;
        None
    }

    /// Where its objects are, if that can be compared with where those of others are.
    fn place(&self) -> Option<Place> {
        None
    }

    /// Removes a folder with everything below it; that it is not there is no error.
    ///
    /// # Errors
    /// What the storage reports.
    fn remove_folder(&self, folder: &str) -> Result<()> {
        for entry in self.list(folder)? {
            match entry.kind {
                EntryKind::Folder => self.remove_folder(&entry.key)?,
                _ => self.remove(&entry.key)?,
            }
        }
        Ok(())
    }
}

/// An object open for reading by position.
pub trait Object: fmt::Debug + Send + Sync {
    /// Its size in bytes, from the open object, not from its name.
    ///
    /// # Errors
    /// What the storage reports.
    fn size(&self) -> Result<u64>;

    /// Fills the buffer from an offset.
    ///
    /// # Errors
    /// [`Error::Size`] if the object ends first.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;
}

/// An object being written. Dropped unfinished, it leaves nothing visible.
pub trait ObjectWriter: io::Write + Send {
    /// Makes the object durable and visible, and says how many bytes were written.
    ///
    /// # Errors
    /// What the storage reports, with the path.
    fn finish(self: Box<Self>) -> Result<u64>;
}

/// Checks that a key is a relative path that stays inside the root.
///
/// # Errors
/// [`Error::Key`] with the rule it breaks.
pub fn check_key(key: &str) -> Result<()> {
    let reason = if key.is_empty() {
        "it is empty"
    } else if key.contains('\\') || key.contains('\0') {
        "it contains a backslash or a zero byte"
    } else if key.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
        "it has an empty, '.' or '..' part"
    } else {
        return Ok(());
    };
    Err(Error::Key { key: key.to_owned(), reason })
}
