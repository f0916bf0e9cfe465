//! Frames to cells: inflate, join the planes, sum up the gaps, apply the exceptions ("Decoding a chunk").

use std::ops::Range;

use zstd_safe::DCtx;

use crate::csr::Csr;
use crate::error::{Error, FrameProblem, Result, Stream, to_usize};
use crate::exceptions::{Exception, Exceptions, add_gaps};
use crate::frame::{check_exceptions, check_planes};
use crate::head::{ChunkFrames, TileHead};
use crate::layout::ChunkEntry;
use crate::memory::{grow, reserve, resize};
use crate::planes::{Kernel, Planes, Stores};

/// What a count is decoded to: `i32`, or `f32`, which is exact up to 2^24 only.
pub trait Count: Copy + Default + Send + Sync + std::fmt::Debug + PartialEq + sealed::Join + 'static {
    /// The largest count up to which every count is exact.
    const EXACT: u32;

    /// The count as this type, rounded if it must be.
    fn from_count(count: i32) -> Self;
}

impl Count for i32 {
    const EXACT: u32 = i32::MAX.cast_unsigned();

    fn from_count(count: i32) -> Self {
        count
    }
}

impl Count for f32 {
    const EXACT: u32 = 1 << 24;

    #[allow(clippy::cast_precision_loss, reason = "rounding is what the caller allowed")]
    fn from_count(count: i32) -> Self {
        count as Self
    }
}

/// The part of [`Count`] that is nobody else's: it keeps other types from being counts.
#[allow(private_interfaces, reason = "no one outside can name this trait")]
mod sealed {
    use crate::planes::{Kernel, Planes, Stores};

    pub trait Join: Sized {
        fn join(kernel: Kernel, planes: Planes<'_>, out: &mut [Self], stores: Stores);
    }

    impl Join for i32 {
        fn join(kernel: Kernel, planes: Planes<'_>, out: &mut [Self], stores: Stores) {
            kernel.join_i32(planes, out, stores);
        }
    }

    impl Join for f32 {
        fn join(kernel: Kernel, planes: Planes<'_>, out: &mut [Self], stores: Stores) {
            kernel.join_f32(planes, out, stores);
        }
    }
}

/// Decodes tile chunks. Holds a zstd context and the memory for the planes of a chunk, so that a loop over chunks
/// allocates nothing once it has met the largest: keep one a thread.
pub struct Decoder {
    zstd: DCtx<'static>,
    way: Way,
    round_counts: bool,
    scratch: Scratch,
}

/// How a decoder writes.
#[derive(Debug, Clone, Copy)]
struct Way {
    kernel: Kernel,
    genes: Stores,
    counts: Stores,
}

/// Memory that is used again.
#[derive(Default)]
struct Scratch {
    gaps: Vec<u8>,
    vals: Vec<u8>,
    gexc: Vec<u8>,
    vexc: Vec<u8>,
    genes: Vec<i32>,
    counts: Vec<i32>,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").field("way", &self.way).finish_non_exhaustive()
    }
}

impl Decoder {
    /// A decoder that refuses to round counts.
    ///
    /// # Errors
    ///
    /// [`Error::Zstd`] if libzstd has no memory for a context.
    pub fn new() -> Result<Self> {
        let zstd = DCtx::try_create().ok_or(Error::Zstd("no memory for a decompression context"))?;
        let way = Way { kernel: Kernel::detect(), genes: Stores::Cached, counts: Stores::Cached };
        Ok(Self { zstd, way, round_counts: false, scratch: Scratch::default() })
    }

    /// Whether counts above 2^24 may be rounded when they are decoded to `f32`. Otherwise they are an error.
    #[must_use]
    pub const fn round_counts(mut self, allow: bool) -> Self {
        self.round_counts = allow;
        self
    }

    /// As [`Decoder::round_counts`], for a decoder that is used on.
    pub const fn set_round_counts(&mut self, allow: bool) {
        self.round_counts = allow;
    }

    /// How gene indices and counts are written from now on, where they are decoded into the caller's slices.
    pub const fn set_stores(&mut self, genes: Stores, counts: Stores) {
        self.way.genes = genes;
        self.way.counts = counts;
    }

