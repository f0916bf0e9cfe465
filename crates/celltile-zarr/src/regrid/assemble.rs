//! One chunk of a new array, put together from the chunks of the old one.

use std::num::NonZeroUsize;
use std::ops::Range;

use celltile_grid::Axis;
use zarrs::array::{ArrayBytes, ArrayBytesOffsets, ArrayError, DataTypeSize};
use zarrs::storage::{ReadableStorageTraits, ReadableWritableStorageTraits};

use crate::array::ZarrArray;
use crate::cache::Cache;
use crate::copy::{copy_rectangle, lengths, next, to_usize};
use crate::error::{Result, ZarrError};

use super::RegridOptions;

/// Writes chunks of the new array, keeping decoded chunks of the old one for the neighbours that need them too.
pub(super) struct Assembler<'a, S: ?Sized, D: ?Sized> {
    source: &'a ZarrArray<S>,
    new: &'a ZarrArray<D>,
    decoded: Cache<Vec<u64>, Vec<u8>>,
    copied: bool,
    threads: usize,
}

impl<'a, S, D> Assembler<'a, S, D>
where
    S: ?Sized + ReadableStorageTraits + 'static,
    D: ?Sized + ReadableWritableStorageTraits + 'static,
{
    pub(super) fn new(
        source: &'a ZarrArray<S>,
        new: &'a ZarrArray<D>,
        options: &RegridOptions,
        copied: bool,
    ) -> Result<Self> {
        // A chunk being put together, and its encoded form.
        let (old_bytes, new_bytes) = (largest_chunk(source), largest_chunk(new).saturating_mul(2));
        let memory = u128::from(options.memory);
        if !copied && old_bytes.saturating_add(new_bytes) > memory {
            return Err(ZarrError::Mismatch {
                node: source.path().to_owned(),
                what: "the memory allowed",
                found: format!("{memory} bytes"),
                expected: format!(
                    "at least {} bytes for one chunk of each array",
                    old_bytes.saturating_add(new_bytes)
                ),
            });
        }
        let wanted = options.threads.or_else(|| std::thread::available_parallelism().ok());
        let wanted = wanted.map_or(1, NonZeroUsize::get);
        let fit = memory.saturating_sub(old_bytes) / new_bytes.max(1);
        let threads = wanted.min(usize::try_from(fit).unwrap_or(usize::MAX)).max(1);
        let left = memory.saturating_sub(new_bytes.saturating_mul(threads as u128));
        let decoded = Cache::new(u64::try_from(left).unwrap_or(u64::MAX));
        Ok(Self { source, new, decoded, copied, threads })
    }

    pub(super) fn threads(&self) -> usize {
        self.threads
    }

    pub(super) fn write(&self, chunk: &[u64]) -> Result<()> {
        if self.copied {
            return self.copy(chunk);
        }
        let (shape, region) = self.placed(chunk)?;
        let elements = match self.source.array().data_type().size() {
            DataTypeSize::Fixed(size) => ArrayBytes::new_flen(self.gather(size, &shape, &region)?),
            DataTypeSize::Variable => self.gather_variable(&shape, &region)?,
        };
        self.new.write_chunk(chunk, elements)
    }

    /// The encoded chunk as it is.
    fn copy(&self, chunk: &[u64]) -> Result<()> {
        let Some(bytes) = self.source.array().storage().get(&self.source.array().chunk_key(chunk))? else {
            return Ok(());
        };
        Ok(self.new.array().storage().set(&self.new.array().chunk_key(chunk), bytes)?)
    }

    /// A new chunk's declared shape, and the part of the array in it.
    fn placed(&self, chunk: &[u64]) -> Result<(Vec<u64>, Vec<Range<u64>>)> {
        let placed = self.new.grid().chunk(chunk).map_err(ZarrError::grid(self.new.path()))?;
        Ok(placed.iter().map(|c| (c.edge, c.origin..c.origin.saturating_add(c.clipped))).unzip())
    }

    fn gather(&self, size: usize, shape: &[u64], region: &[Range<u64>]) -> Result<Vec<u8>> {
        let to_shape = to_usize(shape).ok_or_else(|| self.unplaced())?;
        let mut to = self.source.array().fill_value().as_ne_bytes().repeat(to_shape.iter().product());
        let mut parts = self.source.grid().region(region).map_err(ZarrError::grid(self.source.path()))?;
        while let Some(parts) = parts.next_part() {
            let chunk: Vec<u64> = parts.iter().map(|part| part.chunk.chunk).collect();
            let from_shape: Vec<u64> = parts.iter().map(|part| part.chunk.edge).collect();
            let bytes =
                u64::try_from(self.source.chunk_bytes(from_shape.iter().copied())).unwrap_or(u64::MAX);
            let from = self.decoded.get(&chunk, bytes, || self.decode(&chunk))?;
            let extent: Vec<u64> = parts.iter().map(|part| part.within.end - part.within.start).collect();
            let from_origin: Vec<u64> = parts.iter().map(|part| part.within.start).collect();
            let to_origin: Vec<u64> = parts.iter().map(|part| part.selected.start).collect();
            let copied = (|| {
                copy_rectangle(
                    size,
                    &to_usize(&extent)?,
                    (&from, &to_usize(&from_shape)?, &to_usize(&from_origin)?),
                    (&mut to, &to_shape, &to_usize(&to_origin)?),
                )
            })();
            copied.ok_or_else(|| self.unplaced())?;
        }
        Ok(to)
    }

    fn decode(&self, chunk: &[u64]) -> Result<Vec<u8>> {
        let elements = self.source.read_chunk(chunk)?;
        let bytes = elements.into_fixed().map_err(|error| {
            ZarrError::metadata(
                self.source.path(),
                format!("chunk {chunk:?} does not decode to fixed lengths: {error}"),
            )
        })?;
        Ok(bytes.into_owned())
    }

    /// Strings and the like: the region read at once, and the fill value where the chunk reaches past the array.
    fn gather_variable(&self, shape: &[u64], region: &[Range<u64>]) -> Result<ArrayBytes<'static>> {
        let elements = self.source.read_region(region)?;
        let inner = lengths(region);
        if inner == shape {
            return Ok(elements);
        }
        pad_variable(&elements, &inner, shape, self.source.array().fill_value().as_ne_bytes())
            .ok_or_else(|| self.unplaced())?
            .map_err(ZarrError::array(self.source.path()))
    }

    fn unplaced(&self) -> ZarrError {
        ZarrError::metadata(self.source.path(), "a chunk is not as long as its grid says")
    }
}

