//! Is a dataset what it claims to be? All faults, not the first.

mod fault;
mod files;
mod obs;
mod sources;
mod tiles;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

pub use self::fault::Fault;
use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::storage::Storage;
use crate::{host, keys};

/// How much is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Level {
    /// Manifest, sizes, hashes, checksums, headers, and that no file is missing or too many.
    #[default]
    Basic,
    /// All that, and every tile is decoded and held against every rule of the format.
    Strict,
}

/// How a dataset is verified.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct VerifyOptions {
    /// How much.
    pub level: Level,
    /// Threads, each of which holds one tile; the machine's by default.
    pub threads: usize,
    /// Set by another thread to stop: looked at before each tile.
    pub cancel: Option<Arc<AtomicBool>>,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self { level: Level::Basic, threads, cancel: None }
    }
}

impl VerifyOptions {
    /// At this level.
    #[must_use]
    pub fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// With so many threads.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// With a flag that stops the verification with [`Error::Cancelled`].
    #[must_use]
    pub fn cancel(mut self, flag: Arc<AtomicBool>) -> Self {
        self.cancel = Some(flag);
        self
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

/// How far a verification is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Tiles verified.
    pub tiles: u64,
    /// Tiles there are.
    pub n_tiles: u64,
    /// Bytes of the tiles verified.
    pub bytes: u64,
}

/// What a verification found.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Report {
    /// Everything that is wrong, in the order manifest, files, tiles, obs. Empty for a sound dataset.
    pub faults: Vec<Fault>,
    /// Tiles looked at.
    pub tiles: u64,
    /// Bytes of the tiles looked at.
    pub bytes: u64,
    /// Why a server did not list its objects, if it did not: whether there are too many of them is not known then.
    pub unlisted: Option<String>,
}

impl Report {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.faults.is_empty()
    }
}

/// What all checks share.
struct Context<'a> {
    storage: &'a dyn Storage,
    manifest: &'a Manifest,
    options: &'a VerifyOptions,
}

/// Verifies the dataset in a storage. `progress` is called after every tile, from any thread.
///
/// # Errors
/// Only what keeps the verification itself from going on: [`Error::NotADataset`] if there is no manifest,
/// [`Error::BigEndianHost`], [`Error::Cancelled`], or a folder that cannot be listed. Everything else, unreadable files included, is a
/// [`Fault`] of the report.
pub fn verify(
    storage: &dyn Storage,
    options: &VerifyOptions,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Report> {
    host::check(host::HOST)?;
    let mut report = Report::default();
    let Some(manifest) = manifest(storage, &mut report.faults)? else { return Ok(report) };
    let context = Context { storage, manifest: &manifest, options };
    report.unlisted = files::check(&context, &mut report.faults)?.map(|error| error.to_string());
    let checksums = files::checksums(&context, &mut report.faults);
    let looked_at = Mutex::new((0, 0));
    let strict = options.level == Level::Strict;
    let sources = strict.then(|| sources::Sources::of(&context)).flatten();
    let faults = tiles::check(&context, checksums.as_ref(), sources.as_ref(), &looked_at, progress);
    // Where tiles are damaged, their sums say nothing.
    if let Some(sources) = sources.filter(|_| faults.is_empty()) {
        sources.check(&context, &mut report.faults);
    }
    report.faults.extend(faults);
    (report.tiles, report.bytes) = *looked_at.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if options.is_cancelled() {
        return Err(Error::Cancelled);
    }
    obs::check(&context, &mut report.faults);
    Ok(report)
}

/// The manifest, if it can be understood: without it nothing else can be verified.
fn manifest(storage: &dyn Storage, faults: &mut Vec<Fault>) -> Result<Option<Manifest>> {
    let path = storage.locate(keys::MANIFEST);
    let text = match storage.read(keys::MANIFEST) {
        Ok(text) => text,
        // Says why there is none.
        Err(error) if error.is_not_found() => return Manifest::read(storage).map(|_| None),
        Err(error) => {
            faults.push(Fault::of(&path, &error));
            return Ok(None);
        }
    };
    let manifest = match Manifest::parse(&text, &path) {
        Ok(manifest) => manifest,
        Err(Error::Manifest { fault, .. }) => {
            faults.push(Fault::new(&path, fault));
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    match (manifest.manifest_sha256, Manifest::text_sha256(&text)) {
        (Some(expected), Ok(Some(found))) if found != expected => {
            faults.push(Fault::new(&path, format!("damaged: its SHA-256 is {found}, it says {expected}")));
        }
        (Some(_), Err(fault)) => faults.push(Fault::new(&path, fault)),
        // A writer that adds one of these adds all of them.
        (None, _)
            if manifest.tile_sha256.is_some()
                || manifest.tile_checksums.is_some()
                || !manifest.files.is_empty() =>
        {
            faults.push(Fault::new(&path, "damaged: there are hashes of the files, but no manifest_sha256"));
        }
        _ => {}
    }
    Ok(Some(manifest))
}
