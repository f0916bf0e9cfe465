//! One dimension of a grid: runs of equal edges and their prefix sums.

mod change;
mod ladder;
mod runs;

use crate::GridError;
use crate::error::Place;

pub use runs::Run;
pub(crate) use runs::{RunSpan, Runs};

/// How an axis' edges are given.
#[derive(Debug, Clone)]
pub(crate) enum Edges {
    /// One integer: as many edges of that length as cover the axis.
    Integer(u64),
    /// A list of edges. Boxed, since axes of metadata not yet checked must stay small.
    List(Box<Runs>),
}

impl PartialEq for Edges {
    /// Equality of form: an integer is never equal to a list.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Integer(edge), Self::Integer(other)) => edge == other,
            (Self::List(runs), Self::List(other)) => runs == other,
            _ => false,
        }
    }
}

impl Eq for Edges {}

/// One dimension of a grid: a length, cut into chunks by edges.
///
/// Chunks are numbered from 0. `declared` chunks are all that the edges list; `active` ones intersect the axis' length: the
/// edges may sum to more than it. Edges given as one integer are those of a regular grid; their number follows the
/// length.
///
/// Memory and start-up cost follow the number of runs, and look-ups its logarithm, whatever the counts:
///
/// ```
/// use celltile_grid::Axis;
///
/// let axis = Axis::from_runs([(1, 1_000_000_000_000), (7, 1)])?;
/// let position = axis.locate(1_000_000_000_003)?;
/// assert_eq!((position.chunk, position.within), (1_000_000_000_000, 3));
/// # Ok::<(), celltile_grid::GridError>(())
/// ```
///
/// Two axes are equal if they have the same length and declare the same edges, however those were given.
#[derive(Debug, Clone)]
pub struct Axis {
    length: u64,
    edges: Edges,
}

/// A chunk, and an index within it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// The chunk's number along the axis.
    pub chunk: u64,
    /// Elements from the chunk's first one.
    pub within: u64,
}

/// Where a chunk lies along its axis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AxisChunk {
    /// The chunk's number along the axis.
    pub chunk: u64,
    /// Array index of its first element.
    pub origin: u64,
    /// Its declared length.
    pub edge: u64,
    /// How many of its elements are inside the array: 0 for a chunk that is not active.
    pub clipped: u64,
}

impl Axis {
    /// An axis cut into edges of one length, the last of which may reach past the axis: the integer form.
    ///
    /// An axis of length 0 has no chunks.
    ///
    /// # Errors
    ///
    /// If `edge` is 0.
    pub fn regular(length: u64, edge: u64) -> Result<Self, GridError> {
        if edge == 0 {
            return Err(GridError::Edge { place: Place::default(), found: "0".into() });
        }
        Ok(Self { length, edges: Edges::Integer(edge) })
    }

    /// An axis of listed edges, as long as their sum.
    ///
    /// # Errors
    ///
    /// If there are no edges, one is 0, or they sum past 2^64 - 1. The position is that of the edge.
    pub fn from_edges<I: IntoIterator<Item = u64>>(edges: I) -> Result<Self, GridError> {
        Self::from_runs(edges.into_iter().map(|edge| (edge, 1)))
    }

    /// An axis of runs `(edge, count)`, as long as the sum of the edges. Neighbouring runs of one edge are joined.
    ///
    /// # Errors
    ///
    /// If there are no runs, an edge or a count is 0, or the edges sum past 2^64 - 1. The position is that of the run.
    pub fn from_runs<I: IntoIterator<Item = (u64, u64)>>(runs: I) -> Result<Self, GridError> {
        let mut list = Runs::default();
        for (position, (edge, count)) in runs.into_iter().enumerate() {
            list.push(edge, count).map_err(|error| error.at_position(position))?;
        }
        if list.n_runs() == 0 {
            return Err(GridError::NoEdges { place: Place::default() });
        }
        Ok(Self { length: list.sum(), edges: Edges::List(Box::new(list)) })
    }

    /// The same edges on an axis of another length, which they must cover.
    ///
    /// # Errors
    ///
    /// If listed edges sum to less than `length`. See [`resize`](Self::resize), which adds what is missing.
    pub fn with_length(self, length: u64) -> Result<Self, GridError> {
        Self::from_parts(length, self.edges)
    }

    pub(crate) fn from_parts(length: u64, edges: Edges) -> Result<Self, GridError> {
        if let Edges::List(runs) = &edges
            && runs.sum() < length
        {
            return Err(GridError::EdgesTooShort { place: Place::default(), sum: runs.sum(), length });
        }
        Ok(Self { length, edges })
    }

    pub(crate) fn edges_as_given(&self) -> &Edges {
        &self.edges
    }

    pub(crate) fn into_edges(self) -> Edges {
        self.edges
    }

    /// Elements along the axis.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The sum of the declared edges, at least the length. Wider than 64 bits because the last of the edges given as one
    /// integer may end past 2^64 - 1.
    #[must_use]
    pub fn declared_length(&self) -> u128 {
        match &self.edges {
            Edges::Integer(edge) => u128::from(self.n_declared()) * u128::from(*edge),
            Edges::List(runs) => u128::from(runs.sum()),
        }
    }

    /// Declared chunks.
    #[must_use]
    pub fn n_declared(&self) -> u64 {
        match &self.edges {
            Edges::Integer(edge) => self.length.div_ceil(*edge),
            Edges::List(runs) => runs.n_chunks(),
        }
    }

