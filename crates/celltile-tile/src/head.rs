//! The head of a tile: header, chunk table and indptr, checked against each other, and where its frames lie.

use std::ops::Range;

use crate::error::{Error, Result, Stream, to_usize};
use crate::layout::{ChunkEntry, FrameSlot, HEADER_LEN, Header, MAX_CHUNK_NNZ};

/// All of a tile but its streams: 8 bytes a cell and an entry a tile chunk, checked.
///
/// It is what a reader keeps of a tile that it reads in parts: it says which bytes hold the frames of which cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TileHead {
    header: Header,
    chunks: Vec<ChunkEntry>,
    indptr: Vec<i64>,
}

/// The bytes of one tile chunk's frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkFrames<'a> {
    /// Distances between genes.
    pub gaps: &'a [u8],
    /// Counts.
    pub vals: &'a [u8],
    /// Counts above 65535, if any.
    pub vexc: Option<&'a [u8]>,
    /// Gaps above 65535, if any.
    pub gexc: Option<&'a [u8]>,
}

impl TileHead {
    /// Checks a tile's header, chunk table and indptr. `header_and_table` are the tile's first
    /// [`Header::table_range`]`.end` bytes (more are ignored), `indptr` the bytes of [`Header::indptr_range`], and
    /// `object_size` is the size of the whole tile.
    ///
    /// Takes no more memory than it is given bytes.
    ///
    /// # Errors
    ///
    /// An error that names the field where a rule of "Tile layout" in the specification is broken.
    pub fn parse(header_and_table: &[u8], indptr: &[u8], object_size: u64) -> Result<Self> {
        let header = Header::parse(header_and_table, object_size)?;
        let table_end = header.table_range().end;
        let table = to_usize("chunk table", table_end)
            .ok()
            .and_then(|end| header_and_table.get(HEADER_LEN..end))
            .ok_or_else(|| not_in_bytes(&(0..table_end), &(0..header_and_table.len() as u64)))?;
        let range = header.indptr_range();
        if range.end - range.start != indptr.len() as u64 {
            return Err(not_in_bytes(
                &range,
                &(range.start..range.start.saturating_add(indptr.len() as u64)),
            ));
        }
        to_usize("nnz", header.nnz)?;
        let head = Self {
            header,
            chunks: table.as_chunks().0.iter().map(ChunkEntry::parse).collect(),
            indptr: indptr.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect(),
        };
        head.check_indptr()?;
        head.check_chunks()?;
        Ok(head)
    }

    fn check_indptr(&self) -> Result<()> {
        let fail = |index, found, expected: String| Err(Error::Indptr { index, found, expected });
        let mut previous = 0;
        for (index, &offset) in self.indptr.iter().enumerate() {
            if index == 0 && offset != 0 {
                return fail(index, offset, "0".into());
            }
            if offset < previous {
                return fail(index, offset, format!("at least {previous}, the entry before"));
            }
            previous = offset;
        }
        if u64::try_from(previous) != Ok(self.header.nnz) {
            return fail(self.indptr.len().saturating_sub(1), previous, format!("nnz, {}", self.header.nnz));
        }
        Ok(())
    }

