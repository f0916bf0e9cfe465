//! Zarr in and out of celltile.
//!
//! This is the only crate that knows [`zarrs`]. It puts celltile's rectilinear grids into arrays of zarrs ([`grid`], [`mod@array`]).

mod cache;
mod copy;
mod decode;
mod elements;

pub mod append;
pub mod array;
pub mod error;
pub mod export;
pub mod grid;
pub mod hierarchy;
pub mod import;
pub mod inspect;
pub mod metadata;
mod npy;
pub mod regrid;
pub mod server;
pub mod spec;
pub mod store;
pub mod view;

pub use append::{append, append_npy};
pub use array::ZarrArray;
pub use error::{Result, ZarrError};
pub use export::{ExportReport, export};
pub use grid::RectilinearGrid;
pub use hierarchy::{Cut, Hierarchy, StoreOptions};
pub use import::ZarrOpener;
pub use regrid::{
    ChunkSpec, RegridOptions, RegridReport, StoreReport, StoreTarget, Target, regrid, regrid_store,
    regrid_told, relabel, relabel_store,
};
pub use spec::{ArraySpec, Compression, Encoding, GridForm};
pub use store::KeyStore;
pub use view::LiveView;
