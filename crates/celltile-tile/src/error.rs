//! What can be wrong with a tile, or with what is to become one.

use std::fmt;

/// The result of everything fallible in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One of the four frames that a tile chunk may have ("Streams" and "Exceptions" in the specification).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Distances between the genes of each cell.
    Gaps,
    /// Counts.
    Vals,
    /// Counts above 65535.
    Vexc,
    /// Gaps above 65535.
    Gexc,
}

impl Stream {
    /// The stream's name in the specification.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gaps => "gaps",
            Self::Vals => "vals",
            Self::Vexc => "vexc",
            Self::Gexc => "gexc",
        }
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is wrong with the zstd frame of a stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameProblem {
    /// The bytes do not begin with the magic number of a zstd frame (a skippable frame does not either).
    #[error("it does not begin with a zstd frame")]
    NotZstd,
    /// The frame header does not state the size of the content.
    #[error("it does not state its content size")]
    NoContentSize,
    /// The frame ends after the bytes that the chunk table gives it.
    #[error("it is cut off: {found} bytes are too few")]
    Truncated {
        /// Bytes that the chunk table gives the stream.
        found: u64,
    },
    /// The frame ends before the bytes that the chunk table gives it.
    #[error("it ends after {frame} bytes, but the chunk table says {found}")]
    TrailingBytes {
        /// Bytes of the first frame.
        frame: u64,
        /// Bytes that the chunk table gives the stream.
        found: u64,
    },
    /// The content size is not twice the number of nonzeros.
    #[error("it states a content of {found} bytes, expected {expected}")]
    ContentSize {
        /// Stated size in bytes.
        found: u64,
        /// Twice the number of nonzeros of the tile chunk.
        expected: u64,
    },
    /// The content size of an exception frame is not a multiple of 8, is 0, or holds more exceptions than nonzeros.
    #[error(
        "it states a content of {found} bytes, expected 8 for each exception, with 1 to {nonzeros} exceptions"
    )]
    ExceptionSize {
        /// Stated size in bytes.
        found: u64,
        /// Nonzeros of the tile chunk.
        nonzeros: u64,
    },
    /// The frame's blocks cannot hold as much as its header states.
    #[error("it states a content of {found} bytes, but its blocks hold at most {most}")]
    Bomb {
        /// Stated size in bytes.
        found: u64,
        /// Upper bound by the number and kind of blocks.
        most: u64,
    },
    /// libzstd could not decompress it.
    #[error("libzstd: {0}")]
    Zstd(&'static str),
}

