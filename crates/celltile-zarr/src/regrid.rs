//! An array on another grid: rewritten chunk by chunk in bounded memory, or, where the bytes stay the same, by its metadata alone.

mod assemble;
mod chunks;
mod plan;
mod whole;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use celltile_grid::{Axis, Grid};
use serde_json::{Map, Value, json};
use zarrs::array::ArrayMetadataOptions;
use zarrs::config::MetadataConvertVersion;
use zarrs::storage::{Bytes, ReadableStorageTraits, ReadableWritableStorageTraits, WritableStorageTraits};

use crate::array::{ZarrArray, metadata_key};
use crate::error::{Result, ZarrError};
use crate::spec::{ArraySpec, Encoding, GridForm, grid_json};

use assemble::Assembler;
use plan::Plan;

pub use chunks::ChunkSpec;
pub use whole::{StoreReport, StoreTarget, regrid_store, relabel_store};

/// What an array is to become.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its chunks; the shape is the array's own.
    pub grid: Grid,
    /// How the metadata names the grid.
    pub form: GridForm,
    /// How chunks are encoded; `None` keeps the codecs.
    pub encoding: Option<Encoding>,
}

/// How much [`regrid`] may take.
#[derive(Debug, Clone, Copy)]
pub struct RegridOptions {
    /// Bytes of chunks held at once.
    pub memory: u64,
    /// Threads; `None` means as many as there are cores.
    pub threads: Option<NonZeroUsize>,
}

impl Default for RegridOptions {
    fn default() -> Self {
        Self { memory: 1 << 30, threads: None }
    }
}

/// What [`regrid`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RegridReport {
    /// Chunks of the new array.
    pub chunks: u64,
    /// Those that an earlier, interrupted run had written.
    pub found: u64,
    /// Whether chunks were copied as they are, since grid and codecs keep their bytes.
    pub copied: bool,
}

/// Writes an array on another grid to a new place, in bounded memory, on all cores.
///
/// The new array's `zarr.json` is written last. An interrupted run leaves a plan beside the chunks; the same call then goes
/// on where it stopped, and another one is refused. This needs a store whose writes are atomic.
///
/// # Errors
///
/// If the grid is of another shape, its edges do not divide into the inner chunks of shards, there is an array or another plan at
/// `path`, the memory does not hold one chunk of each array, or chunks cannot be read, decoded or written.
pub fn regrid<S, D>(
    source: &ZarrArray<S>,
    store: &Arc<D>,
    path: &str,
    target: &Target,
    options: &RegridOptions,
) -> Result<RegridReport>
where
    S: ?Sized + ReadableStorageTraits + 'static,
    D: ?Sized + ReadableWritableStorageTraits + 'static,
{
    regrid_told(source, store, path, target, options, &|_, _| {})
}

