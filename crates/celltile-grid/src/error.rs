//! What can be wrong with a grid, its metadata or a question asked of it.

use std::fmt;

/// Where in a grid an error lies: an axis, and a position along its list of edges.
///
/// Both are zero-based. An [`Axis`](crate::Axis) on its own does not know its number, so its errors carry a position at
/// most; a [`Grid`](crate::Grid) adds the axis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    /// The axis, if known.
    pub axis: Option<usize>,
    /// The element of the axis' list of edges (a run `[edge, count]` is one element), if the error is about one.
    pub position: Option<usize>,
}

impl Place {
    pub(crate) fn position(position: usize) -> Self {
        Self { axis: None, position: Some(position) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.axis, self.position) {
            (Some(axis), Some(position)) => write!(f, "axis {axis}, position {position}: "),
            (Some(axis), None) => write!(f, "axis {axis}: "),
            (None, Some(position)) => write!(f, "position {position}: "),
            (None, None) => Ok(()),
        }
    }
}

/// An error of this crate: where, what was found, what was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GridError {
    /// An edge length is not a positive integer below 2^64.
    #[error("{place}edge length is {found}, expected an integer from 1 to 2^64 - 1")]
    Edge {
        /// Where.
        place: Place,
        /// The value, as text.
        found: String,
    },
    /// The count of a run is not a positive integer below 2^64.
    #[error("{place}the count of a run is {found}, expected an integer from 1 to 2^64 - 1")]
    Count {
        /// Where.
        place: Place,
        /// The value, as text.
        found: String,
    },
    /// A list of edges holds none.
    #[error(
        "{place}the list of edge lengths is empty, expected at least one, even where the axis has length 0"
    )]
    NoEdges {
        /// Where.
        place: Place,
    },
    /// Edges sum past 2^64 - 1.
    #[error("{place}with {count} x {edge} after {sum} the edges sum past 2^64 - 1")]
    SumTooLarge {
        /// Where.
        place: Place,
        /// The edge at which it happens.
        edge: u64,
        /// How many times it is repeated.
        count: u64,
        /// The sum of the edges before it.
        sum: u64,
    },
    /// The edges do not cover the axis.
    #[error("{place}the edges sum to {sum}, less than the axis' length of {length}")]
    EdgesTooShort {
        /// Where.
        place: Place,
        /// The sum of the edges.
        sum: u64,
        /// The length of the axis.
        length: u64,
    },
    /// A number of dimensions other than the grid's.
    #[error("{what} has {found} dimensions, expected {expected}")]
    Dimensions {
        /// What has them.
        what: &'static str,
        /// How many there are; for metadata, at least as many.
        found: usize,
        /// How many there should be.
        expected: usize,
    },
    /// An array index outside the array.
    #[error("{place}index {index} is outside the axis' length of {length}")]
    IndexOutside {
        /// Where; the position is that in a list of indices.
        place: Place,
        /// The index.
        index: u64,
        /// The length of the axis.
        length: u64,
    },
    /// A range of array indices that is not within the array, or ends before it starts.
    #[error("{place}range {start}..{end} is not within the axis' length of {length}")]
    RangeOutside {
        /// Where.
        place: Place,
        /// First index.
        start: u64,
        /// One past the last index.
        end: u64,
        /// The length of the axis.
        length: u64,
    },
    /// A selection's step of 0.
    #[error("{place}the step of a selection is 0, expected at least 1")]
    Step {
        /// Where.
        place: Place,
    },
    /// A chunk that the axis does not declare.
    #[error("{place}chunk {chunk} is not one of the {declared} declared")]
    ChunkOutside {
        /// Where.
        place: Place,
        /// The chunk's index along the axis.
        chunk: u64,
        /// How many chunks the axis declares.
        declared: u64,
    },
    /// An axis that the grid does not have.
    #[error("axis {axis} is not one of the {ndim} of the grid")]
    AxisOutside {
        /// The axis asked for.
        axis: usize,
        /// How many there are.
        ndim: usize,
    },
    /// A number of chunks past 2^64 - 1.
    #[error("the number of chunks of a grid of {0:?} is past 2^64 - 1")]
    TooManyChunks(Vec<u64>),
    /// Appending where the axis ends inside a chunk.
    #[error(
        "{place}cannot append an edge: length {length} ends inside chunk {chunk}, which ends at {chunk_end}"
    )]
    EndsInsideChunk {
        /// Where.
        place: Place,
        /// The length of the axis.
        length: u64,
        /// The last active chunk.
        chunk: u64,
        /// Where that chunk ends (it may end past 2^64 - 1 where the edges are given as one integer).
        chunk_end: u128,
    },
    /// An edge split at or outside its ends.
    #[error(
        "{place}cannot split chunk {chunk} of edge {edge} at {at}, expected a number from 1 to the edge - 1"
    )]
    Split {
        /// Where.
        place: Place,
        /// The chunk.
        chunk: u64,
        /// Its edge.
        edge: u64,
        /// Where it was to be split.
        at: u64,
    },
    /// A merge of no chunks.
    #[error("{place}cannot merge chunks {start}..{end}, expected at least one chunk")]
    Merge {
        /// Where.
        place: Place,
        /// First chunk.
        start: u64,
        /// One past the last chunk.
        end: u64,
    },
    /// More edges than the caller allowed to be written one by one.
    #[error("{edges} edges would be written one by one, expected at most {max}")]
    TooManyEdges {
        /// How many there are.
        edges: u64,
        /// How many are allowed.
        max: u64,
    },
    /// A text that is not JSON.
    #[error("JSON, line {line}, column {column}: {message}")]
    Json {
        /// The line, from 1.
        line: usize,
        /// The byte in that line, from 1.
        column: usize,
        /// What is wrong there.
        message: &'static str,
    },
    /// A JSON value of another type than it should have.
    #[error("`{what}` is {found}, expected {expected}")]
    Type {
        /// What has the type.
        what: &'static str,
        /// What was found.
        found: String,
        /// What was expected.
        expected: &'static str,
    },
    /// A name or kind that is another one.
    #[error("`{key}` is \"{found}\", expected one of {expected:?}")]
    Text {
        /// The key.
        key: &'static str,
        /// Its value.
        found: String,
        /// The values it may have.
        expected: &'static [&'static str],
    },
    /// A key that must be there.
    #[error("`{object}` has no `{key}`")]
    MissingKey {
        /// The object.
        object: &'static str,
        /// The key.
        key: &'static str,
    },
    /// A key that must not be there: what it asks for would not be done.
    #[error("`{object}` has the unknown key `{key}`")]
    UnknownKey {
        /// The object.
        object: &'static str,
        /// The key.
        key: String,
    },
    /// A key that is there twice.
    #[error("`{object}` has the key `{key}` more than once")]
    DuplicateKey {
        /// The object.
        object: &'static str,
        /// The key.
        key: String,
    },
    /// `must_understand: false`, which says that a reader may go on without the grid.
    #[error("`must_understand` is false, but no array can be read without its chunk grid")]
    MustUnderstand,
    /// A run that is not a pair.
    #[error("{place}a run has {found} elements, expected two: [edge, count]")]
    Pair {
        /// Where.
        place: Place,
        /// How many elements it has.
        found: usize,
    },
    /// An edge that does not divide into inner chunks.
    #[error("{place}the edge length {edge} of chunk {chunk} is not a multiple of the inner chunk's {inner}")]
    Inner {
        /// Where.
        place: Place,
        /// The first chunk of that edge.
        chunk: u64,
        /// The edge.
        edge: u64,
        /// The inner chunk's edge.
        inner: u64,
    },
}