    fn check_chunks(&self) -> Result<()> {
        let Header { n_cells, nnz, .. } = self.header;
        let (mut cell, mut nonzero) = (0, 0);
        for (chunk, entry) in self.chunks.iter().enumerate() {
            // The text is made of what is wrong only: a tile may have a chunk a cell.
            let expect = |field, found, ok: bool, expected: &dyn Fn() -> String| {
                if ok { Ok(()) } else { Err(Error::ChunkTable { chunk, field, found, expected: expected() }) }
            };
            let before = if chunk == 0 { "as the tile starts there" } else { "where the chunk before ended" };
            expect("cell_lo", entry.cell_lo, entry.cell_lo == cell, &|| format!("{cell}, {before}"))?;
            expect("nnz_lo", entry.nnz_lo, entry.nnz_lo == nonzero, &|| format!("{nonzero}, {before}"))?;
            let in_tile = (cell..=n_cells).contains(&entry.cell_hi);
            expect("cell_hi", entry.cell_hi, in_tile, &|| format!("{cell} to {n_cells}"))?;
            let in_indptr = usize::try_from(entry.cell_hi).ok().and_then(|cell| self.indptr.get(cell));
            let fits = in_indptr.and_then(|&offset| u64::try_from(offset).ok()) == Some(entry.nnz_hi);
            let stated = in_indptr.copied().unwrap_or_default();
            expect("nnz_hi", entry.nnz_hi, fits, &|| format!("{stated}, indptr[cell_hi]"))?;
            let small = entry.nnz() <= MAX_CHUNK_NNZ;
            expect("nnz_hi", entry.nnz_hi, small, &|| "fewer than 2^32 nonzeros in a chunk".into())?;
            entry.check_slots(chunk, &self.header)?;
            (cell, nonzero) = (entry.cell_hi, entry.nnz_hi);
        }
        // Together with the first rules: the chunks cover the tile.
        let last = self.chunks.len().saturating_sub(1);
        if cell != n_cells {
            let expected = format!("{n_cells}, the end of the tile");
            return Err(Error::ChunkTable { chunk: last, field: "cell_hi", found: cell, expected });
        }
        if nonzero != nnz {
            let expected = format!("{nnz}, the end of the tile");
            return Err(Error::ChunkTable { chunk: last, field: "nnz_hi", found: nonzero, expected });
        }
        Ok(())
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The chunk table.
    #[must_use]
    pub fn chunks(&self) -> &[ChunkEntry] {
        &self.chunks
    }

    /// `n_cells + 1` offsets: the nonzeros of cell `r` are the entries `indptr[r]..indptr[r + 1]` of the tile.
    #[must_use]
    pub fn indptr(&self) -> &[i64] {
        &self.indptr
    }

    /// Number of cells.
    #[must_use]
    pub const fn n_cells(&self) -> usize {
        self.indptr.len().saturating_sub(1)
    }

    /// Number of nonzeros.
    #[must_use]
    pub fn nnz(&self) -> usize {
        // Checked when parsed.
        usize::try_from(self.header.nnz).unwrap_or_default()
    }

    /// Number of genes, 1 to 2^31.
    #[must_use]
    pub const fn n_genes(&self) -> u32 {
        self.header.n_genes
    }

    /// Number of tile chunks.
    #[must_use]
    pub const fn n_chunks(&self) -> usize {
        self.chunks.len()
    }

    /// The entry of one tile chunk.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchChunk`].
    pub fn chunk(&self, chunk: usize) -> Result<&ChunkEntry> {
        self.chunks.get(chunk).ok_or(Error::NoSuchChunk { chunk, n_chunks: self.chunks.len() })
    }

    /// The cells of one tile chunk.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchChunk`].
    pub fn chunk_cells(&self, chunk: usize) -> Result<Range<usize>> {
        let entry = self.chunk(chunk)?;
        Ok(to_usize("cell_lo", entry.cell_lo)?..to_usize("cell_hi", entry.cell_hi)?)
    }

    /// The nonzeros of one tile chunk, within the tile.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchChunk`].
    pub fn chunk_nonzeros(&self, chunk: usize) -> Result<Range<usize>> {
        let entry = self.chunk(chunk)?;
        Ok(to_usize("nnz_lo", entry.nnz_lo)?..to_usize("nnz_hi", entry.nnz_hi)?)
    }

    /// The nonzeros of some cells, within the tile.
    ///
    /// # Errors
    ///
    /// [`Error::Cells`] if the tile does not have them.
    pub fn nonzeros(&self, cells: Range<usize>) -> Result<Range<usize>> {
        let indptr = self.indptr_of(cells)?;
        let at = |offset: Option<&i64>| offset.and_then(|&offset| usize::try_from(offset).ok());
        // Never empty, and checked to hold 0..=nnz.
        Ok(at(indptr.first()).unwrap_or_default()..at(indptr.last()).unwrap_or_default())
    }

    /// The offsets of some cells: an entry more than there are cells.
    pub(crate) fn indptr_of(&self, cells: Range<usize>) -> Result<&[i64]> {
        let missing = || Error::Cells { start: cells.start, end: cells.end, low: 0, high: self.n_cells() };
        let end = cells.end.checked_add(1).ok_or_else(missing)?;
        self.indptr.get(cells.start..end).filter(|offsets| !offsets.is_empty()).ok_or_else(missing)
    }

    /// The tile chunk that holds a cell.
    ///
    /// # Errors
    ///
    /// [`Error::Cells`] if the tile does not have the cell.
    pub fn chunk_of_cell(&self, cell: usize) -> Result<usize> {
        if cell >= self.n_cells() {
            let end = cell.saturating_add(1);
            return Err(Error::Cells { start: cell, end, low: 0, high: self.n_cells() });
        }
        // Where all chunks have as many cells, one look is enough.
        let guess = cell.saturating_mul(self.chunks.len()) / self.n_cells().max(1);
        let holds = |entry: &ChunkEntry| (entry.cell_lo..entry.cell_hi).contains(&(cell as u64));
        if self.chunks.get(guess).is_some_and(holds) {
            return Ok(guess);
        }
        // Chunks without cells end where the one before ended: this passes them by.
        Ok(self.chunks.partition_point(|entry| entry.cell_hi <= cell as u64))
    }

    /// The tile chunks that hold some cells; none for no cells. Among them may be chunks without cells.
    ///
    /// # Errors
    ///
    /// [`Error::Cells`] if the tile does not have the cells.
    pub fn chunks_of_cells(&self, cells: Range<usize>) -> Result<Range<usize>> {
        self.indptr_of(cells.clone())?;
        if cells.is_empty() {
            return Ok(0..0);
        }
        Ok(self.chunk_of_cell(cells.start)?..self.chunk_of_cell(cells.end - 1)?.saturating_add(1))
    }

    /// The smallest range of the tile's bytes that holds all frames of a tile chunk.
    ///
    /// The format lets frames lie anywhere, so there may be frames of other chunks between them.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchChunk`].
    pub fn frames_span(&self, chunk: usize) -> Result<Range<u64>> {
        let slots = self.chunk(chunk)?.slots();
        let ranges = slots.iter().filter(|(_, slot)| slot.len > 0).map(|(_, slot)| slot.range());
        Ok(ranges.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or_default())
    }

    /// The frames of a tile chunk, cut from `bytes`, which start at offset `base` of the tile.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchChunk`], or [`Error::NotInBytes`] if `bytes` do not hold all of [`TileHead::frames_span`].
    pub fn frames<'a>(&self, chunk: usize, bytes: &'a [u8], base: u64) -> Result<ChunkFrames<'a>> {
        let entry = self.chunk(chunk)?;
        let optional =
            |slot: FrameSlot| if slot.len == 0 { Ok(None) } else { cut(slot, bytes, base).map(Some) };
        Ok(ChunkFrames {
            gaps: cut(entry.gaps, bytes, base)?,
            vals: cut(entry.vals, bytes, base)?,
            vexc: optional(entry.vexc)?,
            gexc: optional(entry.gexc)?,
        })
    }
}

impl<'a> ChunkFrames<'a> {
    /// The frames that there are, in the order of the chunk table.
    pub fn iter(&self) -> impl Iterator<Item = (Stream, &'a [u8])> + use<'a> {
        [
            (Stream::Gaps, Some(self.gaps)),
            (Stream::Vals, Some(self.vals)),
            (Stream::Vexc, self.vexc),
            (Stream::Gexc, self.gexc),
        ]
        .into_iter()
        .filter_map(|(stream, frame)| Some((stream, frame?)))
    }
}

fn cut(slot: FrameSlot, bytes: &[u8], base: u64) -> Result<&[u8]> {
    let range = slot.range();
    let within = |offset: u64| offset.checked_sub(base).and_then(|offset| usize::try_from(offset).ok());
    within(range.start)
        .zip(within(range.end))
        .and_then(|(start, end)| bytes.get(start..end))
        .ok_or_else(|| not_in_bytes(&range, &(base..base.saturating_add(bytes.len() as u64))))
}

fn not_in_bytes(needed: &Range<u64>, given: &Range<u64>) -> Error {
    Error::NotInBytes { start: needed.start, end: needed.end, low: given.start, high: given.end }
}
