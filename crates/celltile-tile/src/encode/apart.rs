//! The planes of a stream as blocks of their own: low bytes by entropy coding alone, high bytes as runs.
//!
//! Matches among low bytes save little and take as long to execute as all of the entropy decoding. Without them, and with a
//! code table that need not also cover the zeros of the high plane, libzstd inflates a stream in nearly half the time, and it is
//! hardly larger (`docs/decisions/training-preset.md`). What comes out is one ordinary frame.

use zstd_safe::CCtx;

use crate::error::{Result, Stream};
use crate::frame::FrameBuilder;
use crate::preset::{Compression, apply_literals_only};

/// What is done with the low bytes of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LowBytes {
    /// Each is replaced by its code.
    Coded,
    /// They stay as they are: nothing is faster to read.
    Stored,
}

/// The frame of a stream, or `None` where libzstd did not do as it was told and the planes must stay together.
pub(super) fn compress_apart(
    zstd: &mut CCtx<'static>,
    (compression, stream): (Compression, Stream),
    planes: &[u8],
    low_bytes: LowBytes,
    buffer: &mut Vec<u8>,
) -> Result<Option<Vec<u8>>> {
    let (low, high) = planes.split_at(planes.len() / 2);
    let mut frame = FrameBuilder::new(planes.len());
    match low_bytes {
        LowBytes::Stored => frame.raw(low),
        LowBytes::Coded => {
            apply_literals_only(zstd)?;
            super::chunk::compress(zstd, low, buffer)?;
            if !frame.take_literals(buffer) {
                return Ok(None);
            }
        }
    }
    if high.iter().all(|&byte| byte == 0) {
        frame.run(0, high.len());
    } else {
        compression.apply(stream, zstd)?;
        super::chunk::compress(zstd, high, buffer)?;
        if !frame.take(buffer) {
            return Ok(None);
        }
    }
    Ok(Some(frame.finish()))
}
