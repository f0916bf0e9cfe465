//! Cells in, a dataset out.

mod crew;
mod job;
mod occupy;
mod record;
mod source;
mod staged;

use std::path::Path;
use std::sync::Arc;

use celltile_tile::{ChunkCut, ChunkCutter, Compression, CsrView, EncodeOptions};
use serde_json::{Map, Value, json};

use self::crew::{AllDone, Crew, Spec};
use self::job::Batch;
pub use self::occupy::prepare;
pub use self::record::{OnTile, TileRecord};
use crate::checksums;
use crate::error::{CellFault, Error, Result};
use crate::genes::{GeneOrder, VarNames};
use crate::manifest::{FileRecord, Manifest, ObsRecord};
use crate::storage::{RemoteOptions, Storage, open_path};
use crate::{host, keys};

/// How a dataset is written. None of it changes which cells come back.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WriterOptions {
    /// Cells of every tile but the last, 10,000 by default.
    pub tile_size: u64,
    /// How hard zstd tries, and where tile chunks end.
    ///
    /// With [`ChunkCut::Count`] no tile chunk can be encoded before the tile is complete, since its number of nonzeros
    /// is not known: the tile's cells are kept until then, packed to about two bytes a nonzero.
    pub encode: EncodeOptions,
    /// Threads that encode; the machine's by default. The bytes written do not depend on it.
    pub threads: usize,
    /// Bytes of cells waiting to be encoded, 256 MiB by default. Beside these, up to three encoded tiles are in memory.
    pub memory: u64,
    /// Whether a dataset that is there already is replaced.
    pub overwrite: bool,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            tile_size: 10_000,
            encode: EncodeOptions::default(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            memory: 256 << 20,
            overwrite: false,
        }
    }
}

/// What a finished writer tells.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Written {
    /// The manifest, as written.
    pub manifest: Manifest,
    /// Zeros that were pushed and not stored.
    pub zeros_dropped: u64,
    /// Cells whose genes were pushed out of order.
    pub unsorted_cells: u64,
}

/// Writes a dataset: cells go in, in order and in pieces of any size, and tiles come out, encoded on many threads.
///
/// The same cells and options give the same bytes, whatever the number of threads and the pieces. Every file is written
/// under a temporary name, synced and renamed; the manifest comes last, so a writer that dies leaves a dataset that is
/// refused as incomplete.
#[derive(Debug)]
pub struct DatasetWriter {
    storage: Arc<dyn Storage>,
    manifest: Manifest,
    encode: EncodeOptions,
    /// Nothing once the writer has failed or finished.
    crew: Option<Crew>,
    /// Tiles that are there already, of a writer that only writes the rest.
    there: Option<Vec<TileRecord>>,
    /// Why there is no crew any more.
    stopped: String,
    cutter: ChunkCutter,
    batch: Batch,
    /// Nonzeros of the batch as they will be stored.
    batch_nnz: u64,
    /// Cells in the tile that is being filled.
    tile_cells: u64,
    metadata: Map<String, Value>,
    map: Option<KnownMap>,
}

/// A gene map that was looked at.
#[derive(Debug)]
struct KnownMap {
    map: Arc<[i32]>,
    drops_genes: bool,
}

impl DatasetWriter {
    /// Starts a dataset of `n_genes` genes in a storage. What a writer that died left there is cleared away; a dataset is
    /// only with [`WriterOptions::overwrite`], its manifest first.
    ///
    /// # Errors
    /// [`Error::Occupied`] if there is a dataset or something that is not ours; [`Error::Argument`] for options out of
    /// range; [`Error::BigEndianHost`]; or what the storage reports.
    pub fn create(storage: Arc<dyn Storage>, n_genes: u64, options: &WriterOptions) -> Result<Self> {
        let (genes, cutter) = Self::check(n_genes, options)?;
        occupy::prepare(storage.as_ref(), options.overwrite)?;
        Self::start(storage, n_genes, genes, cutter, options, 0, None)
    }