/// Elements of variable length in C order, put into a larger shape whose other elements are `fill`.
pub(crate) fn pad_variable(
    elements: &ArrayBytes<'_>,
    inner: &[u64],
    shape: &[u64],
    fill: &[u8],
) -> Option<std::result::Result<ArrayBytes<'static>, ArrayError>> {
    let ArrayBytes::Variable(elements) = elements else { return None };
    let (bytes, offsets) = (elements.bytes(), elements.offsets());
    let (inner, shape) = (to_usize(inner)?, to_usize(shape)?);
    let (mut data, mut ends) = (Vec::with_capacity(bytes.len()), vec![0_usize]);
    let mut index = vec![0; shape.len()];
    let mut offsets = offsets.windows(2);
    if !shape.contains(&0) {
        loop {
            if index.iter().zip(&inner).all(|(i, n)| i < n) {
                let [start, end] = offsets.next()? else { return None };
                data.extend_from_slice(bytes.get(*start..*end)?);
            } else {
                data.extend_from_slice(fill);
            }
            ends.push(data.len());
            if !next(&mut index, &shape) {
                break;
            }
        }
    }
    let offsets = ArrayBytesOffsets::new(ends).ok()?;
    Some(ArrayBytes::new_vlen(data, offsets).map_err(|error| zarrs::array::CodecError::from(error).into()))
}

/// The decoded bytes of the largest active chunk.
fn largest_chunk<S: ?Sized>(array: &ZarrArray<S>) -> u128 {
    let largest = |axis: &Axis| super::active_runs(axis).map(|(edge, _)| edge).max().unwrap_or(0);
    array.chunk_bytes(array.grid().axes().iter().map(largest))
}

impl<S: ?Sized, D: ?Sized> std::fmt::Debug for Assembler<'_, S, D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Assembler")
            .field("copied", &self.copied)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}
