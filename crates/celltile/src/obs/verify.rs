use crate::error::{Error, Result};
use crate::keys;
use crate::manifest::{Manifest, ObsRecord};
use crate::storage::Storage;

use super::shard::Shard;
use super::{ObsSchema, Separators, fingerprint, fingerprint_matches};

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
    let per_shard = usize::try_from(record.tiles_per_file).unwrap_or(usize::MAX).max(1);
    let shards = manifest.tile_cells.chunks(per_shard).zip(&record.shard_bytes);
    for (index, (tile_cells, &size)) in (0..).zip(shards) {
        let key = keys::obs_shard(index);
        match Shard::open(storage, &key, size, &schema, tile_cells) {
            // Reported with the hash.
            Err(Error::Size { .. } | Error::NotFound { .. }) => {}
            Err(error) => faults.push(error),
            Ok(shard) if values => {
                let groups = 0..tile_cells.len();
                faults.extend(
                    groups.filter_map(|group| check_values(storage, &key, &shard, group, &schema).err()),
                );
            }
            Ok(_) => {}
        }
    }
    faults
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
) -> Result<()> {
    // Column by column, so that memory stays that of one column of a tile.
    for column in 0..schema.fields().len() {
        let range = shard.chunk(group, column)?;
        let start = range.start;
        let bytes = storage.read_range(key, range)?;
        shard.decode(group, &[column], schema, vec![(start, bytes)])?;
    }
    Ok(())
}