/// [`regrid`], with `progress` told of each chunk: how many are there by now, and how many there will be.
///
/// # Errors
///
/// As [`regrid`].
pub fn regrid_told<S, D>(
    source: &ZarrArray<S>,
    store: &Arc<D>,
    path: &str,
    target: &Target,
    options: &RegridOptions,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<RegridReport>
where
    S: ?Sized + ReadableStorageTraits + 'static,
    D: ?Sized + ReadableWritableStorageTraits + 'static,
{
    check_shape(source, &target.grid)?;
    let text = target_text(source, target)?;
    let new =
        ZarrArray::from_text(Arc::clone(store), path, text.as_bytes())?.with_max_chunk_bytes(options.memory);
    let copied = target.encoding.is_none()
        && keys_agree(source, &new)
        && same_bytes(source.grid(), &target.grid).is_ok();
    let assembler = Assembler::new(source, &new, options, copied)?;
    let plan = Plan::start(store, path, source, &text)?;
    let shape = target.grid.active_shape();
    let chunks = target.grid.n_active().map_err(ZarrError::grid(path))?;
    let (next, found, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let done = AtomicU64::new(0);
    let work = || -> Result<()> {
        while !stop.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= chunks {
                break;
            }
            let chunk = unravel(number, &shape);
            if plan.resumed() && store.size_key(&new.array().chunk_key(&chunk))?.is_some() {
                found.fetch_add(1, Ordering::Relaxed);
            } else {
                assembler.write(&chunk)?;
            }
            progress(done.fetch_add(1, Ordering::Relaxed).saturating_add(1), chunks);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let run = || work().inspect_err(|_| stop.store(true, Ordering::Relaxed));
        let threads: Vec<_> = (0..assembler.threads()).map(|_| scope.spawn(run)).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    plan.finish(&text)?;
    Ok(RegridReport { chunks, found: found.into_inner(), copied })
}

/// Gives an array another grid by its metadata alone.
///
/// Possible where every active chunk keeps its edges, so that its bytes stay the same: from a regular grid to the equal rectilinear one
/// and back, or where only declared chunks past the array's end differ.
///
/// # Errors
///
/// If a chunk would change, with the axis and the chunk; if the array is of Zarr format 2; if the store cannot be written.
pub fn relabel<S>(source: &ZarrArray<S>, grid: &Grid, form: GridForm) -> Result<()>
where
    S: ?Sized + ReadableWritableStorageTraits + 'static,
{
    check_shape(source, grid)?;
    same_bytes(source.grid(), grid).map_err(|reason| ZarrError::Mismatch {
        node: source.path().to_owned(),
        what: "the grid",
        found: reason,
        expected: "the same edges in every chunk that holds elements".to_owned(),
    })?;
    let key = metadata_key(source.path(), "zarr.json")?;
    let store = source.array().storage();
    let Some(text) = store.get(&key)? else {
        return Err(ZarrError::metadata(source.path(), "is of Zarr format 2, which has no other grid"));
    };
    let text = replace_grid(source.path(), &text, grid, form)?;
    // What is about to be written must be readable.
    ZarrArray::from_text(Arc::clone(&store), source.path(), text.as_bytes())?;
    Ok(store.set(&key, Bytes::from(text))?)
}

/// Whether chunks keep their bytes from one grid to another; if not, where they differ first.
fn same_bytes(old: &Grid, new: &Grid) -> std::result::Result<(), String> {
    for (axis, (old, new)) in old.axes().iter().zip(new.axes()).enumerate() {
        if let Some((chunk, before, after)) = first_difference(old, new) {
            let or_none =
                |edge: Option<u64>| edge.map_or_else(|| "no edge".to_owned(), |edge| format!("edge {edge}"));
            let (before, after) = (or_none(before), or_none(after));
            return Err(format!("on axis {axis} one whose chunk {chunk} has {after} in place of {before}"));
        }
    }
    Ok(())
}

/// The first active chunk that has not the same edge on both axes, with its edges.
fn first_difference(old: &Axis, new: &Axis) -> Option<(u64, Option<u64>, Option<u64>)> {
    let (mut old, mut new) = (active_runs(old), active_runs(new));
    let (mut a, mut b) = (old.next(), new.next());
    let mut chunk = 0_u64;
    while a.is_some() || b.is_some() {
        let (edge_a, edge_b) = (a.map(|run| run.0), b.map(|run| run.0));
        let (Some((edge, left_a)), Some((_, left_b))) = (a, b) else { return Some((chunk, edge_a, edge_b)) };
        if edge_a != edge_b {
            return Some((chunk, edge_a, edge_b));
        }
        let both = left_a.min(left_b);
        chunk = chunk.saturating_add(both);
        a = if left_a > both { Some((edge, left_a - both)) } else { old.next() };
        b = if left_b > both { Some((edge, left_b - both)) } else { new.next() };
    }
    None
}

/// The runs of active chunks: edge and count.
fn active_runs(axis: &Axis) -> impl Iterator<Item = (u64, u64)> + '_ {
    let active = axis.n_active();
    axis.runs().scan(0_u64, move |first, run| {
        let start = *first;
        *first = first.saturating_add(run.count);
        (start < active).then(|| (run.edge, run.count.min(active - start)))
    })
}

fn check_shape<S: ?Sized>(source: &ZarrArray<S>, grid: &Grid) -> Result<()> {
    if source.grid().shape() == grid.shape() {
        return Ok(());
    }
    Err(ZarrError::Mismatch {
        node: source.path().to_owned(),
        what: "the new grid's shape",
        found: format!("{:?}", grid.shape()),
        expected: format!("the array's, {:?}", source.grid().shape()),
    })
}

/// The `zarr.json` of the new array: the old one's, but for its grid and codecs.
fn target_text<S: ?Sized>(source: &ZarrArray<S>, target: &Target) -> Result<String> {
    let node = source.path();
    let fault = |error: serde_json::Error| ZarrError::metadata(node, error.to_string());
    let mut metadata = match source.text() {
        Some(text) => serde_json::from_slice(text).map_err(fault)?,
        None => from_v2(source)?,
    };
    if let Some(encoding) = &target.encoding {
        let name = metadata.get("data_type").and_then(Value::as_str).unwrap_or_default();
        let spec = ArraySpec::new(target.grid.clone(), target.form, name);
        let codecs = ArraySpec { encoding: encoding.clone(), ..spec }.codecs();
        metadata.insert("codecs".to_owned(), codecs);
    }
    replace_grid(node, &serde_json::to_vec(&metadata).map_err(fault)?, &target.grid, target.form)
}

/// The metadata of an array of Zarr format 2 in format 3.
fn from_v2<S: ?Sized>(source: &ZarrArray<S>) -> Result<Map<String, Value>> {
    let options = ArrayMetadataOptions::default()
        .with_include_zarrs_metadata(false)
        .with_metadata_convert_version(MetadataConvertVersion::V3);
    let mut metadata = match serde_json::to_value(source.array().metadata_opt(&options)) {
        Ok(Value::Object(metadata)) => metadata,
        Ok(_) | Err(_) => {
            return Err(ZarrError::metadata(source.path(), "has metadata that format 3 cannot hold"));
        }
    };
    let encoding = json!({"name": "default", "configuration": {"separator": "/"}});
    metadata.insert("chunk_key_encoding".to_owned(), encoding);
    // zarrs shortens objects of nothing but a name to that name, which not every reader knows.
    for codec in metadata.get_mut("codecs").and_then(Value::as_array_mut).into_iter().flatten() {
        if codec.is_string() {
            *codec = json!({"name": codec});
        }
    }
    Ok(metadata)
}

/// The text of an array's metadata with another grid and that grid's shape.
pub(crate) fn replace_grid(node: &str, text: &[u8], grid: &Grid, form: GridForm) -> Result<String> {
    let fault = |error: serde_json::Error| ZarrError::metadata(node, error.to_string());
    let mut metadata: serde_json::Map<String, Value> = serde_json::from_slice(text).map_err(fault)?;
    metadata.insert("shape".to_owned(), grid.shape().into());
    let chunk_grid: Value = serde_json::from_str(grid_json(node, grid, form)?.get()).map_err(fault)?;
    metadata.insert("chunk_grid".to_owned(), chunk_grid);
    serde_json::to_string(&metadata).map_err(fault)
}

/// Whether the same codecs write the same bytes: format 2 has codecs of its own.
fn keys_agree<S: ?Sized, D: ?Sized>(source: &ZarrArray<S>, new: &ZarrArray<D>) -> bool {
    !source.is_v2() && !new.is_v2()
}

/// The index, in C order, of that number.
pub(crate) fn unravel(mut number: u64, shape: &[u64]) -> Vec<u64> {
    let mut index = vec![0; shape.len()];
    for (slot, &edge) in index.iter_mut().zip(shape).rev() {
        let edge = edge.max(1);
        *slot = number % edge;
        number /= edge;
    }
    index
}
