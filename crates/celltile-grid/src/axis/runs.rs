//! A list of edges kept as runs of equal edges.

use super::ladder::{GROUP, Ladder, window};
use crate::GridError;
use crate::error::Place;

/// Equal consecutive edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The length of each edge, at least 1.
    pub edge: u64,
    /// How many there are, at least 1.
    pub count: u64,
}

/// Where a run ends: the sum of all edges, and the number of chunks, up to and including it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct RunEnd {
    index: u64,
    chunk: u64,
}

/// A run and where it lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunSpan {
    /// Which run it is.
    pub(crate) ordinal: usize,
    pub(crate) edge: u64,
    /// Index of its first element, and one past its last.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Its first chunk, and one past its last.
    pub(crate) first_chunk: u64,
    pub(crate) end_chunk: u64,
}

impl RunSpan {
    fn between(ordinal: usize, before: RunEnd, end: RunEnd) -> Self {
        let count = end.chunk - before.chunk;
        let span = end.index - before.index;
        // Most runs of irregular grids have one edge: those save a division.
        let edge = if count == 1 { span } else { span / count };
        Self {
            ordinal,
            edge,
            start: before.index,
            end: end.index,
            first_chunk: before.chunk,
            end_chunk: end.chunk,
        }
    }

    /// The chunk of an index inside this run, and the index of that chunk's first element.
    pub(crate) fn locate(&self, index: u64) -> (u64, u64) {
        let offset = index - self.start;
        if offset < self.edge {
            return (self.first_chunk, self.start);
        }
        let nth = offset / self.edge;
        (self.first_chunk + nth, self.start + nth * self.edge)
    }

    pub(crate) fn run(&self) -> Run {
        Run { edge: self.edge, count: self.end_chunk - self.first_chunk }
    }
}

/// Runs with the prefix sums of their lengths and counts: 16 bytes a run, and about one for the two search trees.
///
/// Edges are derived from the sums. Neighbouring runs have different edges: the form is unique.
#[derive(Debug, Clone, Default)]
pub(crate) struct Runs {
    ends: Vec<RunEnd>,
    last_edge: u64,
    by_index: Ladder,
    by_chunk: Ladder,
}

impl Runs {
    /// Appends `count` edges of length `edge`. On an error nothing has changed.
    pub(crate) fn push(&mut self, edge: u64, count: u64) -> Result<(), GridError> {
        if edge == 0 {
            return Err(GridError::Edge { place: Place::default(), found: "0".into() });
        }
        if count == 0 {
            return Err(GridError::Count { place: Place::default(), found: "0".into() });
        }
        let before = self.end();
        let too_large = || GridError::SumTooLarge { place: Place::default(), edge, count, sum: before.index };
        let index =
            edge.checked_mul(count).and_then(|span| before.index.checked_add(span)).ok_or_else(too_large)?;
        // A chunk is at least one element, so this overflows only where the sum has.
        let chunk = before.chunk.checked_add(count).ok_or_else(too_large)?;
        let end = RunEnd { index, chunk };
        if edge == self.last_edge
            && let Some(last) = self.ends.last_mut()
        {
            *last = end;
            return Ok(());
        }
        if !self.ends.is_empty() && self.ends.len().is_multiple_of(GROUP) {
            self.by_index.push(before.index);
            self.by_chunk.push(before.chunk);
        }
        if self.ends.len() == self.ends.capacity() {
            // Growing by an eighth, not doubling, keeps even a list that is still growing under 24 bytes a run.
            self.ends.reserve_exact((self.ends.len() / 8).max(4));
        }
        self.ends.push(end);
        self.last_edge = edge;
        Ok(())
    }

    fn end(&self) -> RunEnd {
        self.ends.last().copied().unwrap_or_default()
    }

    /// The sum of all edges.
    pub(crate) fn sum(&self) -> u64 {
        self.end().index
    }

    /// The number of edges.
    pub(crate) fn n_chunks(&self) -> u64 {
        self.end().chunk
    }

    /// The number of runs.
    pub(crate) fn n_runs(&self) -> usize {
        self.ends.len()
    }

    /// The run of that number.
    pub(crate) fn span(&self, ordinal: usize) -> Option<RunSpan> {
        let end = self.ends.get(ordinal)?;
        let before = match ordinal.checked_sub(1) {
            Some(previous) => *self.ends.get(previous)?,
            None => RunEnd::default(),
        };
        Some(RunSpan::between(ordinal, before, *end))
    }

    /// The run that holds that index: the first whose end exceeds it.
    pub(crate) fn span_of_index(&self, index: u64) -> Option<RunSpan> {
        let start = self.by_index.group(index) * GROUP;
        let below: usize = window(&self.ends, start).iter().map(|end| usize::from(end.index <= index)).sum();
        self.span(start + below)
    }

    /// The run that holds that chunk.
    pub(crate) fn span_of_chunk(&self, chunk: u64) -> Option<RunSpan> {
        let start = self.by_chunk.group(chunk) * GROUP;
        let below: usize = window(&self.ends, start).iter().map(|end| usize::from(end.chunk <= chunk)).sum();
        self.span(start + below)
    }

    /// The runs in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Run> + '_ {
        (0..self.n_runs()).filter_map(|ordinal| self.span(ordinal)).map(|span| span.run())
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.ends.capacity() * size_of::<RunEnd>() + self.by_index.heap_bytes() + self.by_chunk.heap_bytes()
    }
}

impl PartialEq for Runs {
    fn eq(&self, other: &Self) -> bool {
        self.ends == other.ends
    }
}
