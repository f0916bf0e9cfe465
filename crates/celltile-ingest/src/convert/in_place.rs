//! Cells appended to a dataset where it stands.
//!
//! No file that the manifest names is changed: new cells start a tile and an obs shard, so both of the last must be full, and
//! genes, columns and categories must be the dataset's. The new tiles and shards are made beside, given their names, and the
//! manifest is replaced last: whoever reads sees the old dataset or the new one.
//!
//! Stopped anywhere and run again, the cells are there once. A claim keeps other appends away until this one is done, or given
//! up; the manifest names the appends that are in it, and takes the place of no other than the one that was read.

use std::sync::Arc;

use bytes::Bytes;
use celltile::obs::{Cache, Separators, fingerprint};
use celltile::storage::Storage;
use celltile::{Dataset, Manifest, OpenOptions, keys};
use serde_json::{Value, json};

use super::beneath::Beneath;
use super::lock::{Lock, Others};
use super::options::ConvertOptions;
use super::order::GeneOrderFrom;
use super::summary::Summary;
use super::work::Counted;
use super::{apart, can_go_on, convert};
use crate::error::{Error, Result};
use crate::plan::{InputName, Plan};
use crate::source::SourceOptions;

/// Where the new part of the dataset is made.
const ASIDE: &str = ".work/append";
/// Says which append is under way.
const CLAIM: &str = ".work/append.json";

/// The dataset as it is before.
struct Base {
    storage: Arc<dyn Storage>,
    dataset: Dataset,
    /// The text of its manifest.
    text: Bytes,
}

/// Appends inputs to the dataset in a storage. Stopped or killed, it goes on when it is run again; inputs that were appended
/// before, all of them in one go and under the same names, are not appended again.
///
/// # Errors
///
/// [`Error::Options`] if a file that readers may have open would have to change, or another append was not finished (with
/// [`overwrite`](celltile::WriterOptions::overwrite) what it left is dropped), with the reason; [`Error::Changed`] if another
/// process changes the dataset meanwhile; as [`convert_files`](super::convert_files).
pub fn append_in_place(
    storage: Arc<dyn Storage>,
    inputs: &[InputName],
    source_options: &SourceOptions,
    options: &ConvertOptions,
) -> Result<Summary> {
    let mut options = options.clone();
    options.inputs_remote = source_options.remote.clone();
    options.openers.clone_from(&source_options.openers);
    apart::check(storage.as_ref(), inputs.iter().map(|input| input.path.as_str()), &options)?;
    let _lock = Lock::take(storage.as_ref(), Others::None)?;
    let base = Base::open(storage)?;
    let anew = options.writer.overwrite;
    base.prepare(&mut options)?;
    if appends(base.dataset.manifest()).is_empty() {
        // Before the inputs are looked at.
        base.check_room()?;
    }
    let plan = Plan::look(inputs, source_options, &options)?.plan()?;
    if let Some(summary) = base.appended_before(&plan)? {
        base.clear()?;
        return Ok(summary);
    }
    base.check_room()?;
    base.claim(&plan, anew)?;
    base.append(&plan, &options).inspect_err(|error| {
        if !can_go_on(error) {
            let _ = base.clear();
        }
    })
}

impl Base {
    fn open(storage: Arc<dyn Storage>) -> Result<Self> {
        let dataset = Dataset::open_storage(Arc::clone(&storage), &OpenOptions::default())?;
        let text = storage.read(keys::MANIFEST)?;
        let base = Self { storage, dataset, text };
        if Manifest::parse(&base.text, &base.manifest_path())? == *base.dataset.manifest() {
            Ok(base)
        } else {
            Err(base.changed())
        }
    }

    fn manifest_path(&self) -> String {
        self.storage.locate(keys::MANIFEST)
    }

    fn changed(&self) -> Error {
        let what = "another process has replaced it meanwhile; append again".to_owned();
        Error::Changed { file: self.manifest_path(), what }
    }

    /// Others may have come in before the claim was there, and some programs know of no claims.
    fn check_unchanged(&self) -> Result<()> {
        if self.storage.read(keys::MANIFEST)? == self.text { Ok(()) } else { Err(self.changed()) }
    }

    fn refuse(&self, why: &str) -> Error {
        let place = self.storage.locate("");
        Error::Options(format!(
            "{place}: cannot be appended to in place: {why}; append -o makes a new dataset"
        ))
    }