    /// Uses the plain loops instead of those for this machine's vector units: for tests and comparisons.
    #[must_use]
    pub const fn scalar(mut self) -> Self {
        self.way.kernel = Kernel::Scalar;
        self
    }

    /// Decodes a whole tile chunk. `genes` and `counts` have exactly as many elements as the chunk has nonzeros. After an
    /// error they hold anything.
    ///
    /// The fastest way through a chunk: each stream is joined right after it was inflated.
    ///
    /// # Errors
    ///
    /// [`Error::Buffer`] for buffers of another length, [`Error::InexactCount`], and an error that names the tile chunk
    /// for everything that a decoder must check.
    pub fn decode_chunk<C: Count>(
        &mut self,
        head: &TileHead,
        chunk: usize,
        frames: &ChunkFrames<'_>,
        genes: &mut [i32],
        counts: &mut [C],
    ) -> Result<()> {
        let part = Part::whole(head, chunk)?;
        part.check_buffers(genes.len(), counts.len())?;
        check_frames(chunk, part.entry, frames)?;
        let gaps = inflate_planes(&mut self.zstd, &mut self.scratch.gaps, &part, Stream::Gaps, frames.gaps)?;
        let gexc =
            inflate_exceptions(&mut self.zstd, &mut self.scratch.gexc, &part, Stream::Gexc, frames.gexc)?;
        part.genes(self.way, gaps, gexc, genes)?;
        // The same memory again: it is still in the cache.
        let vals = inflate_planes(&mut self.zstd, &mut self.scratch.gaps, &part, Stream::Vals, frames.vals)?;
        let vexc =
            inflate_exceptions(&mut self.zstd, &mut self.scratch.vexc, &part, Stream::Vexc, frames.vexc)?;
        part.counts(self.way, vals, vexc, self.round_counts, counts)
    }

    /// Inflates a tile chunk and leaves it at that: cells are then decoded one by one, in any order, as often as needed.
    ///
    /// # Errors
    ///
    /// An error that names the tile chunk if its frames are damaged.
    pub fn open_chunk<'d>(
        &'d mut self,
        head: &'d TileHead,
        chunk: usize,
        frames: &ChunkFrames<'_>,
    ) -> Result<OpenChunk<'d>> {
        let part = Part::whole(head, chunk)?;
        check_frames(chunk, part.entry, frames)?;
        let Scratch { gaps, vals, gexc, vexc, genes, counts } = &mut self.scratch;
        Ok(OpenChunk {
            gaps: inflate_planes(&mut self.zstd, gaps, &part, Stream::Gaps, frames.gaps)?,
            gexc: inflate_exceptions(&mut self.zstd, gexc, &part, Stream::Gexc, frames.gexc)?,
            vals: inflate_planes(&mut self.zstd, vals, &part, Stream::Vals, frames.vals)?,
            vexc: inflate_exceptions(&mut self.zstd, vexc, &part, Stream::Vexc, frames.vexc)?,
            way: self.way,
            round_counts: self.round_counts,
            genes,
            counts,
            part,
        })
    }

    /// Decodes those of `cells` (numbered within the tile) that the tile chunk holds, and appends them to `out`.
    ///
    /// With a gene map, one entry a gene of the tile, a gene `g` becomes `map[g]`, and is dropped if that is negative.
    /// The genes of a cell stay in the order of the tile, so the new numbers need not increase.
    ///
    /// # Errors
    ///
    /// As [`Decoder::decode_chunk`]; [`Error::Buffer`] for a map of another length. `out` may have grown by some cells,
    /// and is a valid matrix all the same.
    pub fn append_cells<C: Count>(
        &mut self,
        head: &TileHead,
        chunk: usize,
        frames: &ChunkFrames<'_>,
        cells: Range<usize>,
        gene_map: Option<&[i32]>,
        out: &mut Csr<C>,
    ) -> Result<()> {
        let held = head.chunk_cells(chunk)?;
        let cells = cells.start.max(held.start)..cells.end.min(held.end);
        if cells.start >= cells.end {
            return Ok(());
        }
        self.open_chunk(head, chunk, frames)?.append_cells(cells, gene_map, out)
    }

    /// Lets libzstd inflate the frames of a tile chunk, and does nothing with the result: the floor that
    /// [`Decoder::decode_chunk`] is measured against.
    ///
    /// # Errors
    ///
    /// An error that names the tile chunk if its frames are damaged.
    pub fn inflate_only(&mut self, head: &TileHead, chunk: usize, frames: &ChunkFrames<'_>) -> Result<()> {
        let part = Part::whole(head, chunk)?;
        let Scratch { gaps, gexc, .. } = &mut self.scratch;
        for (stream, frame) in frames.iter() {
            match stream {
                Stream::Gaps | Stream::Vals => {
                    inflate_planes(&mut self.zstd, gaps, &part, stream, frame)?;
                }
                Stream::Gexc | Stream::Vexc => {
                    let k = check_exceptions(chunk, stream, frame, part.entry.nnz())?;
                    inflate(&mut self.zstd, gexc, k.saturating_mul(8), frame)
                        .map_err(|problem| problem.of(chunk, stream))?;
                }
            }
        }
        Ok(())
    }
}

