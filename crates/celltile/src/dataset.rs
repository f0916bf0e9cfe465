//! A dataset, open for reading.

mod chunks;
mod lru;
mod pool;
mod read;
mod tiles;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use celltile_grid::Axis;
use celltile_tile::{Count, Csr, TileHead};

pub use self::chunks::{ChunkReader, TileHandle};
use self::pool::Pool;
use self::read::Plan;
use self::tiles::Tiles;
use crate::error::{Error, Result};
use crate::genes::{GeneOrder, VarNames};
use crate::keys;
use crate::manifest::Manifest;
use crate::recorded;
use crate::storage::{CachedStorage, RemoteOptions, Storage, TileCache, open_path};

/// How much of a tile is checked before its first cell is handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Verify {
    /// Everything handed out was checked. With the dataset's `tile_checksums.bin`, the parts that are read; without it,
    /// the whole tile, once as long as the dataset is open (from a remote storage the whole tile is fetched for that).
    #[default]
    Full,
    /// The structure only: offsets, sizes, frames, gene indices. A flipped bit in a count can go unseen.
    Structure,
}

/// How a dataset is opened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OpenOptions {
    /// Threads that decode; the machine's by default.
    pub threads: usize,
    /// What is checked.
    pub verify: Verify,
    /// Bytes kept of tiles' heads (8 a cell and 100 a tile chunk), 256 MiB by default.
    pub head_cache: u64,
    /// Tiles kept open, 128 by default.
    pub open_files: u64,
    /// How requests to a remote storage are made; used where a URL is opened.
    pub remote: RemoteOptions,
    /// Where tiles of a remote storage are kept: each is fetched whole when it is first touched. Nowhere by default.
    pub tile_cache: Option<Arc<TileCache>>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            threads,
            verify: Verify::Full,
            head_cache: 256 << 20,
            open_files: 128,
            remote: RemoteOptions::default(),
            tile_cache: None,
        }
    }
}

impl OpenOptions {
    /// With so many threads.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// With so much checked.
    #[must_use]
    pub fn verify(mut self, verify: Verify) -> Self {
        self.verify = verify;
        self
    }
}

/// How cells are read.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct ReadOptions<'a> {
    /// One entry a gene of the dataset: its new number, or a negative one to drop it. The genes of a cell stay in the
    /// dataset's order, so the new numbers need not increase.
    pub gene_map: Option<&'a [i32]>,
    /// Whether counts above 2^24 may be rounded in a result of `f32`; otherwise they are an error.
    pub round_counts: bool,
    /// Set by another thread to stop: looked at before each tile chunk.
    pub cancel: Option<&'a AtomicBool>,
}

impl<'a> ReadOptions<'a> {
    /// With the genes renumbered.
    #[must_use]
    pub fn gene_map(mut self, map: &'a [i32]) -> Self {
        self.gene_map = Some(map);
        self
    }

    /// With rounding allowed.
    #[must_use]
    pub fn round_counts(mut self, allow: bool) -> Self {
        self.round_counts = allow;
        self
    }

    /// With a flag that stops the reading with [`Error::Cancelled`].
    #[must_use]
    pub fn cancel(mut self, flag: &'a AtomicBool) -> Self {
        self.cancel = Some(flag);
        self
    }

    /// # Errors
    /// [`Error::Cancelled`] if the flag is set.
    fn check_cancelled(&self) -> Result<()> {
        match self.cancel {
            Some(flag) if flag.load(Ordering::Relaxed) => Err(Error::Cancelled),
            _ => Ok(()),
        }
    }
}

/// All bytes of a tile, checked, with its head parsed.
#[derive(Debug, Clone)]
pub struct TileBytes {
    /// The object.
    pub bytes: Bytes,
    /// Header, chunk table and indptr.
    pub head: TileHead,
}

/// A dataset, open for reading. Sharing one between threads is fine.
///
/// Results are CSR matrices: `indptr` (int64), gene indices in the dataset's order (int32) and counts (int32, or
/// float32 where asked for).
///
/// ```
/// use std::sync::Arc;
/// use celltile::storage::MemoryStorage;
/// use celltile::{Csr, Dataset, DatasetWriter, WriterOptions};
///
/// let storage = Arc::new(MemoryStorage::new());
/// let mut writer = DatasetWriter::create(storage.clone(), 3, &WriterOptions::default())?;
/// let cells = Csr { indptr: vec![0, 2, 2, 3], genes: vec![0, 2, 1], counts: vec![5, 1, 7] };
/// writer.push(cells.view()?)?;
/// writer.finish()?;
///
/// let dataset = Dataset::open_storage(storage, &Default::default())?;
/// assert_eq!(dataset.rows(0..3)?, cells);
/// assert_eq!(dataset.gather(&[2, 0, 2])?.genes, [1, 0, 2, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Dataset {
    tiles: Tiles,
    pool: Pool,
    cells: Axis,
}

