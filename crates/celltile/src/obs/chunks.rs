use std::ops::Range;

use bytes::buf::Reader;
use bytes::{Buf, Bytes};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

/// The parts of a Parquet file that were fetched: a reader of the whole that has only them.
#[derive(Debug)]
pub(super) struct Chunks {
    size: u64,
    parts: Vec<(u64, Bytes)>,
}

impl Chunks {
    /// Parts by their offset, of a file of `size` bytes.
    pub(super) fn new(size: u64, parts: Vec<(u64, Bytes)>) -> Self {
        Self { size, parts }
    }

    fn at(&self, start: u64) -> Option<Bytes> {
        self.parts.iter().find_map(|(offset, bytes)| {
            let skip = usize::try_from(start.checked_sub(*offset)?).ok()?;
            (skip <= bytes.len()).then(|| bytes.slice(skip..))
        })
    }
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.size
    }
}

impl ChunkReader for Chunks {
    type T = Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        let bytes = self.at(start).ok_or_else(|| outside(start))?;
        Ok(bytes.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let bytes = self.at(start).filter(|bytes| length <= bytes.len()).ok_or_else(|| outside(start))?;
        Ok(bytes.slice(..length))
    }
}

fn outside(start: u64) -> ParquetError {
    ParquetError::EOF(format!("byte {start} is outside the column chunks"))
}

/// Sorts ranges and joins those that touch or overlap.
pub(super) fn join(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined() {
        assert_eq!(join(vec![8..9, 0..4, 4..6, 5..6]), vec![0..6, 8..9]);
    }

    #[test]
    fn only_fetched_bytes_are_there() {
        let chunks =
            Chunks::new(100, vec![(10, Bytes::from_static(b"abcd")), (50, Bytes::from_static(b"xy"))]);
        assert_eq!(chunks.get_bytes(11, 2).unwrap(), "bc");
        assert_eq!(chunks.get_bytes(50, 2).unwrap(), "xy");
        assert!(chunks.get_bytes(13, 2).is_err());
        assert!(chunks.get_bytes(9, 1).is_err());
        assert!(chunks.get_read(20).is_err());
    }
}
