use std::fmt::Debug;
use std::sync::Arc;

use crate::error::{Error, Result, human_bytes};
use crate::hdf5::{self, Attribute, Dtype, Inflater, StringColumn};

/// An array of a container that is no HDF5 file, read through a grid of chunks of one shape.
pub trait TreeArray: Debug + Send + Sync {
    /// Path in the container, without a slash at the front.
    fn path(&self) -> &str;

    /// The elements' type. Elements of type [`Dtype::VarString`] are read by [`strings`](Self::strings) only.
    fn dtype(&self) -> &Dtype;

    /// The shape; empty for a scalar.
    fn shape(&self) -> &[u64];

    /// The shape of the chunks that it is read in: one positive edge an axis.
    fn grid(&self) -> &[u64];

    /// The attribute of that name, if there is one.
    ///
    /// # Errors
    ///
    /// If the attributes cannot be read.
    fn attribute(&self, name: &str) -> Result<Option<Attribute>>;

    /// Reads one chunk of the grid, counted in C order: its elements in C order as its type says, those past the array's end
    /// included.
    ///
    /// # Errors
    ///
    /// If it cannot be read or decoded.
    fn read_chunk(&self, index: u64, out: &mut Vec<u8>) -> Result<()>;

    /// All elements of an array of one axis, or of a scalar, as stored. For columns, names and scalars.
    ///
    /// # Errors
    ///
    /// If they cannot be read, or there are more of them than what is stored justifies.
    fn read_all(&self) -> Result<Vec<u8>>;

    /// All strings of an array of strings, in C order.
    ///
    /// # Errors
    ///
    /// If it holds no strings, they cannot be read, or there are more of them than what is stored justifies.
    fn strings(&self) -> Result<StringColumn>;
}

/// An array of a container; cheap to clone, usable from many threads.
///
/// However it is stored, it is read through a grid of chunks: [`Array::grid`] and [`Array::read_chunk`].
#[derive(Debug, Clone)]
pub struct Array(Inner);

#[derive(Debug, Clone)]
enum Inner {
    Hdf5(hdf5::Dataset),
    Other { file: Arc<str>, array: Arc<dyn TreeArray> },
}

impl From<hdf5::Dataset> for Array {
    fn from(dataset: hdf5::Dataset) -> Self {
        Self(Inner::Hdf5(dataset))
    }
}

impl Array {
    pub(super) fn other(file: Arc<str>, array: Arc<dyn TreeArray>) -> Self {
        Self(Inner::Other { file, array })
    }

    /// The array without elements that were never written, where zeros in their place could not be meant: reading them is an error. Other
    /// containers see to that themselves.
    pub(crate) fn complete(self) -> Self {
        match self.0 {
            Inner::Hdf5(dataset) => Self(Inner::Hdf5(dataset.complete())),
            other @ Inner::Other { .. } => Self(other),
        }
    }

    /// Path in the container, without a slash at the front.
    pub fn path(&self) -> &str {
        match &self.0 {
            Inner::Hdf5(dataset) => dataset.path(),
            Inner::Other { array, .. } => array.path(),
        }
    }

    /// Name of the container, for messages.
    pub fn file_name(&self) -> &str {
        match &self.0 {
            Inner::Hdf5(dataset) => dataset.file_name(),
            Inner::Other { file, .. } => file,
        }
    }

    /// The elements' type.
    pub fn dtype(&self) -> &Dtype {
        match &self.0 {
            Inner::Hdf5(dataset) => dataset.dtype(),
            Inner::Other { array, .. } => array.dtype(),
        }
    }

    /// Bytes an element takes.
    pub fn element_size(&self) -> usize {
        match &self.0 {
            Inner::Hdf5(dataset) => dataset.element_size(),
            Inner::Other { array, .. } => array.dtype().size().unwrap_or(1).max(1),
        }
    }

    /// The shape; empty for a scalar.
    pub fn shape(&self) -> &[u64] {
        match &self.0 {
            Inner::Hdf5(dataset) => dataset.shape(),
            Inner::Other { array, .. } => array.shape(),
        }
    }

