//! Whole tiles of remote datasets, kept on the node's disk.
//!
//! One folder serves all processes of a node, and all datasets: tiles are named by their SHA-256, where the manifest
//! has it, else by URL, tile, size and version. The cache never stands between a reader and its data: whatever is
//! wrong with it (full disk, no permission, damaged files), tiles are fetched as if it were not there.

mod cached_storage;
mod ledger;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use bytes::Bytes;

use crate::digest::Sha256;

pub use self::cached_storage::CachedStorage;

use self::ledger::Ledger;

/// How the names of kept tiles end.
const SUFFIX: &str = ".dct";
/// How the names of tiles being written end.
const TEMPORARY_SUFFIX: &str = ".celltile-tmp";
/// After the tile: a CRC-32 of it, so that a damaged file is told from a damaged tile.
const TRAILER: usize = 4;

/// A folder that keeps tiles, up to a number of bytes.
#[derive(Debug)]
pub struct TileCache {
    folder: PathBuf,
    limit: u64,
    ledger: Ledger,
}

/// What a tile is kept under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TileKey {
    name: String,
    size: u64,
}

impl TileKey {
    /// By content.
    #[must_use]
    pub fn of_digest(digest: &Sha256, size: u64) -> Self {
        Self { name: digest.to_string(), size }
    }

    /// By place and version: the dataset's URL, the tile's index, its size, and what
    /// [`Storage::version`](super::Storage::version) says.
    #[must_use]
    pub fn of_version(url: &str, tile: u64, size: u64, version: &str) -> Self {
        let text = format!("{url}\n{tile}\n{size}\n{version}");
        Self { name: format!("v{}", Sha256::of(text.as_bytes())), size }
    }
}

impl TileCache {
    /// Keeps up to `limit` bytes in a folder, which is made when the first tile is kept.
    pub fn new(folder: impl Into<PathBuf>, limit: u64) -> Self {
        let folder = folder.into();
        Self { ledger: Ledger::new(folder.join("ledger")), folder, limit }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The tile, if it is here and undamaged.
    #[must_use]
    pub fn get(&self, key: &TileKey) -> Option<Bytes> {
        let mut file = self.open(key)?;
        let mut bytes = Vec::with_capacity(usize::try_from(key.size).ok()?.checked_add(TRAILER)?);
        let read = file.read_to_end(&mut bytes);
        let whole = read.is_ok() && is_whole(&bytes, key.size);
        if !whole {
            // Somebody else may have put a good one there meanwhile; it will be fetched again then.
            let _ = fs::remove_file(self.path(key));
            return None;
        }
        bytes.truncate(bytes.len().saturating_sub(TRAILER));
        Some(bytes.into())
    }

    /// A range of a tile that this process has seen to be undamaged.
    fn get_range(&self, key: &TileKey, range: &Range<u64>) -> Option<Bytes> {
        if range.start > range.end || range.end > key.size {
            return None;
        }
        let file = self.open(key)?;
        let length = usize::try_from(range.end.saturating_sub(range.start)).ok()?;
        let mut bytes = vec![0; length];
        read_at(&file, range.start, &mut bytes).ok()?;
        Some(bytes.into())
    }

    /// Opens a tile's file, which makes it the one used last.
    fn open(&self, key: &TileKey) -> Option<File> {
        let file = File::open(self.path(key)).ok()?;
        // Access times are rarely kept, so the time of use is written down as the time of change. In a folder of
        // somebody else's this fails, and the order of eviction is theirs.
        let _ = file.set_modified(SystemTime::now());
        Some(file)
    }

    /// Keeps a tile, and evicts those not used for longest where there is no room. Failures are not told: the
    /// caller has the tile.
    pub fn put(&self, key: &TileKey, bytes: &[u8]) {
        let fits = key.size.saturating_add(4) <= self.limit;
        if fits && u64::try_from(bytes.len()).is_ok_and(|n| n == key.size) {
            let _ = self.try_put(key, bytes);
        }
    }

    fn try_put(&self, key: &TileKey, bytes: &[u8]) -> io::Result<()> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let path = self.path(key);
        if path.exists() {
            return Ok(());
        }
        fs::create_dir_all(&self.folder)?;
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}.{}-{number}{TEMPORARY_SUFFIX}", key.name, std::process::id());
        let temporary = Temporary(self.folder.join(name));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&temporary.0)?;
        file.write_all(bytes)?;
        file.write_all(&crc32fast::hash(bytes).to_le_bytes())?;
        drop(file);
        self.ledger
            .admit(&self.folder, key.size.saturating_add(4), self.limit, || fs::rename(&temporary.0, &path))
    }

    fn path(&self, key: &TileKey) -> PathBuf {
        self.folder.join(format!("{}{SUFFIX}", key.name))
    }
}

/// A file that is removed unless it was renamed.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn is_whole(bytes: &[u8], size: u64) -> bool {
    let Some((tile, trailer)) = bytes.split_last_chunk::<TRAILER>() else { return false };
    u64::try_from(tile.len()).is_ok_and(|n| n == size)
        && crc32fast::hash(tile) == u32::from_le_bytes(*trailer)
}

#[cfg(unix)]
fn read_at(file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(not(unix))]
fn read_at(mut file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
    use std::io::{Seek, SeekFrom};
    // The file was opened for this one read.
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(bytes)
}