/// A tile chunk whose frames are inflated and whose exceptions are checked, in the memory of a [`Decoder`].
#[derive(Debug)]
pub struct OpenChunk<'d> {
    part: Part<'d>,
    gaps: Planes<'d>,
    vals: Planes<'d>,
    gexc: Exceptions<'d>,
    vexc: Exceptions<'d>,
    way: Way,
    round_counts: bool,
    genes: &'d mut Vec<i32>,
    counts: &'d mut Vec<i32>,
}

impl OpenChunk<'_> {
    /// The cells of the chunk, numbered within the tile.
    #[must_use]
    pub fn cells(&self) -> Range<usize> {
        self.part.cells.clone()
    }

    /// Number of the chunk in its tile.
    pub(crate) const fn chunk(&self) -> usize {
        self.part.chunk
    }

    /// The stored value under every exception: which exceptions, position in the chunk, stored value.
    pub(crate) fn exception_slots(&self) -> impl Iterator<Item = (Stream, u32, u16)> + '_ {
        let slots = |stream, exceptions: Exceptions<'_>, planes: Planes<'_>| {
            let found = exceptions.iter().filter_map(move |exception| {
                let index = usize::try_from(exception.position).ok()?;
                let value = planes.range(index..index.checked_add(1)?).iter().next()?;
                Some((stream, exception.position, value))
            });
            found.collect::<Vec<_>>()
        };
        let vexc = slots(Stream::Vexc, self.vexc, self.vals);
        vexc.into_iter().chain(slots(Stream::Gexc, self.gexc, self.gaps))
    }

    /// Decodes some cells (numbered within the tile) of the chunk. `genes` and `counts` have exactly as many elements as
    /// the cells have nonzeros.
    ///
    /// # Errors
    ///
    /// [`Error::Cells`] for cells of other chunks, [`Error::Buffer`] for buffers of another length,
    /// [`Error::InexactCount`] and [`Error::Gene`].
    pub fn decode_cells<C: Count>(
        &self,
        cells: Range<usize>,
        genes: &mut [i32],
        counts: &mut [C],
    ) -> Result<()> {
        let part = self.part.cells(cells)?;
        part.check_buffers(genes.len(), counts.len())?;
        part.genes(self.way, self.gaps.range(part.positions.clone()), self.gexc, genes)?;
        let vals = self.vals.range(part.positions.clone());
        part.counts(self.way, vals, self.vexc, self.round_counts, counts)
    }

    /// The sum of the counts of some cells (numbered within the tile) of the chunk, without decoding them.
    ///
    /// # Errors
    ///
    /// [`Error::Cells`] for cells of other chunks.
    pub fn sum_counts(&self, cells: Range<usize>) -> Result<u64> {
        let Range { start, end } = self.part.cells(cells)?.positions;
        let mut sum = self.vals.range(start..end).sum();
        for Exception { position, payload } in self.vexc.within(start as u64, end as u64).iter() {
            let at = to_usize("position", u64::from(position))?;
            let stored = self.vals.range(at..at.saturating_add(1)).sum();
            sum = sum.saturating_sub(stored).saturating_add(payload.into());
        }
        Ok(sum)
    }

    /// Decodes some cells (numbered within the tile) of the chunk and appends them to `out`, as
    /// [`Decoder::append_cells`] does.
    ///
    /// # Errors
    ///
    /// As [`OpenChunk::decode_cells`].
    pub fn append_cells<C: Count>(
        &mut self,
        cells: Range<usize>,
        gene_map: Option<&[i32]>,
        out: &mut Csr<C>,
    ) -> Result<()> {
        match gene_map {
            None => self.append_all_genes(cells, out),
            Some(map) => self.append_mapped(cells, map, |_| (), out),
        }
    }

    /// As [`OpenChunk::append_cells`] with a gene map, and hands on the sum of each cell's counts over all genes, those
    /// that the map drops among them.
    ///
    /// # Errors
    ///
    /// As [`OpenChunk::append_cells`].
    pub fn append_mapped_cells<C: Count>(
        &mut self,
        cells: Range<usize>,
        gene_map: &[i32],
        total: impl FnMut(u64),
        out: &mut Csr<C>,
    ) -> Result<()> {
        self.append_mapped(cells, gene_map, total, out)
    }

    fn append_all_genes<C: Count>(&self, cells: Range<usize>, out: &mut Csr<C>) -> Result<()> {
        let part = self.part.cells(cells.clone())?;
        let (old, grown) = (out.nnz(), part.positions.len());
        let new = old.saturating_add(grown);
        resize(&mut out.genes, new)?;
        resize(&mut out.counts, new)?;
        let (Some(genes), Some(counts)) = (out.genes.get_mut(old..), out.counts.get_mut(old..)) else {
            return Err(Error::Buffer { what: "counts", found: out.counts.len(), expected: new });
        };
        if let Err(error) = self.decode_cells(cells, genes, counts) {
            out.genes.truncate(old);
            out.counts.truncate(old);
            return Err(error);
        }
        let base = out.indptr.last().copied().unwrap_or_default();
        let first = part.indptr.first().copied().unwrap_or_default();
        out.indptr.extend(part.indptr.iter().skip(1).map(|offset| base.saturating_add(offset - first)));
        Ok(())
    }

    fn append_mapped<C: Count>(
        &mut self,
        cells: Range<usize>,
        map: &[i32],
        mut total: impl FnMut(u64),
        out: &mut Csr<C>,
    ) -> Result<()> {
        let n_genes = to_usize("n_genes", self.part.n_genes.into())?;
        if map.len() != n_genes {
            return Err(Error::Buffer { what: "gene map", found: map.len(), expected: n_genes });
        }
        // A cell at a time, so that the cell is still in the cache when its genes are picked.
        let way = Way { genes: Stores::Cached, counts: Stores::Cached, ..self.way };
        for cell in cells {
            total(self.sum_counts(cell..cell.saturating_add(1))?);
            let part = self.part.cells(cell..cell.saturating_add(1))?;
            let len = part.positions.len();
            grow(self.genes, len)?;
            grow(self.counts, len)?;
            let (genes, counts) = (self.genes.as_mut_slice(), self.counts.as_mut_slice());
            let (Some(genes), Some(counts)) = (genes.get_mut(..len), counts.get_mut(..len)) else {
                return Err(Error::Buffer { what: "scratch", found: genes.len(), expected: len });
            };
            part.genes(way, self.gaps.range(part.positions.clone()), self.gexc, genes)?;
            part.counts(way, self.vals.range(part.positions.clone()), self.vexc, true, counts)?;
            let kept = pick(map, genes, counts);
            let (genes, counts) =
                (genes.get(..kept).unwrap_or_default(), counts.get(..kept).unwrap_or_default());
            if !self.round_counts
                && let Some(count) = counts.iter().find(|count| count.cast_unsigned() > C::EXACT)
            {
                return Err(Error::InexactCount { cell, count: count.cast_unsigned() });
            }
            let old = out.nnz();
            reserve(&mut out.genes, kept)?;
            reserve(&mut out.counts, kept)?;
            out.genes.extend_from_slice(genes);
            out.counts.extend(counts.iter().map(|&count| C::from_count(count)));
            let kept = i64::try_from(out.nnz() - old).unwrap_or_default();
            out.indptr.push(out.indptr.last().copied().unwrap_or_default().saturating_add(kept));
        }
        Ok(())
    }
}

