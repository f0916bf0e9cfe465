//! Cells appended to a dataset where it stands.
//!
//! No file that the manifest names is changed: new cells start a tile and an obs shard, so both of the last must be full, and
//! genes, columns and categories must be the dataset's. The new tiles and shards are made beside, given their names, and the
//! manifest is replaced last: whoever reads sees the old dataset or the new one.

use std::sync::Arc;

use celltile::obs::{Cache, Separators, fingerprint};
use celltile::storage::{Storage, open_storage};
use celltile::{Dataset, Manifest, OpenOptions, keys};
use serde_json::{Value, json};

use super::options::ConvertOptions;
use super::order::GeneOrderFrom;
use super::summary::Summary;
use crate::error::{Error, Result};
use crate::plan::InputName;
use crate::source::SourceOptions;

/// Where the new part of the dataset is made.
const ASIDE: &str = ".work/append";

/// Appends inputs to the dataset at a path or URL. Stopped or killed, it goes on when it is run again.
///
/// # Errors
///
/// [`Error::Options`] if a file that readers may have open would have to change, with the reason; as
/// [`convert_files`](super::convert_files).
pub fn append_in_place(
    place: &str,
    inputs: &[InputName],
    source_options: &SourceOptions,
    options: &ConvertOptions,
) -> Result<Summary> {
    let refuse = |why: String| {
        Error::Options(format!(
            "{place}: cannot be appended to in place: {why}; append -o makes a new dataset"
        ))
    };
    let mut open = OpenOptions::default();
    open.remote = options.output_remote.clone();
    let dataset = Dataset::open_with(place, &open)?;
    let old = dataset.manifest();
    let metadata = old.metadata();
    let conversion = metadata.get("celltile").and_then(|ours| ours.get("conversion"));
    if conversion.and_then(|c| c.get("source_cell_column")).is_some_and(|column| !column.is_null()) {
        return Err(refuse("its cells are shuffled".into()));
    }
    if old.n_cells % old.tile_size.max(1) != 0 {
        let cells = old.n_cells % old.tile_size.max(1);
        return Err(refuse(format!("its last tile has {cells} of {} cells", old.tile_size)));
    }
    let mut options = options.clone();
    if let Some(obs) = &old.obs {
        if old.n_tiles() % obs.tiles_per_file.max(1) != 0 {
            let tiles = old.n_tiles() % obs.tiles_per_file.max(1);
            return Err(refuse(format!("its last obs shard has {tiles} of {} tiles", obs.tiles_per_file)));
        }
        options.obs.tiles_per_file = obs.tiles_per_file;
        if let Some(reader) = dataset.obs_reader()? {
            let names: Vec<String> =
                reader.schema().fields().iter().map(|field| field.name.clone()).collect();
            options.obs_like = Some(reader.columns(&names, &Cache::memory())?.to_table()?.slice(0, 0)?);
        }
    }
    options.gene_order_from = Some(GeneOrderFrom::dataset(&dataset, place)?);
    options.writer.tile_size = old.tile_size;
    options.writer.overwrite = false;
    options.resume = true;
    options.joining.source_column = Some(String::new());
    let storage = Arc::clone(dataset.storage());
    let aside = open_storage(&format!("{}/{ASIDE}", place.trim_end_matches('/')), &options.output_remote)?;
    let summary = super::convert_files(inputs, Arc::clone(&aside), source_options, &options)?;
    let new = Manifest::read(aside.as_ref())?;
    if old.obs.is_some() && storage.read(keys::OBS_SCHEMA)? != aside.read(keys::OBS_SCHEMA)? {
        storage.remove_folder(keys::WORK)?;
        return Err(refuse(
            "obs/schema.json would change: the inputs have other columns or categories".into(),
        ));
    }
    let (tiles, shards) = (old.n_tiles(), old.obs.as_ref().map_or(0, |obs| obs.shard_bytes.len() as u64));
    for tile in 0..new.n_tiles() {
        install(storage.as_ref(), &keys::tile(tiles + tile), aside.as_ref(), &keys::tile(tile))?;
    }
    if old.obs.is_some() {
        for shard in 0..new.obs.as_ref().map_or(0, |obs| obs.shard_bytes.len() as u64) {
            install(
                storage.as_ref(),
                &keys::obs_shard(shards + shard),
                aside.as_ref(),
                &keys::obs_shard(shard),
            )?;
        }
    }
    let joined = join(&dataset, &new)?;
    let text = joined.to_json().map_err(|fault| celltile::Error::Manifest {
        path: storage.locate(keys::MANIFEST),
        fault: Box::new(fault),
    })?;
    storage.write(keys::MANIFEST, text.as_bytes())?;
    storage.remove_folder(keys::WORK)?;
    Ok(summary)
}

