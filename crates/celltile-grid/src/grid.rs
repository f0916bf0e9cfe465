//! A grid: one axis a dimension.

use std::ops::Range;

use crate::{Axis, AxisChunk, GridError, Position};

/// The chunk grid of an array: its shape, and where it is cut along each axis.
///
/// Two grids are equal if they have the same shape and declare the same edges, however those were given.
///
/// The worked example of the specification ("Indexing"):
///
/// ```
/// use celltile_grid::{Axis, Grid};
///
/// let grid = Grid::new(vec![Axis::from_edges([16, 10])?, Axis::from_edges([24, 14])?]);
/// let found = grid.locate(&[20, 15])?;
/// assert_eq!([found[0].chunk, found[1].chunk], [1, 0]);
/// assert_eq!([found[0].within, found[1].within], [4, 15]);
/// # Ok::<(), celltile_grid::GridError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    axes: Vec<Axis>,
}

impl Grid {
    /// A grid of these axes; of none for an array of no dimensions, which has one chunk.
    #[must_use]
    pub fn new(axes: Vec<Axis>) -> Self {
        Self { axes }
    }

    /// The grid of an array of that shape in regular chunks: every axis in the integer form.
    ///
    /// # Errors
    ///
    /// If the two differ in length, or a chunk's edge is 0.
    pub fn from_regular(shape: &[u64], chunk_shape: &[u64]) -> Result<Self, GridError> {
        if shape.len() != chunk_shape.len() {
            let (found, expected) = (chunk_shape.len(), shape.len());
            return Err(GridError::Dimensions { what: "the chunk shape", found, expected });
        }
        let axes = shape.iter().zip(chunk_shape).enumerate();
        let axes = axes.map(|(number, (&length, &edge))| {
            Axis::regular(length, edge).map_err(|error| error.on_axis(number))
        });
        Ok(Self { axes: axes.collect::<Result<_, _>>()? })
    }

    /// The chunk shape of the regular grid that holds every element in the same chunk of the same shape, if there is one.
    ///
    /// There is one where all declared edges of an axis are the same. Declared chunks past the array, which a regular grid
    /// does not have, hold no elements and are left out.
    #[must_use]
    pub fn to_regular(&self) -> Option<Vec<u64>> {
        self.axes.iter().map(Axis::regular_edge).collect()
    }

    /// The axes.
    #[must_use]
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    pub(crate) fn into_axes(self) -> Vec<Axis> {
        self.axes
    }

    /// The number of dimensions.
    #[must_use]
    pub fn ndim(&self) -> usize {
        self.axes.len()
    }

    /// The array's shape.
    #[must_use]
    pub fn shape(&self) -> Vec<u64> {
        self.axes.iter().map(Axis::length).collect()
    }

    /// Declared chunks along each axis.
    #[must_use]
    pub fn declared_shape(&self) -> Vec<u64> {
        self.axes.iter().map(Axis::n_declared).collect()
    }

    /// Active chunks along each axis: those that intersect the array.
    #[must_use]
    pub fn active_shape(&self) -> Vec<u64> {
        self.axes.iter().map(Axis::n_active).collect()
    }

    /// The number of declared chunks.
    ///
    /// # Errors
    ///
    /// If it is past 2^64 - 1.
    pub fn n_declared(&self) -> Result<u64, GridError> {
        product(self.declared_shape())
    }

    /// The number of active chunks.
    ///
    /// # Errors
    ///
    /// If it is past 2^64 - 1.
    pub fn n_active(&self) -> Result<u64, GridError> {
        product(self.active_shape())
    }

    /// The chunk of an array index and the index within it, along each axis.
    ///
    /// # Errors
    ///
    /// If the index has another number of dimensions, or is outside the array.
    pub fn locate(&self, index: &[u64]) -> Result<Vec<Position>, GridError> {
        let mut positions = vec![Position::default(); self.ndim()];
        self.locate_into(index, &mut positions)?;
        Ok(positions)
    }

    /// As [`locate`](Self::locate), into a slice of the caller's.
    ///
    /// # Errors
    ///
    /// As [`locate`](Self::locate), and if the slice has another number of dimensions.
    pub fn locate_into(&self, index: &[u64], positions: &mut [Position]) -> Result<(), GridError> {
        self.check_ndim("the index", index.len())?;
        self.check_ndim("the slice for positions", positions.len())?;
        for (number, ((axis, &index), position)) in self.axes.iter().zip(index).zip(positions).enumerate() {
            *position = axis.locate(index).map_err(|error| error.on_axis(number))?;
        }
        Ok(())
    }

