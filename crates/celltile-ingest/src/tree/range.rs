use std::cell::RefCell;
use std::ops::Range;

use rayon::prelude::*;

use super::array::Array;
use crate::error::Result;
use crate::hdf5::Inflater;

thread_local! {
    static SCRATCH: RefCell<(Inflater, Vec<u8>)> = RefCell::new((Inflater::default(), Vec::new()));
}

/// Runs `f` with this thread's inflater and a buffer for a chunk.
pub(crate) fn with_scratch<R>(f: impl FnOnce(&mut Inflater, &mut Vec<u8>) -> R) -> R {
    SCRATCH.with(|scratch| match scratch.try_borrow_mut() {
        Ok(mut scratch) => {
            let (inflater, chunk) = &mut *scratch;
            f(inflater, chunk)
        }
        // Work stealing can nest one read in another.
        Err(_) => f(&mut Inflater::default(), &mut Vec::new()),
    })
}

/// Reads an array of one axis in ascending ranges. Each chunk is inflated once, on the threads of the current pool; of
/// what was read, only the chunk that the last range ended in is kept.
#[derive(Debug)]
pub struct RangeReader {
    dataset: Array,
    len: u64,
    kept: Option<Kept>,
}

/// A chunk by its place in the grid.
type Kept = (u64, Vec<u8>);

impl RangeReader {
    /// A reader of `dataset`, none of whose chunks may take more than `chunk_memory` bytes.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Damaged`] if it has another number of axes than one, [`crate::Error::Memory`].
    pub fn new(dataset: Array, chunk_memory: u64) -> Result<Self> {
        let len = dataset.len_1d()?;
        dataset.check_chunk_bytes(chunk_memory)?;
        Ok(Self { dataset, len, kept: None })
    }

    /// The array.
    pub fn dataset(&self) -> &Array {
        &self.dataset
    }

    /// Number of elements.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads the elements of a range into `out`, which has a place for each: `convert` gets stored bytes, the places
    /// for their values and the position of the first. Pieces are converted at the same time on many threads.
    ///
    /// # Errors
    ///
    /// As [`Array::read_chunk`]; of several, that of the first chunk.
    pub fn read<T: Send>(
        &mut self,
        range: Range<u64>,
        out: &mut [T],
        convert: impl Fn(&[u8], &mut [T], u64) + Sync,
    ) -> Result<()> {
        if range.start >= range.end {
            return Ok(());
        }
        if range.end > self.len || range.end - range.start != out.len() as u64 {
            return Err(self
                .dataset
                .damaged(format!("elements {}..{} asked for, of {}", range.start, range.end, self.len)));
        }
        let edge = self.dataset.grid().first().copied().unwrap_or(1);
        let mut pieces = Vec::new();
        let mut rest = out;
        let mut start = range.start;
        while start < range.end {
            let chunk = start / edge;
            let end = (chunk + 1).saturating_mul(edge).min(range.end);
            let (piece, after) = rest.split_at_mut(usize::try_from(end - start).unwrap_or(0).min(rest.len()));
            rest = after;
            pieces.push((chunk, start, end, piece));
            start = end;
        }
        let kept = self.kept.take();
        let (dataset, len) = (&self.dataset, self.len);
        let element = dataset.element_size();
        let results: Vec<Result<Option<Kept>>> = pieces
            .into_par_iter()
            .map(|(chunk, start, end, piece)| {
                let first = chunk.saturating_mul(edge);
                let keep = end == range.end && end < len && end != first.saturating_add(edge);
                let take = |bytes: &[u8], piece: &mut [T]| -> Result<()> {
                    let from = usize::try_from(start - first).unwrap_or(usize::MAX).saturating_mul(element);
                    let until = usize::try_from(end - first).unwrap_or(usize::MAX).saturating_mul(element);
                    let part = bytes.get(from..until).ok_or_else(|| dataset.damaged("a chunk cut short"))?;
                    convert(part, piece, start);
                    Ok(())
                };
                if let Some((index, bytes)) = kept.as_ref().filter(|(index, _)| *index == chunk) {
                    take(bytes, piece)?;
                    return Ok(keep.then(|| (*index, bytes.clone())));
                }
                with_scratch(|inflater, bytes| {
                    dataset.read_chunk(chunk, inflater, bytes)?;
                    take(bytes, piece)?;
                    Ok(keep.then(|| (chunk, std::mem::take(bytes))))
                })
            })
            .collect();
        for result in results {
            if let Some(kept) = result? {
                self.kept = Some(kept);
            }
        }
        Ok(())
    }
}
