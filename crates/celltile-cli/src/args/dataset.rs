//! A dataset to read, and where what was fetched of it is kept.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use celltile::obs::Cache;
use celltile::storage::{LocalStorage, RemoteOptions, Storage, TileCache, is_url, open_storage};
use celltile::{Dataset, OpenOptions};

use crate::failure::Failure;

/// A dataset to read.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Source {
    /// The dataset: a folder or a URL (s3://, gs://, az://, https://).
    dataset: PathBuf,
}

impl Source {
    /// The path or URL.
    pub(crate) fn path(&self) -> &Path {
        &self.dataset
    }

    /// The path or URL as text.
    pub(crate) fn place(&self) -> String {
        self.dataset.display().to_string()
    }

    /// Where its objects are. Nothing is read yet.
    pub(crate) fn storage(&self) -> Result<Arc<dyn Storage>, Failure> {
        match self.dataset.to_str() {
            Some(url) if is_url(url) => Ok(open_storage(url, &RemoteOptions::default())?),
            _ => Ok(Arc::new(LocalStorage::new(&self.dataset))),
        }
    }

    /// The dataset, open with so many threads.
    pub(crate) fn open(&self, threads: usize) -> Result<Dataset, Failure> {
        Ok(Dataset::open_with(&self.dataset, &OpenOptions::default().threads(threads))?)
    }

    /// The dataset, open with so many threads, its tiles kept as asked for.
    pub(crate) fn open_kept(&self, threads: usize, keep: &KeepTiles) -> Result<Dataset, Failure> {
        let mut options = OpenOptions::default().threads(threads);
        options.tile_cache = keep.cache()?;
        Ok(Dataset::open_with(&self.dataset, &options)?)
    }
}

/// The folder of what was fetched.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CacheDir {
    /// Where what was fetched from a bucket is kept [default: $DELTACELLS_CACHE, $XDG_CACHE_HOME/deltacells or
    /// ~/.cache/deltacells].
    #[arg(long, value_name = "FOLDER")]
    cache_dir: Option<PathBuf>,
}

impl CacheDir {
    /// The folder asked for.
    pub(crate) fn named(&self) -> Option<Cache> {
        self.cache_dir.as_ref().map(Cache::at)
    }

    /// The folder asked for, or the one that the environment names.
    pub(crate) fn get(&self) -> Result<Cache, Failure> {
        self.named().map_or_else(|| Ok(Cache::from_env()?), Ok)
    }
}

/// Whether tiles of a bucket are kept on the disk of this machine.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct KeepTiles {
    /// Fetch tiles of a bucket whole and keep up to so many bytes of them on disk; those not used for longest go first.
    #[arg(long, value_name = "SIZE", value_parser = super::bytes)]
    cache_tiles: Option<u64>,
    #[command(flatten)]
    folder: CacheDir,
}

impl KeepTiles {
    /// Whether tiles are kept.
    pub(crate) fn is_on(&self) -> bool {
        self.cache_tiles.is_some()
    }

    /// Where columns of obs are kept.
    pub(crate) fn folder(&self) -> Result<Cache, Failure> {
        self.folder.get()
    }

    fn cache(&self) -> Result<Option<Arc<TileCache>>, Failure> {
        let Some(size) = self.cache_tiles else { return Ok(None) };
        let cache = self.folder.get()?;
        Ok(cache.folder().map(|folder| Arc::new(TileCache::new(folder.join("tiles"), size))))
    }
}
