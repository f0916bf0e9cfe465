//! The frames of one tile chunk.

use zstd_safe::CCtx;

use super::apart::{LowBytes, compress_apart};
use crate::csr::CsrView;
use crate::error::{Error, Result, Stream};
use crate::head::ChunkFrames;
use crate::layout::{EXCEPTION_SLOT, MAX_CHUNK_NNZ, MAX_GENES};
use crate::memory::{reserve, resize};
use crate::planes::PlanesMut;
use crate::preset::Compression;

/// Encodes tile chunks. Holds a zstd context and its memory, so keep one a thread.
pub struct ChunkEncoder {
    zstd: CCtx<'static>,
    compression: Compression,
    planes: Vec<u8>,
    frame: Vec<u8>,
}

impl std::fmt::Debug for ChunkEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkEncoder").field("compression", &self.compression).finish_non_exhaustive()
    }
}

/// The frames of one tile chunk, ready for a [`TileAssembler`](crate::TileAssembler).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedChunk {
    /// Nonzeros of each cell.
    pub(super) cell_nnz: Vec<u32>,
    pub(super) nnz: u64,
    pub(super) n_genes: u32,
    pub(super) gaps: Vec<u8>,
    pub(super) vals: Vec<u8>,
    pub(super) vexc: Option<Vec<u8>>,
    pub(super) gexc: Option<Vec<u8>>,
    pub(super) n_vexc: u64,
    pub(super) n_gexc: u64,
}

impl EncodedChunk {
    /// Number of cells.
    #[must_use]
    pub const fn n_cells(&self) -> usize {
        self.cell_nnz.len()
    }

    /// Number of nonzeros.
    #[must_use]
    pub const fn nnz(&self) -> u64 {
        self.nnz
    }

    /// Bytes of all frames.
    #[must_use]
    pub fn n_bytes(&self) -> usize {
        self.frames().iter().map(|(_, frame)| frame.len()).sum()
    }

    /// The frames.
    #[must_use]
    pub fn frames(&self) -> ChunkFrames<'_> {
        ChunkFrames {
            gaps: &self.gaps,
            vals: &self.vals,
            vexc: self.vexc.as_deref(),
            gexc: self.gexc.as_deref(),
        }
    }
}

/// Positions and payloads of one kind of exception.
#[derive(Default)]
struct Exceptions {
    positions: Vec<u8>,
    payloads: Vec<u8>,
}

impl Exceptions {
    #[cold]
    fn push(&mut self, position: usize, payload: u32) -> Result<()> {
        let most = MAX_CHUNK_NNZ;
        let position = u32::try_from(position).map_err(|_| Error::TooLarge {
            what: "tile chunk",
            found: position as u64,
            most,
        })?;
        self.positions.extend(position.to_le_bytes());
        self.payloads.extend(payload.to_le_bytes());
        Ok(())
    }

    const fn len(&self) -> u64 {
        self.positions.len() as u64 / 4
    }

    fn content(mut self) -> Option<Vec<u8>> {
        self.positions.append(&mut self.payloads);
        Some(self.positions).filter(|content| !content.is_empty())
    }
}

impl ChunkEncoder {
    /// An encoder that compresses so.
    ///
    /// # Errors
    ///
    /// [`Error::Option`] for a level out of range, [`Error::Zstd`] if libzstd cannot be set up or refuses a parameter.
    pub fn new(compression: Compression) -> Result<Self> {
        crate::error::check_host(crate::error::LITTLE_ENDIAN_HOST)?;
        compression.check()?;
        let mut zstd = CCtx::try_create().ok_or(Error::Zstd("no memory for a compression context"))?;
        for stream in [Stream::Gaps, Stream::Vals] {
            compression.apply(stream, &mut zstd)?;
        }
        Ok(Self { zstd, compression, planes: Vec::new(), frame: Vec::new() })
    }

    /// Encodes cells as one tile chunk of a dataset of `n_genes` genes.
    ///
    /// # Errors
    ///
    /// [`Error::InputOrder`], [`Error::InputGene`] and [`Error::InputCount`] for what a tile cannot hold, with the cell's
    /// number in `cells`; [`Error::TooLarge`] for 2^32 nonzeros or more.
    pub fn encode(&mut self, cells: CsrView<'_>, n_genes: u32) -> Result<EncodedChunk> {
        check_n_genes(n_genes)?;
        let nnz = cells.nnz() as u64;
        if nnz > MAX_CHUNK_NNZ {
            return Err(Error::TooLarge { what: "tile chunk", found: nnz, most: MAX_CHUNK_NNZ });
        }
        let mut cell_nnz = Vec::new();
        reserve(&mut cell_nnz, cells.n_cells())?;
        // No cell has more than the chunk, so that the maximum is never taken.
        cell_nnz.extend(cells.iter().map(|(genes, _)| u32::try_from(genes.len()).unwrap_or(u32::MAX)));

        let gexc = self.split_gaps(cells, n_genes)?;
        // A table of codes costs more to read than a cell of codes.
        let low_bytes = if cells.n_cells() == 1 { LowBytes::Stored } else { LowBytes::Coded };
        let gaps = self.compress_planes(Stream::Gaps, low_bytes)?;
        let vexc = self.split_counts(cells)?;
        let vals = self.compress_planes(Stream::Vals, low_bytes)?;
        let (n_gexc, n_vexc) = (gexc.len(), vexc.len());
        let gexc = gexc.content().map(|content| self.compress(Stream::Gexc, &content)).transpose()?;
        let vexc = vexc.content().map(|content| self.compress(Stream::Vexc, &content)).transpose()?;
        Ok(EncodedChunk { cell_nnz, nnz, n_genes, gaps, vals, vexc, gexc, n_vexc, n_gexc })
    }

