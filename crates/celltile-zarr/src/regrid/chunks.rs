//! Chunks as people write them.

use std::str::FromStr;

use celltile_grid::Grid;
use serde_json::{Value, json};

use crate::error::{Result, ZarrError};
use crate::spec::GridForm;

/// Chunks for arrays of so many axes, as text: `1000x50` is a regular grid, `[1000, [[20, 3], 5]]` a rectilinear one as in
/// `chunk_shapes` of the metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkSpec {
    text: String,
    form: GridForm,
    axes: Vec<Value>,
}

impl ChunkSpec {
    /// Number of axes.
    #[must_use]
    pub fn ndim(&self) -> usize {
        self.axes.len()
    }

    /// Which grid the metadata are to name.
    #[must_use]
    pub fn form(&self) -> GridForm {
        self.form
    }

    /// The grid of an array of that shape.
    ///
    /// # Errors
    ///
    /// [`ZarrError::Grid`] with axis, position and value.
    pub fn grid(&self, node: &str, shape: &[u64]) -> Result<Grid> {
        let grid =
            json!({"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": self.axes}});
        Grid::from_json(&grid.to_string(), shape).map_err(ZarrError::grid(node))
    }
}

impl std::fmt::Display for ChunkSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for ChunkSpec {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let wrong = || {
            format!(
                "'{text}' is no chunk shape; expected lengths as in 1000x50, or a list an axis as in [1000, [[20, 3], 5]]"
            )
        };
        let (form, axes) = if text.trim_start().starts_with('[') {
            match serde_json::from_str(text) {
                Ok(Value::Array(axes)) => (GridForm::Rectilinear, axes),
                _ => return Err(wrong()),
            }
        } else {
            let edges = text.split('x').map(|edge| edge.trim().parse::<u64>().ok().filter(|edge| *edge > 0));
            let edges: Option<Vec<Value>> = edges.map(|edge| edge.map(Value::from)).collect();
            (GridForm::Regular, edges.ok_or_else(wrong)?)
        };
        let spec = Self { text: text.to_owned(), form, axes };
        // What is wrong whatever the shape is said at once; lists must reach as far as an array of no length.
        spec.grid("chunks", &vec![0; spec.ndim()]).map_err(|error| format!("{}: {error}", wrong()))?;
        Ok(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_others_refused() {
        let regular: ChunkSpec = "10x5".parse().unwrap();
        assert_eq!((regular.ndim(), regular.form()), (2, GridForm::Regular));
        assert_eq!(regular.grid("/a", &[25, 7]).unwrap(), Grid::from_regular(&[25, 7], &[10, 5]).unwrap());
        let rectilinear: ChunkSpec = "[4, [[2, 3], 1]]".parse().unwrap();
        assert_eq!((rectilinear.ndim(), rectilinear.form()), (2, GridForm::Rectilinear));
        let grid = rectilinear.grid("/a", &[8, 7]).unwrap();
        assert_eq!(grid.active_shape(), [2, 4]);
        assert!(rectilinear.grid("/a", &[8, 8]).unwrap_err().to_string().contains("axis 1"));
        for wrong in
            ["", "x", "0", "10x", "10x0", "-3", "[0]", "[[]]", "[[1.0]]", "{}", "[1", "[true]", "regular"]
        {
            assert!(wrong.parse::<ChunkSpec>().is_err(), "{wrong}");
        }
    }
}
