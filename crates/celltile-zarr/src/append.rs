//! Elements added to an array as chunks of their own.

use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;
use zarrs::array::{ArrayBytes, DataTypeSize};
use zarrs::storage::{Bytes, ReadableWritableStorageTraits};

use crate::array::{ZarrArray, metadata_key};
use crate::copy::{copy_rectangle, lengths, to_usize};
use crate::error::{Result, ZarrError};
use crate::npy::Npy;
use crate::regrid::{replace_grid, unravel};
use crate::spec::GridForm;

/// Adds `block` at the end of an axis as a layer of chunks of its own, without touching the others, and returns the longer array.
///
/// `block` holds, in C order, the elements of the array's shape with `length` in place of the axis' own. Along the other axes it is
/// cut as the array is. The array's metadata is written after the chunks, and the consolidated metadata of the groups above it
/// last: whoever reads meanwhile sees the array as it was. A regular grid stays one if the block is as long as its chunks, and
/// becomes rectilinear otherwise. Declared chunks past the array's end, which hold nothing, give way.
///
/// # Errors
///
/// [`ZarrError::Grid`] if `length` is 0, the array ends inside a chunk (its new elements would belong to that chunk), or the
/// length does not divide into the inner chunks of shards; [`ZarrError::Mismatch`] if the block has another size; if the array is
/// of Zarr format 2 or has elements of variable length; if the store cannot be written. Nothing has changed then.
pub fn append<S>(array: &ZarrArray<S>, axis: usize, length: u64, block: &[u8]) -> Result<ZarrArray<S>>
where
    S: ?Sized + ReadableWritableStorageTraits + 'static,
{
    let node = array.path();
    let store = array.array().storage();
    let key = metadata_key(node, "zarr.json")?;
    let Some(text) = store.get(&key)? else {
        return Err(ZarrError::metadata(node, "is of Zarr format 2, which has no grid of unequal edges"));
    };
    let DataTypeSize::Fixed(size) = array.array().data_type().size() else {
        return Err(ZarrError::metadata(node, "has elements of variable length, which cannot be appended"));
    };
    let mut grid = array.grid().clone();
    grid.append(axis, length).map_err(ZarrError::grid(node))?;
    let form = match array.form() {
        GridForm::Regular if grid.to_regular().is_some() => GridForm::Regular,
        _ => GridForm::Rectilinear,
    };
    let text = replace_grid(node, &text, &grid, form)?;
    let new = ZarrArray::from_text(Arc::clone(&store), node, text.as_bytes())?
        .with_max_chunk_bytes(array.max_chunk_bytes());

    let mut shape = grid.shape();
    let mut first = vec![0; grid.ndim()];
    let mut layer = grid.active_shape();
    if let (Some(n), Some(start), Some(chunks)) =
        (shape.get_mut(axis), first.get_mut(axis), layer.get_mut(axis))
    {
        *n = length;
        *start = chunks.saturating_sub(1);
        *chunks = 1;
    }
    let elements = shape.iter().try_fold(size as u64, |bytes, &n| bytes.checked_mul(n));
    if elements != u64::try_from(block.len()).ok() {
        return Err(ZarrError::Mismatch {
            node: node.to_owned(),
            what: "the block's size",
            found: format!("{} bytes", block.len()),
            expected: format!("{shape:?} elements of {size} bytes"),
        });
    }
    // No chunks if another axis has length 0: the block holds nothing then.
    let chunks: u64 = layer.iter().product();
    for number in 0..chunks {
        let index = unravel(number, &layer);
        let chunk: Vec<u64> = index.iter().zip(&first).map(|(i, start)| i + start).collect();
        write_part(&new, axis, &chunk, size, block, &shape)?;
    }
    store.set(&key, Bytes::from(text.clone()))?;
    refresh_consolidated(store.as_ref(), node, &text)?;
    Ok(new)
}

/// [`append`]s the elements of an NPY file: its shape is the array's but for the axis, its type the array's.
///
/// # Errors
///
/// As [`append`], and if the file is no NPY file in C order.
pub fn append_npy<S>(array: &ZarrArray<S>, axis: usize, npy: &[u8]) -> Result<ZarrArray<S>>
where
    S: ?Sized + ReadableWritableStorageTraits + 'static,
{
    let npy = Npy::parse(npy)
        .map_err(|reason| ZarrError::metadata(array.path(), format!("the block: {reason}")))?;
    let (length, block) = npy.block(array, axis)?;
    append(array, axis, length, block)
}

/// Writes the part of the block that a new chunk holds.
fn write_part<S>(
    new: &ZarrArray<S>,
    axis: usize,
    chunk: &[u64],
    size: usize,
    block: &[u8],
    shape: &[u64],
) -> Result<()>
where
    S: ?Sized + ReadableWritableStorageTraits + 'static,
{
    let placed = new.grid().chunk(chunk).map_err(ZarrError::grid(new.path()))?;
    let edges: Vec<u64> = placed.iter().map(|chunk| chunk.edge).collect();
    // In the block, which begins at 0 on its own axis.
    let part: Vec<Range<u64>> = placed
        .iter()
        .enumerate()
        .map(|(number, c)| if number == axis { 0..c.clipped } else { c.origin..c.origin + c.clipped })
        .collect();
    let starts: Vec<u64> = part.iter().map(|range| range.start).collect();
    let bytes = (|| {
        let to_shape = to_usize(&edges)?;
        let mut to = new.array().fill_value().as_ne_bytes().repeat(to_shape.iter().product());
        let from = (block, &*to_usize(shape)?, &*to_usize(&starts)?);
        copy_rectangle(size, &to_usize(&lengths(&part))?, from, (&mut to, &to_shape, &vec![0; part.len()]))?;
        Some(to)
    })();
    let bytes = bytes.ok_or_else(|| ZarrError::metadata(new.path(), "a chunk does not fit into memory"))?;
    new.write_chunk(chunk, ArrayBytes::new_flen(bytes))
}

/// Puts a node's new metadata into the consolidated metadata of every group above it that has some.
///
/// # Errors
///
/// If a group's metadata is not valid JSON, or the store cannot be read or written.
pub(crate) fn refresh_consolidated<S>(store: &S, node: &str, text: &str) -> Result<()>
where
    S: ?Sized + ReadableWritableStorageTraits,
{
    let fault = |error: serde_json::Error| ZarrError::metadata(node, error.to_string());
    let parts: Vec<&str> = node.split('/').filter(|part| !part.is_empty()).collect();
    for depth in (0..parts.len()).rev() {
        let (above, below) = parts.split_at(depth);
        let key = metadata_key(&format!("/{}", above.join("/")), "zarr.json")?;
        let Some(group) = store.get(&key)? else { continue };
        let mut group: Value = serde_json::from_slice(&group).map_err(fault)?;
        let entries = group.pointer_mut("/consolidated_metadata/metadata").and_then(Value::as_object_mut);
        let Some(entry) = entries.and_then(|entries| entries.get_mut(&below.join("/"))) else { continue };
        *entry = serde_json::from_str(text).map_err(fault)?;
        store.set(&key, Bytes::from(serde_json::to_vec(&group).map_err(fault)?))?;
    }
    Ok(())
}
