//! One chunk of a new array, put together from the chunks of the old one.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;

use celltile_grid::{Axis, Grid};
use zarrs::storage::{ReadableStorageTraits, ReadableWritableStorageTraits};

use crate::array::ZarrArray;
use crate::cache::Cache;
use crate::elements::Elements;
use crate::error::{Result, ZarrError};

use super::RegridOptions;

/// Writes chunks of the new array, keeping decoded chunks of the old one for the neighbours that need them too.
pub(super) struct Assembler<'a, S: ?Sized, D: ?Sized> {
    source: &'a ZarrArray<S>,
    new: &'a ZarrArray<D>,
    decoded: Cache<Vec<u64>, Option<Arc<Elements>>>,
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
        let old_bytes = largest_chunk(source, source.units());
        let new_bytes = largest_chunk(new, new.grid()).saturating_mul(2);
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
        let elements = self.source.gather(&shape, &region, Some(&self.decoded))?;
        let elements = elements.into_zarrs().ok_or_else(|| {
            ZarrError::metadata(self.source.path(), "a chunk is not as long as its grid says")
        })?;
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
}

/// The decoded bytes of the largest active chunk.
fn largest_chunk<S: ?Sized>(array: &ZarrArray<S>, grid: &Grid) -> u128 {
    let largest = |axis: &Axis| super::active_runs(axis).map(|(edge, _)| edge).max().unwrap_or(0);
    array.chunk_bytes(grid.axes().iter().map(largest))
}

impl<S: ?Sized, D: ?Sized> std::fmt::Debug for Assembler<'_, S, D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Assembler")
            .field("copied", &self.copied)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}
