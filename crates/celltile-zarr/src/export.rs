//! A dataset written as an AnnData store of Zarr v3.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use celltile::storage::Storage;

use crate::error::{Result, ZarrError};
use crate::hierarchy::Hierarchy;
use crate::spec::GridForm;

/// What zarr-python needs in its environment to read rectilinear grids.
pub const ZARR_PYTHON_SETTING: &str = "ZARR_ARRAY__RECTILINEAR_CHUNKS=True";

/// What [`export`] wrote.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ExportReport {
    /// Objects written.
    pub objects: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Columns that have no place in a Zarr store because of their names, as `obs/name`.
    pub left_out: Vec<String>,
    /// What zarr-python needs to be told to read the grid, if anything.
    pub setting: Option<&'static str>,
}

/// Writes every key of a hierarchy to an empty storage.
///
/// `threads` of them (`None`: as many as cores) decode, encode and write; each holds one part of the matrix. The root's
/// metadata come last: a store without them is incomplete. `progress` hears of each chunk that is written: how many there are, and
/// how many have been.
///
/// # Errors
///
/// If there is something in the storage, the dataset cannot be read or is damaged, or the storage cannot be written.
pub fn export(
    hierarchy: &Hierarchy,
    storage: &dyn Storage,
    threads: Option<NonZeroUsize>,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<ExportReport> {
    if !storage.list("")?.is_empty() {
        return Err(ZarrError::metadata(
            &storage.locate(""),
            "is not empty, expected a new place for the store",
        ));
    }
    let work = hierarchy.work();
    let total: u64 = work.iter().map(|(paths, chunks)| chunks.saturating_mul(paths.len() as u64)).sum();
    let tasks: u64 = work.iter().map(|(_, chunks)| chunks).sum();
    let (next, done, bytes) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let stop = AtomicBool::new(false);
    let write = |key: &str, value: &[u8]| -> Result<()> {
        storage.write(key, value)?;
        bytes.fetch_add(value.len() as u64, Ordering::Relaxed);
        Ok(())
    };
    let run = || -> Result<()> {
        while !stop.load(Ordering::Relaxed) {
            let task = next.fetch_add(1, Ordering::Relaxed);
            if task >= tasks {
                break;
            }
            let Some((paths, chunk)) = nth(&work, task) else { break };
            for (key, value) in hierarchy.chunks(paths, chunk)? {
                write(&key, &value)?;
                progress(total, done.fetch_add(1, Ordering::Relaxed) + 1);
            }
        }
        Ok(())
    };
    let threads = threads.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    std::thread::scope(|scope| {
        let run = || run().inspect_err(|_| stop.store(true, Ordering::Relaxed));
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        running.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    let mut objects = done.into_inner();
    for key in hierarchy.metadata_keys().chain(std::iter::once("zarr.json".to_owned())) {
        let value = hierarchy.value(&key)?.unwrap_or_default();
        write(&key, &value)?;
        objects += 1;
    }
    let setting = (hierarchy.form() == GridForm::Rectilinear).then_some(ZARR_PYTHON_SETTING);
    Ok(ExportReport { objects, bytes: bytes.into_inner(), left_out: hierarchy.left_out().to_vec(), setting })
}

/// The task of that number: arrays, and a chunk of each.
fn nth(work: &[(Vec<String>, u64)], mut task: u64) -> Option<(&[String], u64)> {
    for (paths, chunks) in work {
        match task.checked_sub(*chunks) {
            None => return Some((paths, task)),
            Some(rest) => task = rest,
        }
    }
    None
}
