//! A whole store with some of its arrays on other grids.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Map, Value, json};
use zarrs::storage::{
    Bytes, ListableStorageTraits, ReadableStorageTraits, ReadableWritableStorageTraits, StorePrefix,
};

use super::chunks::ChunkSpec;
use super::plan::Plan;
use super::{RegridOptions, Target, regrid_told, target_text};
use crate::array::{ZarrArray, metadata_key};
use crate::error::{Result, ZarrError};
use crate::metadata::{NodeKind, node_kind};
use crate::spec::{Encoding, GridForm};

/// What becomes of a store.
#[derive(Debug, Clone)]
pub struct StoreTarget {
    /// The chunks of the arrays concerned.
    pub chunks: ChunkSpec,
    /// Paths of the arrays concerned; all that have as many axes as the chunks if there are none.
    pub arrays: Vec<String>,
    /// How their chunks are encoded; `None` keeps the codecs.
    pub encoding: Option<Encoding>,
}

/// What [`regrid_store`] did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct StoreReport {
    /// Paths of arrays on new grids.
    pub regridded: Vec<String>,
    /// Paths of arrays that were copied.
    pub copied: Vec<String>,
    /// Chunks of all arrays.
    pub chunks: u64,
    /// Chunks that an earlier, interrupted run had written.
    pub found: u64,
}