    /// Active chunks: those that hold at least one element of the array.
    #[must_use]
    pub fn n_active(&self) -> u64 {
        match self
            .length
            .checked_sub(1)
            .and_then(|last| self.span_of_index(last).map(|span| span.locate(last)))
        {
            Some((chunk, _)) => chunk + 1,
            None => 0,
        }
    }

    /// Runs of equal edges: the measure of this axis' memory.
    #[must_use]
    pub fn n_runs(&self) -> usize {
        match &self.edges {
            Edges::Integer(_) => usize::from(self.length > 0),
            Edges::List(runs) => runs.n_runs(),
        }
    }

    /// Whether the edges were given as one integer, so that their number follows the length.
    #[must_use]
    pub fn is_integer(&self) -> bool {
        matches!(self.edges, Edges::Integer(_))
    }

    /// The length that all declared edges have, if it is the same.
    ///
    /// An axis that has one holds its elements in the same chunks as a regular grid of that edge.
    #[must_use]
    pub fn regular_edge(&self) -> Option<u64> {
        match &self.edges {
            Edges::Integer(edge) => Some(*edge),
            Edges::List(runs) if runs.n_runs() == 1 => runs.span(0).map(|span| span.edge),
            Edges::List(_) => None,
        }
    }

    /// The chunk of an array index and the index within that chunk.
    ///
    /// # Errors
    ///
    /// If `index` is not below the length, whether or not a declared chunk holds it.
    pub fn locate(&self, index: u64) -> Result<Position, GridError> {
        let outside = || GridError::IndexOutside { place: Place::default(), index, length: self.length };
        if index >= self.length {
            return Err(outside());
        }
        let (chunk, origin) = self.span_of_index(index).ok_or_else(outside)?.locate(index);
        Ok(Position { chunk, within: index - origin })
    }

    /// Where a declared chunk lies.
    ///
    /// # Errors
    ///
    /// If the axis does not declare it.
    pub fn chunk(&self, chunk: u64) -> Result<AxisChunk, GridError> {
        let Some(span) = self.span_of_chunk(chunk) else {
            return Err(GridError::ChunkOutside {
                place: Place::default(),
                chunk,
                declared: self.n_declared(),
            });
        };
        let origin = span.start + (chunk - span.first_chunk) * span.edge;
        let edge = span.edge;
        Ok(AxisChunk { chunk, origin, edge, clipped: edge.min(self.length.saturating_sub(origin)) })
    }

    /// Checks that every edge is a multiple of `inner`. The error names the first chunk whose edge is not.
    ///
    /// # Errors
    ///
    /// If one is not, or `inner` is 0.
    pub fn check_inner(&self, inner: u64) -> Result<(), GridError> {
        if inner == 0 {
            return Err(GridError::Edge { place: Place::default(), found: "0".into() });
        }
        let wrong = match &self.edges {
            // The integer counts even where the axis has length 0, and so no chunk.
            Edges::Integer(edge) => (!edge.is_multiple_of(inner)).then_some((*edge, 0)),
            Edges::List(_) => (0..self.n_runs())
                .filter_map(|ordinal| self.span(ordinal))
                .find(|span| !span.edge.is_multiple_of(inner))
                .map(|span| (span.edge, span.first_chunk)),
        };
        match wrong {
            None => Ok(()),
            Some((edge, chunk)) => Err(GridError::Inner { place: Place::default(), chunk, edge, inner }),
        }
    }

    /// The declared edges as runs, neighbouring ones of different lengths.
    pub fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        (0..self.n_runs()).filter_map(|ordinal| self.span(ordinal)).map(|span| span.run())
    }

    /// Every declared edge, one by one. There may be more than memory holds.
    pub fn edges(&self) -> impl Iterator<Item = u64> + '_ {
        self.runs().flat_map(|run| (0..run.count).map(move |_| run.edge))
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        match &self.edges {
            Edges::Integer(_) => 0,
            Edges::List(runs) => size_of::<Runs>() + runs.heap_bytes(),
        }
    }

    /// The run of that number.
    pub(crate) fn span(&self, ordinal: usize) -> Option<RunSpan> {
        match &self.edges {
            Edges::Integer(edge) if ordinal == 0 && self.length > 0 => Some(self.integer_span(*edge)),
            Edges::Integer(_) => None,
            Edges::List(runs) => runs.span(ordinal),
        }
    }

    /// The run that holds an index inside the array.
    pub(crate) fn span_of_index(&self, index: u64) -> Option<RunSpan> {
        match &self.edges {
            Edges::Integer(edge) if index < self.length => Some(self.integer_span(*edge)),
            Edges::Integer(_) => None,
            Edges::List(runs) => runs.span_of_index(index),
        }
    }

    /// The run that holds a declared chunk.
    fn span_of_chunk(&self, chunk: u64) -> Option<RunSpan> {
        match &self.edges {
            Edges::Integer(edge) => Some(self.integer_span(*edge)).filter(|span| chunk < span.end_chunk),
            Edges::List(runs) => runs.span_of_chunk(chunk),
        }
    }

    /// The one run of the integer form. It ends with the array, since its last edge may end past 2^64 - 1.
    fn integer_span(&self, edge: u64) -> RunSpan {
        RunSpan {
            ordinal: 0,
            edge,
            start: 0,
            end: self.length,
            first_chunk: 0,
            end_chunk: self.length.div_ceil(edge),
        }
    }
}

impl PartialEq for Axis {
    fn eq(&self, other: &Self) -> bool {
        let same_edges = match (&self.edges, &other.edges) {
            (Edges::List(runs), Edges::List(other)) => runs == other,
            _ => self.n_runs() == other.n_runs() && self.runs().eq(other.runs()),
        };
        self.length == other.length && same_edges
    }
}

impl Eq for Axis {}
