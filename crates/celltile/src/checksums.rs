//! `tile_checksums.bin`: a CRC-32 of each part of each tile, so that partial reads can be checked.
//!
//! The format's own CRC covers a whole tile. This file, an addition that readers need not know
//! (`docs/decisions/tile-checksums.md`), holds one of each tile's head (header, chunk table and indptr) and one of
//! each tile chunk's frames. All integers are little-endian:
//!
//! ```text
//! offset 0             magic       "DCTCRC32"
//! offset 8             version     u32, 1
//! offset 12            reserved    u32, 0
//! offset 16            n_tiles     u64
//! offset 24            n_chunks    u32 a tile
//! offset 24 + 4 * t    records     a tile: head CRC u32, then a CRC u32 a tile chunk
//! ```
//!
//! The manifest holds the file's size and SHA-256. A small file is read whole and compared with that; of a large one
//! only the index and the records of the tiles in use are read, which is as safe: a damaged record makes sound bytes
//! look damaged, never damaged bytes sound.

use std::ops::Range;

use crate::digest::Sha256;
use crate::error::{Error, Result};
use crate::keys;
use crate::manifest::FileRecord;
use crate::storage::Storage;

const MAGIC: &[u8; 8] = b"DCTCRC32";
const VERSION: u32 = 1;
const HEADER_LEN: usize = 24;
/// A file up to this size is read whole.
const WHOLE: u64 = 4 << 20;

/// The checksums of one tile's parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TileChecksums {
    /// CRC-32 of header, chunk table and indptr.
    pub head: u32,
    /// CRC-32 of each tile chunk's frames: gaps, vals, vexc, gexc, without padding.
    pub chunks: Vec<u32>,
}

/// The content of the file.
#[must_use]
pub fn to_bytes(tiles: &[TileChecksums]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(0_u32.to_le_bytes());
    bytes.extend(u64::try_from(tiles.len()).unwrap_or(u64::MAX).to_le_bytes());
    // A tile has fewer than 2^32 chunks: its header says how many in 32 bits.
    bytes.extend(tiles.iter().flat_map(|t| u32::try_from(t.chunks.len()).unwrap_or(u32::MAX).to_le_bytes()));
    for tile in tiles {
        bytes.extend(tile.head.to_le_bytes());
        bytes.extend(tile.chunks.iter().flat_map(|crc| crc.to_le_bytes()));
    }
    bytes
}

/// The file, opened: its index in memory, and its records too if it is small.
#[derive(Debug)]
pub struct ChecksumFile {
    path: String,
    /// Where each tile's record starts; one more for the end of the file.
    offsets: Vec<u64>,
    whole: Option<bytes::Bytes>,
}

impl ChecksumFile {
    /// Opens the file that `record` describes, of a dataset of `n_tiles` tiles.
    ///
    /// # Errors
    /// [`Error::Size`], [`Error::Checksum`] or [`Error::File`] if it is not that file, or what the storage reports.
    pub fn open(storage: &dyn Storage, record: &FileRecord, n_tiles: u64) -> Result<Self> {
        let path = storage.locate(keys::TILE_CHECKSUMS);
        let index_len = n_tiles.checked_mul(4).and_then(|index| index.checked_add(HEADER_LEN as u64));
        // A record of a tile without chunks is one checksum.
        let least = index_len.and_then(|index| index.checked_add(n_tiles.checked_mul(4)?));
        let (Some(index_len), Some(least)) = (index_len, least) else {
            return Err(Error::Size { path, found: record.bytes, expected: u64::MAX });
        };
        if record.bytes < least {
            return Err(Error::Size { path, found: record.bytes, expected: least });
        }
        let found = storage.size(keys::TILE_CHECKSUMS)?;
        if found != record.bytes {
            return Err(Error::Size { path, found, expected: record.bytes });
        }
        let whole = (record.bytes <= WHOLE).then(|| storage.read(keys::TILE_CHECKSUMS)).transpose()?;
        if let Some(whole) = &whole {
            let found = Sha256::of(whole);
            if found != record.sha256 {
                return Err(Error::Checksum {
                    path,
                    what: "the file".to_owned(),
                    found: found.to_string(),
                    expected: record.sha256.to_string(),
                });
            }
        }
        let index = match &whole {
            Some(whole) => whole.clone(),
            None => storage.read_range(keys::TILE_CHECKSUMS, 0..index_len)?,
        };
        let offsets = parse_index(&path, &index, n_tiles, record.bytes)?;
        Ok(Self { path, offsets, whole })
    }

    /// The checksums of one tile.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] past the last tile, or what the storage reports.
    pub fn tile(&self, storage: &dyn Storage, tile: u64) -> Result<TileChecksums> {
        let range = self.range(tile)?;
        let record = match &self.whole {
            Some(whole) => to_usize_range(&range).and_then(|r| whole.get(r)).map(|r| whole.slice_ref(r)),
            None => Some(storage.read_range(keys::TILE_CHECKSUMS, range.clone())?),
        };
        let missing = || Error::Size { path: self.path.clone(), found: 0, expected: range.end };
        let record = record.ok_or_else(missing)?;
        let mut crcs = record.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
        Ok(TileChecksums { head: crcs.next().ok_or_else(missing)?, chunks: crcs.collect() })
    }

