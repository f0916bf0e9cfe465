use std::io::{self, Write};
use std::sync::Arc;

use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use super::fault::argument;
use super::layout::Layout;
use super::{Separators, fingerprint};
use crate::digest::{Hasher, Sha256};
use crate::error::{Error, Result};
use crate::keys;
use crate::manifest::ObsRecord;
use crate::storage::{ObjectWriter, Storage};
use crate::table::{Table, TableMeta};

/// How obs is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObsWriteOptions {
    /// Tiles (row groups) of a shard.
    pub tiles_per_file: u64,
    /// Category columns with more categories become string columns.
    pub max_categories: usize,
    /// zstd level of the shards' pages.
    pub zstd_level: i32,
}

impl Default for ObsWriteOptions {
    fn default() -> Self {
        Self { tiles_per_file: 1000, max_categories: 20_000, zstd_level: 3 }
    }
}

/// What a finished [`ObsWriter`] leaves to the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObsWritten {
    /// The manifest's obs fields.
    pub record: ObsRecord,
    /// The text of `obs/schema.json`, which the manifest's writer writes.
    pub schema: String,
    /// What goes under `metadata.celltile.obs` ([`TableMeta::to_json`]).
    pub meta: TableMeta,
    /// Cells of each tile.
    pub tile_cells: Vec<u64>,
}

/// Writes the shards from rows in the order of the cells.
///
/// It holds one row group, compressed, and no rows. Objects appear under their names whole;
/// [`DatasetWriter::set_obs_table`](crate::DatasetWriter::set_obs_table) takes over the rest.
#[derive(Debug)]
pub struct ObsWriter {
    storage: Arc<dyn Storage>,
    layout: Layout,
    properties: WriterProperties,
    tile_size: u64,
    tiles_per_file: u64,
    shard: Option<Shard>,
    /// Cells of the tile that is being filled.
    tile_rows: u64,
    tile_cells: Vec<u64>,
    shard_bytes: Vec<u64>,
    shard_sha256: Vec<Sha256>,
    /// Missing values of each column so far.
    missing: Vec<u64>,
}

#[derive(Debug)]
struct Shard {
    key: String,
    writer: ArrowWriter<HashingWriter>,
    tiles: u64,
}

impl ObsWriter {
    /// Starts an obs table of the columns of `like`, which may hold all rows, some or none: names, types,
    /// categories and index are taken from it.
    ///
    /// # Errors
    /// [`Error::Argument`] for a tile or shard size of 0, a zstd level that there is not, a table without index and
    /// columns (Parquet would lose its rows), or categories of several types that are too many to stay categories.
    pub fn create(
        storage: Arc<dyn Storage>,
        like: &Table,
        tile_size: u64,
        options: ObsWriteOptions,
    ) -> Result<Self> {
        for (what, size) in [("tile size", tile_size), ("tiles of an obs shard", options.tiles_per_file)] {
            if size == 0 {
                return Err(argument(what, "0", "at least 1"));
            }
        }
        let layout = Layout::of(like, options.max_categories)?;
        if layout.schema().fields().is_empty() {
            return Err(argument("obs", "a table without index and columns", "one with either, or no obs"));
        }
        let level = ZstdLevel::try_new(options.zstd_level)
            .map_err(|e| argument("zstd level of obs", options.zstd_level, e))?;
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_statistics_enabled(EnabledStatistics::None)
            .set_offset_index_disabled(true)
            .set_max_row_group_row_count(None)
            .set_created_by(format!("celltile version {}", env!("CARGO_PKG_VERSION")));
        for name in layout.unique_columns() {
            let path = ColumnPath::new(vec![name.to_owned()]);
            properties = properties.set_column_dictionary_enabled(path, false);
        }
        let missing = vec![0; layout.schema().fields().len()];
        Ok(Self {
            storage,
            layout,
            missing,
            properties: properties.build(),
            tile_size,
            tiles_per_file: options.tiles_per_file,
            shard: None,
            tile_rows: 0,
            tile_cells: Vec::new(),
            shard_bytes: Vec::new(),
            shard_sha256: Vec::new(),
        })
    }

