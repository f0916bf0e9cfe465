//! One tile of a deltacells dataset: bytes to CSR and back. No I/O, no threads.
//!
//! A tile holds a block of consecutive cells of a count matrix. Its bytes are a header, a table of tile chunks, the
//! `indptr` of the CSR matrix, and for each tile chunk two zstd frames: the gaps between the genes of each cell and the
//! counts, both as `u16` split into a plane of low and a plane of high bytes. The few values that do not fit stand in
//! two more frames, the exceptions.
//!
//! The modules follow a byte on its way in: [`layout`] says where everything lies, [`TileHead`] checks it, the frames
//! are inflated, joined from their planes and summed by a [`Decoder`], exceptions are applied, and a [`Csr`] comes out.
//! The way back is [`ChunkEncoder`] (one tile chunk), [`TileAssembler`] (the bytes of a tile) and [`TileEncoder`]
//! (both). [`verify_strict`] checks every rule of the format, also those that a decoder need not check.
//!
//! ```
//! use celltile_tile::{Csr, Decoder, EncodeOptions, Tile, TileEncoder};
//!
//! // Three cells of a matrix of 5 genes: the first expresses genes 0 and 3, the second nothing, the third gene 4.
//! let cells = Csr { indptr: vec![0, 2, 2, 3], genes: vec![0, 3, 4], counts: vec![7, 1, 70_000] };
//! let bytes = TileEncoder::new(&EncodeOptions::default())?.encode(cells.view()?, 5)?;
//!
//! let tile = Tile::open(&bytes)?; // structure and CRC
//! let mut decoder = Decoder::new()?;
//! let mut decoded = Csr::<i32>::new();
//! tile.decode(&mut decoder, &mut decoded)?;
//! assert_eq!(decoded, cells);
//!
//! // The third cell alone, as float32: only the tile chunks that hold it are inflated.
//! let mut one = Csr::<f32>::new();
//! tile.append_cells(&mut decoder, 2..3, None, &mut one)?;
//! assert_eq!((one.genes, one.counts), (vec![4], vec![70_000.0]));
//! # Ok::<(), celltile_tile::Error>(())
//! ```

pub mod layout;

mod checksum;
mod csr;
mod decode;
mod encode;
mod error;
mod exceptions;
mod frame;
mod head;
mod memory;
mod planes;
mod preset;
mod strict;
mod tile;

pub use checksum::{frames_crc, head_crc};
pub use csr::{Csr, CsrView};
pub use decode::{Count, Decoder, OpenChunk};
pub use encode::{
    ChunkCut, ChunkCutter, ChunkEncoder, EncodeOptions, EncodedChunk, TileAssembler, TileEncoder,
};
pub use error::{Error, FrameProblem, Result, Stream};
pub use head::{ChunkFrames, TileHead};
pub use planes::Stores;
pub use preset::{Compression, Preset, ZstdParameters};
pub use strict::{Fault, verify_strict};
pub use tile::Tile;