/// Renumbers genes and moves those that `map` keeps, with their counts, to the front. Returns how many these are.
fn pick(map: &[i32], genes: &mut [i32], counts: &mut [i32]) -> usize {
    let mut kept = 0;
    // Every gene is written and then kept or not: which one it is, no branch predictor can tell.
    for index in 0..genes.len().min(counts.len()) {
        let (Some(&gene), Some(&count)) = (genes.get(index), counts.get(index)) else { break };
        let new = usize::try_from(gene).ok().and_then(|gene| map.get(gene)).copied().unwrap_or(-1);
        if let (Some(gene), Some(slot)) = (genes.get_mut(kept), counts.get_mut(kept)) {
            (*gene, *slot) = (new, count);
        }
        kept += usize::from(new >= 0);
    }
    kept
}

/// Some cells of a tile chunk: everything that is known of them without the frames.
#[derive(Debug, Clone)]
struct Part<'h> {
    chunk: usize,
    entry: &'h ChunkEntry,
    n_genes: u32,
    /// Numbered within the tile.
    cells: Range<usize>,
    /// Offsets of the cells within the tile, one more than there are cells.
    indptr: &'h [i64],
    /// Their nonzeros, numbered within the chunk.
    positions: Range<usize>,
}

impl<'h> Part<'h> {
    fn whole(head: &'h TileHead, chunk: usize) -> Result<Self> {
        let entry = head.chunk(chunk)?;
        let cells = head.chunk_cells(chunk)?;
        let indptr = head.indptr_of(cells.clone())?;
        let positions = 0..to_usize("chunk", entry.nnz())?;
        Ok(Self { chunk, entry, n_genes: head.n_genes(), cells, indptr, positions })
    }