    /// The number of elements of an array with one axis.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if it has another number of axes.
    pub fn len_1d(&self) -> Result<u64> {
        match self.shape() {
            [len] => Ok(*len),
            shape => Err(self.damaged(format!("shape {shape:?}; expected one axis"))),
        }
    }

    /// The chunk shape that the array is read in.
    pub fn grid(&self) -> &[u64] {
        match &self.0 {
            Inner::Hdf5(dataset) => dataset.grid(),
            Inner::Other { array, .. } => array.grid(),
        }
    }

    /// Fails if a chunk takes more memory than that.
    pub(crate) fn check_chunk_bytes(&self, allowed: u64) -> Result<()> {
        let array = match &self.0 {
            Inner::Hdf5(dataset) => return dataset.check_chunk_bytes(allowed),
            Inner::Other { array, .. } => array,
        };
        let element = self.element_size() as u64;
        let bytes = array.grid().iter().fold(element, |product, &edge| product.saturating_mul(edge));
        if bytes > allowed {
            return Err(Error::Memory {
                file: self.file_name().to_owned(),
                at: format!("{}: chunks of shape {:?}", self.path(), self.grid()),
                needed: human_bytes(bytes),
                allowed: format!("{} (their share of the limit)", human_bytes(allowed)),
            });
        }
        Ok(())
    }

    /// The attribute of that name, if there is one.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if the attributes cannot be read.
    pub fn attribute(&self, name: &str) -> Result<Option<Attribute>> {
        match &self.0 {
            Inner::Hdf5(dataset) => dataset.attribute(name),
            Inner::Other { array, .. } => array.attribute(name),
        }
    }

    /// An error about this array's bytes.
    pub(crate) fn damaged(&self, what: impl Into<String>) -> Error {
        Error::Damaged { file: self.file_name().to_owned(), at: self.path().to_owned(), what: what.into() }
    }

    pub(crate) fn unsupported(&self, what: impl Into<String>) -> Error {
        Error::Unsupported {
            file: self.file_name().to_owned(),
            at: self.path().to_owned(),
            what: what.into(),
        }
    }

    /// Reads one chunk of the grid and undoes its filters. `out` then holds the chunk's elements in C order, as stored.
    ///
    /// # Errors
    ///
    /// As [`hdf5::Dataset::read_chunk`] and [`TreeArray::read_chunk`].
    pub fn read_chunk(&self, index: u64, inflater: &mut Inflater, out: &mut Vec<u8>) -> Result<()> {
        match &self.0 {
            Inner::Hdf5(dataset) => dataset.read_chunk(index, inflater, out),
            Inner::Other { array, .. } => array.read_chunk(index, out),
        }
    }

    /// All elements, as stored, in C order. For small arrays: columns, names, scalars.
    ///
    /// # Errors
    ///
    /// As [`hdf5::Dataset::read_all`] and [`TreeArray::read_all`].
    pub fn read_all(&self) -> Result<Vec<u8>> {
        match &self.0 {
            Inner::Hdf5(dataset) => dataset.read_all(),
            Inner::Other { array, .. } => array.read_all(),
        }
    }

    /// All strings of an array of strings, in C order.
    ///
    /// # Errors
    ///
    /// As [`hdf5::Dataset::strings`] and [`TreeArray::strings`].
    pub fn strings(&self) -> Result<StringColumn> {
        match &self.0 {
            Inner::Hdf5(dataset) => dataset.strings(),
            Inner::Other { array, .. } => array.strings(),
        }
    }

    /// Calls `each` with every string that the slots of a variable-length HDF5 type point at.
    pub(crate) fn heap_strings(&self, slots: &[u8], each: impl FnMut(&str)) -> Result<()> {
        match &self.0 {
            Inner::Hdf5(dataset) => dataset.shared.heap_strings(dataset.path(), slots, each),
            Inner::Other { .. } => Err(self.unsupported("strings inside records")),
        }
    }
}