/// Writes a store to a new place, some of its arrays on other grids, all else as it is, in format 3.
///
/// Arrays come first, then groups, the outermost last: a store without its outermost metadata is incomplete. An interrupted run is
/// taken up by the same call. Consolidated metadata are brought up to date. `progress` hears of each chunk: how many
/// there are, and how many are written.
///
/// # Errors
///
/// As [`regrid`](super::regrid), with the array; if an array that was asked for is not there or has another number of axes; if a node
/// of the store is not valid.
pub fn regrid_store<S, D>(
    source: &Arc<S>,
    store: &Arc<D>,
    target: &StoreTarget,
    options: &RegridOptions,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<StoreReport>
where
    S: ?Sized + ReadableStorageTraits + ListableStorageTraits + 'static,
    D: ?Sized + ReadableWritableStorageTraits + 'static,
{
    let (arrays, groups) = nodes(source)?;
    let wanted: Vec<String> =
        target.arrays.iter().map(|path| format!("/{}", path.trim_matches('/'))).collect();
    for path in &wanted {
        if !arrays.contains_key(path) {
            let there = arrays.keys().cloned().collect::<Vec<_>>().join(", ");
            return Err(ZarrError::metadata(path, format!("no such array; there are: {there}")));
        }
    }
    let mut report = StoreReport::default();
    let mut plans = Vec::new();
    for (path, array) in &arrays {
        let shape = array.grid().shape();
        let chosen =
            if wanted.is_empty() { shape.len() == target.chunks.ndim() } else { wanted.contains(path) };
        let plan = if chosen {
            if shape.len() != target.chunks.ndim() {
                return Err(ZarrError::Mismatch {
                    node: path.clone(),
                    what: "the chunk shape",
                    found: target.chunks.to_string(),
                    expected: format!("one length or list for each of {} axes", shape.len()),
                });
            }
            report.regridded.push(path.clone());
            let grid = target.chunks.grid(path, &shape)?;
            Target { grid, form: target.chunks.form(), encoding: target.encoding.clone() }
        } else {
            report.copied.push(path.clone());
            Target { grid: array.grid().clone(), form: array.form(), encoding: None }
        };
        let chunks = plan.grid.n_active().map_err(ZarrError::grid(path))?;
        report.chunks = report.chunks.saturating_add(chunks);
        plans.push((path, array, plan, chunks));
    }
    let before = AtomicU64::new(0);
    let mut texts = BTreeMap::new();
    for (path, array, plan, chunks) in plans {
        let text = target_text(array, &plan)?;
        // An array that is complete is not touched again.
        let there = store.get(&metadata_key(path, "zarr.json")?)?;
        if there.is_some_and(|there| there == text.as_bytes()) {
            Plan::forget(store.as_ref(), path)?;
            report.found = report.found.saturating_add(chunks);
            progress(before.load(Ordering::Relaxed).saturating_add(chunks), report.chunks);
        } else {
            let base = before.load(Ordering::Relaxed);
            let told = |done: u64, _| progress(base.saturating_add(done), report.chunks);
            let done = regrid_told(array, store, path, &plan, options, &told)?;
            report.found = report.found.saturating_add(done.found);
        }
        before.fetch_add(chunks, Ordering::Relaxed);
        texts.insert(path.clone(), text);
    }
    // Those deepest first; the outermost last.
    for (path, group) in groups.iter().rev() {
        texts.insert(path.clone(), group_text(path, group.clone(), &texts)?);
        let Some(text) = texts.get(path) else { continue };
        store.set(&metadata_key(path, "zarr.json")?, Bytes::from(text.clone()))?;
    }
    Ok(report)
}

type Arrays<S> = BTreeMap<String, ZarrArray<S>>;
type Groups = BTreeMap<String, Map<String, Value>>;

/// Every array of a store, and the metadata of every group in format 3.
fn nodes<S>(store: &Arc<S>) -> Result<(Arrays<S>, Groups)>
where
    S: ?Sized + ReadableStorageTraits + ListableStorageTraits + 'static,
{
    let (mut arrays, mut groups) = (Arrays::new(), Groups::new());
    let json = |path: &str, name: &str| -> Result<Option<Map<String, Value>>> {
        let Some(text) = store.get(&metadata_key(path, name)?)? else { return Ok(None) };
        let parsed = serde_json::from_slice(&text);
        parsed.map(Some).map_err(|error| ZarrError::metadata(path, format!("{name}: {error}")))
    };
    for key in store.list_prefix(&StorePrefix::root())? {
        let (folder, name) = key.as_str().rsplit_once('/').unwrap_or(("", key.as_str()));
        let path = format!("/{folder}");
        match name {
            "zarr.json" => {
                let text = store.get(&key)?.unwrap_or_default();
                if node_kind(&path, &text)? == NodeKind::Group {
                    groups.insert(path.clone(), json(&path, name)?.unwrap_or_default());
                } else {
                    arrays.insert(path.clone(), ZarrArray::open(Arc::clone(store), &path)?);
                }
            }
            ".zarray" if store.get(&metadata_key(&path, "zarr.json")?)?.is_none() => {
                arrays.insert(path.clone(), ZarrArray::open(Arc::clone(store), &path)?);
            }
            ".zgroup" if store.get(&metadata_key(&path, "zarr.json")?)?.is_none() => {
                let attributes = json(&path, ".zattrs")?.unwrap_or_default();
                let mut group = Map::new();
                group.insert("attributes".to_owned(), attributes.into());
                group.insert("zarr_format".to_owned(), json!(3));
                group.insert("node_type".to_owned(), json!("group"));
                groups.insert(path, group);
            }
            _ => {}
        }
    }
    if arrays.is_empty() && groups.is_empty() {
        return Err(ZarrError::NotFound { node: "/".to_owned() });
    }
    Ok((arrays, groups))
}

/// A group's metadata, with the new ones of the nodes below it where they are consolidated.
fn group_text(path: &str, mut group: Map<String, Value>, texts: &BTreeMap<String, String>) -> Result<String> {
    let fault = |error: serde_json::Error| ZarrError::metadata(path, error.to_string());
    let entries = group.get_mut("consolidated_metadata").and_then(|all| all.pointer_mut("/metadata"));
    if let Some(entries) = entries.and_then(Value::as_object_mut) {
        for (name, entry) in entries {
            if let Some(text) = texts.get(&format!("{}/{name}", path.trim_end_matches('/'))) {
                *entry = serde_json::from_str(text).map_err(fault)?;
                // Metadata inside metadata are those of the node itself.
                if let Some(entry) = entry.as_object_mut() {
                    entry.remove("consolidated_metadata");
                }
            }
        }
    }
    serde_json::to_string(&group).map_err(fault)
}

/// Gives every array of a store, or those of these paths, the other form of its grid where its bytes stay the same: metadata only.
/// Returns the paths of those that were changed.
///
/// # Errors
///
/// As [`relabel`](super::relabel); nothing is changed before all arrays were looked at.
pub fn relabel_store<S>(store: &Arc<S>, paths: &[String], form: GridForm) -> Result<Vec<String>>
where
    S: ?Sized + ReadableWritableStorageTraits + ListableStorageTraits + 'static,
{
    let (arrays, _) = nodes(store)?;
    let wanted: Vec<String> = paths.iter().map(|path| format!("/{}", path.trim_matches('/'))).collect();
    if let Some(path) = wanted.iter().find(|path| !arrays.contains_key(*path)) {
        return Err(ZarrError::NotFound { node: path.clone() });
    }
    let chosen = arrays.iter().filter(|(path, array)| {
        array.form() != form && !array.is_v2() && (wanted.is_empty() || wanted.contains(path))
    });
    let mut changes = Vec::new();
    for (path, array) in chosen {
        let grid = match (form, array.grid().to_regular()) {
            (GridForm::Rectilinear, _) => array.grid().clone(),
            (GridForm::Regular, Some(edges)) => {
                celltile_grid::Grid::from_regular(&array.grid().shape(), &edges)
                    .map_err(ZarrError::grid(path))?
            }
            (GridForm::Regular, None) if wanted.is_empty() => continue,
            (GridForm::Regular, None) => {
                return Err(ZarrError::Mismatch {
                    node: path.clone(),
                    what: "the grid",
                    found: "one of unequal edges".to_owned(),
                    expected: "one edge length an axis, as a regular grid has".to_owned(),
                });
            }
        };
        changes.push((path, array, grid));
    }
    for (_, array, grid) in &changes {
        super::relabel(array, grid, form)?;
        let text = store.get(&metadata_key(array.path(), "zarr.json")?)?.unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        crate::append::refresh_consolidated(store.as_ref(), array.path(), &text)?;
    }
    Ok(changes.into_iter().map(|(path, ..)| path.clone()).collect())
}
