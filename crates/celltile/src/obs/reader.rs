use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;
use bytes::Bytes;

use super::chunks::join;
use super::shard::Shard;
use super::{Cache, Obs, ObsColumn, ObsField, ObsSchema};
use crate::error::{Error, Result};
use crate::keys;
use crate::manifest::{Manifest, ObsRecord};
use crate::recorded;
use crate::storage::{ReadRequest, Storage};
use crate::table::TableMeta;

/// Bytes and ranges that are asked for at once while a column is fetched.
const AT_ONCE: u64 = 16 << 20;
const RANGES_AT_ONCE: usize = 64;

/// Reads columns of a dataset's obs table.
#[derive(Debug)]
pub struct ObsReader {
    storage: Arc<dyn Storage>,
    schema: ObsSchema,
    schema_text: String,
    meta: TableMeta,
    record: ObsRecord,
    tile_cells: Vec<u64>,
}

impl ObsReader {
    /// Reads the schema of a dataset's obs table; nothing if the dataset has none.
    ///
    /// # Errors
    /// What the storage reports, [`Error::Checksum`] and [`Error::Size`] if the schema is not the one that the manifest
    /// records, [`Error::File`] if it breaks the format, [`Error::Table`] if `metadata.celltile.obs` is malformed.
    pub fn open(storage: Arc<dyn Storage>, manifest: &Manifest) -> Result<Option<Self>> {
        let Some(record) = &manifest.obs else { return Ok(None) };
        let text = recorded::read(storage.as_ref(), manifest, keys::OBS_SCHEMA)?;
        let path = storage.locate(keys::OBS_SCHEMA);
        let schema = ObsSchema::parse(&text, &path)?;
        // JSON is UTF-8, so nothing is lost here.
        let schema_text = String::from_utf8_lossy(&text).into_owned();
        let metadata = manifest.metadata();
        let meta = match metadata.get("celltile").and_then(|own| own.get("obs")) {
            None => TableMeta::default(),
            Some(value) => TableMeta::from_json(value).map_err(|source| Error::Table {
                path: format!("{}: metadata.celltile.obs", storage.locate(keys::MANIFEST)),
                source: Box::new(source),
            })?,
        };
        Ok(Some(Self {
            storage,
            schema,
            schema_text,
            meta,
            record: record.clone(),
            tile_cells: manifest.tile_cells.clone(),
        }))
    }

    /// The schema.
    #[must_use]
    pub fn schema(&self) -> &ObsSchema {
        &self.schema
    }

    /// The exact text of `obs/schema.json`.
    #[must_use]
    pub fn schema_text(&self) -> &str {
        &self.schema_text
    }

    /// What the manifest's metadata says of the columns beyond the schema.
    #[must_use]
    pub fn meta(&self) -> &TableMeta {
        &self.meta
    }

    /// The column that holds the cell names, if one is marked as such.
    #[must_use]
    pub fn index_column(&self) -> Option<&str> {
        self.meta
            .index
            .as_ref()
            .map(|index| index.column.as_str())
            .filter(|n| self.schema.position(n).is_some())
    }

    /// Columns by name, fetched into the cache on first use and mapped from there.
    ///
    /// # Errors
    /// [`Error::NoColumn`] for a name that the schema does not have; [`Error::Cache`] if the cache cannot be used;
    /// what the storage reports; [`Error::File`] for shards that disagree with the schema or the manifest.
    pub fn columns<S: AsRef<str>>(&self, names: &[S], cache: &Cache) -> Result<Obs> {
        let positions = names.iter().map(|name| self.position(name.as_ref())).collect::<Result<Vec<_>>>()?;
        let mut distinct = positions.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let arrays = cache.columns(self, &distinct)?;
        let columns = positions
            .iter()
            .filter_map(|position| {
                let field = self.schema.fields().get(*position)?;
                let tiles = arrays.get(distinct.binary_search(position).ok()?)?;
                Some(ObsColumn::new(Arc::new(field.clone()), self.meta.column(&field.name), tiles.clone()))
            })
            .collect();
        Ok(Obs::new(self.rows(), columns, self.meta.clone()))
    }

    /// All columns.
    ///
    /// # Errors
    /// As [`columns`](Self::columns).
    pub fn all(&self, cache: &Cache) -> Result<Obs> {
        let names: Vec<_> = self.schema.fields().iter().map(|field| field.name.as_str()).collect();
        self.columns(&names, cache)
    }

    /// Number of cells.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.tile_cells.iter().fold(0, |sum, cells| sum.saturating_add(*cells))
    }

    /// The fingerprint of the obs content, which keys the local cache.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.record.fingerprint
    }

    pub(super) fn tile_cells(&self) -> &[u64] {
        &self.tile_cells
    }

    pub(super) fn field(&self, column: usize) -> Option<&ObsField> {
        self.schema.fields().get(column)
    }

    fn position(&self, name: &str) -> Result<usize> {
        self.schema.position(name).ok_or_else(|| Error::NoColumn {
            name: name.to_owned(),
            columns: self.schema.fields().iter().map(|field| field.name.clone()).collect(),
        })
    }

    /// Fetches columns (positions in ascending order) tile by tile and hands each tile's arrays on, in order. Only
    /// the footers and the columns' own chunks are read.
    pub(super) fn fetch(
        &self,
        columns: &[usize],
        mut each: impl FnMut(Vec<ArrayRef>) -> Result<()>,
    ) -> Result<()> {
        let per_shard = usize::try_from(self.record.tiles_per_file).unwrap_or(usize::MAX).max(1);
        let shards = self.tile_cells.chunks(per_shard).zip(&self.record.shard_bytes);
        for (index, (tile_cells, &size)) in (0..).zip(shards) {
            let key = keys::obs_shard(index);
            let shard = Shard::open(self.storage.as_ref(), &key, size, &self.schema, tile_cells)?;
            let mut group = 0;
            while group < tile_cells.len() {
                let plan = plan(&shard, columns, group, tile_cells.len())?;
                let requests: Vec<_> = plan
                    .iter()
                    .flatten()
                    .map(|range| ReadRequest { key: &key, range: range.clone() })
                    .collect();
                let mut answers = self.storage.read_many(&requests).into_iter();
                for ranges in &plan {
                    let parts = ranges
                        .iter()
                        .zip(&mut answers)
                        .map(|(range, bytes)| Ok((range.start, bytes?)))
                        .collect::<Result<Vec<(u64, Bytes)>>>()?;
                    each(shard.decode(group, columns, &self.schema, parts)?)?;
                    group += 1;
                }
            }
        }
        Ok(())
    }
}

/// The ranges of the next row groups from `first` on, as many as are worth asking for at once: at least one group.
fn plan(shard: &Shard, columns: &[usize], first: usize, end: usize) -> Result<Vec<Vec<Range<u64>>>> {
    let mut plan: Vec<Vec<Range<u64>>> = Vec::new();
    let (mut bytes, mut count) = (0_u64, 0);
    for group in first..end {
        let ranges = columns.iter().map(|&column| shard.chunk(group, column)).collect::<Result<Vec<_>>>()?;
        let ranges = join(ranges);
        let size = ranges.iter().fold(0_u64, |sum, r| sum.saturating_add(r.end - r.start));
        let full = bytes.saturating_add(size) > AT_ONCE || count + ranges.len() > RANGES_AT_ONCE;
        if full && !plan.is_empty() {
            break;
        }
        bytes = bytes.saturating_add(size);
        count += ranges.len();
        plan.push(ranges);
    }
    Ok(plan)
}
