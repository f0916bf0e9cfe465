//! A grid's JSON: strict in, canonical out.
//!
//! The text is read straight into runs, without a document tree between: strictness needs the numbers as they are written
//! (`4.0` is not `4`, and 2^64 is not its nearest double), and what is hostile is refused where it stands, with neither
//! recursion nor memory beyond a small multiple of the text.

mod parse;
mod scan;
#[cfg(feature = "serde")]
mod with_serde;
mod write;

use crate::axis::Edges;
use crate::{Axis, Grid, GridError};

/// A `chunk_grid` object of the name `rectilinear`, checked but for what needs the array's shape.
///
/// Which form each axis was given in is kept: an integer is not equal to a list.
///
/// The example of the specification ("Run-length encoding"):
///
/// ```
/// use celltile_grid::GridMetadata;
///
/// let json = r#"{"name": "rectilinear", "configuration": {"kind": "inline",
///     "chunk_shapes": [4, [1, 2, 3], [[4, 2]], [[1, 3], 3], [4, 4, 4]]}}"#;
/// let grid = GridMetadata::parse(json)?.into_grid(&[6, 6, 6, 6, 6])?;
/// let edges: Vec<Vec<u64>> = grid.axes().iter().map(|axis| axis.edges().collect()).collect();
/// assert_eq!(edges, [vec![4, 4], vec![1, 2, 3], vec![4, 4], vec![1, 1, 1, 3], vec![4, 4, 4]]);
/// assert_eq!(
///     grid.to_json(),
///     r#"{"name":"rectilinear","configuration":{"kind":"inline","chunk_shapes":[4,[1,2,3],[[4,2]],[[1,3],3],[[4,3]]]}}"#
/// );
/// # Ok::<(), celltile_grid::GridError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GridMetadata {
    axes: Vec<Edges>,
}

impl GridMetadata {
    /// Reads a `chunk_grid` object: the value of that key in an array's `zarr.json`.
    ///
    /// # Errors
    ///
    /// If the text is not JSON, is another grid or another kind, has missing, unknown or repeated keys or
    /// `must_understand: false`, or if `chunk_shapes` is not as the specification says ("Chunk edge lengths"), in which case
    /// the error names axis, position and value.
    pub fn parse(json: &str) -> Result<Self, GridError> {
        let axes = parse::parse(json, parse::Form::Rectilinear, None)?;
        Ok(Self { axes })
    }

    /// Reads the older form of ZEP 0003: the name `rectangular` (or `rectilinear`), no `kind`, and a `chunk_shape` of integers
    /// and lists of integers, without runs.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse).
    pub fn parse_zep0003(json: &str) -> Result<Self, GridError> {
        let axes = parse::parse(json, parse::Form::Zep0003, None)?;
        Ok(Self { axes })
    }

    /// The number of dimensions.
    #[must_use]
    pub fn ndim(&self) -> usize {
        self.axes.len()
    }

    /// The grid of an array of that shape.
    ///
    /// # Errors
    ///
    /// If the shape has another number of dimensions, or a list of edges sums to less than an axis' length.
    pub fn into_grid(self, shape: &[u64]) -> Result<Grid, GridError> {
        let (found, expected) = (self.ndim(), shape.len());
        if found != expected {
            return Err(GridError::Dimensions { what: "chunk_shapes", found, expected });
        }
        grid_of(self.axes, shape)
    }

    /// Canonical JSON, without white space: runs of two or more edges as `[edge, count]`; an axis given as an integer is an
    /// integer, and one given as a list is a list.
    #[must_use]
    pub fn to_json(&self) -> String {
        write::rectilinear(self.axes.iter())
    }
}

impl From<Grid> for GridMetadata {
    fn from(grid: Grid) -> Self {
        Self { axes: grid.into_axes().into_iter().map(Axis::into_edges).collect() }
    }
}

impl Grid {
    /// Reads the `chunk_grid` object of an array of that shape: [`GridMetadata::parse`] and
    /// [`into_grid`](GridMetadata::into_grid) in one, which stops at the first axis too many.
    ///
    /// # Errors
    ///
    /// As those two.
    pub fn from_json(json: &str, shape: &[u64]) -> Result<Self, GridError> {
        grid_of(parse::parse(json, parse::Form::Rectilinear, Some(shape.len()))?, shape)
    }

    /// As [`from_json`](Self::from_json), for the older form: see [`GridMetadata::parse_zep0003`].
    ///
    /// # Errors
    ///
    /// As [`from_json`](Self::from_json).
    pub fn from_zep0003_json(json: &str, shape: &[u64]) -> Result<Self, GridError> {
        grid_of(parse::parse(json, parse::Form::Zep0003, Some(shape.len()))?, shape)
    }

    /// The grid's metadata as canonical JSON: see [`GridMetadata::to_json`].
    #[must_use]
    pub fn to_json(&self) -> String {
        write::rectilinear(self.axes().iter().map(Axis::edges_as_given))
    }

    /// The grid's metadata in the older form of ZEP 0003, which lists every edge that was not given as an integer: at most
    /// `max_edges` of them.
    ///
    /// # Errors
    ///
    /// If there are more.
    pub fn to_zep0003_json(&self, max_edges: u64) -> Result<String, GridError> {
        let lists = self.axes().iter().filter(|axis| !axis.is_integer());
        let edges = lists.fold(0_u64, |edges, axis| edges.saturating_add(axis.n_declared()));
        if edges > max_edges {
            return Err(GridError::TooManyEdges { edges, max: max_edges });
        }
        Ok(write::zep0003(self.axes().iter().map(Axis::edges_as_given)))
    }
}

fn grid_of(axes: Vec<Edges>, shape: &[u64]) -> Result<Grid, GridError> {
    let axes = axes.into_iter().zip(shape).enumerate().map(|(number, (edges, &length))| {
        Axis::from_parts(length, edges).map_err(|error| error.on_axis(number))
    });
    Ok(Grid::new(axes.collect::<Result<_, _>>()?))
}
