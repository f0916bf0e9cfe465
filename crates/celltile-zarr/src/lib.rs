//! Zarr in and out of celltile.
//!
//! This is the only crate that knows [`zarrs`]. It puts celltile's rectilinear grids into arrays of zarrs ([`grid`], [`array`]).

mod cache;
mod copy;

pub mod append;
pub mod array;
pub mod error;
pub mod grid;
pub mod inspect;
pub mod metadata;
pub mod regrid;
pub mod spec;

pub use append::append;
pub use array::ZarrArray;
pub use error::{Result, ZarrError};
pub use grid::RectilinearGrid;
pub use regrid::{RegridOptions, RegridReport, Target, regrid, relabel};
pub use spec::{ArraySpec, Compression, Encoding, GridForm};
