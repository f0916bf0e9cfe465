//! Header and chunk table: offsets, sizes and the rules that bind them ("Tile layout" in the specification).
//!
//! ```text
//! offset 0            header        64 bytes
//! offset 64           chunk table   n_chunks * 96 bytes
//! offset indptr_off   indptr        (n_cells + 1) * int64
//! ...                 streams       each a zstd frame that starts on an 8-byte boundary
//! ```

use std::ops::Range;

use crate::error::{Error, LITTLE_ENDIAN_HOST, Result, Stream, check_host};

/// The first eight bytes of every tile.
pub const MAGIC: [u8; 8] = *b"DELTACEL";
/// The version this crate reads and writes.
pub const VERSION: u32 = 2;
/// Bytes of the header.
pub const HEADER_LEN: usize = 64;
/// Bytes of one entry of the chunk table.
pub const CHUNK_ENTRY_LEN: usize = 96;
/// Every stream and the indptr start on a multiple of this.
pub const ALIGNMENT: u64 = 8;
/// The largest number of genes: gene indices are `i32`.
pub const MAX_GENES: u32 = 1 << 31;
/// A stored value that may stand for a larger one, which is then an exception.
pub const EXCEPTION_SLOT: u16 = u16::MAX;
/// The largest number of nonzeros of a tile chunk: exception positions are `u32`.
pub const MAX_CHUNK_NNZ: u64 = u32::MAX as u64;

/// [`HEADER_LEN`] as an offset.
const TABLE_OFF: u64 = 64;

/// The header of a tile ("Header" in the specification). Its fields are those of the format, without the magic, the
/// version and the flags, which have one legal value each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Cells in the tile.
    pub n_cells: u64,
    /// Stored nonzeros in the tile.
    pub nnz: u64,
    /// Genes of the dataset, 1 to 2^31.
    pub n_genes: u32,
    /// Tile chunks.
    pub n_chunks: u32,
    /// Offset of the indptr in bytes.
    pub indptr_off: u64,
    /// Size of the whole tile in bytes.
    pub total_size: u64,
    /// CRC-32 of the bytes after the header.
    pub crc32: u32,
    /// Must be 0, which only strict verification checks.
    pub reserved: u32,
}

impl Header {
    /// Reads the first 64 bytes of a tile and checks all that they and the size of the object alone can show. From then
    /// on [`Header::table_range`] and [`Header::indptr_range`] lie inside the object.
    ///
    /// # Errors
    ///
    /// An error that names the field where a rule of the format is broken, and [`Error::BigEndianHost`] on big-endian hosts.
    pub fn parse(bytes: &[u8], object_size: u64) -> Result<Self> {
        check_host(LITTLE_ENDIAN_HOST)?;
        let Some(bytes) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(Error::ShortHeader { found: bytes.len() as u64 });
        };
        let mut fields = Fields(bytes);
        let magic = fields.take::<8>();
        if magic != MAGIC {
            return Err(Error::Magic { found: magic });
        }
        expect("version", fields.u32().into(), |v| v == u64::from(VERSION), "2")?;
        expect("flags", fields.u32().into(), |v| v == 0, "0: no flag is known")?;
        let header = Self {
            n_cells: fields.u64(),
            nnz: fields.u64(),
            n_genes: fields.u32(),
            n_chunks: fields.u32(),
            indptr_off: fields.u64(),
            total_size: fields.u64(),
            crc32: fields.u32(),
            reserved: fields.u32(),
        };
        header.check(object_size)?;
        Ok(header)
    }

    fn check(&self, object_size: u64) -> Result<()> {
        let size = self.total_size;
        expect("total_size", size, |v| v == object_size, &format_args!("the object's {object_size} bytes"))?;
        expect("n_genes", self.n_genes.into(), |v| (1..=u64::from(MAX_GENES)).contains(&v), "1 to 2^31")?;
        expect("nnz", self.nnz, |v| i64::try_from(v).is_ok(), "less than 2^63, as indptr is int64")?;
        let n_chunks = u64::from(self.n_chunks);
        if self.n_cells == 0 {
            expect("n_chunks", n_chunks, |v| v == 0, "0, as there are no cells")?;
        } else {
            expect("n_chunks", n_chunks, |v| v > 0, "at least 1, as there are cells")?;
        }
        // 2^32 entries of 96 bytes cannot overflow.
        let table_end = TABLE_OFF + n_chunks * CHUNK_ENTRY_LEN as u64;
        expect("n_chunks", n_chunks, |_| table_end <= size, &format_args!("a table within {size} bytes"))?;
        expect("indptr_off", self.indptr_off, |v| v % ALIGNMENT == 0, "a multiple of 8")?;
        expect(
            "indptr_off",
            self.indptr_off,
            |v| v >= table_end,
            &format_args!("at least {table_end}, the end of the chunk table"),
        )?;
        let indptr_end = indptr_bytes(self.n_cells).and_then(|len| len.checked_add(self.indptr_off));
        let fits = indptr_end.is_some_and(|end| end <= size);
        let room = size.saturating_sub(self.indptr_off);
        if self.indptr_off > size {
            return expect(
                "indptr_off",
                self.indptr_off,
                |_| false,
                &format_args!("at most {size}, total_size"),
            );
        }
        expect("n_cells", self.n_cells, |_| fits, &format_args!("an indptr that fits into {room} bytes"))
    }

    /// Where the chunk table lies in the tile.
    #[must_use]
    pub const fn table_range(&self) -> Range<u64> {
        TABLE_OFF..TABLE_OFF + self.n_chunks as u64 * CHUNK_ENTRY_LEN as u64
    }

    /// Where the indptr lies in the tile.
    #[must_use]
    pub const fn indptr_range(&self) -> Range<u64> {
        self.indptr_off..self.indptr_off.saturating_add((self.n_cells.saturating_add(1)).saturating_mul(8))
    }

    /// The 64 bytes of the header, magic and version included.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let mut bytes = Bytes::<HEADER_LEN>::new();
        bytes.put(&MAGIC);
        bytes.put(&VERSION.to_le_bytes());
        bytes.put(&0_u32.to_le_bytes());
        bytes.put(&self.n_cells.to_le_bytes());
        bytes.put(&self.nnz.to_le_bytes());
        bytes.put(&self.n_genes.to_le_bytes());
        bytes.put(&self.n_chunks.to_le_bytes());
        bytes.put(&self.indptr_off.to_le_bytes());
        bytes.put(&self.total_size.to_le_bytes());
        bytes.put(&self.crc32.to_le_bytes());
        bytes.put(&self.reserved.to_le_bytes());
        bytes.array
    }
}