fn install(to: &dyn Storage, key: &str, from: &dyn Storage, from_key: &str) -> Result<()> {
    if !to.copy_in(key, from, from_key)? {
        to.write(key, &from.read(from_key)?)?;
    }
    Ok(())
}

/// The manifest of both parts.
fn join(dataset: &Dataset, new: &Manifest) -> Result<Manifest> {
    let mut all = dataset.manifest().clone();
    let first_cell = all.n_cells;
    all.n_cells = all.n_cells.saturating_add(new.n_cells);
    all.tile_cells.extend(&new.tile_cells);
    all.tile_nnz.extend(&new.tile_nnz);
    all.tile_bytes.extend(&new.tile_bytes);
    all.n_chunks = all.n_chunks.max(new.n_chunks);
    all.tile_sha256 = match (all.tile_sha256.take(), &new.tile_sha256) {
        (Some(mut hashes), Some(more)) => {
            hashes.extend(more);
            Some(hashes)
        }
        _ => None,
    };
    // The old manifest names this file, so it stays as it is, and the new one does without.
    all.tile_checksums = None;
    if let (Some(obs), Some(more)) = (&mut all.obs, &new.obs) {
        obs.shard_bytes.extend(&more.shard_bytes);
        obs.shard_sha256.extend(&more.shard_sha256);
        let schema = dataset.storage().read(keys::OBS_SCHEMA)?;
        let schema = String::from_utf8_lossy(&schema);
        obs.fingerprint = fingerprint(&schema, &all.tile_cells, &obs.shard_sha256, Separators::Spaced);
    }
    let mut metadata = all.metadata();
    let theirs = new.metadata();
    let theirs = theirs.get("celltile");
    if let Some(Value::Object(ours)) = metadata.get_mut("celltile") {
        ours.insert("appended_in_place".into(), json!(true));
        if let Some(Value::Object(conversion)) = ours.get_mut("conversion") {
            // It is no longer the dataset of one plan.
            conversion.remove("plan");
            conversion.remove("essence");
        }
        let more = theirs.and_then(|theirs| theirs.get("sources")).and_then(Value::as_array);
        if let (Some(Value::Array(sources)), Some(more)) = (ours.get_mut("sources"), more) {
            for source in more {
                let mut source = source.clone();
                let first = source.get("first_cell").and_then(Value::as_u64);
                if let (Value::Object(source), Some(first)) = (&mut source, first) {
                    source.insert("first_cell".into(), json!(first.saturating_add(first_cell)));
                }
                sources.push(source);
            }
        }
        let missing = |of: Option<&Value>| of.and_then(|of| of.get("obs")?.get("missing").cloned());
        let more = missing(theirs);
        if let Some(Value::Object(counts)) = ours.get_mut("obs").and_then(|obs| obs.get_mut("missing")) {
            for (name, more) in more.iter().filter_map(Value::as_object).flatten() {
                let before = counts.get(name).and_then(Value::as_u64).unwrap_or(0);
                counts.insert(name.clone(), json!(before.saturating_add(more.as_u64().unwrap_or(0))));
            }
        } else if let (Some(Value::Object(obs)), Some(more)) = (ours.get_mut("obs"), more) {
            obs.insert("missing".into(), more);
        }
    } else {
        metadata.insert("celltile".into(), json!({"appended_in_place": true}));
    }
    all.set_metadata(metadata);
    Ok(all)
}
