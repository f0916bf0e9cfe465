//! The bytes of a tile.

use crate::checksum::crc;
use crate::encode::EncodedChunk;
use crate::encode::chunk::check_n_genes;
use crate::error::{Error, Result, Stream, to_usize};
use crate::layout::{CHUNK_ENTRY_LEN, ChunkEntry, FrameSlot, HEADER_LEN, Header, align, indptr_bytes};
use crate::memory::reserve;

/// Puts tile chunks together to a tile. It keeps their frames, and nothing of the matrix but its indptr.
#[derive(Debug)]
pub struct TileAssembler {
    n_genes: u32,
    indptr: Vec<i64>,
    chunks: Vec<EncodedChunk>,
}

impl TileAssembler {
    /// An empty tile of a dataset of `n_genes` genes.
    ///
    /// # Errors
    ///
    /// [`Error::Option`] unless `n_genes` is 1 to 2^31.
    pub fn new(n_genes: u32) -> Result<Self> {
        check_n_genes(n_genes)?;
        Ok(Self { n_genes, indptr: vec![0], chunks: Vec::new() })
    }

    /// Adds the tile's next chunk. A chunk of no cells is left out: a tile of no cells has no chunks.
    ///
    /// # Errors
    ///
    /// [`Error::Option`] if it was encoded for another number of genes, [`Error::TooLarge`] past 2^63 nonzeros.
    pub fn push(&mut self, chunk: EncodedChunk) -> Result<()> {
        if chunk.n_genes != self.n_genes {
            return Err(Error::Option {
                option: "n_genes",
                found: chunk.n_genes.to_string(),
                expected: "that of the tile's other chunks",
            });
        }
        let mut end = self.indptr.last().copied().unwrap_or_default();
        reserve(&mut self.indptr, chunk.cell_nnz.len())?;
        for &nnz in &chunk.cell_nnz {
            end = end.checked_add(nnz.into()).ok_or(Error::TooLarge {
                what: "tile",
                found: u64::MAX,
                most: i64::MAX.cast_unsigned(),
            })?;
            self.indptr.push(end);
        }
        if !chunk.cell_nnz.is_empty() {
            self.chunks.push(chunk);
        }
        Ok(())
    }

    /// Number of cells so far.
    #[must_use]
    pub const fn n_cells(&self) -> usize {
        self.indptr.len().saturating_sub(1)
    }

    /// Number of nonzeros so far.
    #[must_use]
    pub fn nnz(&self) -> u64 {
        self.indptr.last().copied().unwrap_or_default().cast_unsigned()
    }

    /// Number of tile chunks so far.
    #[must_use]
    pub const fn n_chunks(&self) -> usize {
        self.chunks.len()
    }

    /// The tile chunks so far.
    #[must_use]
    pub fn chunks(&self) -> &[EncodedChunk] {
        &self.chunks
    }

    /// The bytes of the tile: header, chunk table, indptr, and the frames of each chunk, every one on an 8-byte boundary.
    ///
    /// # Errors
    ///
    /// [`Error::TooManyExceptions`] for more than max(1024, nnz / 200) of either kind, [`Error::TooLarge`] for sizes that
    /// the format or this host cannot address.
    pub fn finish(self) -> Result<Vec<u8>> {
        self.check_exceptions()?;
        let n_cells = self.n_cells() as u64;
        let n_chunks = u32::try_from(self.chunks.len()).map_err(|_| Error::TooLarge {
            what: "number of tile chunks",
            found: self.chunks.len() as u64,
            most: u32::MAX.into(),
        })?;
        let mut header = Header {
            n_cells,
            nnz: self.nnz(),
            n_genes: self.n_genes,
            n_chunks,
            indptr_off: HEADER_LEN as u64 + u64::from(n_chunks) * CHUNK_ENTRY_LEN as u64,
            total_size: 0,
            crc32: 0,
            reserved: 0,
        };
        let indptr_len = indptr_bytes(n_cells).unwrap_or(u64::MAX);
        let (table, size) = self.place_frames(header.indptr_off.saturating_add(indptr_len));
        header.total_size = size;

        let mut bytes = Vec::new();
        reserve(&mut bytes, to_usize("tile", size)?)?;
        bytes.extend(header.to_bytes());
        for entry in &table {
            bytes.extend(entry.to_bytes());
        }
        for offset in &self.indptr {
            bytes.extend(offset.to_le_bytes());
        }
        for (chunk, entry) in self.chunks.iter().zip(&table) {
            for ((_, frame), (_, slot)) in
                chunk.frames().iter().zip(entry.slots().iter().filter(|(_, s)| s.len > 0))
            {
                bytes.resize(to_usize("tile", slot.offset)?, 0);
                bytes.extend_from_slice(frame);
            }
        }
        header.crc32 = crc(bytes.get(HEADER_LEN..).unwrap_or_default());
        if let Some(start) = bytes.first_chunk_mut() {
            *start = header.to_bytes();
        }
        Ok(bytes)
    }

    /// The chunk table, with frames from `offset` on, and where the last frame ends.
    fn place_frames(&self, offset: u64) -> (Vec<ChunkEntry>, u64) {
        let mut end = offset;
        let mut place = |frame: Option<&[u8]>| {
            let Some(frame) = frame else { return FrameSlot::default() };
            let slot = FrameSlot { offset: align(end), len: frame.len() as u64 };
            end = slot.range().end;
            slot
        };
        let (mut cell, mut nonzero) = (0, 0);
        let table = self.chunks.iter().map(|chunk| {
            let frames = chunk.frames();
            let (cell_lo, nnz_lo) = (cell, nonzero);
            cell += chunk.n_cells() as u64;
            nonzero += chunk.nnz();
            ChunkEntry {
                cell_lo,
                cell_hi: cell,
                nnz_lo,
                nnz_hi: nonzero,
                gaps: place(Some(frames.gaps)),
                vals: place(Some(frames.vals)),
                vexc: place(frames.vexc),
                gexc: place(frames.gexc),
            }
        });
        let table = table.collect();
        (table, end)
    }

    /// The writer's policy: where exceptions are not rare, the data are not raw counts.
    fn check_exceptions(&self) -> Result<()> {
        let nnz = self.nnz();
        let allowed = (nnz / 200).max(1024);
        let vexc: u64 = self.chunks.iter().map(|chunk| chunk.n_vexc).sum();
        let gexc: u64 = self.chunks.iter().map(|chunk| chunk.n_gexc).sum();
        for (stream, found) in [(Stream::Vexc, vexc), (Stream::Gexc, gexc)] {
            if found > allowed {
                return Err(Error::TooManyExceptions { stream, found, nnz, allowed });
            }
        }
        Ok(())
    }
}