    fn range(&self, tile: u64) -> Result<Range<u64>> {
        let at = usize::try_from(tile).unwrap_or(usize::MAX);
        let len = u64::try_from(self.offsets.len()).unwrap_or(u64::MAX).saturating_sub(1);
        match (self.offsets.get(at), self.offsets.get(at.saturating_add(1))) {
            (Some(&start), Some(&end)) => Ok(start..end),
            _ => Err(Error::OutOfRange { what: "tile", index: tile, len }),
        }
    }
}

/// Where the records start, from header and index.
fn parse_index(path: &str, bytes: &[u8], n_tiles: u64, size: u64) -> Result<Vec<u64>> {
    let fault = |what: &str, found: String, expected: String| Error::File {
        path: path.to_owned(),
        what: what.to_owned(),
        found,
        expected,
    };
    let Some((header, index)) = bytes.split_first_chunk::<HEADER_LEN>() else {
        return Err(Error::Size {
            path: path.to_owned(),
            found: bytes.len() as u64,
            expected: HEADER_LEN as u64,
        });
    };
    let [m0, m1, m2, m3, m4, m5, m6, m7, v0, v1, v2, v3, r0, r1, r2, r3, n @ ..] = *header;
    let magic = [m0, m1, m2, m3, m4, m5, m6, m7];
    if magic != *MAGIC {
        return Err(fault("magic", magic.escape_ascii().to_string(), MAGIC.escape_ascii().to_string()));
    }
    let version = u32::from_le_bytes([v0, v1, v2, v3]);
    if version != VERSION {
        return Err(fault("version", version.to_string(), VERSION.to_string()));
    }
    let reserved = u32::from_le_bytes([r0, r1, r2, r3]);
    if reserved != 0 {
        return Err(fault("reserved", reserved.to_string(), "0".to_owned()));
    }
    let found = u64::from_le_bytes(n);
    if found != n_tiles {
        return Err(fault("n_tiles", found.to_string(), n_tiles.to_string()));
    }
    let n_tiles = usize::try_from(n_tiles).unwrap_or(usize::MAX);
    let Some(index) = n_tiles.checked_mul(4).and_then(|end| index.get(..end)) else {
        return Err(fault("index", format!("{} bytes", index.len()), format!("{n_tiles} entries of 4")));
    };
    let mut end = HEADER_LEN.saturating_add(index.len()) as u64;
    let mut offsets = vec![end];
    for n_chunks in index.as_chunks().0 {
        // At most 2^32 tiles (4 bytes of this file each) of 2^34 bytes: far from 2^64.
        end =
            end.saturating_add(4).saturating_add(u64::from(u32::from_le_bytes(*n_chunks)).saturating_mul(4));
        offsets.push(end);
    }
    if end != size {
        return Err(fault(
            "n_chunks",
            format!("records that end at {end}"),
            format!("at {size}, the end of the file"),
        ));
    }
    Ok(offsets)
}

fn to_usize_range(range: &Range<u64>) -> Option<Range<usize>> {
    Some(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
}

#[cfg(test)]
mod tests {
    use super::{ChecksumFile, TileChecksums, WHOLE, to_bytes};
    use crate::error::Error;
    use crate::keys;
    use crate::manifest::FileRecord;
    use crate::storage::{MemoryStorage, Storage};

    fn stored(tiles: &[TileChecksums]) -> (MemoryStorage, FileRecord) {
        let storage = MemoryStorage::new();
        let bytes = to_bytes(tiles);
        storage.write(keys::TILE_CHECKSUMS, &bytes).unwrap();
        (storage, FileRecord::of(&bytes))
    }

    #[test]
    fn test_small_and_large_files_come_back() {
        let large = usize::try_from(WHOLE / 4).unwrap();
        for chunks in [3, large] {
            let tiles = [
                TileChecksums { head: 7, chunks: (0..u32::try_from(chunks).unwrap()).collect() },
                TileChecksums { head: 8, chunks: Vec::new() },
                TileChecksums { head: 9, chunks: vec![5] },
            ];
            let (storage, record) = stored(&tiles);
            let file = ChecksumFile::open(&storage, &record, 3).unwrap();
            for (index, tile) in (0..).zip(&tiles) {
                assert_eq!(file.tile(&storage, index).unwrap(), *tile);
            }
            assert!(matches!(file.tile(&storage, 3), Err(Error::OutOfRange { .. })));
        }
    }

    #[test]
    fn test_another_file_is_refused() {
        let (storage, record) = stored(&[TileChecksums { head: 7, chunks: vec![1, 2] }]);
        assert!(ChecksumFile::open(&storage, &record, 2).is_err());
        assert!(ChecksumFile::open(&storage, &record, u64::MAX).is_err());
        let bytes = storage.read(keys::TILE_CHECKSUMS).unwrap();
        for at in 0..bytes.len() {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 4;
            storage.write(keys::TILE_CHECKSUMS, &damaged).unwrap();
            assert!(ChecksumFile::open(&storage, &record, 1).is_err(), "byte {at}");
            // The same with a hash that fits: the layout's own checks see all but the checksums themselves.
            let opened = ChecksumFile::open(&storage, &FileRecord::of(&damaged), 1);
            assert_eq!(opened.is_err(), at < 28, "byte {at}");
        }
    }
}
