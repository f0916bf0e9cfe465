//! The obs columns of a batch.

use arrow_array::{Array, ArrayRef};
use arrow_select::interleave::interleave;
use celltile::obs::{Cache, ObsColumn};
use celltile::{Dataset, Error as DatasetError};

use crate::error::Result;

/// Columns of the obs table, mapped from the local cache, from which the values of any cells are picked.
#[derive(Debug)]
pub(crate) struct Columns {
    columns: Vec<ObsColumn>,
    tile_size: u64,
}

impl Columns {
    pub(crate) fn open(dataset: &Dataset, names: &[String], cache: Option<&Cache>) -> Result<Self> {
        let tile_size = dataset.manifest().tile_size.max(1);
        if names.is_empty() {
            return Ok(Self { columns: Vec::new(), tile_size });
        }
        let obs = match cache {
            Some(cache) => dataset.obs_from(names, cache)?,
            None => dataset.obs(names)?,
        };
        Ok(Self { columns: obs.columns().to_vec(), tile_size })
    }

    pub(crate) fn columns(&self) -> &[ObsColumn] {
        &self.columns
    }

    /// The values of some cells, in the cells' order.
    pub(crate) fn take(&self, cells: &[u64]) -> Result<Vec<ArrayRef>> {
        if self.columns.is_empty() {
            return Ok(Vec::new());
        }
        let index = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let places: Vec<(usize, usize)> =
            cells.iter().map(|cell| (index(cell / self.tile_size), index(cell % self.tile_size))).collect();
        let mut taken = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            if places.is_empty() {
                taken.push(arrow_array::new_empty_array(&column.field().arrow_type));
                continue;
            }
            let tiles: Vec<&dyn Array> = column.tiles().iter().map(AsRef::as_ref).collect();
            let values = interleave(&tiles, &places).map_err(|source| DatasetError::Table {
                path: format!("obs column {:?}", column.field().name),
                source: Box::new(source.into()),
            })?;
            taken.push(values);
        }
        Ok(taken)
    }
}