/// What is wrong with a tile, with the matrix that is to become one, or with a call.
///
/// Cells are numbered within the tile, chunks are tile chunks, positions are nonzeros within a tile chunk.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The format is little-endian, and readers and writers on other hosts must refuse.
    #[error("the format is little-endian: this big-endian host can neither read nor write tiles")]
    BigEndianHost,

    // ---- header, chunk table, indptr ----
    /// The object is too short to have a header.
    #[error("the tile has {found} bytes, its header alone needs 64")]
    ShortHeader {
        /// Bytes there are.
        found: u64,
    },
    /// Not a tile at all.
    #[error("bytes 0..8 are {found:02x?}, expected the magic \"DELTACEL\"")]
    Magic {
        /// The first eight bytes.
        found: [u8; 8],
    },
    /// A field of the header breaks a rule.
    #[error("header field {field} is {found}, expected {expected}")]
    Header {
        /// Name in the specification.
        field: &'static str,
        /// Its value.
        found: u64,
        /// What the rule asks for.
        expected: String,
    },
    /// A field of a chunk table entry breaks a rule.
    #[error("tile chunk {chunk}: {field} is {found}, expected {expected}")]
    ChunkTable {
        /// Tile chunk.
        chunk: usize,
        /// Name in the specification.
        field: &'static str,
        /// Its value.
        found: u64,
        /// What the rule asks for.
        expected: String,
    },
    /// An entry of indptr breaks a rule.
    #[error("indptr[{index}] is {found}, expected {expected}")]
    Indptr {
        /// Index into indptr.
        index: usize,
        /// Its value.
        found: i64,
        /// What the rule asks for.
        expected: String,
    },
    /// The CRC-32 of the bytes after the header is not the one in the header.
    #[error("crc32 of bytes 64.. is {computed:08x}, the header says {stated:08x}")]
    Crc {
        /// In the header.
        stated: u32,
        /// Of the bytes.
        computed: u32,
    },

    // ---- streams ----
    /// A stream's frame cannot be used.
    #[error("tile chunk {chunk}: the {stream} frame is damaged: {problem}")]
    Frame {
        /// Tile chunk.
        chunk: usize,
        /// Which stream.
        stream: Stream,
        /// What is wrong.
        problem: FrameProblem,
    },
    /// A gene index is not below the number of genes.
    #[error("tile chunk {chunk}, cell {cell}: gene index {gene}, expected less than {n_genes}")]
    Gene {
        /// Tile chunk.
        chunk: usize,
        /// Cell within the tile.
        cell: usize,
        /// The gene index.
        gene: u64,
        /// Number of genes.
        n_genes: u64,
    },
    /// Positions of exceptions must be below the number of nonzeros and strictly increasing.
    #[error("tile chunk {chunk}: exception {entry} of {stream} has position {found}, expected {expected}")]
    ExceptionPosition {
        /// Tile chunk.
        chunk: usize,
        /// Which exceptions.
        stream: Stream,
        /// Index of the exception within its frame.
        entry: usize,
        /// Its position.
        found: u32,
        /// What the rule asks for.
        expected: String,
    },
    /// The payload of an exception is out of range.
    #[error(
        "tile chunk {chunk}: exception {entry} of {stream} has payload {found}, expected {low} to {high}"
    )]
    ExceptionPayload {
        /// Tile chunk.
        chunk: usize,
        /// Which exceptions.
        stream: Stream,
        /// Index of the exception within its frame.
        entry: usize,
        /// Its payload.
        found: u32,
        /// Smallest legal payload.
        low: u32,
        /// Largest legal payload.
        high: u32,
    },
    /// A count is above 2^24, which float32 cannot hold exactly, and rounding was not allowed.
    #[error("cell {cell}: count {count} is above 2^24, float32 would round it")]
    InexactCount {
        /// Cell within the tile.
        cell: usize,
        /// The count.
        count: u32,
    },

    // ---- rules that only strict verification checks ----
    /// The reserved field of the header is not 0.
    #[error("the header's reserved field is {found}, expected 0")]
    Reserved {
        /// Its value.
        found: u32,
    },
    /// A stream does not start on an 8-byte boundary.
    #[error("tile chunk {chunk}: the {stream} frame starts at {offset}, expected a multiple of 8")]
    Unaligned {
        /// Tile chunk.
        chunk: usize,
        /// Which stream.
        stream: Stream,
        /// Offset in the tile.
        offset: u64,
    },
    /// A count of zero is stored.
    #[error("tile chunk {chunk}, cell {cell}: gene {gene} has a stored zero")]
    StoredZero {
        /// Tile chunk.
        chunk: usize,
        /// Cell within the tile.
        cell: usize,
        /// Gene.
        gene: i32,
    },
    /// A gene stands twice in a cell.
    #[error("tile chunk {chunk}, cell {cell}: gene {gene} is there twice")]
    RepeatedGene {
        /// Tile chunk.
        chunk: usize,
        /// Cell within the tile.
        cell: usize,
        /// Gene.
        gene: i32,
    },
    /// The stored value under an exception is not 65535.
    #[error(
        "tile chunk {chunk}, position {position}: the value under a {stream} exception is {found}, expected 65535"
    )]
    ExceptionSlot {
        /// Tile chunk.
        chunk: usize,
        /// Which exceptions.
        stream: Stream,
        /// Position of the exception.
        position: u32,
        /// The stored value.
        found: u16,
    },

    // ---- what is to be encoded ----
    /// Arrays whose lengths do not make a CSR matrix.
    #[error("not a CSR matrix: {0}")]
    NotCsr(String),
    /// The genes of a cell must be strictly increasing.
    #[error("cell {cell}: gene {gene} comes after gene {previous}, expected strictly increasing genes")]
    InputOrder {
        /// Cell within the matrix to be encoded.
        cell: usize,
        /// The gene before.
        previous: i32,
        /// The gene.
        gene: i32,
    },
    /// A gene index to be encoded is negative or not below the number of genes.
    #[error("cell {cell}: gene index {gene}, expected 0 to {}", .n_genes - 1)]
    InputGene {
        /// Cell within the matrix to be encoded.
        cell: usize,
        /// The gene.
        gene: i32,
        /// Number of genes.
        n_genes: u32,
    },
    /// Counts to be encoded are 1 to 2^31 - 1.
    #[error("cell {cell}, gene {gene}: count {count}, expected 1 to 2147483647")]
    InputCount {
        /// Cell within the matrix to be encoded.
        cell: usize,
        /// The gene.
        gene: i32,
        /// The count.
        count: i32,
    },
    /// Exceptions are for the rare value: the writer refuses a tile that is full of them.
    #[error(
        "{found} of {nnz} {} are above 65535 ({stream} exceptions), expected at most {allowed}{}",
        if *stream == Stream::Gexc { "gaps between genes" } else { "counts" },
        if *stream == Stream::Gexc { "" } else { ": are these raw counts?" }
    )]
    TooManyExceptions {
        /// Which exceptions.
        stream: Stream,
        /// Exceptions in the tile.
        found: u64,
        /// Nonzeros in the tile.
        nnz: u64,
        /// How many a writer allows.
        allowed: u64,
    },
    /// A chunk of 2^32 nonzeros or more, or a tile that 64-bit offsets or this host cannot address.
    #[error("{what} of {found} is too large, expected at most {most}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size.
        found: u64,
        /// Largest legal size.
        most: u64,
    },
    /// A number that makes no sense as an option.
    #[error("option {option}: {found}, expected {expected}")]
    Option {
        /// The option.
        option: &'static str,
        /// Its value.
        found: String,
        /// What it may be.
        expected: &'static str,
    },

    // ---- calls ----
    /// A buffer does not have the length that the tile needs.
    #[error("the {what} buffer has {found} elements, expected {expected}")]
    Buffer {
        /// Which buffer.
        what: &'static str,
        /// Its length.
        found: usize,
        /// The length it must have.
        expected: usize,
    },
    /// Cells that the tile (or the tile chunk) does not have.
    #[error("cells {start}..{end} were asked for, there are cells {low}..{high}")]
    Cells {
        /// First cell asked for.
        start: usize,
        /// End of the cells asked for.
        end: usize,
        /// First cell there is.
        low: usize,
        /// End of the cells there are.
        high: usize,
    },
    /// A tile chunk that the tile does not have.
    #[error("tile chunk {chunk} was asked for, there are {n_chunks}")]
    NoSuchChunk {
        /// Tile chunk.
        chunk: usize,
        /// Tile chunks there are.
        n_chunks: usize,
    },
    /// The bytes handed over do not hold what is needed of the tile.
    #[error("bytes {start}..{end} of the tile are needed, those handed over are {low}..{high}")]
    NotInBytes {
        /// First byte needed.
        start: u64,
        /// End of the bytes needed.
        end: u64,
        /// First byte handed over.
        low: u64,
        /// End of the bytes handed over.
        high: u64,
    },
    /// Memory for what the tile declares could not be had.
    #[error("{bytes} bytes of memory could not be had")]
    OutOfMemory {
        /// How much was needed.
        bytes: u64,
    },
    /// libzstd could not set up or compress. Not a property of the data.
    #[error("libzstd: {0}")]
    Zstd(&'static str),
}

/// A `u64` as `usize`, or an error that names it: for lengths on 32-bit hosts.
pub(crate) fn to_usize(what: &'static str, value: u64) -> Result<usize> {
    usize::try_from(value).map_err(|_| Error::TooLarge { what, found: value, most: usize::MAX as u64 })
}

/// Refuses on hosts whose byte order is not the format's. `little_endian` is a parameter so that both sides are tested.
pub(crate) fn check_host(little_endian: bool) -> Result<()> {
    if little_endian { Ok(()) } else { Err(Error::BigEndianHost) }
}

/// Whether this host has the byte order of the format.
pub(crate) const LITTLE_ENDIAN_HOST: bool = cfg!(target_endian = "little");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_check_host_refuses_big_endian_only() {
        assert_eq!(check_host(true), Ok(()));
        assert_eq!(check_host(false), Err(Error::BigEndianHost));
    }
}