    /// Starts a writer of some tiles of a dataset, the first of them number `first_tile`: cells are pushed as ever, and
    /// [`finish_tiles`](Self::finish_tiles) ends it. Nothing is cleared away, and no other file is written. `on_tile` is told of each
    /// tile.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn some_tiles(
        storage: Arc<dyn Storage>,
        n_genes: u64,
        options: &WriterOptions,
        first_tile: u64,
        on_tile: Option<OnTile>,
    ) -> Result<Self> {
        let (genes, cutter) = Self::check(n_genes, options)?;
        Self::start(storage, n_genes, genes, cutter, options, first_tile, on_tile)
    }

    /// A writer of everything but the tiles, which are there already: all of them, in order.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn of_tiles(
        storage: Arc<dyn Storage>,
        n_genes: u64,
        options: &WriterOptions,
        tiles: Vec<TileRecord>,
    ) -> Result<Self> {
        let (_, cutter) = Self::check(n_genes, options)?;
        let mut manifest = Manifest::empty(n_genes, options.tile_size);
        manifest.zstd_level = options.encode.compression.nearest_level().into();
        manifest.n_cells = tiles.iter().fold(0, |sum: u64, tile| sum.saturating_add(tile.cells));
        Ok(Self {
            storage,
            manifest,
            encode: options.encode,
            crew: None,
            there: Some(tiles),
            stopped: "all tiles are there already".to_owned(),
            cutter,
            batch: Batch::default(),
            batch_nnz: 0,
            tile_cells: 0,
            metadata: Map::new(),
            map: None,
        })
    }

    /// What the options must be for any writer.
    fn check(n_genes: u64, options: &WriterOptions) -> Result<(u32, ChunkCutter)> {
        host::check(host::HOST)?;
        let argument = |what, found: String, expected: &str| Error::Argument {
            what,
            found,
            expected: expected.to_owned(),
        };
        let genes = u32::try_from(n_genes).ok().filter(|n| (1..=1 << 31).contains(n));
        let genes = genes.ok_or_else(|| argument("n_genes", n_genes.to_string(), "1 to 2^31"))?;
        if options.tile_size == 0 {
            return Err(argument("tile_size", "0".to_owned(), "at least 1"));
        }
        let option =
            |e: celltile_tile::Error| argument("encoding", e.to_string(), "options that libzstd takes");
        let cutter = ChunkCutter::new(options.encode.cut).map_err(option)?;
        celltile_tile::ChunkEncoder::new(options.encode.compression).map_err(option)?;
        Ok((genes, cutter))
    }

    fn start(
        storage: Arc<dyn Storage>,
        n_genes: u64,
        genes: u32,
        cutter: ChunkCutter,
        options: &WriterOptions,
        first_tile: u64,
        on_tile: Option<OnTile>,
    ) -> Result<Self> {
        let mut manifest = Manifest::empty(n_genes, options.tile_size);
        manifest.zstd_level = options.encode.compression.nearest_level().into();
        let spec = Spec {
            storage: Arc::clone(&storage),
            n_genes: genes,
            encode: options.encode,
            threads: options.threads.max(1),
            memory: options.memory,
            first_tile,
            on_tile,
        };
        Ok(Self {
            storage,
            manifest,
            encode: options.encode,
            crew: Some(Crew::new(spec)?),
            there: None,
            stopped: String::new(),
            cutter,
            batch: Batch::default(),
            batch_nnz: 0,
            tile_cells: 0,
            metadata: Map::new(),
            map: None,
        })
    }

    /// Starts a dataset at a path or URL (`s3://`, `gs://`, `az://`).
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn create_at(path: impl AsRef<Path>, n_genes: u64, options: &WriterOptions) -> Result<Self> {
        Self::create(open_path(path.as_ref(), &RemoteOptions::default())?, n_genes, options)
    }

    /// Where the dataset is being written.
    #[must_use]
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// Cells pushed so far.
    #[must_use]
    pub fn n_cells(&self) -> u64 {
        self.manifest.n_cells
    }

    /// Appends cells: genes in the dataset's order, increasing within a cell, counts at least 1.
    ///
    /// # Errors
    /// [`Error::Cell`] for what the format cannot hold (at this or a later call: encoding goes on behind it), or what the
    /// storage reports. Afterwards the writer is stopped.
    pub fn push(&mut self, cells: CsrView<'_>) -> Result<()> {
        self.set_map(None);
        self.stopping(|writer| {
            for (genes, counts) in cells.iter() {
                writer.push_cell(genes, counts, counts.len())?;
            }
            Ok(())
        })
    }

    /// Appends cells as a source has them: genes numbered and ordered by the source, zeros among the counts. `map` has an
    /// entry a gene of the source: the gene's number in the dataset, or a negative one to drop it. Renumbering, sorting
    /// and the search for repeated genes happen on the encoding threads.
    ///
    /// # Errors
    /// As [`push`](Self::push); a gene that occurs twice in a cell is an [`Error::Cell`] that names the source's gene.
    pub fn push_source(&mut self, cells: CsrView<'_>, map: &Arc<[i32]>) -> Result<()> {
        self.set_map(Some(map));
        let drops_genes = self.map.as_ref().is_some_and(|known| known.drops_genes);
        self.stopping(|writer| {
            for (genes, counts) in cells.iter() {
                let stored = if drops_genes {
                    let kept = |gene: i32| {
                        usize::try_from(gene).ok().and_then(|g| map.get(g)).is_none_or(|new| *new >= 0)
                    };
                    genes.iter().zip(counts).filter(|(gene, count)| **count != 0 && kept(**gene)).count()
                } else {
                    counts.iter().filter(|count| **count != 0).count()
                };
                writer.push_cell(genes, counts, stored)?;
            }
            Ok(())
        })
    }

    /// Writes `gene_order.npy`.
    ///
    /// # Errors
    /// [`Error::Argument`] unless it has an entry a gene, or what the storage reports.
    pub fn set_gene_order(&mut self, order: &GeneOrder) -> Result<()> {
        self.check_length("gene order", order.columns().len())?;
        self.write_file(keys::GENE_ORDER, &order.to_npy())?;
        self.manifest.has_gene_order = true;
        Ok(())
    }

    /// Writes `var_names.txt`.
    ///
    /// # Errors
    /// [`Error::Argument`] unless it has an entry a gene, or what the storage reports.
    pub fn set_var_names(&mut self, names: &VarNames) -> Result<()> {
        self.check_length("gene names", names.names().len())?;
        self.write_file(keys::VAR_NAMES, names.to_text().as_bytes())?;
        self.manifest.has_var_names = true;
        Ok(())
    }

    /// Writes `var.parquet` with this content.
    ///
    /// # Errors
    /// What the storage reports.
    pub fn set_var_table(&mut self, content: &[u8]) -> Result<()> {
        self.write_file(keys::VAR_TABLE, content)?;
        self.manifest.has_var_table = true;
        Ok(())
    }

    /// Says what was written of obs: `schema` is the content of `obs/schema.json`, which this call writes; the shards are
    /// there already.
    ///
    /// # Errors
    /// What the storage reports.
    pub fn set_obs(&mut self, schema: &[u8], record: ObsRecord) -> Result<()> {
        self.write_file(keys::OBS_SCHEMA, schema)?;
        self.manifest.obs = Some(record);
        Ok(())
    }

    /// The free-form object of the manifest. `encoder` is added to it.
    pub fn metadata_mut(&mut self) -> &mut Map<String, Value> {
        &mut self.metadata
    }

    /// Writes what is left: the last tile, the checksums, and the manifest, which makes the dataset complete.
    ///
    /// # Errors
    /// As [`push`](Self::push), and [`Error::Manifest`] if what was set (obs, say) does not fit the cells.
    pub fn finish(mut self) -> Result<Written> {
        let done = match self.there.take() {
            Some(tiles) => AllDone { tiles, zeros_dropped: 0, unsorted_cells: 0 },
            None => self.end()?,
        };
        let m = &mut self.manifest;
        let (mut hashes, mut sums) = (Vec::new(), Vec::new());
        for tile in done.tiles {
            m.tile_cells.push(tile.cells);
            m.tile_nnz.push(tile.nnz);
            m.tile_bytes.push(tile.bytes);
            m.n_chunks = m.n_chunks.max(u64::try_from(tile.checksums.chunks.len()).unwrap_or(u64::MAX));
            hashes.push(tile.sha256);
            sums.push(tile.checksums);
        }
        m.tile_sha256 = Some(hashes);
        let sums = checksums::to_bytes(&sums);
        m.tile_checksums = Some(FileRecord::of(&sums));
        self.metadata.insert("encoder".to_owned(), encoder(&self.encode));
        m.set_metadata(std::mem::take(&mut self.metadata));
        let path = self.storage.locate(keys::MANIFEST);
        let text =
            m.to_json().map_err(|fault| Error::Manifest { path: path.clone(), fault: Box::new(fault) })?;

        self.storage.write(keys::TILE_CHECKSUMS, &sums)?;
        self.storage.write(keys::MANIFEST, text.as_bytes())?;
        Ok(Written {
            manifest: Manifest::parse(text.as_bytes(), &path)?,
            zeros_dropped: done.zeros_dropped,
            unsorted_cells: done.unsorted_cells,
        })
    }

    /// Ends a writer of [some tiles](Self::some_tiles): the last tile may be a short one. Its tiles, in order.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn finish_tiles(mut self) -> Result<Vec<TileRecord>> {
        Ok(self.end()?.tiles)
    }

    fn end(&mut self) -> Result<AllDone> {
        self.stopping(Self::end_tile)?;
        let Some(crew) = self.crew.take() else { return Err(Error::WriterStopped(self.stopped.clone())) };
        crew.finish()
    }

    /// Takes one cell; `stored` is the number of its nonzeros that will be stored.
    fn push_cell(&mut self, genes: &[i32], counts: &[i32], stored: usize) -> Result<()> {
        let stored = u64::try_from(stored).unwrap_or(u64::MAX);
        let cell = self.manifest.n_cells;
        let starts = self
            .cutter
            .push(stored)
            .map_err(|_| Error::Cell { cell, reason: CellFault::TooManyGenes { found: stored } })?;
        let staged = matches!(self.encode.cut, ChunkCut::Count(_));
        if starts {
            self.batch.end_chunk();
        }
        if (starts || staged) && self.batch_nnz >= job::BATCH_NNZ {
            self.submit()?;
        }
        self.batch.push_cell(genes, counts, self.map.as_ref().map(|known| &known.map));
        self.batch_nnz = self.batch_nnz.saturating_add(stored);
        self.manifest.n_cells = cell.saturating_add(1);
        self.tile_cells = self.tile_cells.saturating_add(1);
        if self.tile_cells == self.manifest.tile_size {
            self.end_tile()?;
        }
        Ok(())
    }

    fn end_tile(&mut self) -> Result<()> {
        if self.tile_cells == 0 {
            return Ok(());
        }
        self.batch.end_chunk();
        self.submit()?;
        self.cutter.reset();
        self.tile_cells = 0;
        match &mut self.crew {
            Some(crew) => crew.end_tile(),
            None => Err(Error::WriterStopped(self.stopped.clone())),
        }
    }

    /// Hands the batch to the threads, and waits while there is too much before them.
    fn submit(&mut self) -> Result<()> {
        let Some(crew) = &mut self.crew else { return Err(Error::WriterStopped(self.stopped.clone())) };
        let mut batch = std::mem::replace(&mut self.batch, Batch::new(crew.spare()));
        self.batch_nnz = 0;
        batch.first_cell =
            self.manifest.n_cells.saturating_sub(u64::try_from(batch.cells.n_cells()).unwrap_or(u64::MAX));
        crew.submit(batch)
    }

    /// How the cells that follow are numbered.
    fn set_map(&mut self, map: Option<&Arc<[i32]>>) {
        let same = match (&self.map, map) {
            (None, None) => true,
            (Some(known), Some(map)) => Arc::ptr_eq(&known.map, map),
            _ => false,
        };
        if !same {
            let known = |map: &Arc<[i32]>| KnownMap {
                drops_genes: map.iter().any(|new| *new < 0),
                map: Arc::clone(map),
            };
            self.map = map.map(known);
        }
    }

    /// Runs a step; an error in it, or one from the threads, ends the writer.
    fn stopping(&mut self, step: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if self.crew.is_none() {
            return Err(Error::WriterStopped(self.stopped.clone()));
        }
        let Err(error) = step(self) else { return Ok(()) };
        // The threads may know of an earlier one.
        let error = match self.crew.take() {
            Some(crew) => crew.abandon(error),
            None => error,
        };
        self.stopped = error.to_string();
        Err(error)
    }

    pub(crate) fn check_length(&self, what: &'static str, found: usize) -> Result<()> {
        if u64::try_from(found) == Ok(self.manifest.n_genes) {
            return Ok(());
        }
        let expected = format!("{}, one a gene", self.manifest.n_genes);
        Err(Error::Argument { what, found: found.to_string(), expected })
    }

    fn write_file(&mut self, key: &str, content: &[u8]) -> Result<()> {
        self.storage.write(key, content)?;
        self.manifest.files.insert(key.to_owned(), FileRecord::of(content));
        Ok(())
    }
}

/// What the manifest's metadata say of the encoder.
fn encoder(options: &EncodeOptions) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    match options.compression {
        Compression::Preset(preset) => {
            json!({"name": "celltile", "version": version, "preset": preset.name()})
        }
        Compression::Level(level) => json!({"name": "celltile", "version": version, "level": level}),
        _ => {
            json!({"name": "celltile", "version": version, "parameters": format!("{:?}", options.compression)})
        }
    }
}