/// Where a frame lies in the tile: `offset` and `len` in bytes. A length of 0 means that there is no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FrameSlot {
    /// Offset in the tile.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

impl FrameSlot {
    /// The bytes of the frame in the tile; empty at 0 for a frame that is not there.
    #[must_use]
    pub const fn range(&self) -> Range<u64> {
        if self.len == 0 { 0..0 } else { self.offset..self.offset.saturating_add(self.len) }
    }
}

/// One entry of the chunk table ("Chunk table entry" in the specification).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChunkEntry {
    /// First cell.
    pub cell_lo: u64,
    /// End of the cells.
    pub cell_hi: u64,
    /// First nonzero.
    pub nnz_lo: u64,
    /// End of the nonzeros.
    pub nnz_hi: u64,
    /// Frame of the gaps.
    pub gaps: FrameSlot,
    /// Frame of the counts.
    pub vals: FrameSlot,
    /// Frame of the counts above 65535, if any.
    pub vexc: FrameSlot,
    /// Frame of the gaps above 65535, if any.
    pub gexc: FrameSlot,
}

impl ChunkEntry {
    /// Reads an entry. Nothing is checked yet: the rules need the neighbours and the indptr.
    #[must_use]
    pub fn parse(bytes: &[u8; CHUNK_ENTRY_LEN]) -> Self {
        let mut fields = Fields(bytes);
        let slot = |fields: &mut Fields<'_>| FrameSlot { offset: fields.u64(), len: fields.u64() };
        Self {
            cell_lo: fields.u64(),
            cell_hi: fields.u64(),
            nnz_lo: fields.u64(),
            nnz_hi: fields.u64(),
            gaps: slot(&mut fields),
            vals: slot(&mut fields),
            vexc: slot(&mut fields),
            gexc: slot(&mut fields),
        }
    }

