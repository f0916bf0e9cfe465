//! One stream, one zstd frame: what can be known of a frame before it is decompressed, and frames put together from blocks.
//!
//! A stream slot must hold exactly one zstd frame that states its content size. libzstd would also take several frames,
//! skippable frames and frames without a size, so the frame is walked first (RFC 8878, sections 3.1.1 and 3.1.1.2: the
//! frame header and the three-byte headers of the blocks). That costs a few nanoseconds a block and decompresses nothing.

use crate::error::{Error, FrameProblem, Result, Stream};

const FRAME_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Of a frame descriptor: the window is the content.
const SINGLE_SEGMENT: u8 = 0x20;
/// Types of blocks.
const RAW: u32 = 0;
const RUN: u32 = 1;
const COMPRESSED: u32 = 2;
/// No block holds more, whatever it states.
const MAX_BLOCK_LEN: usize = 128 << 10;
const MAX_BLOCK: u64 = MAX_BLOCK_LEN as u64;
/// Bytes of the optional checksum after the last block.
const CHECKSUM_LEN: usize = 4;

/// A frame header, taken apart.
struct Header<'f> {
    /// The content size that it states.
    size: u64,
    has_checksum: bool,
    /// What follows the header.
    rest: &'f [u8],
}

impl<'f> Header<'f> {
    fn parse(frame: &'f [u8]) -> Result<Self, FrameProblem> {
        let truncated = FrameProblem::Truncated { found: frame.len() as u64 };
        let Some(rest) = frame.strip_prefix(&FRAME_MAGIC) else {
            // A cut frame of fewer than four bytes may still begin like one.
            let cut = !frame.is_empty() && FRAME_MAGIC.starts_with(frame);
            return Err(if cut { truncated } else { FrameProblem::NotZstd });
        };
        let Some((&descriptor, rest)) = rest.split_first() else { return Err(truncated) };
        let single_segment = descriptor & SINGLE_SEGMENT != 0;
        let window_len = usize::from(!single_segment);
        let dictionary_len = [0, 1, 2, 4].get(usize::from(descriptor & 3)).copied().unwrap_or_default();
        let (size_len, size_base) = match (descriptor >> 6, single_segment) {
            (0, false) => return Err(FrameProblem::NoContentSize),
            (0, true) => (1, 0),
            (1, _) => (2, 256),
            (2, _) => (4, 0),
            _ => (8, 0),
        };
        let Some(size) = rest.get(window_len + dictionary_len..) else { return Err(truncated) };
        let Some((size, rest)) = size.split_at_checked(size_len) else { return Err(truncated) };
        let mut wide = [0; 8];
        wide.iter_mut().zip(size).for_each(|(to, from)| *to = *from);
        let size = u64::from_le_bytes(wide).saturating_add(size_base);
        Ok(Self { size, has_checksum: descriptor & 0x04 != 0, rest })
    }
}

/// A block of a frame (RFC 8878, section 3.1.1.2).
struct Block<'f> {
    is_last: bool,
    kind: u32,
    /// The size in its header: of what is stored, or of a run.
    size: u32,
    stored: &'f [u8],
}

impl<'f> Block<'f> {
    /// The block at the start of some bytes, and what follows it.
    fn split_off(bytes: &'f [u8]) -> Option<(Self, &'f [u8])> {
        let (&[a, b, c], rest) = bytes.split_first_chunk::<3>()?;
        let header = u32::from_le_bytes([a, b, c, 0]);
        let (kind, size) = ((header >> 1) & 3, header >> 3);
        let stored = if kind == RUN { 1 } else { size };
        let (stored, rest) = rest.split_at_checked(usize::try_from(stored).ok()?)?;
        Some((Self { is_last: header & 1 == 1, kind, size, stored }, rest))
    }

    /// The most that the block can hold.
    fn holds(&self) -> u64 {
        match self.kind {
            RAW | RUN => u64::from(self.size).min(MAX_BLOCK),
            // A compressed block. The reserved type is left to libzstd to refuse.
            _ => MAX_BLOCK,
        }
    }
}

