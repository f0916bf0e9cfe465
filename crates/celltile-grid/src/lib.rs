//! Rectilinear chunk grids: arithmetic and metadata, no I/O.
//!
//! An array of any number of dimensions is cut into grid chunks, along each axis by a list of edges that may all differ. This
//! crate reads and writes such a grid's Zarr v3 metadata, and answers where things lie:
//!
//! | question | answer |
//! |---|---|
//! | an array index: which chunk, and where in it? | [`Axis::locate`], [`Grid::locate`] |
//! | a chunk: where does it start, how long is it, how much of it is inside the array? | [`Axis::chunk`], [`Grid::chunk`] |
//! | a range, steps or a list of indices: which chunks, which part of each? | [`Axis::select`], [`Grid::select`], [`Grid::region`] |
//! | how many chunks are declared, how many are active? | [`Grid::declared_shape`], [`Grid::active_shape`], [`Grid::n_active`] |
//! | is it a regular grid? do shards divide into inner chunks? | [`Grid::to_regular`], [`Grid::check_inner`] |
//! | how does it grow, shrink, split, join? | [`Grid::resize`], [`Grid::append`], [`Grid::split`], [`Grid::merge`] |
//! | what is its JSON? | [`Grid::from_json`], [`Grid::to_json`], [`GridMetadata`] |
//!
//! Equal consecutive edges are one run, in the JSON as in memory. All costs follow the number of runs, or its logarithm, and
//! never the number of edges: a run of 10^12 edges of length 1 is an ordinary axis.
//!
//! ```
//! use celltile_grid::Grid;
//!
//! // Three tiles of 300, 120 and 410 nonzeros, and room for more.
//! let json = r#"{"name": "rectilinear",
//!                "configuration": {"kind": "inline", "chunk_shapes": [[300, 120, 410]]}}"#;
//! let mut grid = Grid::from_json(json, &[830])?;
//! assert_eq!(grid.locate(&[421])?[0].chunk, 2);
//!
//! // The chunks of elements 250 to 499, and which of each chunk's elements those are.
//! let axis = &grid.axes()[0];
//! let parts: Vec<_> = axis.select(250..500)?.map(|part| (part.chunk.chunk, part.within)).collect();
//! assert_eq!(parts, [(0, 250..300), (1, 0..120), (2, 0..80)]);
//!
//! // A fourth tile is a chunk of its own; the others stay as they are.
//! grid.append(0, 120)?;
//! assert_eq!(
//!     grid.to_json(),
//!     r#"{"name":"rectilinear","configuration":{"kind":"inline","chunk_shapes":[[300,120,410,120]]}}"#
//! );
//! # Ok::<(), celltile_grid::GridError>(())
//! ```
//!
//! With the feature `serde`, [`GridMetadata`] can be a part of other JSON documents.

pub mod axis;

pub mod grid;

pub mod region;

pub mod metadata;

pub mod error;

pub use axis::{Axis, AxisChunk, Position, Run};
pub use error::{GridError, Place};
pub use grid::Grid;
pub use metadata::GridMetadata;
pub use region::{AxisPart, AxisParts, GridParts, Selection};