    /// The 96 bytes of the entry.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; CHUNK_ENTRY_LEN] {
        let mut bytes = Bytes::<CHUNK_ENTRY_LEN>::new();
        for field in [self.cell_lo, self.cell_hi, self.nnz_lo, self.nnz_hi] {
            bytes.put(&field.to_le_bytes());
        }
        for (_, slot) in self.slots() {
            bytes.put(&slot.offset.to_le_bytes());
            bytes.put(&slot.len.to_le_bytes());
        }
        bytes.array
    }

    /// The four slots in the order of the table.
    #[must_use]
    pub const fn slots(&self) -> [(Stream, FrameSlot); 4] {
        [
            (Stream::Gaps, self.gaps),
            (Stream::Vals, self.vals),
            (Stream::Vexc, self.vexc),
            (Stream::Gexc, self.gexc),
        ]
    }

    /// Nonzeros of the tile chunk. Of a checked entry: fewer than 2^32.
    #[must_use]
    pub const fn nnz(&self) -> u64 {
        self.nnz_hi.saturating_sub(self.nnz_lo)
    }

    /// Checks the entry's frames: there are gaps and vals, and all lie between the end of the table and that of the tile.
    pub(crate) fn check_slots(&self, chunk: usize, header: &Header) -> Result<()> {
        let low = header.table_range().end;
        let high = header.total_size;
        for (stream, slot) in self.slots() {
            let required = matches!(stream, Stream::Gaps | Stream::Vals);
            let fail = |field, found, expected| Err(Error::ChunkTable { chunk, field, found, expected });
            let (off_name, len_name) = match stream {
                Stream::Gaps => ("gaps_off", "gaps_len"),
                Stream::Vals => ("vals_off", "vals_len"),
                Stream::Vexc => ("vexc_off", "vexc_len"),
                Stream::Gexc => ("gexc_off", "gexc_len"),
            };
            if slot.len == 0 {
                if required {
                    return fail(len_name, 0, "at least 1: every tile chunk has this frame".into());
                }
                continue;
            }
            if slot.offset < low || slot.offset > high {
                return fail(off_name, slot.offset, format!("{low} to {high}"));
            }
            let room = high - slot.offset;
            if slot.len > room {
                return fail(
                    len_name,
                    slot.len,
                    format!("at most {room}, the bytes up to the end of the tile"),
                );
            }
        }
        Ok(())
    }
}

/// Bytes of the indptr of `n_cells` cells, unless that overflows.
pub(crate) fn indptr_bytes(n_cells: u64) -> Option<u64> {
    n_cells.checked_add(1)?.checked_mul(8)
}

/// `offset` rounded up to where a stream may start.
pub(crate) fn align(offset: u64) -> u64 {
    offset.next_multiple_of(ALIGNMENT)
}

fn expect(
    field: &'static str,
    found: u64,
    rule: impl FnOnce(u64) -> bool,
    expected: &(impl ToString + ?Sized),
) -> Result<()> {
    if rule(found) { Ok(()) } else { Err(Error::Header { field, found, expected: expected.to_string() }) }
}

/// Little-endian fields taken from the front of bytes whose length is known when compiling.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        match self.0.split_first_chunk::<N>() {
            Some((field, rest)) => {
                self.0 = rest;
                *field
            }
            // Unreachable: the callers' arrays hold exactly the fields that they take.
            None => [0; N],
        }
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}

/// The reverse of [`Fields`].
struct Bytes<const N: usize> {
    array: [u8; N],
    filled: usize,
}

impl<const N: usize> Bytes<N> {
    const fn new() -> Self {
        Self { array: [0; N], filled: 0 }
    }

    fn put(&mut self, field: &[u8]) {
        let end = self.filled + field.len();
        if let Some(slot) = self.array.get_mut(self.filled..end) {
            slot.copy_from_slice(field);
        }
        self.filled = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            n_cells: 3,
            nnz: 9,
            n_genes: 4,
            n_chunks: 1,
            indptr_off: 160,
            total_size: 300,
            crc32: 7,
            reserved: 0,
        }
    }

    #[test]
    fn test_header_comes_back() {
        assert_eq!(Header::parse(&header().to_bytes(), 300), Ok(header()));
        assert_eq!(header().table_range(), 64..160);
        assert_eq!(header().indptr_range(), 160..192);
    }

    #[test]
    fn test_entry_comes_back() {
        let entry = ChunkEntry {
            cell_lo: 1,
            cell_hi: 2,
            nnz_lo: 3,
            nnz_hi: 4,
            gaps: FrameSlot { offset: 5, len: 6 },
            vals: FrameSlot { offset: 7, len: 8 },
            vexc: FrameSlot { offset: 9, len: 10 },
            gexc: FrameSlot { offset: 11, len: 12 },
        };
        let bytes = entry.to_bytes();
        assert_eq!(ChunkEntry::parse(&bytes), entry);
        let words: Vec<u8> = bytes.iter().copied().step_by(8).collect();
        assert_eq!(words, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    }
}