/// Checks that `frame` is exactly one zstd frame, and returns the content size that it states. Never more than its
/// blocks can hold, which is 32 Ki times the length of the frame.
pub(crate) fn content_size(frame: &[u8]) -> Result<u64, FrameProblem> {
    let found = frame.len() as u64;
    let truncated = FrameProblem::Truncated { found };
    let Header { size, has_checksum, rest: mut blocks } = Header::parse(frame)?;
    let mut most: u64 = 0;
    loop {
        let Some((block, rest)) = Block::split_off(blocks) else { return Err(truncated) };
        most = most.saturating_add(block.holds());
        blocks = rest;
        if block.is_last {
            break;
        }
    }
    let checksum_len = if has_checksum { CHECKSUM_LEN } else { 0 };
    let Some(after) = blocks.get(checksum_len..) else { return Err(truncated) };
    if !after.is_empty() {
        return Err(FrameProblem::TrailingBytes { frame: found - after.len() as u64, found });
    }
    if size > most {
        return Err(FrameProblem::Bomb { found: size, most });
    }
    Ok(size)
}

/// A frame put together from blocks.
///
/// Blocks of other frames can be taken over as long as nothing before them changed what they start from: the offsets of
/// recent matches, which only sequences change. (Entropy tables of earlier blocks are never used by a frame's first.)
#[derive(Debug)]
pub(crate) struct FrameBuilder {
    bytes: Vec<u8>,
    /// Where the last block begins.
    last: Option<usize>,
}

impl FrameBuilder {
    /// A frame that states its content size and has neither checksum nor dictionary.
    pub(crate) fn new(content_size: usize) -> Self {
        let size = content_size as u64;
        let (code, size, len): (u8, u64, usize) = match size {
            0..256 => (0, size, 1),
            256..65_792 => (1, size - 256, 2),
            65_792..0x1_0000_0000 => (2, size, 4),
            _ => (3, size, 8),
        };
        let mut bytes = FRAME_MAGIC.to_vec();
        bytes.push(code << 6 | SINGLE_SEGMENT);
        bytes.extend(size.to_le_bytes().iter().take(len));
        Self { bytes, last: None }
    }

    fn push(&mut self, kind: u32, size: usize, stored: &[u8]) {
        self.last = Some(self.bytes.len());
        // No block is as large as 2^21.
        let header = u32::try_from(size).unwrap_or(u32::MAX) << 3 | kind << 1;
        self.bytes.extend(header.to_le_bytes().iter().take(3));
        self.bytes.extend_from_slice(stored);
    }

    /// Content as it is.
    pub(crate) fn raw(&mut self, content: &[u8]) {
        for part in content.chunks(MAX_BLOCK_LEN) {
            self.push(RAW, part.len(), part);
        }
    }

    /// Content that is a byte again and again.
    pub(crate) fn run(&mut self, byte: u8, mut len: usize) {
        while len > 0 {
            let part = len.min(MAX_BLOCK_LEN);
            self.push(RUN, part, &[byte]);
            len -= part;
        }
    }

    /// The blocks of a frame without a checksum that was just compressed. Returns whether they were taken whole.
    #[must_use]
    pub(crate) fn take(&mut self, frame: &[u8]) -> bool {
        self.take_if(frame, |_| true)
    }

    /// As [`take`](Self::take), for a frame whose blocks have no sequences, so that others may follow it.
    #[must_use]
    pub(crate) fn take_literals(&mut self, frame: &[u8]) -> bool {
        // A block without sequences ends with their number, 0. One with sequences ends with a bitstream, whose last byte
        // holds a 1 (section 4.1).
        self.take_if(frame, |block| block.kind != COMPRESSED || block.stored.last() == Some(&0))
    }

    fn take_if(&mut self, frame: &[u8], may: impl Fn(&Block<'_>) -> bool) -> bool {
        let Ok(Header { has_checksum: false, rest: mut blocks, .. }) = Header::parse(frame) else {
            return false;
        };
        while let Some((block, rest)) = Block::split_off(blocks) {
            if !may(&block) {
                return false;
            }
            self.push(block.kind, usize::try_from(block.size).unwrap_or(usize::MAX), block.stored);
            if block.is_last {
                return rest.is_empty();
            }
            blocks = rest;
        }
        false
    }

    /// The frame's bytes.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        if let Some(header) = self.last.and_then(|at| self.bytes.get_mut(at)) {
            *header |= 1;
        }
        self.bytes
    }
}

/// Checks that the frame of a stream of values states `2 * nnz` bytes.
pub(crate) fn check_planes(chunk: usize, stream: Stream, frame: &[u8], nnz: u64) -> Result<()> {
    let problem = match content_size(frame) {
        Ok(found) if found == nnz.saturating_mul(2) => return Ok(()),
        Ok(found) => FrameProblem::ContentSize { found, expected: nnz.saturating_mul(2) },
        Err(problem) => problem,
    };
    Err(Error::Frame { chunk, stream, problem })
}