    /// Refuses where new cells would go into a tile or shard that readers may have.
    fn check_room(&self) -> Result<()> {
        let old = self.dataset.manifest();
        let cells = old.n_cells % old.tile_size.max(1);
        if cells != 0 {
            return Err(self.refuse(&format!("its last tile has {cells} of {} cells", old.tile_size)));
        }
        let Some(obs) = &old.obs else { return Ok(()) };
        let tiles = old.n_tiles() % obs.tiles_per_file.max(1);
        if tiles != 0 {
            let why = format!("its last obs shard has {tiles} of {} tiles", obs.tiles_per_file);
            return Err(self.refuse(&why));
        }
        Ok(())
    }

    /// Sets options to what the dataset has.
    fn prepare(&self, options: &mut ConvertOptions) -> Result<()> {
        let old = self.dataset.manifest();
        let metadata = old.metadata();
        let conversion = metadata.get("celltile").and_then(|ours| ours.get("conversion"));
        if conversion.and_then(|c| c.get("source_cell_column")).is_some_and(|column| !column.is_null()) {
            return Err(self.refuse("its cells are shuffled"));
        }
        if let Some(obs) = &old.obs {
            options.obs.tiles_per_file = obs.tiles_per_file;
            if let Some(reader) = self.dataset.obs_reader()? {
                let names: Vec<String> =
                    reader.schema().fields().iter().map(|field| field.name.clone()).collect();
                options.obs_like = Some(reader.columns(&names, &Cache::memory())?.to_table()?.slice(0, 0)?);
            }
        }
        options.gene_order_from = Some(GeneOrderFrom::dataset(&self.dataset, &self.storage.locate(""))?);
        options.writer.tile_size = old.tile_size;
        options.writer.overwrite = false;
        options.resume = true;
        options.joining.source_column = Some(String::new());
        Ok(())
    }

    /// What an earlier run of the same append did, if there was one that came to its end.
    fn appended_before(&self, plan: &Plan) -> Result<Option<Summary>> {
        let manifest = self.dataset.manifest();
        let metadata = manifest.metadata();
        let Some(append) = find_append(manifest, &plan.digest()) else { return Ok(None) };
        let ours = metadata.get("celltile");
        let sources = ours.and_then(|ours| ours.get("sources")).and_then(Value::as_array);
        let number = |key: &str| append.get(key).and_then(Value::as_u64).unwrap_or(0);
        let at = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let first = at(number("first_source"));
        let own = sources.and_then(|list| list.get(first..first.checked_add(plan.inputs.len())?));
        let Some(own) = own else {
            let place = self.storage.locate("");
            return Err(Error::Options(format!("{place}: these inputs were appended to it before")));
        };
        let first_tile = number("first_cell") / manifest.tile_size.max(1);
        let counted: Vec<Counted> = own.iter().map(Counted::of_source).collect();
        let bytes = manifest.tile_bytes.iter().skip(at(first_tile)).take(at(plan.n_tiles())).sum();
        let mut summary = Summary::new(plan, &counted, plan.n_tiles(), bytes);
        summary.was_complete = true;
        Ok(Some(summary))
    }

    /// Keeps other appends away until this one is done. That of a process that died is taken up if it is the same one.
    fn claim(&self, plan: &Plan, anew: bool) -> Result<()> {
        let digest = plan.digest();
        let names: Vec<&str> = plan.inputs.iter().map(|input| input.name.as_str()).collect();
        let claim = json!({"plan": digest, "inputs": names}).to_string();
        if anew {
            self.release()?;
        }
        for _ in 0..2 {
            if self.storage.write_if(CLAIM, claim.as_bytes(), None)? {
                return self.clear_beyond();
            }
            let there: Value = serde_json::from_slice(&self.storage.read(CLAIM)?).unwrap_or_default();
            let other = there.get("plan").and_then(Value::as_str).unwrap_or_default();
            if other == digest {
                return Ok(());
            }
            if find_append(self.dataset.manifest(), other).is_none() {
                let named = there.get("inputs").map(Value::to_string).unwrap_or_default();
                return Err(Error::Options(format!(
                    "{}: another append ({named}) was begun here and not finished: run that one again; or, if no process \
                     works on it any more, drop it with --in-place --overwrite",
                    self.storage.locate(CLAIM),
                )));
            }
            // That one was done but for the clearing away.
            self.release()?;
        }
        Err(self.changed())
    }

    /// Gives up what an append made beside, and its claim; not the lock, which is this one's.
    fn release(&self) -> Result<()> {
        self.storage.remove_folder(ASIDE)?;
        Ok(self.storage.remove(CLAIM)?)
    }

