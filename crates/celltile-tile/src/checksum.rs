//! The CRC-32 (zlib / IEEE) of parts of a tile.
//!
//! The format's own checksum covers a whole tile. Whoever reads a tile in parts can keep these two beside it: the one of
//! its head, and one a tile chunk.

use crate::head::ChunkFrames;

/// CRC-32 of a tile's header, chunk table and indptr, in that order, without padding between them.
///
/// `header_and_table` are the tile's first `64 + 96 * n_chunks` bytes, `indptr` its `8 * (n_cells + 1)` bytes of indptr.
#[must_use]
pub fn head_crc(header_and_table: &[u8], indptr: &[u8]) -> u32 {
    crc_of([header_and_table, indptr])
}

/// CRC-32 of a tile chunk's frames: gaps, vals, vexc, gexc, in that order, without padding between them.
#[must_use]
pub fn frames_crc(frames: &ChunkFrames<'_>) -> u32 {
    crc_of([frames.gaps, frames.vals, frames.vexc.unwrap_or_default(), frames.gexc.unwrap_or_default()])
}

/// CRC-32 of one run of bytes.
pub(crate) fn crc(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

fn crc_of<const N: usize>(parts: [&[u8]; N]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}
