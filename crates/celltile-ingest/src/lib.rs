//! Converts what other tools write to deltacells datasets, and back.

pub mod convert;
mod error;
pub mod frame;
pub mod hdf5;
pub mod matrix;
mod text;
pub mod tree;

pub mod plan;
pub mod source;

pub mod export;
mod metadata;

pub mod simulate;

pub use error::{BadColumn, Error, ErrorKind, RepeatedError, Result, ValueError, ValueFault};