    /// Removes what appends that were dropped had put beside the dataset's files.
    fn clear_beyond(&self) -> Result<()> {
        self.check_unchanged()?;
        self.storage.remove_folder(ASIDE)?;
        let old = self.dataset.manifest();
        let shards = old.obs.as_ref().map_or(0, |obs| obs.shard_bytes.len() as u64);
        for folder in [keys::TILES, keys::OBS] {
            for entry in self.storage.list(folder)? {
                let beyond = keys::tile_index(&entry.key).is_some_and(|tile| tile >= old.n_tiles())
                    || keys::obs_shard_index(&entry.key).is_some_and(|shard| shard >= shards);
                if beyond {
                    self.storage.remove(&entry.key)?;
                }
            }
        }
        Ok(())
    }

    fn clear(&self) -> Result<()> {
        Ok(self.storage.remove_folder(keys::WORK)?)
    }

    /// Makes the new part, and then the manifest of both.
    fn append(&self, plan: &Plan, options: &ConvertOptions) -> Result<Summary> {
        let (storage, old) = (self.storage.as_ref(), self.dataset.manifest());
        let aside: Arc<dyn Storage> = Arc::new(Beneath::new(Arc::clone(&self.storage), ASIDE));
        let mut summary = convert(plan, Arc::clone(&aside), options)?;
        // That the new part was made by an earlier run does not put it into the dataset.
        summary.was_complete = false;
        let new = Manifest::read(aside.as_ref())?;
        if old.obs.is_some() && storage.read(keys::OBS_SCHEMA)? != aside.read(keys::OBS_SCHEMA)? {
            return Err(
                self.refuse("obs/schema.json would change: the inputs have other columns or categories")
            );
        }
        self.check_unchanged()?;
        for tile in 0..new.n_tiles() {
            self.install(&keys::tile(old.n_tiles().saturating_add(tile)), aside.as_ref(), &keys::tile(tile))?;
        }
        let shards = |of: &Manifest| of.obs.as_ref().map_or(0, |obs| obs.shard_bytes.len() as u64);
        if old.obs.is_some() {
            for shard in 0..shards(&new) {
                let key = keys::obs_shard(shards(old).saturating_add(shard));
                self.install(&key, aside.as_ref(), &keys::obs_shard(shard))?;
            }
        }
        let joined = self.joined(&new, plan)?;
        let text = joined.to_json().map_err(|fault| celltile::Error::Manifest {
            path: self.manifest_path(),
            fault: Box::new(fault),
        })?;
        if !storage.write_if(keys::MANIFEST, text.as_bytes(), Some(&self.text))? {
            return Err(self.changed());
        }
        self.clear()?;
        Ok(summary)
    }

    /// Gives an object of the new part its name, which no other may have.
    fn install(&self, key: &str, from: &dyn Storage, from_key: &str) -> Result<()> {
        let to = self.storage.as_ref();
        let installed = match to.read(key) {
            Ok(there) => there == from.read(from_key)?,
            Err(error) if error.is_not_found() => {
                to.copy_in(key, from, from_key)? || to.write_if(key, &from.read(from_key)?, None)?
            }
            Err(error) => return Err(error.into()),
        };
        if installed {
            return Ok(());
        }
        let what = "is there already, and is none of this append; another process may be at work";
        Err(Error::Changed { file: to.locate(key), what: what.into() })
    }

    /// The manifest of both parts.
    fn joined(&self, new: &Manifest, plan: &Plan) -> Result<Manifest> {
        let mut all = self.dataset.manifest().clone();
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
            let schema = self.storage.read(keys::OBS_SCHEMA)?;
            let schema = String::from_utf8_lossy(&schema);
            obs.fingerprint = fingerprint(&schema, &all.tile_cells, &obs.shard_sha256, Separators::Spaced);
        }
        let mut metadata = all.metadata();
        let theirs = new.metadata();
        let theirs = theirs.get("celltile");
        let ours = metadata.entry("celltile").or_insert_with(|| json!({}));
        if let Value::Object(ours) = ours {
            ours.insert("appended_in_place".into(), json!(true));
            let sources = ours.get("sources").and_then(Value::as_array).map(Vec::len);
            let append = json!({"plan": plan.digest(), "first_cell": first_cell, "first_source": sources});
            if let Value::Array(appends) = ours.entry("appends").or_insert_with(|| json!([])) {
                appends.push(append);
            }
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
        }
        all.set_metadata(metadata);
        Ok(all)
    }
}

/// What a manifest says of the appends that are in it.
fn appends(manifest: &Manifest) -> Vec<Value> {
    let metadata = manifest.metadata();
    let appends = metadata.get("celltile").and_then(|ours| ours.get("appends")).and_then(Value::as_array);
    appends.cloned().unwrap_or_default()
}

/// What it says of one of them.
fn find_append(manifest: &Manifest, plan: &str) -> Option<Value> {
    appends(manifest).into_iter().find(|append| append.get("plan").and_then(Value::as_str) == Some(plan))
}
