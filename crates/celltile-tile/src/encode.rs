//! Cells to frames to a tile, in layers: [`ChunkCutter`] says where a tile chunk ends, [`ChunkEncoder`] makes its frames
//! (a pool can run many), [`TileAssembler`] puts the frames of a tile into its bytes, and [`TileEncoder`] does it all.

mod apart;
mod assemble;
mod chunk;
mod cut;

pub use assemble::TileAssembler;
pub use chunk::{ChunkEncoder, EncodedChunk};
pub use cut::{ChunkCut, ChunkCutter};

use crate::csr::CsrView;
use crate::error::Result;
use crate::preset::Compression;

/// How tiles are encoded. No choice here changes what a decoder gives back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EncodeOptions {
    /// How hard zstd tries.
    pub compression: Compression,
    /// Where tile chunks end.
    pub cut: ChunkCut,
}

/// Encodes whole tiles, one after the other.
#[derive(Debug)]
pub struct TileEncoder {
    chunks: ChunkEncoder,
    cut: ChunkCut,
}

impl TileEncoder {
    /// An encoder with these options.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Option`] for options out of range, [`crate::Error::Zstd`] if libzstd cannot be set up.
    pub fn new(options: &EncodeOptions) -> Result<Self> {
        ChunkCutter::new(options.cut)?;
        Ok(Self { chunks: ChunkEncoder::new(options.compression)?, cut: options.cut })
    }

    /// Encodes cells as one tile of a dataset of `n_genes` genes, and returns its bytes.
    ///
    /// The genes of each cell must be strictly increasing, and the counts at least 1.
    ///
    /// # Errors
    ///
    /// An error that names cell and gene for input that a tile cannot hold (cells are numbered from 0),
    /// [`crate::Error::TooManyExceptions`] and [`crate::Error::TooLarge`].
    pub fn encode(&mut self, cells: CsrView<'_>, n_genes: u32) -> Result<Vec<u8>> {
        let mut assembler = TileAssembler::new(n_genes)?;
        for range in self.cut.chunks(cells.indptr())? {
            let first = range.start;
            let chunk = self.chunks.encode(cells.cells(range)?, n_genes);
            assembler.push(chunk.map_err(|error| error.with_first_cell(first))?)?;
        }
        assembler.finish()
    }
}