/// Checks that an exception frame states 8 bytes for each of 1 to `nnz` exceptions, and returns their number.
pub(crate) fn check_exceptions(chunk: usize, stream: Stream, frame: &[u8], nnz: u64) -> Result<u64> {
    let problem = match content_size(frame) {
        Ok(found) if found % 8 == 0 && (1..=nnz).contains(&(found / 8)) => return Ok(found / 8),
        Ok(found) => FrameProblem::ExceptionSize { found, nonzeros: nnz },
        Err(problem) => problem,
    };
    Err(Error::Frame { chunk, stream, problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(content: &[u8], level: i32) -> Vec<u8> {
        let mut out = Vec::with_capacity(zstd_safe::compress_bound(content.len()));
        zstd_safe::compress(&mut out, content, level).unwrap();
        out
    }

    #[test]
    fn test_content_size_is_that_of_libzstd_at_every_size() {
        let noise: Vec<u8> =
            (0..1_000_000_u32).map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
        for size in (0..600).chain([65_535, 65_536, 65_791, 65_792, 131_072, 131_073, 1_000_000]) {
            for content in [&noise[..size], &vec![7; size][..]] {
                let frame = frame(content, 3);
                assert_eq!(content_size(&frame), Ok(size as u64));
                for cut in 0..frame.len().min(200) {
                    assert!(content_size(&frame[..cut]).is_err());
                }
                let longer = [&frame[..], &frame[..]].concat();
                let len = frame.len() as u64;
                let trailing = FrameProblem::TrailingBytes { frame: len, found: 2 * len };
                assert_eq!(content_size(&longer), Err(trailing));
            }
        }
    }

    fn inflate(frame: &[u8], len: usize) -> Vec<u8> {
        let mut content = vec![0; len];
        assert_eq!(zstd_safe::decompress(&mut content[..], frame), Ok(len));
        content
    }

    #[test]
    fn test_a_frame_of_blocks_is_a_frame_at_every_size() {
        let noise: Vec<u8> =
            (0..400_000_u32).map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
        for size in (0..600).chain([65_535, 65_536, 65_791, 65_792, 131_072, 131_073, 400_000]) {
            let noise = &noise[..size];
            let run_len = size / 3;
            let mut builder = FrameBuilder::new(noise.len() + run_len + noise.len());
            builder.raw(noise);
            builder.run(7, run_len);
            assert!(builder.take(&frame(noise, 3)));
            let built = builder.finish();
            let content = [noise, &vec![7; run_len], noise].concat();
            assert_eq!(content_size(&built), Ok(content.len() as u64));
            assert!(inflate(&built, content.len()) == content, "{size}");
        }
    }

    #[test]
    fn test_only_frames_without_sequences_are_taken_for_literals() {
        let skewed: Vec<u8> =
            (0..3000_u32).map(|i| i.wrapping_mul(2_654_435_761).leading_zeros().to_le_bytes()[0]).collect();
        let mut zstd = zstd_safe::CCtx::create();
        crate::preset::apply_literals_only(&mut zstd).unwrap();
        let mut literals = Vec::with_capacity(4000);
        zstd.compress2(&mut literals, &skewed).unwrap();
        assert!(literals.len() < skewed.len());
        assert!(FrameBuilder::new(skewed.len()).take_literals(&literals));
        let repeated = [&skewed[..], &skewed[..]].concat();
        assert!(!FrameBuilder::new(repeated.len()).take_literals(&frame(&repeated, 3)));
    }

    #[test]
    fn test_content_size_refuses_a_bomb() {
        // A single-segment frame that states 2^40 bytes and has one RLE block of 5.
        let mut bomb = FRAME_MAGIC.to_vec();
        bomb.push(0xe0);
        bomb.extend((1_u64 << 40).to_le_bytes());
        bomb.extend([5 << 3 | 0b011, 0, 0, 9]);
        assert_eq!(content_size(&bomb), Err(FrameProblem::Bomb { found: 1 << 40, most: 5 }));
    }

    #[test]
    fn test_content_size_refuses_skippable_frames() {
        assert_eq!(content_size(&[0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0]), Err(FrameProblem::NotZstd));
        assert_eq!(content_size(&[]), Err(FrameProblem::NotZstd));
    }
}
