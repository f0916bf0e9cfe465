//! How much a cache's folder holds, known to all processes that use it, and what goes when there is no room.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use super::{SUFFIX, TEMPORARY_SUFFIX};

/// A tile being written that is older than this was left by a process that died.
const ABANDONED: Duration = Duration::from_secs(3600);

/// A file with the total of the tiles' bytes, locked while it changes. Each process counts what is really there
/// once, so what a killed process left unaccounted is found.
#[derive(Debug)]
pub(super) struct Ledger {
    path: PathBuf,
    counted: AtomicBool,
}

struct Found {
    path: PathBuf,
    size: u64,
    used: SystemTime,
}

impl Ledger {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, counted: AtomicBool::new(false) }
    }

    /// Makes room for `size` bytes, lets `enter` put them into the folder, and writes down the new total.
    ///
    /// # Errors
    /// What the system reports; the folder holds no more than before then.
    pub(super) fn admit(
        &self,
        folder: &Path,
        size: u64,
        limit: u64,
        enter: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&self.path)?;
        file.lock()?;
        let first = !self.counted.swap(true, Ordering::Relaxed);
        let mut total = match read_total(&mut file) {
            Some(total) if !first => total,
            _ => scan(folder)?.iter().map(|f| f.size).fold(0, u64::saturating_add),
        };
        if total.saturating_add(size) > limit {
            // A tenth more than needed, so that not every new tile costs a look at all of them.
            let room = limit.saturating_sub(size);
            total = evict(folder, room.saturating_sub(limit / 10))?;
        }
        // Written before the tile enters: a total that is too large is corrected by the next look.
        write_total(&mut file, total.saturating_add(size))?;
        enter()
        // The lock ends with the file.
    }
}

fn read_total(file: &mut File) -> Option<u64> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn write_total(file: &mut File, total: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    // One width, so that no digit of an earlier total is left.
    write!(file, "{total:020}")
}

/// The tiles in the folder.
fn scan(folder: &Path) -> io::Result<Vec<Found>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // Another process may remove it before we look.
        let Ok(metadata) = entry.metadata() else { continue };
        let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        if name.ends_with(SUFFIX) {
            found.push(Found { path: entry.path(), size: metadata.len(), used });
        } else if name.ends_with(TEMPORARY_SUFFIX) && used.elapsed().is_ok_and(|age| age > ABANDONED) {
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(found)
}

/// Removes the tiles not used for longest until no more than `keep` bytes are left, and says how many are.
fn evict(folder: &Path, keep: u64) -> io::Result<u64> {
    let mut found = scan(folder)?;
    found.sort_by(|a, b| (a.used, &a.path).cmp(&(b.used, &b.path)));
    let mut total = found.iter().map(|f| f.size).fold(0, u64::saturating_add);
    for tile in found {
        if total <= keep {
            break;
        }
        match fs::remove_file(&tile.path) {
            Ok(()) => total = total.saturating_sub(tile.size),
            Err(e) if e.kind() == io::ErrorKind::NotFound => total = total.saturating_sub(tile.size),
            // What cannot be removed stays counted.
            Err(_) => {}
        }
    }
    Ok(total)
}
