//! Single-cell count matrices in the deltacells format.
//!
//! A dataset is a folder (or a bucket's prefix) of *tiles* and a small manifest. This crate reads, writes and
//! verifies whole datasets; one tile's bytes are the business of `celltile-tile`. The modules stand in the order in
//! which a byte meets them.

pub mod storage;

pub mod digest;
pub mod keys;
pub mod manifest;
pub mod memory;

pub mod checksums;
mod contain;
pub mod dataset;
pub mod genes;
pub mod obs;
pub mod table;

pub mod verify;
pub mod writer;

pub mod error;
mod host;
mod recorded;

pub use celltile_tile::{
    ChunkCut, Compression, Count, Csr, CsrView, Decoder, EncodeOptions, Error as TileError, OpenChunk,
    Preset, Stores, Tile, TileHead,
};
pub use dataset::{ChunkReader, Dataset, OpenOptions, ReadOptions, TileBytes, TileHandle, Verify};
pub use error::{Error, ErrorKind, Result};
pub use manifest::Manifest;
pub use writer::{DatasetWriter, WriterOptions, Written};
