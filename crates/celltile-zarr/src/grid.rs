//! A celltile grid as a chunk grid of zarrs, and the only way by which it gets into an array of zarrs.

mod hook;

use std::borrow::Cow;
use std::num::NonZeroU64;

use celltile_grid::{Axis, AxisChunk, Grid};
use zarrs::array::chunk_grid::api::{ArrayIndices, ChunkGridTraits};
use zarrs::array::{ArrayShape, ArraySubset, ChunkGrid, ChunkShape, IncompatibleDimensionalityError};
use zarrs::metadata::Configuration;
use zarrs::metadata::v3::MetadataV3;
use zarrs::plugin::{ExtensionName, PluginCreateError, ZarrVersion};

pub(crate) use hook::with_grid;

/// A celltile grid that answers zarrs' questions.
///
/// What zarrs calls the grid's shape are the active chunks: nothing is read or written past them. A chunk's shape is its declared
/// one, since that is how it is stored. Lookups take time logarithmic in the number of runs, whatever the counts of the runs.
#[derive(Debug, Clone)]
pub struct RectilinearGrid {
    grid: Grid,
    shape: Vec<u64>,
    active: Vec<u64>,
}

impl RectilinearGrid {
    /// A grid for zarrs.
    #[must_use]
    pub fn new(grid: Grid) -> Self {
        let (shape, active) = (grid.shape(), grid.active_shape());
        Self { grid, shape, active }
    }

    /// The grid itself.
    #[must_use]
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    fn check(&self, n: usize) -> Result<(), IncompatibleDimensionalityError> {
        if n == self.shape.len() {
            return Ok(());
        }
        Err(IncompatibleDimensionalityError::new(n, self.shape.len()))
    }

    /// What `answer` says of each axis' active chunk; nothing if one is not active.
    fn chunks<T>(
        &self,
        chunk_indices: &[u64],
        answer: impl Fn(AxisChunk) -> Option<T>,
    ) -> Result<Option<Vec<T>>, IncompatibleDimensionalityError> {
        self.check(chunk_indices.len())?;
        let of_axis = |(axis, &chunk): (&Axis, &u64)| {
            axis.chunk(chunk).ok().filter(|chunk| chunk.clipped > 0).and_then(&answer)
        };
        Ok(self.grid.axes().iter().zip(chunk_indices).map(of_axis).collect())
    }
}

impl ExtensionName for RectilinearGrid {
    fn name(&self, version: ZarrVersion) -> Option<Cow<'static, str>> {
        matches!(version, ZarrVersion::V3).then_some(Cow::Borrowed("rectilinear"))
    }
}

#[allow(unsafe_code, reason = "zarrs declares the trait unsafe")]
// SAFETY: the chunks of an axis are consecutive intervals, so those of the grid are disjoint; every method checks the number of
// dimensions that it is given (`check`) and answers with one value an axis.
unsafe impl ChunkGridTraits for RectilinearGrid {
    fn create(metadata: &MetadataV3, array_shape: &ArrayShape) -> Result<ChunkGrid, PluginCreateError> {
        let other = |error: &dyn std::fmt::Display| PluginCreateError::Other(error.to_string());
        let text = serde_json::to_string(metadata).map_err(|error| other(&error))?;
        let grid = Grid::from_json(&text, array_shape).map_err(|error| other(&error))?;
        Ok(ChunkGrid::new(Self::new(grid)))
    }

    fn configuration(&self) -> Configuration {
        // The canonical form of a valid grid is valid JSON, and an object with a configuration.
        let value: serde_json::Value = serde_json::from_str(&self.grid.to_json()).unwrap_or_default();
        value.get("configuration").and_then(|value| value.as_object()).cloned().unwrap_or_default().into()
    }

    fn dimensionality(&self) -> usize {
        self.shape.len()
    }

    fn array_shape(&self) -> &[u64] {
        &self.shape
    }

    fn grid_shape(&self) -> &[u64] {
        &self.active
    }

    fn chunk_shape(
        &self,
        chunk_indices: &[u64],
    ) -> Result<Option<ChunkShape>, IncompatibleDimensionalityError> {
        self.chunks(chunk_indices, |chunk| NonZeroU64::new(chunk.edge))
    }

    fn chunk_shape_u64(
        &self,
        chunk_indices: &[u64],
    ) -> Result<Option<ArrayShape>, IncompatibleDimensionalityError> {
        self.chunks(chunk_indices, |chunk| Some(chunk.edge))
    }

    fn subset(&self, chunk_indices: &[u64]) -> Result<Option<ArraySubset>, IncompatibleDimensionalityError> {
        // The last chunk of an integer axis may end past 2^64 - 1, which zarrs cannot say.
        let ranges =
            self.chunks(chunk_indices, |chunk| Some(chunk.origin..chunk.origin.checked_add(chunk.edge)?))?;
        Ok(ranges.map(|ranges| ArraySubset::new_with_ranges(&ranges)))
    }

    fn chunk_origin(
        &self,
        chunk_indices: &[u64],
    ) -> Result<Option<ArrayIndices>, IncompatibleDimensionalityError> {
        self.chunks(chunk_indices, |chunk| Some(chunk.origin))
    }

    fn chunk_indices(
        &self,
        array_indices: &[u64],
    ) -> Result<Option<ArrayIndices>, IncompatibleDimensionalityError> {
        self.check(array_indices.len())?;
        let of_axis = |(axis, &index): (&Axis, &u64)| axis.locate(index).ok().map(|position| position.chunk);
        Ok(self.grid.axes().iter().zip(array_indices).map(of_axis).collect())
    }

    fn chunk_element_indices(
        &self,
        array_indices: &[u64],
    ) -> Result<Option<ArrayIndices>, IncompatibleDimensionalityError> {
        self.check(array_indices.len())?;
        let of_axis = |(axis, &index): (&Axis, &u64)| axis.locate(index).ok().map(|position| position.within);
        Ok(self.grid.axes().iter().zip(array_indices).map(of_axis).collect())
    }

    fn array_indices_inbounds(&self, array_indices: &[u64]) -> bool {
        array_indices.len() == self.shape.len()
            && array_indices.iter().zip(&self.shape).all(|(index, length)| index < length)
    }

    fn chunk_indices_inbounds(&self, chunk_indices: &[u64]) -> bool {
        chunk_indices.len() == self.active.len()
            && chunk_indices.iter().zip(&self.active).all(|(chunk, active)| chunk < active)
    }
}