    fn cells(&self, cells: Range<usize>) -> Result<Self> {
        let missing = || Error::Cells {
            start: cells.start,
            end: cells.end,
            low: self.cells.start,
            high: self.cells.end,
        };
        let low = cells.start.checked_sub(self.cells.start).ok_or_else(missing)?;
        let high = cells.end.checked_sub(self.cells.start).ok_or_else(missing)?;
        let indptr = self.indptr.get(low..high.saturating_add(1)).ok_or_else(missing)?;
        let (Some(first), Some(low), Some(high)) = (self.indptr.first(), indptr.first(), indptr.last())
        else {
            return Err(missing());
        };
        // The head was checked: these are positions within the chunk.
        let position = |offset: &i64| usize::try_from(offset.abs_diff(*first)).map_err(|_| missing());
        Ok(Self { positions: position(low)?..position(high)?, indptr, cells: cells.clone(), ..self.clone() })
    }

    fn check_buffers(&self, genes: usize, counts: usize) -> Result<()> {
        let expected = self.positions.len();
        for (what, found) in [("genes", genes), ("counts", counts)] {
            if found != expected {
                return Err(Error::Buffer { what, found, expected });
            }
        }
        Ok(())
    }

    /// Decodes gene indices. Every one of them is checked against `n_genes`, not a cell's last.
    fn genes(&self, way: Way, gaps: Planes<'_>, gexc: Exceptions<'_>, genes: &mut [i32]) -> Result<()> {
        if !way.kernel.prefix_sums(gaps, self.indptr, self.n_genes, genes, way.genes) {
            return Err(self.first_bad_gene(gaps));
        }
        if gexc.is_empty() {
            return Ok(());
        }
        let base = self.positions.start as u64;
        add_gaps(gexc, genes, self.indptr, base, self.n_genes, (self.chunk, self.cells.start))
    }

    /// Decodes counts. Only those above 65535, the exceptions, can be inexact.
    fn counts<C: Count>(
        &self,
        way: Way,
        vals: Planes<'_>,
        vexc: Exceptions<'_>,
        round: bool,
        counts: &mut [C],
    ) -> Result<()> {
        C::join(way.kernel, vals, counts, way.counts);
        let Range { start, end } = self.positions;
        for Exception { position, payload } in vexc.within(start as u64, end as u64).iter() {
            let index = to_usize("position", u64::from(position))?.saturating_sub(start);
            if payload > C::EXACT && !round {
                let cell = self.cell_of(index);
                return Err(Error::InexactCount { cell, count: payload });
            }
            if let Some(count) = counts.get_mut(index) {
                *count = C::from_count(payload.cast_signed());
            }
        }
        Ok(())
    }

