//! Rectilinear chunk grids: arithmetic and metadata, no I/O.

#![allow(dead_code, reason = "regions and grids, the users of some of this, follow")]

pub mod axis;
pub mod error;

pub use axis::{Axis, AxisChunk, Position, Run};
pub use error::{GridError, Place};
