//! The values that do not fit into 16 bits ("Exceptions" in the specification).
//!
//! An exception frame holds `k` positions and then `k` payloads, all `u32`. A position is the index of a nonzero within
//! the tile chunk.

use crate::error::{Error, Result, Stream};
use crate::layout::EXCEPTION_SLOT;

/// Checked exceptions of one kind: strictly increasing positions within the chunk, payloads in their range.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Exceptions<'a> {
    positions: &'a [[u8; 4]],
    payloads: &'a [[u8; 4]],
}

/// One value: position within the tile chunk, payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exception {
    pub(crate) position: u32,
    pub(crate) payload: u32,
}

impl<'a> Exceptions<'a> {
    /// Checks the content of a vexc or gexc frame of a chunk of `nnz` nonzeros.
    pub(crate) fn parse(
        chunk: usize,
        stream: Stream,
        content: &'a [u8],
        nnz: u64,
        n_genes: u32,
    ) -> Result<Self> {
        let (low, high) = match stream {
            Stream::Gexc => (1, n_genes - 1),
            _ => (u32::from(EXCEPTION_SLOT) + 1, i32::MAX.cast_unsigned()),
        };
        let (words, _) = content.as_chunks::<4>();
        let (positions, payloads) = words.split_at(words.len() / 2);
        let exceptions = Self { positions, payloads };
        let mut next: u64 = 0;
        for (entry, Exception { position, payload }) in exceptions.iter().enumerate() {
            let found = u64::from(position);
            if found >= nnz || found < next {
                let expected = if found >= nnz {
                    format!("less than {nnz}, the nonzeros of the chunk")
                } else {
                    format!("at least {next}: positions increase")
                };
                return Err(Error::ExceptionPosition { chunk, stream, entry, found: position, expected });
            }
            if payload < low || payload > high {
                return Err(Error::ExceptionPayload { chunk, stream, entry, found: payload, low, high });
            }
            next = found + 1;
        }
        Ok(exceptions)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Exception> + use<'a> {
        self.positions.iter().zip(self.payloads).map(|(position, payload)| Exception {
            position: u32::from_le_bytes(*position),
            payload: u32::from_le_bytes(*payload),
        })
    }

    /// Those with a position from `low` on, below `high`.
    pub(crate) fn within(&self, low: u64, high: u64) -> Self {
        let before = |bound: u64| {
            self.positions.partition_point(|position| u64::from(u32::from_le_bytes(*position)) < bound)
        };
        let range = before(low)..before(high);
        Self {
            positions: self.positions.get(range.clone()).unwrap_or_default(),
            payloads: self.payloads.get(range).unwrap_or_default(),
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }
}

/// Adds the payloads of gap exceptions to the genes that the prefix sums gave: each to its own nonzero and every later
/// one of the same cell.
///
/// `genes` are those of the cells whose offsets are `indptr`, whose first nonzero has the position `base` in the chunk.
/// All of `genes` are below `n_genes` already. `first_cell` and `chunk` are for the error.
pub(crate) fn add_gaps(
    exceptions: Exceptions<'_>,
    genes: &mut [i32],
    indptr: &[i64],
    base: u64,
    n_genes: u32,
    (chunk, first_cell): (usize, usize),
) -> Result<()> {
    let Some(&first) = indptr.first() else { return Ok(()) };
    // Position in the chunk of the entry at `offset`.
    let position = |offset: i64| base.saturating_add(offset.abs_diff(first));
    let end = position(indptr.last().copied().unwrap_or(first));
    let mut left = exceptions.within(base, end).iter().peekable();
    while let Some(&next) = left.peek() {
        // The cell whose range holds the position.
        let cell =
            indptr.partition_point(|&offset| position(offset) <= u64::from(next.position)).saturating_sub(1);
        let cell_end = position(indptr.get(cell.saturating_add(1)).copied().unwrap_or(first));
        // One payload at a time, each up to the next one's position. A sum of payloads stays below 2^63: there are
        // fewer than 2^32 of them, each below 2^31.
        let mut sum: u64 = 0;
        while let Some(exception) = left.next_if(|exception| u64::from(exception.position) < cell_end) {
            sum += u64::from(exception.payload);
            let until = left.peek().map_or(cell_end, |later| u64::from(later.position).min(cell_end));
            let low = usize::try_from(u64::from(exception.position) - base).unwrap_or(usize::MAX);
            let high = usize::try_from(until - base).unwrap_or(usize::MAX);
            for gene in genes.get_mut(low..high).unwrap_or_default() {
                let total = u64::from(gene.cast_unsigned()) + sum;
                *gene =
                    i32::try_from(total).ok().filter(|_| total < u64::from(n_genes)).ok_or(Error::Gene {
                        chunk,
                        cell: first_cell.saturating_add(cell),
                        gene: total,
                        n_genes: n_genes.into(),
                    })?;
            }
        }
    }
    Ok(())
}
