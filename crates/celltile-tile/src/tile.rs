//! A whole tile in memory.

use std::ops::Range;

use crate::checksum::crc;
use crate::csr::Csr;
use crate::decode::{Count, Decoder};
use crate::error::{Error, Result, Stream, to_usize};
use crate::frame::check_planes;
use crate::head::{ChunkFrames, TileHead};
use crate::layout::{HEADER_LEN, Header};
use crate::memory::resize;

/// The bytes of a tile, with its structure checked ("Tile layout" in the specification).
#[derive(Debug, Clone)]
pub struct Tile<'a> {
    bytes: &'a [u8],
    head: TileHead,
}

impl<'a> Tile<'a> {
    /// Checks the structure of a tile: header, chunk table, indptr, and that all frames lie in the tile. Not its CRC, and
    /// not what is in the frames.
    ///
    /// # Errors
    ///
    /// An error that names the field where a rule is broken.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let size = bytes.len() as u64;
        let header = Header::parse(bytes, size)?;
        let range = header.indptr_range();
        let range = to_usize("indptr", range.start)?..to_usize("indptr", range.end)?;
        // The header was checked: the indptr lies in the tile.
        let head = TileHead::parse(bytes, bytes.get(range).unwrap_or_default(), size)?;
        Ok(Self { bytes, head })
    }

    /// [`Tile::parse`] and [`Tile::check_crc`].
    ///
    /// # Errors
    ///
    /// As these two.
    pub fn open(bytes: &'a [u8]) -> Result<Self> {
        let tile = Self::parse(bytes)?;
        tile.check_crc()?;
        Ok(tile)
    }

    /// Compares the CRC-32 of all bytes after the header with the one in the header.
    ///
    /// # Errors
    ///
    /// [`Error::Crc`].
    pub fn check_crc(&self) -> Result<()> {
        let stated = self.head.header().crc32;
        let computed = crc(self.bytes.get(HEADER_LEN..).unwrap_or_default());
        if stated == computed { Ok(()) } else { Err(Error::Crc { stated, computed }) }
    }

    /// Header, chunk table and indptr.
    #[must_use]
    pub const fn head(&self) -> &TileHead {
        &self.head
    }

    /// Header, chunk table and indptr, without the bytes.
    #[must_use]
    pub fn into_head(self) -> TileHead {
        self.head
    }

    /// All bytes of the tile.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The frames of a tile chunk.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchChunk`].
    pub fn frames(&self, chunk: usize) -> Result<ChunkFrames<'a>> {
        self.head.frames(chunk, self.bytes, 0)
    }

    /// Decodes a whole tile chunk into buffers of exactly as many elements as it has nonzeros.
    ///
    /// # Errors
    ///
    /// As [`Decoder::decode_chunk`].
    pub fn decode_chunk<C: Count>(
        &self,
        decoder: &mut Decoder,
        chunk: usize,
        genes: &mut [i32],
        counts: &mut [C],
    ) -> Result<()> {
        decoder.decode_chunk(&self.head, chunk, &self.frames(chunk)?, genes, counts)
    }

    /// Decodes the whole tile into buffers of exactly as many elements as it has nonzeros. The indptr is that of
    /// [`Tile::head`].
    ///
    /// # Errors
    ///
    /// [`Error::Buffer`], and as [`Decoder::decode_chunk`].
    pub fn decode_into<C: Count>(
        &self,
        decoder: &mut Decoder,
        genes: &mut [i32],
        counts: &mut [C],
    ) -> Result<()> {
        for (what, found) in [("genes", genes.len()), ("counts", counts.len())] {
            if found != self.head.nnz() {
                return Err(Error::Buffer { what, found, expected: self.head.nnz() });
            }
        }
        for chunk in 0..self.head.n_chunks() {
            let range = self.head.chunk_nonzeros(chunk)?;
            let genes = genes.get_mut(range.clone()).unwrap_or_default();
            let counts = counts.get_mut(range).unwrap_or_default();
            self.decode_chunk(decoder, chunk, genes, counts)?;
        }
        Ok(())
    }

    /// Decodes the whole tile. What was in `out` is replaced, and its memory used again. Takes no memory for a tile whose
    /// frames are seen to be too small for it. After an error, `out` is a matrix of no cells.
    ///
    /// # Errors
    ///
    /// As [`Decoder::decode_chunk`].
    pub fn decode<C: Count>(&self, decoder: &mut Decoder, out: &mut Csr<C>) -> Result<()> {
        let result =
            self.resize(out).and_then(|()| self.decode_into(decoder, &mut out.genes, &mut out.counts));
        if result.is_err() {
            out.clear();
        }
        result
    }

    fn resize<C: Count>(&self, out: &mut Csr<C>) -> Result<()> {
        for (chunk, entry) in self.head.chunks().iter().enumerate() {
            let frames = self.frames(chunk)?;
            check_planes(chunk, Stream::Gaps, frames.gaps, entry.nnz())?;
            check_planes(chunk, Stream::Vals, frames.vals, entry.nnz())?;
        }
        let nnz = self.head.nnz();
        resize(&mut out.genes, nnz)?;
        resize(&mut out.counts, nnz)?;
        out.indptr.clear();
        out.indptr.extend_from_slice(self.head.indptr());
        Ok(())
    }

    /// Decodes some cells and appends them to `out`, with the genes renumbered if there is a map (see
    /// [`Decoder::append_cells`]). Only the tile chunks that hold the cells are inflated.
    ///
    /// # Errors
    ///
    /// [`Error::Cells`] if the tile does not have them, and as [`Decoder::append_cells`].
    pub fn append_cells<C: Count>(
        &self,
        decoder: &mut Decoder,
        cells: Range<usize>,
        gene_map: Option<&[i32]>,
        out: &mut Csr<C>,
    ) -> Result<()> {
        for chunk in self.head.chunks_of_cells(cells.clone())? {
            decoder.append_cells(&self.head, chunk, &self.frames(chunk)?, cells.clone(), gene_map, out)?;
        }
        Ok(())
    }
}
