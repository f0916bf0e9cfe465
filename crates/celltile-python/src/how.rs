//! How a dataset is opened.

use std::path::PathBuf;
use std::sync::Arc;

use celltile::obs::Cache;
use celltile::storage::TileCache;
use celltile::{OpenOptions, Verify};

use crate::error::{Failure, Result};

/// More threads than that are a mistake, which costs a machine dear.
const MOST_THREADS: usize = 1024;

/// How a dataset is opened: enough to open it again.
#[derive(Debug, Clone)]
pub(crate) struct How {
    pub(crate) location: PathBuf,
    threads: Option<usize>,
    verify: Verify,
    /// Where obs columns are kept; where the environment says if `None`.
    cache_dir: Option<PathBuf>,
    tile_cache: Option<(PathBuf, u64)>,
    settings: Vec<(String, String)>,
}

impl How {
    pub(crate) fn new(
        location: PathBuf,
        threads: Option<usize>,
        verify: &str,
        cache_dir: Option<PathBuf>,
        tile_cache: Option<(PathBuf, u64)>,
        settings: Vec<(String, String)>,
    ) -> Result<Self> {
        let verify = match verify {
            "full" => Verify::Full,
            "structure" => Verify::Structure,
            other => {
                let message = format!("verify: found {other:?}, expected \"full\" or \"structure\"");
                return Err(Failure::Argument(message));
            }
        };
        if let Some(threads) = threads.filter(|threads| !(1..=MOST_THREADS).contains(threads)) {
            return Err(Failure::Argument(format!("threads: found {threads}, expected 1 to {MOST_THREADS}")));
        }
        Ok(Self { location, threads, verify, cache_dir, tile_cache, settings })
    }

    pub(crate) fn open(&self) -> Result<celltile::Dataset> {
        let mut options = OpenOptions::default().verify(self.verify);
        if let Some(threads) = self.threads {
            options = options.threads(threads);
        }
        options.remote.settings.clone_from(&self.settings);
        options.tile_cache =
            self.tile_cache.as_ref().map(|(folder, limit)| Arc::new(TileCache::new(folder, *limit)));
        Ok(celltile::Dataset::open_with(&self.location, &options)?)
    }

    /// Where obs columns are kept. Without any folder for it they are fetched into memory each time.
    pub(crate) fn cache(&self) -> Cache {
        match &self.cache_dir {
            Some(folder) => Cache::at(folder),
            None => Cache::from_env().unwrap_or_else(|_| Cache::memory()),
        }
    }
}