    /// The cell that holds the `index`-th nonzero of this part.
    fn cell_of(&self, index: usize) -> usize {
        let first = self.indptr.first().copied().unwrap_or_default();
        let before = self.indptr.partition_point(|offset| offset.abs_diff(first) <= index as u64);
        self.cells.start.saturating_add(before).saturating_sub(1)
    }

    /// Names the first gene index that is too large, slowly.
    #[cold]
    fn first_bad_gene(&self, gaps: Planes<'_>) -> Error {
        let (mut cell, mut sum) = (usize::MAX, 0_u64);
        for (index, gap) in gaps.iter().enumerate() {
            let holds = self.cell_of(index);
            sum = if holds == cell { sum + u64::from(gap) } else { gap.into() };
            cell = holds;
            if sum >= u64::from(self.n_genes) {
                break;
            }
        }
        Error::Gene { chunk: self.chunk, cell, gene: sum, n_genes: self.n_genes.into() }
    }
}

/// Checks all frames of a chunk before memory is taken for any.
fn check_frames(chunk: usize, entry: &ChunkEntry, frames: &ChunkFrames<'_>) -> Result<()> {
    for (stream, frame) in frames.iter() {
        match stream {
            Stream::Gaps | Stream::Vals => check_planes(chunk, stream, frame, entry.nnz())?,
            Stream::Gexc | Stream::Vexc => {
                check_exceptions(chunk, stream, frame, entry.nnz())?;
            }
        }
    }
    Ok(())
}

/// Inflates the frame of a stream of values, which states `2 * nnz` bytes.
fn inflate_planes<'b>(
    zstd: &mut DCtx<'static>,
    buffer: &'b mut Vec<u8>,
    part: &Part<'_>,
    stream: Stream,
    frame: &[u8],
) -> Result<Planes<'b>> {
    let size = part.entry.nnz().saturating_mul(2);
    inflate(zstd, buffer, size, frame).map(Planes::new).map_err(|problem| problem.of(part.chunk, stream))
}

/// Inflates and checks exceptions, if there are any.
fn inflate_exceptions<'b>(
    zstd: &mut DCtx<'static>,
    buffer: &'b mut Vec<u8>,
    part: &Part<'_>,
    stream: Stream,
    frame: Option<&[u8]>,
) -> Result<Exceptions<'b>> {
    let Some(frame) = frame else { return Ok(Exceptions::default()) };
    let nnz = part.entry.nnz();
    let size = check_exceptions(part.chunk, stream, frame, nnz)?.saturating_mul(8);
    let content = inflate(zstd, buffer, size, frame).map_err(|problem| problem.of(part.chunk, stream))?;
    Exceptions::parse(part.chunk, stream, content, nnz, part.n_genes)
}

/// What can go wrong with one frame, before it is known whose it is.
enum InflateProblem {
    Frame(FrameProblem),
    Other(Error),
}

impl InflateProblem {
    fn of(self, chunk: usize, stream: Stream) -> Error {
        match self {
            Self::Frame(problem) => Error::Frame { chunk, stream, problem },
            Self::Other(error) => error,
        }
    }
}

/// Inflates a frame whose content size was found to be `size`.
fn inflate<'b>(
    zstd: &mut DCtx<'static>,
    buffer: &'b mut Vec<u8>,
    size: u64,
    frame: &[u8],
) -> Result<&'b [u8], InflateProblem> {
    let len = to_usize("stream", size).map_err(InflateProblem::Other)?;
    grow(buffer, len).map_err(InflateProblem::Other)?;
    let content = buffer.get_mut(..len).unwrap_or_default();
    match zstd.decompress(content, frame) {
        Ok(found) if found == len => Ok(content),
        Ok(found) => {
            Err(InflateProblem::Frame(FrameProblem::ContentSize { found: found as u64, expected: size }))
        }
        Err(code) => Err(InflateProblem::Frame(FrameProblem::Zstd(zstd_safe::get_error_name(code)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_a_decoder_can_be_sent_to_a_thread() {
        fn sendable<T: Send>() {}
        sendable::<Decoder>();
        sendable::<crate::ChunkEncoder>();
        sendable::<crate::EncodedChunk>();
    }
}