    /// Fills the planes with the gaps between the genes of each cell.
    fn split_gaps(&mut self, cells: CsrView<'_>, n_genes: u32) -> Result<Exceptions> {
        resize(&mut self.planes, cells.nnz().saturating_mul(2))?;
        let mut planes = PlanesMut::new(&mut self.planes);
        let mut exceptions = Exceptions::default();
        let mut position = 0;
        for (cell, (genes, _)) in cells.iter().enumerate() {
            let Some(mut planes) = planes.take(genes.len()) else { break };
            let check = planes.gaps(genes);
            let in_range = genes.last().is_none_or(|last| last.cast_unsigned() < n_genes);
            if !check.all_fit() || !in_range {
                split_gaps_slowly(cell, genes, n_genes, &mut planes, position, &mut exceptions)?;
            }
            position += genes.len();
        }
        Ok(exceptions)
    }

    /// Fills the planes with the counts.
    fn split_counts(&mut self, cells: CsrView<'_>) -> Result<Exceptions> {
        resize(&mut self.planes, cells.nnz().saturating_mul(2))?;
        let mut planes = PlanesMut::new(&mut self.planes);
        let mut exceptions = Exceptions::default();
        if !planes.counts(cells.counts()).all_fit() {
            for (position, &count) in cells.counts().iter().enumerate() {
                if count < 1 {
                    return Err(bad_count(cells));
                }
                if count.cast_unsigned() > u32::from(EXCEPTION_SLOT) {
                    exceptions.push(position, count.cast_unsigned())?;
                    planes.set(position, EXCEPTION_SLOT);
                }
            }
        }
        Ok(exceptions)
    }

    /// `low_bytes` matters only where the planes are compressed apart.
    fn compress_planes(&mut self, stream: Stream, low_bytes: LowBytes) -> Result<Vec<u8>> {
        let Self { zstd, compression, planes, frame } = self;
        if compression.parts_planes()
            && !planes.is_empty()
            && let Some(frame) = compress_apart(zstd, (*compression, stream), planes, low_bytes, frame)?
        {
            return Ok(frame);
        }
        let planes = std::mem::take(&mut self.planes);
        let frame = self.compress(stream, &planes);
        self.planes = planes;
        frame
    }

    fn compress(&mut self, stream: Stream, content: &[u8]) -> Result<Vec<u8>> {
        self.compression.apply(stream, &mut self.zstd)?;
        compress(&mut self.zstd, content, &mut self.frame)?;
        Ok(self.frame.as_slice().to_vec())
    }
}

/// Compresses into `frame`, in one call, so that the frame states its content size.
pub(super) fn compress(zstd: &mut CCtx<'static>, content: &[u8], frame: &mut Vec<u8>) -> Result<()> {
    frame.clear();
    reserve(frame, zstd_safe::compress_bound(content.len()))?;
    zstd.compress2(frame, content).map_err(|code| Error::Zstd(zstd_safe::get_error_name(code)))?;
    Ok(())
}

pub(super) fn check_n_genes(n_genes: u32) -> Result<()> {
    if (1..=MAX_GENES).contains(&n_genes) {
        return Ok(());
    }
    Err(Error::Option { option: "n_genes", found: n_genes.to_string(), expected: "1 to 2^31" })
}

/// The gaps of a cell that has exceptions, or a gene that is none. `position` is that of the cell's first nonzero.
#[cold]
fn split_gaps_slowly(
    cell: usize,
    genes: &[i32],
    n_genes: u32,
    planes: &mut PlanesMut<'_>,
    position: usize,
    exceptions: &mut Exceptions,
) -> Result<()> {
    let mut previous = -1;
    for (index, &gene) in genes.iter().enumerate() {
        if gene <= previous || gene.cast_unsigned() >= n_genes {
            return Err(bad_gene(cell, previous, gene, n_genes));
        }
        // The first gap is the first gene itself, so it is the only one that may be 0.
        let gap = gene.abs_diff(previous.max(0));
        if gap > u32::from(EXCEPTION_SLOT) {
            exceptions.push(position.saturating_add(index), gap - u32::from(EXCEPTION_SLOT))?;
            planes.set(index, EXCEPTION_SLOT);
        }
        previous = gene;
    }
    Ok(())
}

fn bad_gene(cell: usize, previous: i32, gene: i32, n_genes: u32) -> Error {
    if gene < 0 || gene.cast_unsigned() >= n_genes {
        Error::InputGene { cell, gene, n_genes }
    } else {
        Error::InputOrder { cell, previous, gene }
    }
}

#[cold]
fn bad_count(cells: CsrView<'_>) -> Error {
    for (cell, (genes, counts)) in cells.iter().enumerate() {
        if let Some((&gene, &count)) = genes.iter().zip(counts).find(|(_, count)| **count < 1) {
            return Error::InputCount { cell, gene, count };
        }
    }
    // Unreachable: there was one.
    Error::NotCsr("a count below 1".into())
}

impl Error {
    /// Renumbers the cell of an error about input: it was counted from `first`.
    pub(super) fn with_first_cell(mut self, first: usize) -> Self {
        if let Self::InputOrder { cell, .. } | Self::InputGene { cell, .. } | Self::InputCount { cell, .. } =
            &mut self
        {
            *cell = cell.saturating_add(first);
        }
        self
    }
}
