//! The groups and arrays of a container in AnnData's layout, whatever holds them: an HDF5 file, or anything that implements
//! [`TreeGroup`] and [`TreeArray`], such as a Zarr store. What reads frames and matrices knows these types only.

mod array;
mod group;
mod range;

use crate::error::Result;
use crate::hdf5;

pub use array::{Array, TreeArray};
pub use group::{Group, Node, TreeGroup, TreeNode};
pub use range::RangeReader;
pub(crate) use range::with_scratch;

/// A container: its name for messages, its size, and its outermost group.
#[derive(Debug, Clone)]
pub struct Tree {
    name: String,
    size: u64,
    format: &'static str,
    root: Group,
}

impl Tree {
    /// A container that is no HDF5 file. `format` is what summaries call it, `size` its bytes as far as they are known.
    pub fn new(name: String, size: u64, format: &'static str, root: std::sync::Arc<dyn TreeGroup>) -> Self {
        let root = Group::other(name.clone().into(), root);
        Self { name, size, format, root }
    }

    /// What is in an HDF5 file.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Damaged`] if its outermost group cannot be read.
    pub fn of_file(file: &hdf5::File) -> Result<Self> {
        let root = Group::of_file(file)?;
        Ok(Self { name: file.name().to_owned(), size: file.size(), format: "h5ad", root })
    }

    /// A modality of an h5mu file: the same layout, below `mod`.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Missing`] if there is no such modality.
    pub fn of_modality(file: &hdf5::File, name: &str) -> Result<Self> {
        let root = Group::of_file(file)?.group("mod")?.group(name)?;
        Ok(Self { name: file.name().to_owned(), size: file.size(), format: "h5mu", root })
    }

    /// What error messages call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What kind of container it is.
    pub fn format(&self) -> &'static str {
        self.format
    }

    /// The outermost group.
    pub fn root(&self) -> &Group {
        &self.root
    }

    /// The group or array at a path of names joined by `/`; `None` where there is none.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Damaged`] if something on the way cannot be read.
    pub fn find(&self, path: &str) -> Result<Option<Node>> {
        if path.split('/').all(str::is_empty) {
            return Ok(Some(Node::Group(self.root.clone())));
        }
        self.root.find(path)
    }
}