impl Dataset {
    /// Opens the dataset at a path or URL (`s3://`, `gs://`, `az://`, `https://`, `http://`).
    ///
    /// # Errors
    /// [`Error::NotADataset`] if there is none, or one that was never finished; [`Error::Manifest`] if its manifest breaks
    /// a rule; [`Error::BigEndianHost`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &OpenOptions::default())
    }

    /// Opens the dataset at a path or URL, with options.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        Self::open_storage(open_path(path.as_ref(), &options.remote)?, options)
    }

    /// Opens the dataset in a storage. Reads the manifest, and nothing else.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_storage(storage: Arc<dyn Storage>, options: &OpenOptions) -> Result<Self> {
        let manifest = Manifest::read(storage.as_ref())?;
        let cells = Axis::regular(manifest.n_cells, manifest.tile_size).map_err(|e| Error::Argument {
            what: "tile_size",
            found: e.to_string(),
            expected: "at least 1".to_owned(),
        })?;
        let storage = match &options.tile_cache {
            Some(cache) if storage.is_remote() => {
                let (sizes, digests) = (manifest.tile_bytes.clone(), manifest.tile_sha256.clone());
                Arc::new(CachedStorage::new(storage, Arc::clone(cache), sizes, digests))
            }
            _ => storage,
        };
        let tiles = Tiles::new(storage, Arc::new(manifest), options);
        Ok(Self { tiles, pool: Pool::new(options.threads), cells })
    }

    /// The manifest.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.tiles.manifest
    }

    /// Where the dataset is.
    #[must_use]
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.tiles.storage
    }

    /// Number of cells.
    #[must_use]
    pub fn n_cells(&self) -> u64 {
        self.manifest().n_cells
    }

    /// Number of genes.
    #[must_use]
    pub fn n_genes(&self) -> u64 {
        self.manifest().n_genes
    }

    /// Number of tiles.
    #[must_use]
    pub fn n_tiles(&self) -> u64 {
        self.manifest().n_tiles()
    }

    /// The tile that holds a cell, and the cell's number within it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] past the last cell.
    pub fn locate(&self, cell: u64) -> Result<(u64, u64)> {
        match self.cells.locate(cell) {
            Ok(position) => Ok((position.chunk, position.within)),
            Err(_) => Err(Error::OutOfRange { what: "cell", index: cell, len: self.n_cells() }),
        }
    }

    /// The cells of a tile.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] past the last tile.
    pub fn tile_cells(&self, tile: u64) -> Result<Range<u64>> {
        match self.cells.chunk(tile) {
            Ok(chunk) => Ok(chunk.origin..chunk.origin.saturating_add(chunk.clipped)),
            Err(_) => Err(Error::OutOfRange { what: "tile", index: tile, len: self.n_tiles() }),
        }
    }

    /// Threads that decode.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.pool.n_threads()
    }

    /// The source column of each gene, if the dataset says.
    ///
    /// # Errors
    /// [`Error::File`] if the file is not what it should be, [`Error::Size`] or [`Error::Checksum`] if it is not the one
    /// that the manifest records, or what the storage reports.
    pub fn gene_order(&self) -> Result<Option<GeneOrder>> {
        let file = self.recorded(self.manifest().has_gene_order, keys::GENE_ORDER)?;
        file.map(|(bytes, path)| GeneOrder::from_npy(&bytes, self.n_genes(), &path)).transpose()
    }

    /// The genes' names, if the dataset has them.
    ///
    /// # Errors
    /// As [`Dataset::gene_order`].
    pub fn var_names(&self) -> Result<Option<VarNames>> {
        let file = self.recorded(self.manifest().has_var_names, keys::VAR_NAMES)?;
        file.map(|(bytes, path)| VarNames::from_text(&bytes, self.n_genes(), &path)).transpose()
    }

    /// A file that the dataset has or not, the one that the manifest records if it records it; and its path.
    fn recorded(&self, has: bool, key: &str) -> Result<Option<(Bytes, String)>> {
        let storage = self.storage().as_ref();
        let read = || Ok((recorded::read(storage, self.manifest(), key)?, storage.locate(key)));
        has.then(read).transpose()
    }

    /// All cells of a tile.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] past the last tile, [`Error::Tile`], [`Error::TileMismatch`] or [`Error::Checksum`] for
    /// damaged data, or what the storage reports.
    pub fn tile(&self, tile: u64) -> Result<Csr> {
        let mut out = Csr::new();
        self.tile_into(tile, &ReadOptions::default(), &mut out)?;
        Ok(out)
    }

    /// All cells of a tile, into memory that is used again.
    ///
    /// # Errors
    /// As [`tile`](Self::tile). After an error `out` is a matrix of no cells.
    pub fn tile_into<C: Count>(&self, tile: u64, options: &ReadOptions<'_>, out: &mut Csr<C>) -> Result<()> {
        if !self.tiles.whole_is_best() {
            return self.rows_into(self.tile_cells(tile)?, options, out);
        }
        let plan = self.tiles.open_whole(tile).and_then(|whole| Plan::of_tile(&self.tiles, whole));
        self.decode(plan, options, out)
    }

    /// Consecutive cells.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for cells that are not there, and as [`tile`](Self::tile).
    pub fn rows(&self, cells: Range<u64>) -> Result<Csr> {
        let mut out = Csr::new();
        self.rows_into(cells, &ReadOptions::default(), &mut out)?;
        Ok(out)
    }

    /// Consecutive cells, into memory that is used again.
    ///
    /// # Errors
    /// As [`rows`](Self::rows). After an error `out` is a matrix of no cells.
    pub fn rows_into<C: Count>(
        &self,
        cells: Range<u64>,
        options: &ReadOptions<'_>,
        out: &mut Csr<C>,
    ) -> Result<()> {
        let plan = self.ranges(cells).and_then(|ranges| Plan::of_ranges(&self.tiles, &self.pool, &ranges));
        self.decode(plan, options, out)
    }

    /// Cells in any order, repeats allowed: row `i` of the result is cell `cells[i]`. Each tile chunk is read and
    /// decoded once, many at the same time.
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    pub fn gather(&self, cells: &[u64]) -> Result<Csr> {
        let mut out = Csr::new();
        self.gather_into(cells, &ReadOptions::default(), &mut out)?;
        Ok(out)
    }

    /// Cells in any order, into memory that is used again.
    ///
    /// # Errors
    /// As [`gather`](Self::gather). After an error `out` is a matrix of no cells.
    pub fn gather_into<C: Count>(
        &self,
        cells: &[u64],
        options: &ReadOptions<'_>,
        out: &mut Csr<C>,
    ) -> Result<()> {
        let locate = |cell| {
            let (tile, row) = self.locate(cell)?;
            let row = usize::try_from(row).map_err(|_| Error::OutOfRange {
                what: "cell",
                index: cell,
                len: self.n_cells(),
            })?;
            Ok((tile, row))
        };
        let plan = Plan::new(&self.tiles, &self.pool, cells, locate);
        self.decode(plan, options, out)
    }

    /// The bytes of a tile, in one read, checked: for those who decode it themselves.
    ///
    /// # Errors
    /// As [`tile`](Self::tile).
    pub fn tile_bytes(&self, tile: u64) -> Result<TileBytes> {
        let (bytes, head) = self.tiles.read_whole(tile, None)?;
        Ok(TileBytes { bytes, head })
    }

    /// A tile's header, chunk table and indptr, checked, without its streams (a remote tile that can only be checked
    /// whole is fetched whole).
    ///
    /// # Errors
    /// As [`tile`](Self::tile).
    pub fn tile_head(&self, tile: u64) -> Result<TileHead> {
        Ok(self.tiles.open(tile, None)?.head.clone())
    }

    fn decode<C: Count>(
        &self,
        plan: Result<Plan>,
        options: &ReadOptions<'_>,
        out: &mut Csr<C>,
    ) -> Result<()> {
        let result = plan.and_then(|plan| match options.gene_map {
            None => plan.decode(&self.tiles, &self.pool, options, out),
            Some(map) if u64::try_from(map.len()) != Ok(self.n_genes()) => Err(Error::Argument {
                what: "gene map",
                found: format!("{} entries", map.len()),
                expected: format!("{}, one a gene", self.n_genes()),
            }),
            Some(map) => plan.decode_mapped(&self.tiles, &self.pool, options, map, out),
        });
        if result.is_err() {
            out.clear();
        }
        result
    }

    /// Consecutive cells as ranges of tiles' cells.
    fn ranges(&self, cells: Range<u64>) -> Result<Vec<(u64, Range<usize>)>> {
        if cells.end > self.n_cells() || cells.start > cells.end {
            let index = cells.end.max(cells.start);
            return Err(Error::OutOfRange { what: "cell", index, len: self.n_cells() });
        }
        let mut ranges = Vec::new();
        let mut start = cells.start;
        while start < cells.end {
            let (tile, row) = self.locate(start)?;
            let end = cells.end.min(self.tile_cells(tile)?.end);
            let rows = row..row.saturating_add(end.saturating_sub(start));
            let index = |row| {
                usize::try_from(row).map_err(|_| Error::OutOfRange {
                    what: "cell",
                    index: row,
                    len: u64::MAX,
                })
            };
            ranges.push((tile, index(rows.start)?..index(rows.end)?));
            start = end;
        }
        Ok(ranges)
    }
}
