use arrow_array::ArrayRef;

use crate::error::{Error, Result};
use crate::keys;
use crate::manifest::{Manifest, ObsRecord};
use crate::storage::Storage;

use super::shard::Shard;
use super::{ObsField, ObsSchema, Separators, fingerprint, fingerprint_matches};
use crate::table::TableMeta;

/// What is wrong with a dataset's obs table beyond the shards' sizes and hashes: schema, fingerprint, row groups, types; with
/// `values`, also what is in the pages and that codes name categories. Nothing if it has none.
pub(crate) fn faults(storage: &dyn Storage, manifest: &Manifest, values: bool) -> Vec<Error> {
    let mut faults = Vec::new();
    let Some(record) = &manifest.obs else { return faults };
    let (text, schema) = match read_schema(storage) {
        Ok(schema) => schema,
        Err(error) => {
            faults.push(error);
            return faults;
        }
    };
    faults.extend(check_fingerprint(storage, manifest, record, &text).err());
    let mut missing = Missing::new(&schema);
    let per_shard = usize::try_from(record.tiles_per_file).unwrap_or(usize::MAX).max(1);
    let shards = manifest.tile_cells.chunks(per_shard).zip(&record.shard_bytes);
    for (index, (tile_cells, &size)) in (0..).zip(shards) {
        let key = keys::obs_shard(index);
        match Shard::open(storage, &key, size, &schema, tile_cells) {
            // Reported with the hash.
            Err(Error::Size { .. } | Error::NotFound { .. }) => missing.known = false,
            Err(error) => {
                missing.known = false;
                faults.push(error);
            }
            Ok(shard) if values => {
                for group in 0..tile_cells.len() {
                    if let Err(error) = check_values(storage, &key, &shard, group, &schema, &mut missing) {
                        missing.known = false;
                        faults.push(error);
                    }
                }
            }
            Ok(_) => missing.known = false,
        }
    }
    faults.extend(missing.fault(storage, manifest, &schema));
    faults
}

/// A tile's part of a column of int64.
pub(crate) fn integers_of_tile(
    storage: &dyn Storage,
    manifest: &Manifest,
    name: &str,
    tile: u64,
) -> Result<Vec<i64>> {
    use arrow_array::cast::AsArray;
    let fault = |found: String, expected: &str| Error::File {
        path: storage.locate(keys::OBS_SCHEMA),
        what: format!("column {name:?}"),
        found,
        expected: expected.to_owned(),
    };
    let (_, schema) = read_schema(storage)?;
    let (Some(record), Some(column)) = (&manifest.obs, schema.position(name)) else {
        return Err(fault("nothing".to_owned(), "a column: metadata.celltile.conversion names it"));
    };
    let per_shard = record.tiles_per_file.max(1);
    let (shard, group) = (tile / per_shard, usize::try_from(tile % per_shard).unwrap_or(usize::MAX));
    let key = keys::obs_shard(shard);
    let at = usize::try_from(shard).unwrap_or(usize::MAX);
    let mut tiles = manifest.tile_cells.chunks(usize::try_from(per_shard).unwrap_or(usize::MAX));
    let (Some(tile_cells), Some(&size)) = (tiles.nth(at), record.shard_bytes.get(at)) else {
        return Err(fault(format!("tile {tile}"), "a tile with a shard"));
    };
    let open = Shard::open(storage, &key, size, &schema, tile_cells)?;
    let range = open.chunk(group, column)?;
    let start = range.start;
    let bytes = storage.read_range(&key, range)?;
    let arrays = open.decode(group, &[column], &schema, vec![(start, bytes)])?;
    let integers = arrays.first().and_then(|array| array.as_primitive_opt::<arrow_array::types::Int64Type>());
    integers.map(|array| array.values().to_vec()).ok_or_else(|| fault("another type".to_owned(), "int64"))
}

fn read_schema(storage: &dyn Storage) -> Result<(String, ObsSchema)> {
    let bytes = storage.read(keys::OBS_SCHEMA)?;
    let schema = ObsSchema::parse(&bytes, &storage.locate(keys::OBS_SCHEMA))?;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), schema))
}

fn check_fingerprint(
    storage: &dyn Storage,
    manifest: &Manifest,
    record: &ObsRecord,
    text: &str,
) -> Result<()> {
    if fingerprint_matches(&record.fingerprint, text, &manifest.tile_cells, &record.shard_sha256) {
        return Ok(());
    }
    Err(Error::File {
        path: storage.locate(keys::MANIFEST),
        what: "obs_fingerprint".to_owned(),
        found: record.fingerprint.clone(),
        expected: fingerprint(text, &manifest.tile_cells, &record.shard_sha256, Separators::Spaced),
    })
}

fn check_values(
    storage: &dyn Storage,
    key: &str,
    shard: &Shard,
    group: usize,
    schema: &ObsSchema,
    missing: &mut Missing,
) -> Result<()> {
    // Column by column, so that memory stays that of one column of a tile.
    for column in 0..schema.fields().len() {
        let range = shard.chunk(group, column)?;
        let start = range.start;
        let bytes = storage.read_range(key, range)?;
        let arrays = shard.decode(group, &[column], schema, vec![(start, bytes)])?;
        missing.add(column, &arrays, schema);
    }
    Ok(())
}

/// Missing values counted, to be compared with what the manifest says of them.
struct Missing {
    counts: Vec<u64>,
    /// Whether all values were seen.
    known: bool,
}

impl Missing {
    fn new(schema: &ObsSchema) -> Self {
        Self { counts: vec![0; schema.fields().len()], known: true }
    }

    fn add(&mut self, column: usize, arrays: &[ArrayRef], schema: &ObsSchema) {
        if let (Some(sum), Some(field)) = (self.counts.get_mut(column), schema.fields().get(column)) {
            let found =
                arrays.iter().fold(0_u64, |sum, array| sum.saturating_add(field.missing(array.as_ref())));
            *sum = sum.saturating_add(found);
        }
    }

    /// The first column of which the manifest says something else.
    fn fault(&self, storage: &dyn Storage, manifest: &Manifest, schema: &ObsSchema) -> Option<Error> {
        let metadata = manifest.metadata();
        // A malformed entry is found by whoever reads obs.
        let meta = TableMeta::from_json(metadata.get("celltile")?.get("obs")?).ok()?;
        let columns = schema.fields().iter().zip(&self.counts).filter(|_| self.known);
        let wrong = |(field, count): (&ObsField, &u64)| {
            let recorded = meta.missing(&field.name).filter(|recorded| recorded != count)?;
            Some(Error::File {
                path: storage.locate(keys::MANIFEST),
                what: format!("metadata.celltile.obs.missing of column {:?}", field.name),
                found: recorded.to_string(),
                expected: format!("{count}, as in the shards"),
            })
        };
        columns.into_iter().find_map(wrong)
    }
}
