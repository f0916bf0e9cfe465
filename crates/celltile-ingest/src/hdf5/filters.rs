//! Undoing the filters of a chunk. Every length is checked before memory is taken for it.

mod bits;
mod blosc;
mod checksum;
mod lzf;
mod shuffle;

use hdf5_reader::messages::filter_pipeline::FilterDescription;

const DEFLATE: u16 = 1;
const SHUFFLE: u16 = 2;
const FLETCHER32: u16 = 3;
const LZF: u16 = 32000;
const BLOSC: u16 = 32001;
const LZ4: u16 = 32004;
const BITSHUFFLE: u16 = 32008;
const ZSTD: u16 = 32015;

/// Deflate cannot shrink by more than this.
const DEFLATE_MAX_RATIO: usize = 1032;

/// Why a chunk's filters could not be undone.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) what: String,
    /// Not damaged, but of a kind that is not read.
    pub(crate) unsupported: bool,
}

impl Fault {
    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        Self { what: what.into(), unsupported: false }
    }

    pub(crate) fn unsupported(what: impl Into<String>) -> Self {
        Self { what: what.into(), unsupported: true }
    }
}

/// Decompression contexts and buffers of one thread, reused from chunk to chunk.
#[derive(Default)]
pub struct Inflater {
    deflate: Option<libdeflater::Decompressor>,
    zstd: Option<zstd_safe::DCtx<'static>>,
    stored: Vec<u8>,
    spare: Vec<u8>,
}

impl std::fmt::Debug for Inflater {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inflater").finish_non_exhaustive()
    }
}

impl Inflater {
    pub(crate) fn take_stored(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.stored)
    }

    pub(crate) fn give_stored(&mut self, stored: Vec<u8>) {
        self.stored = stored;
    }

    /// Undoes `filters`, last one first, on `stored`, into `out` of exactly `bytes` bytes.
    pub(crate) fn undo(
        &mut self,
        filters: &[FilterDescription],
        mask: u32,
        stored: &mut Vec<u8>,
        bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let applied = |at: usize| at >= 32 || mask & (1 << at) == 0;
        // A checksum below a compressor is part of what the compressor saw.
        let mut extra =
            4 * filters.iter().enumerate().filter(|(at, f)| applied(*at) && f.id == FLETCHER32).count();
        for (at, filter) in filters.iter().enumerate().rev() {
            if !applied(at) {
                continue;
            }
            if filter.id == FLETCHER32 {
                extra = extra.saturating_sub(4);
            }
            self.undo_one(filter, stored, bytes + extra, out)?;
            std::mem::swap(stored, out);
        }
        std::mem::swap(stored, out);
        if out.len() != bytes {
            return Err(Fault::damaged(format!("inflates to {} bytes; expected {bytes}", out.len())));
        }
        Ok(())
    }

    /// Undoes one filter: from `data` into `out`, of at most `bytes` bytes.
    fn undo_one(
        &mut self,
        filter: &FilterDescription,
        data: &[u8],
        bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        match filter.id {
            DEFLATE => self.deflate(data, bytes, out),
            SHUFFLE => {
                let size = filter.client_data.first().map_or(1, |&size| size as usize);
                shuffle::undo(data, size, out)
            }
            FLETCHER32 => checksum::undo(data, out),
            LZF => lzf::undo(data, bytes, out),
            BLOSC => self.blosc(data, bytes, out),
            LZ4 => lz4_blocks(data, bytes, out),
            BITSHUFFLE => self.bitshuffle(filter, data, bytes, out),
            ZSTD => self.zstd(data, bytes, out),
            other => Err(Fault::unsupported(format!(
                "filter {other}{} is not read; rewrite the file with gzip",
                filter.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default()
            ))),
        }
    }

    fn deflate(&mut self, data: &[u8], bytes: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
        if bytes / DEFLATE_MAX_RATIO > data.len() {
            return Err(Fault::damaged(format!("{} deflated bytes cannot hold {bytes}", data.len())));
        }
        out.resize(bytes, 0);
        let context = self.deflate.get_or_insert_with(libdeflater::Decompressor::new);
        let len = context
            .zlib_decompress(data, out)
            .map_err(|error| Fault::damaged(format!("does not inflate ({error})")))?;
        out.truncate(len);
        Ok(())
    }

    /// Inflates without the zlib ratio rule having been checked; for streams inside other containers.
    pub(super) fn zlib_into(&mut self, data: &[u8], out: &mut [u8]) -> Result<usize, Fault> {
        let context = self.deflate.get_or_insert_with(libdeflater::Decompressor::new);
        context
            .zlib_decompress(data, out)
            .map_err(|error| Fault::damaged(format!("does not inflate ({error})")))
    }

    pub(super) fn zstd_into(&mut self, data: &[u8], out: &mut [u8]) -> Result<usize, Fault> {
        let context = self.zstd.get_or_insert_with(zstd_safe::DCtx::create);
        context
            .decompress(out, data)
            .map_err(|code| Fault::damaged(format!("does not inflate ({})", zstd_safe::get_error_name(code))))
    }

    fn zstd(&mut self, data: &[u8], bytes: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
        out.resize(bytes, 0);
        let len = self.zstd_into(data, out)?;
        out.truncate(len);
        Ok(())
    }

    fn blosc(&mut self, data: &[u8], bytes: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
        let mut spare = std::mem::take(&mut self.spare);
        let result = blosc::undo(self, data, bytes, &mut spare, out);
        self.spare = spare;
        result
    }

    fn bitshuffle(
        &mut self,
        filter: &FilterDescription,
        data: &[u8],
        bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let mut spare = std::mem::take(&mut self.spare);
        let result = bits::undo_filter(self, &filter.client_data, data, bytes, &mut spare, out);
        self.spare = spare;
        result
    }
}

pub(super) fn lz4_into(data: &[u8], out: &mut [u8]) -> Result<usize, Fault> {
    lz4_flex::block::decompress_into(data, out)
        .map_err(|error| Fault::damaged(format!("does not inflate ({error})")))
}

/// A big-endian length at the front of `data`, and what follows it.
pub(super) fn split_length<const N: usize>(data: &[u8]) -> Result<(usize, &[u8]), Fault> {
    let short = || Fault::damaged("compressed data end inside a length");
    let (length, rest) = data.split_first_chunk::<N>().ok_or_else(short)?;
    let length = length.iter().fold(0_u64, |value, &byte| (value << 8) | u64::from(byte));
    Ok((usize::try_from(length).map_err(|_| Fault::damaged("a length past memory"))?, rest))
}

/// The LZ4 filter: total size, block size, then blocks with their own sizes, all big-endian.
fn lz4_blocks(data: &[u8], bytes: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
    let (total, rest) = split_length::<8>(data)?;
    let (block, mut rest) = split_length::<4>(rest)?;
    if total > bytes || block == 0 {
        return Err(Fault::damaged(format!(
            "declares {total} bytes in blocks of {block}; expected {bytes} in all"
        )));
    }
    out.resize(total, 0);
    for part in out.chunks_mut(block) {
        let (len, after) = split_length::<4>(rest)?;
        let (stored, after) = after
            .split_at_checked(len)
            .ok_or_else(|| Fault::damaged("compressed data end inside a block"))?;
        rest = after;
        if len == part.len() {
            part.copy_from_slice(stored);
        } else if lz4_into(stored, part)? != part.len() {
            return Err(Fault::damaged("a block shorter than declared"));
        }
    }
    Ok(())
}