impl GridError {
    /// Where in the grid the error lies, if it is about a part of one.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        self.clone().place_mut().copied()
    }

    fn place_mut(&mut self) -> Option<&mut Place> {
        match self {
            Self::Edge { place, .. }
            | Self::Count { place, .. }
            | Self::NoEdges { place }
            | Self::SumTooLarge { place, .. }
            | Self::EdgesTooShort { place, .. }
            | Self::IndexOutside { place, .. }
            | Self::RangeOutside { place, .. }
            | Self::Step { place }
            | Self::ChunkOutside { place, .. }
            | Self::EndsInsideChunk { place, .. }
            | Self::Split { place, .. }
            | Self::Merge { place, .. }
            | Self::Pair { place, .. }
            | Self::Inner { place, .. } => Some(place),
            Self::Dimensions { .. }
            | Self::AxisOutside { .. }
            | Self::TooManyChunks(_)
            | Self::TooManyEdges { .. }
            | Self::Json { .. }
            | Self::Type { .. }
            | Self::Text { .. }
            | Self::MissingKey { .. }
            | Self::UnknownKey { .. }
            | Self::DuplicateKey { .. }
            | Self::MustUnderstand => None,
        }
    }

    /// The same error, on the axis of that number.
    #[must_use]
    pub(crate) fn on_axis(mut self, axis: usize) -> Self {
        if let Some(place) = self.place_mut() {
            place.axis = Some(axis);
        }
        self
    }

    /// The same error, at that element of the axis' list of edges.
    #[must_use]
    pub(crate) fn at_position(mut self, at: usize) -> Self {
        if let Self::Edge { place, .. }
        | Self::Count { place, .. }
        | Self::Pair { place, .. }
        | Self::SumTooLarge { place, .. } = &mut self
        {
            place.position = Some(at);
        }
        self
    }
}
