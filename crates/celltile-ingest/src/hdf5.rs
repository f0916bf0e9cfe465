//! HDF5: what single-cell files need of it, read without trusting a byte, and written.
//!
//! The structure of a file (superblock, object headers, indexes, heaps) is parsed by the crate `hdf5-reader`; the raw
//! data path is ours: chunks are located once, read by position, and their filters are undone on all cores.

mod attribute;
mod dataset;
mod dtype;
mod elsewhere;
mod file;
mod filters;
mod group;
mod storage;
mod strings;
mod write;

pub use attribute::{Attribute, AttributeValue};
pub use dataset::{ChunkRef, Dataset, Layout};
pub use dtype::{Dtype, Field, NumberKind, NumberType, Padding};
pub use file::{File, OpenOptions};
pub use filters::Inflater;
pub use group::{Group, Node, NodeKind};
pub use storage::ByteSource;
pub(crate) use storage::open_local;
pub use strings::StringColumn;
pub(crate) use strings::fixed_string;
pub use write::{ArrayStream, Attr, Attrs, CHUNK_LEN, Element, Packer, Writer};
