//! The files beside the tiles: there, of the recorded size and content, and none too many.

use super::{Context, Fault};
use crate::checksums::ChecksumFile;
use crate::digest::{Hasher, Sha256};
use crate::error::{Error, Result};
use crate::genes::{GeneOrder, VarNames};
use crate::keys;
use crate::manifest::FileRecord;
use crate::storage::{EntryKind, Storage};

/// Bytes read at a time.
const PIECE: u64 = 16 << 20;

/// Checks the files of the genes, everything that the manifest has a hash of, and what lies in the folders. Says why the
/// folders could not be listed, if a server refused.
pub(super) fn check(context: &Context<'_>, faults: &mut Vec<Fault>) -> Result<Option<Error>> {
    let Context { storage, manifest, .. } = *context;
    for (key, record) in &manifest.files {
        check_record(storage, key, record, faults);
    }
    if manifest.has_gene_order {
        report(storage, keys::GENE_ORDER, GeneOrder::read(storage, manifest.n_genes), faults);
    }
    if manifest.has_var_names {
        report(storage, keys::VAR_NAMES, VarNames::read(storage, manifest.n_genes), faults);
    }
    if manifest.has_var_table && !manifest.files.contains_key(keys::VAR_TABLE) {
        report(storage, keys::VAR_TABLE, storage.size(keys::VAR_TABLE), faults);
    }
    too_many(context, faults)
}

/// `tile_checksums.bin`, if there is one and it can be used.
pub(super) fn checksums(context: &Context<'_>, faults: &mut Vec<Fault>) -> Option<ChecksumFile> {
    let record = context.manifest.tile_checksums.as_ref()?;
    let before = faults.len();
    check_record(context.storage, keys::TILE_CHECKSUMS, record, faults);
    if faults.len() > before {
        return None;
    }
    let opened = ChecksumFile::open(context.storage, record, context.manifest.n_tiles());
    report(context.storage, keys::TILE_CHECKSUMS, opened, faults)
}

/// Size and hash of one file.
pub(super) fn check_record(storage: &dyn Storage, key: &str, record: &FileRecord, faults: &mut Vec<Fault>) {
    let path = storage.locate(key);
    let Some(size) = report(storage, key, storage.size(key), faults) else { return };
    if size != record.bytes {
        faults.push(Fault::new(&path, format!("{size} bytes, the manifest says {}", record.bytes)));
        return;
    }
    let Some(found) = report(storage, key, hash(storage, key, size), faults) else { return };
    if found != record.sha256 {
        let expected = record.sha256;
        faults.push(Fault::new(
            &path,
            format!("damaged: its SHA-256 is {found}, the manifest says {expected}"),
        ));
    }
}

/// The hash of a file, read piece by piece: an obs shard can be larger than memory.
fn hash(storage: &dyn Storage, key: &str, size: u64) -> Result<Sha256> {
    let mut hasher = Hasher::new();
    let mut start = 0;
    while start < size {
        let end = start.saturating_add(PIECE).min(size);
        hasher.update(&storage.read_range(key, start..end)?);
        start = end;
    }
    Ok(hasher.finish())
}

/// The value, or a fault and nothing.
pub(super) fn report<T>(
    storage: &dyn Storage,
    key: &str,
    result: Result<T>,
    faults: &mut Vec<Fault>,
) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            let fault = Fault::of(&storage.locate(key), &error);
            // Several checks may meet the same missing file.
            if !faults.contains(&fault) {
                faults.push(fault);
            }
            None
        }
    }
}

/// What lies there and should not. Files of others at the top are nobody's business. Many servers list nothing, or not for
/// everybody who may read: that is no fault of the dataset.
fn too_many(context: &Context<'_>, faults: &mut Vec<Fault>) -> Result<Option<Error>> {
    let Context { storage, manifest, .. } = *context;
    // A dataset that was appended to in place leaves the file of its old manifest alone.
    let metadata = manifest.metadata();
    let ours = metadata.get("celltile");
    let in_place = ours.and_then(|ours| ours.get("appended_in_place")).is_some_and(|is| is == true);
    let n_shards = manifest.obs.as_ref().map_or(0, |obs| obs.shard_bytes.len() as u64);
    for folder in ["", keys::TILES, keys::OBS] {
        let entries = match storage.list(folder) {
            Ok(entries) => entries,
            Err(error) if storage.is_remote() => return Ok(Some(error)),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let key = entry.key.as_str();
            let expected = match key {
                keys::GENE_ORDER => manifest.has_gene_order,
                keys::VAR_NAMES => manifest.has_var_names,
                keys::VAR_TABLE => manifest.has_var_table,
                keys::TILE_CHECKSUMS => manifest.tile_checksums.is_some() || in_place,
                keys::OBS_SCHEMA => manifest.obs.is_some(),
                _ if folder == keys::TILES => keys::tile_index(key).is_some_and(|i| i < manifest.n_tiles()),
                _ if folder == keys::OBS => keys::obs_shard_index(key).is_some_and(|i| i < n_shards),
                _ => entry.kind != EntryKind::Temporary,
            };
            if !expected || (!folder.is_empty() && entry.kind == EntryKind::Temporary) {
                let what = match entry.kind {
                    EntryKind::Temporary => "left by a writer that did not finish",
                    _ => "not part of the dataset by its manifest",
                };
                faults.push(Fault::new(&storage.locate(key), what));
            }
        }
    }
    Ok(None)
}
