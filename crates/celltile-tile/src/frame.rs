//! One stream, one zstd frame: what can be known of a frame before it is decompressed.
//!
//! A stream slot must hold exactly one zstd frame that states its content size. libzstd would also take several frames,
//! skippable frames and frames without a size, so the frame is walked first (RFC 8878, sections 3.1.1 and 3.1.1.2: the
//! frame header and the three-byte headers of the blocks). That costs a few nanoseconds a block and decompresses nothing.

use crate::error::{Error, FrameProblem, Result, Stream};

const FRAME_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// No block holds more, whatever it states.
const MAX_BLOCK: u64 = 128 << 10;
/// Bytes of the optional checksum after the last block.
const CHECKSUM_LEN: usize = 4;

/// Checks that `frame` is exactly one zstd frame, and returns the content size that it states. Never more than its
/// blocks can hold, which is 32 Ki times the length of the frame.
pub(crate) fn content_size(frame: &[u8]) -> Result<u64, FrameProblem> {
    let found = frame.len() as u64;
    let truncated = FrameProblem::Truncated { found };
    let Some(rest) = frame.strip_prefix(&FRAME_MAGIC) else {
        // A cut frame of fewer than four bytes may still begin like one.
        let cut = !frame.is_empty() && FRAME_MAGIC.starts_with(frame);
        return Err(if cut { truncated } else { FrameProblem::NotZstd });
    };
    let Some((&descriptor, rest)) = rest.split_first() else { return Err(truncated) };
    let single_segment = descriptor & 0x20 != 0;
    let has_checksum = descriptor & 0x04 != 0;
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
    let Some((size, mut blocks)) = size.split_at_checked(size_len) else { return Err(truncated) };
    let mut wide = [0; 8];
    wide.iter_mut().zip(size).for_each(|(to, from)| *to = *from);
    let size = u64::from_le_bytes(wide).saturating_add(size_base);

    let mut most: u64 = 0;
    loop {
        let Some((&[a, b, c], rest)) = blocks.split_first_chunk::<3>() else { return Err(truncated) };
        let header = u32::from_le_bytes([a, b, c, 0]);
        let stated = u64::from(header >> 3);
        let (stored, holds) = match (header >> 1) & 3 {
            0 => (stated, stated),
            1 => (1, stated),
            // A compressed block. The reserved type is left to libzstd to refuse.
            _ => (stated, MAX_BLOCK),
        };
        most = most.saturating_add(holds.min(MAX_BLOCK));
        let stored = usize::try_from(stored).unwrap_or(usize::MAX);
        let Some(rest) = rest.get(stored..) else { return Err(truncated) };
        blocks = rest;
        if header & 1 == 1 {
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