    /// Appends the rows of the next cells, any number of them.
    ///
    /// # Errors
    /// [`Error::Argument`] if the table is not like the first one; what the storage reports.
    pub fn push(&mut self, rows: &Table) -> Result<()> {
        let batch = self.layout.batch(rows)?;
        for ((sum, array), field) in
            self.missing.iter_mut().zip(batch.columns()).zip(self.layout.schema().fields())
        {
            *sum = sum.saturating_add(field.missing(array.as_ref()));
        }
        let mut start = 0;
        while start < batch.num_rows() {
            let room = usize::try_from(self.tile_size - self.tile_rows).unwrap_or(usize::MAX);
            let length = room.min(batch.num_rows() - start);
            let part = batch.slice(start, length);
            let shard = match &mut self.shard {
                Some(shard) => shard,
                none => {
                    let key = keys::obs_shard(count(&self.shard_bytes));
                    none.insert(Shard::create(self.storage.as_ref(), key, &self.layout, &self.properties)?)
                }
            };
            shard.writer.write(&part).map_err(|e| parquet_error(&shard.key, self.storage.as_ref(), &e))?;
            start += length;
            self.tile_rows += u64::try_from(length).unwrap_or(u64::MAX);
            if self.tile_rows == self.tile_size {
                self.end_tile()?;
            }
        }
        Ok(())
    }

    /// Ends the last tile and shard.
    ///
    /// # Errors
    /// What the storage reports.
    pub fn finish(mut self) -> Result<ObsWritten> {
        if self.tile_rows > 0 {
            self.end_tile()?;
        }
        self.end_shard()?;
        let schema = self.layout.schema().to_json();
        let fingerprint = fingerprint(&schema, &self.tile_cells, &self.shard_sha256, Separators::Spaced);
        Ok(ObsWritten {
            record: ObsRecord {
                tiles_per_file: self.tiles_per_file,
                shard_bytes: self.shard_bytes,
                shard_sha256: self.shard_sha256,
                fingerprint,
            },
            schema,
            meta: self.layout.counted(&self.missing),
            tile_cells: self.tile_cells,
        })
    }

    fn end_tile(&mut self) -> Result<()> {
        self.tile_cells.push(self.tile_rows);
        self.tile_rows = 0;
        if let Some(shard) = &mut self.shard {
            shard.writer.flush().map_err(|e| parquet_error(&shard.key, self.storage.as_ref(), &e))?;
            shard.tiles += 1;
            if shard.tiles == self.tiles_per_file {
                self.end_shard()?;
            }
        }
        Ok(())
    }

    fn end_shard(&mut self) -> Result<()> {
        let Some(Shard { key, writer, .. }) = self.shard.take() else { return Ok(()) };
        let HashingWriter { inner, hasher } =
            writer.into_inner().map_err(|e| parquet_error(&key, self.storage.as_ref(), &e))?;
        self.shard_bytes.push(inner.finish()?);
        self.shard_sha256.push(hasher.finish());
        Ok(())
    }
}

/// Writes a whole table as obs. `order` lists the table's rows in the order of the cells; without it they are in
/// order already.
///
/// # Errors
/// As [`ObsWriter`].
pub fn write_obs(
    storage: Arc<dyn Storage>,
    table: &Table,
    order: Option<&[u64]>,
    tile_size: u64,
    options: ObsWriteOptions,
) -> Result<ObsWritten> {
    let mut writer = ObsWriter::create(storage, table, tile_size, options)?;
    let fault = |e| Error::Table { path: "obs".to_owned(), source: Box::new(e) };
    match order {
        None => writer.push(table)?,
        Some(order) => {
            let step = usize::try_from(tile_size).unwrap_or(usize::MAX).min(1 << 16);
            for rows in order.chunks(step) {
                writer.push(&table.take(rows).map_err(fault)?)?;
            }
        }
    }
    writer.finish()
}

impl Shard {
    fn create(
        storage: &dyn Storage,
        key: String,
        layout: &Layout,
        properties: &WriterProperties,
    ) -> Result<Self> {
        let inner = HashingWriter { inner: storage.create(&key)?, hasher: Hasher::new() };
        // The Arrow schema inside the file would only repeat what the Parquet types say: it is half the footer.
        let options =
            ArrowWriterOptions::new().with_properties(properties.clone()).with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(inner, Arc::clone(layout.arrow()), options)
            .map_err(|e| parquet_error(&key, storage, &e))?;
        Ok(Self { key, writer, tiles: 0 })
    }
}

/// An object in the making that knows the hash of what went in.
struct HashingWriter {
    inner: Box<dyn ObjectWriter>,
    hasher: Hasher,
}

impl std::fmt::Debug for HashingWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HashingWriter")
    }
}

impl Write for HashingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(bytes.get(..written).unwrap_or(bytes));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn parquet_error(key: &str, storage: &dyn Storage, error: &parquet::errors::ParquetError) -> Error {
    Error::Io { path: storage.locate(key), action: "write", source: io::Error::other(error.to_string()) }
}

fn count<T>(list: &[T]) -> u64 {
    u64::try_from(list.len()).unwrap_or(u64::MAX)
}
