//! Converts what other tools write to deltacells datasets, and back.

mod error;
pub mod frame;
pub mod hdf5;
pub mod matrix;

pub mod source;

pub mod simulate;

pub use error::{BadColumn, Error, RepeatedError, Result, ValueError, ValueFault};