    /// Where a declared chunk lies along each axis: origin, declared edge and the extent inside the array.
    ///
    /// # Errors
    ///
    /// If the chunk's index has another number of dimensions, or is not declared.
    pub fn chunk(&self, chunk: &[u64]) -> Result<Vec<AxisChunk>, GridError> {
        let mut chunks = vec![AxisChunk::default(); self.ndim()];
        self.chunk_into(chunk, &mut chunks)?;
        Ok(chunks)
    }

    /// As [`chunk`](Self::chunk), into a slice of the caller's.
    ///
    /// # Errors
    ///
    /// As [`chunk`](Self::chunk), and if the slice has another number of dimensions.
    pub fn chunk_into(&self, chunk: &[u64], chunks: &mut [AxisChunk]) -> Result<(), GridError> {
        self.check_ndim("the chunk's index", chunk.len())?;
        self.check_ndim("the slice for chunks", chunks.len())?;
        for (number, ((axis, &chunk), place)) in self.axes.iter().zip(chunk).zip(chunks).enumerate() {
            *place = axis.chunk(chunk).map_err(|error| error.on_axis(number))?;
        }
        Ok(())
    }

    /// Checks that every declared edge is a multiple of the inner chunk's: that a shard of each edge divides into it.
    ///
    /// # Errors
    ///
    /// If one is not, naming the axis, the chunk and its edge; if the inner chunk has another number of dimensions, or an
    /// edge of 0.
    pub fn check_inner(&self, inner: &[u64]) -> Result<(), GridError> {
        self.check_ndim("the inner chunk's shape", inner.len())?;
        for (number, (axis, &inner)) in self.axes.iter().zip(inner).enumerate() {
            axis.check_inner(inner).map_err(|error| error.on_axis(number))?;
        }
        Ok(())
    }

    /// Gives the array another shape: see [`Axis::resize`].
    ///
    /// # Errors
    ///
    /// If it has another number of dimensions. The grid is then unchanged.
    pub fn resize(&mut self, shape: &[u64]) -> Result<(), GridError> {
        self.check_ndim("the new shape", shape.len())?;
        for (axis, &length) in self.axes.iter_mut().zip(shape) {
            axis.resize(length);
        }
        Ok(())
    }

    /// Grows the array along an axis by one layer of chunks: see [`Axis::append`].
    ///
    /// # Errors
    ///
    /// As [`Axis::append`], and if there is no such axis. The grid is then unchanged.
    pub fn append(&mut self, axis: usize, edge: u64) -> Result<(), GridError> {
        self.change(axis, |axis| axis.append(edge))
    }

    /// Cuts a layer of chunks in two: see [`Axis::split`].
    ///
    /// # Errors
    ///
    /// As [`Axis::split`], and if there is no such axis. The grid is then unchanged.
    pub fn split(&mut self, axis: usize, chunk: u64, at: u64) -> Result<(), GridError> {
        self.change(axis, |axis| axis.split(chunk, at))
    }

    /// Joins neighbouring layers of chunks: see [`Axis::merge`].
    ///
    /// # Errors
    ///
    /// As [`Axis::merge`], and if there is no such axis. The grid is then unchanged.
    pub fn merge(&mut self, axis: usize, chunks: Range<u64>) -> Result<(), GridError> {
        self.change(axis, |axis| axis.merge(chunks))
    }

    fn change(
        &mut self,
        number: usize,
        change: impl FnOnce(&mut Axis) -> Result<(), GridError>,
    ) -> Result<(), GridError> {
        let ndim = self.ndim();
        let axis = self.axes.get_mut(number).ok_or(GridError::AxisOutside { axis: number, ndim })?;
        change(axis).map_err(|error| error.on_axis(number))
    }

    pub(crate) fn check_ndim(&self, what: &'static str, found: usize) -> Result<(), GridError> {
        let expected = self.ndim();
        if found == expected { Ok(()) } else { Err(GridError::Dimensions { what, found, expected }) }
    }
}

fn product(shape: Vec<u64>) -> Result<u64, GridError> {
    // A layer of no chunks makes the product 0, even where the others alone would be too many.
    if shape.contains(&0) {
        return Ok(0);
    }
    let product = shape.iter().try_fold(1_u64, |product, &n| product.checked_mul(n));
    product.ok_or(GridError::TooManyChunks(shape))
}
