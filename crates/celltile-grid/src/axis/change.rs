//! Axes that grow, shrink, and whose edges are cut or joined.

use std::ops::Range;

use super::{Axis, Edges, Run, Runs};
use crate::GridError;
use crate::error::Place;

impl Axis {
    /// Gives the axis another length.
    ///
    /// Shrinking keeps the edges. Growing past listed edges appends one edge of the missing length. An axis given as one
    /// integer stays one.
    pub fn resize(&mut self, length: u64) {
        if let Edges::List(runs) = &mut self.edges
            && let Some(missing) = length.checked_sub(runs.sum()).filter(|missing| *missing > 0)
        {
            // Cannot fail: the edge is at least 1 and the sum becomes `length`.
            let pushed = runs.push(missing, 1);
            debug_assert!(pushed.is_ok(), "the sum is the new length");
        }
        self.length = length;
    }

    /// Grows the axis by one chunk of length `edge`, leaving those that hold elements as they are.
    ///
    /// Declared chunks past the axis' length hold nothing, and give way to the new one. An axis given as one integer stays
    /// one if `edge` is that integer, and becomes a list otherwise.
    ///
    /// # Errors
    ///
    /// If `edge` is 0, the last active chunk reaches past the axis' length (the new elements would belong to it), or the
    /// edges sum past 2^64 - 1. The axis is then unchanged.
    pub fn append(&mut self, edge: u64) -> Result<(), GridError> {
        if let Some(last) = self.n_active().checked_sub(1) {
            let chunk = self.chunk(last)?;
            if chunk.clipped < chunk.edge {
                return Err(GridError::EndsInsideChunk {
                    place: Place::default(),
                    length: self.length,
                    chunk: last,
                    chunk_end: u128::from(chunk.origin) + u128::from(chunk.edge),
                });
            }
        }
        match &mut self.edges {
            Edges::Integer(integer) if *integer == edge => {
                let too_large =
                    GridError::SumTooLarge { place: Place::default(), edge, count: 1, sum: self.length };
                self.length = self.length.checked_add(edge).ok_or(too_large)?;
            }
            Edges::List(runs) if runs.sum() == self.length => {
                runs.push(edge, 1)?;
                self.length = runs.sum();
            }
            Edges::Integer(_) | Edges::List(_) => {
                let mut list = self.first_chunks(self.n_active())?;
                list.push(edge, 1)?;
                self.length = list.sum();
                self.edges = Edges::List(Box::new(list));
            }
        }
        Ok(())
    }

    /// Cuts a declared chunk in two, the first of which has `at` elements. The axis becomes a list of edges.
    ///
    /// # Errors
    ///
    /// If the chunk is not declared, or `at` is not from 1 to its edge - 1. The axis is then unchanged.
    pub fn split(&mut self, chunk: u64, at: u64) -> Result<(), GridError> {
        let edge = self.chunk(chunk)?.edge;
        let Some(rest) = edge.checked_sub(at).filter(|rest| *rest > 0 && at > 0) else {
            return Err(GridError::Split { place: Place::default(), chunk, edge, at });
        };
        self.replace(chunk..chunk + 1, &[at, rest])
    }

    /// Joins neighbouring declared chunks into one. The axis becomes a list of edges.
    ///
    /// # Errors
    ///
    /// If the range is empty or reaches past the declared chunks. The axis is then unchanged.
    pub fn merge(&mut self, chunks: Range<u64>) -> Result<(), GridError> {
        let Some(last) = chunks.end.checked_sub(1).filter(|last| chunks.start <= *last) else {
            return Err(GridError::Merge { place: Place::default(), start: chunks.start, end: chunks.end });
        };
        let (first, last) = (self.chunk(chunks.start)?, self.chunk(last)?);
        let too_large = || GridError::SumTooLarge {
            place: Place::default(),
            edge: last.edge,
            count: 1,
            sum: last.origin,
        };
        let joined = (last.origin - first.origin).checked_add(last.edge).ok_or_else(too_large)?;
        self.replace(chunks, &[joined])
    }

    /// The first `n` declared chunks as a list.
    fn first_chunks(&self, n: u64) -> Result<Runs, GridError> {
        let mut list = Runs::default();
        push_slice(&mut list, self.runs(), 0..n)?;
        Ok(list)
    }

    /// Puts edges in the place of some declared chunks.
    fn replace(&mut self, chunks: Range<u64>, edges: &[u64]) -> Result<(), GridError> {
        let mut list = self.first_chunks(chunks.start)?;
        for &edge in edges {
            list.push(edge, 1)?;
        }
        push_slice(&mut list, self.runs(), chunks.end..u64::MAX)?;
        self.edges = Edges::List(Box::new(list));
        Ok(())
    }
}

/// Appends those edges of `runs` that are chunks in `chunks`.
fn push_slice(list: &mut Runs, runs: impl Iterator<Item = Run>, chunks: Range<u64>) -> Result<(), GridError> {
    let mut first = 0;
    for run in runs {
        let end = first + run.count;
        let count = end.min(chunks.end).saturating_sub(first.max(chunks.start));
        if count > 0 {
            list.push(run.edge, count)?;
        }
        if end >= chunks.end {
            break;
        }
        first = end;
    }
    Ok(())
}
