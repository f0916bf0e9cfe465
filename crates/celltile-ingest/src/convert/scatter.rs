//! Cells put aside: each input's in parts, each part in buckets, so that a bucket can be taken up from all parts.
//!
//! A part is a run of an input's cells, and ends where the plan says, whatever the memory and the threads. Bucket by bucket it
//! holds: the number of cells (u32), for each its number within the part (u32), for each its length (u32), then the cells, packed.
//! What is where stands in a file an input, which is written last.

use std::io::Write;
use std::ops::Range;
use std::thread::JoinHandle;

use super::packed::Packed;
use super::placement::Shuffle;
use super::work::{Work, damaged, from_leb128, leb128};
use crate::error::{Error, Result};
use crate::plan::Plan;

const MAGIC: &[u8; 8] = b"ctspill1";

/// Takes an input's cells, in order.
pub(super) struct Scatter<'a> {
    work: &'a Work,
    input: usize,
    /// Number of the input's first cell among those of all inputs.
    offset: u64,
    shuffle: Option<Shuffle>,
    part_bytes: u64,
    open: Vec<BucketPart>,
    bytes: u64,
    first_cell: u64,
    next_cell: u64,
    index: Vec<PartIndex>,
    writing: Option<JoinHandle<Result<()>>>,
}

#[derive(Default)]
struct BucketPart {
    numbers: Vec<u32>,
    lengths: Vec<u32>,
    bytes: Vec<u8>,
}

/// Where a part's buckets are.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PartIndex {
    /// Number of its first cell in the input.
    pub(super) first_cell: u64,
    pub(super) cells: u64,
    /// All of its buckets, or those that were asked for.
    pub(super) buckets: Vec<BucketIndex>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct BucketIndex {
    pub(super) cells: u64,
    offset: u64,
    length: u64,
    crc: u32,
}

/// Cells of a bucket in a part.
pub(super) struct Segment {
    pub(super) input: usize,
    /// Numbers of the cells among those of all inputs.
    pub(super) numbers: Vec<u64>,
    pub(super) packed: Packed,
}

impl<'a> Scatter<'a> {
    pub(super) fn new(work: &'a Work, plan: &Plan, input: usize) -> Self {
        let shuffle = plan.joining.shuffle.map(Shuffle::new);
        let buckets = if shuffle.is_some() { work.layout.buckets.max(1) } else { 1 };
        Self {
            work,
            input,
            offset: plan.first_cell(input),
            shuffle,
            part_bytes: work.layout.part_bytes.max(1),
            open: (0..buckets).map(|_| BucketPart::default()).collect(),
            bytes: 0,
            first_cell: 0,
            next_cell: 0,
            index: Vec::new(),
            writing: None,
        }
    }

    pub(super) fn push(&mut self, packed: &Packed) -> Result<()> {
        for at in 0..packed.cells() {
            let bucket = match self.shuffle {
                None => 0,
                Some(shuffle) => {
                    let key = shuffle.key(self.offset.saturating_add(self.next_cell));
                    Shuffle::bucket(key, u32::try_from(self.open.len()).unwrap_or(u32::MAX))
                }
            };
            let cell = packed.cell(at);
            if let Some(bucket) = self.open.get_mut(bucket as usize) {
                bucket.numbers.push(u32::try_from(self.next_cell - self.first_cell).unwrap_or(u32::MAX));
                bucket.lengths.push(u32::try_from(cell.len()).unwrap_or(u32::MAX));
                bucket.bytes.extend_from_slice(cell);
            }
            self.bytes += 8 + cell.len() as u64;
            self.next_cell += 1;
            if self.bytes >= self.part_bytes || self.next_cell - self.first_cell == u64::from(u32::MAX) {
                self.end_part()?;
            }
        }
        Ok(())
    }

    fn end_part(&mut self) -> Result<()> {
        if self.next_cell == self.first_cell {
            return Ok(());
        }
        self.wait()?;
        let buckets = self.open.len();
        let full = std::mem::replace(&mut self.open, (0..buckets).map(|_| BucketPart::default()).collect());
        let mut index = PartIndex {
            first_cell: self.first_cell,
            cells: self.next_cell - self.first_cell,
            buckets: Vec::with_capacity(buckets),
        };
        let mut offset = 0;
        let mut pieces: Vec<Vec<u8>> = Vec::with_capacity(2 * buckets);
        for bucket in full {
            let cells = u32::try_from(bucket.numbers.len()).unwrap_or(u32::MAX);
            let numbers = bucket.numbers.iter().chain(&bucket.lengths).flat_map(|n| n.to_le_bytes());
            let head: Vec<u8> = cells.to_le_bytes().into_iter().chain(numbers).collect();
            let mut crc = crc32fast::Hasher::new();
            crc.update(&head);
            crc.update(&bucket.bytes);
            let length = (head.len() + bucket.bytes.len()) as u64;
            index.buckets.push(BucketIndex { cells: u64::from(cells), offset, length, crc: crc.finalize() });
            offset += length;
            pieces.push(head);
            pieces.push(bucket.bytes);
        }
        let (storage, key) = (self.work.spill.clone(), self.work.part(self.input, self.index.len()));
        // The next part is filled meanwhile.
        self.writing = Some(std::thread::spawn(move || {
            let mut writer = storage.create(&key)?;
            for piece in pieces {
                writer.write_all(&piece).map_err(|source| Error::Io {
                    path: storage.locate(&key).into(),
                    action: "write",
                    source,
                })?;
            }
            let found = writer.finish()?;
            if found != offset {
                return Err(
                    celltile::Error::Size { path: storage.locate(&key), found, expected: offset }.into()
                );
            }
            Ok(())
        }));
        self.index.push(index);
        self.first_cell = self.next_cell;
        self.bytes = 0;
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        match self.writing.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(Error::Options("a thread that writes what is put aside panicked".into())),
        }
    }

    /// Writes what is left, and what is where.
    pub(super) fn finish(mut self) -> Result<()> {
        self.end_part()?;
        self.wait()?;
        let mut bytes = MAGIC.to_vec();
        leb128(&mut bytes, self.index.len() as u64);
        leb128(&mut bytes, self.open.len() as u64);
        for part in &self.index {
            leb128(&mut bytes, part.cells);
            for bucket in &part.buckets {
                leb128(&mut bytes, bucket.cells);
                leb128(&mut bytes, bucket.length);
                bytes.extend(bucket.crc.to_le_bytes());
            }
        }
        self.work.write_scattered(self.input, bytes)
    }
}

/// A part that is being written when something else fails is waited for: nobody writes on after the conversion has ended.
impl Drop for Scatter<'_> {
    fn drop(&mut self) {
        let _ = self.wait();
    }
}

/// Cells and bytes of each bucket, in all parts.
pub(super) type BucketTotals = Vec<(u64, u64)>;

/// What is where of an input, for some of the buckets; what all of them hold is added to `totals`.
pub(super) fn read_index(
    work: &Work,
    plan: &Plan,
    input: usize,
    window: &Range<usize>,
    totals: &mut BucketTotals,
) -> Result<Vec<PartIndex>> {
    let bytes = work.read_scattered(input)?;
    let mut parse = || {
        let mut rest = bytes.strip_prefix(MAGIC)?;
        let parts = from_leb128(&mut rest)?;
        let buckets = usize::try_from(from_leb128(&mut rest)?).ok().filter(|n| *n <= bytes.len())?;
        if totals.len() < buckets {
            totals.resize(buckets, (0, 0));
        }
        let mut index = Vec::new();
        let mut first_cell = 0_u64;
        for _ in 0..parts {
            let cells = from_leb128(&mut rest)?;
            let mut part = PartIndex { first_cell, cells, buckets: Vec::new() };
            let (mut offset, mut sum) = (0_u64, 0_u64);
            for (bucket, (all_cells, all_bytes)) in totals.iter_mut().enumerate().take(buckets) {
                let (cells, length) = (from_leb128(&mut rest)?, from_leb128(&mut rest)?);
                let (crc, after) = rest.split_first_chunk::<4>()?;
                rest = after;
                if window.contains(&bucket) {
                    part.buckets.push(BucketIndex { cells, offset, length, crc: u32::from_le_bytes(*crc) });
                }
                *all_cells = all_cells.checked_add(cells)?;
                *all_bytes = all_bytes.checked_add(length)?;
                offset = offset.checked_add(length)?;
                sum = sum.checked_add(cells)?;
            }
            first_cell = first_cell.checked_add(cells).filter(|_| sum == cells)?;
            index.push(part);
        }
        (rest.is_empty() && plan.inputs.get(input).is_some_and(|input| input.cells == first_cell))
            .then_some(index)
    };
    parse().ok_or_else(|| {
        let (file, at) = (work.storage.locate(""), format!("the scattered cells of input {input}"));
        Error::Damaged { file, at, what: "damaged; remove .work/scatter to have them made again".into() }
    })
}

/// Takes up the cells of a bucket in a part; `bucket` counts those that its index holds.
pub(super) fn read_segment(
    work: &Work,
    offset: u64,
    input: usize,
    part: usize,
    index: &PartIndex,
    bucket: usize,
) -> Result<Option<Segment>> {
    let Some(found) = index.buckets.get(bucket).filter(|bucket| bucket.cells > 0) else { return Ok(None) };
    let key = work.part(input, part);
    let range: Range<u64> = found.offset..found.offset.saturating_add(found.length);
    let bytes = work.spill.read_range(&key, range)?;
    let parse = || {
        let intact = crc32fast::hash(&bytes) == found.crc;
        let (cells, rest) = bytes.split_first_chunk::<4>().filter(|_| intact)?;
        let cells =
            usize::try_from(u32::from_le_bytes(*cells)).ok().filter(|cells| *cells as u64 == found.cells)?;
        let (numbers, rest) = rest.split_at_checked(cells.checked_mul(4)?)?;
        let (lengths, rest) = rest.split_at_checked(cells.checked_mul(4)?)?;
        let number = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes);
        let first = offset.checked_add(index.first_cell)?;
        let numbers = numbers.as_chunks().0.iter().map(|bytes| first + u64::from(number(bytes))).collect();
        let packed = Packed::of(lengths.as_chunks().0.iter().map(number), rest.to_vec())?;
        Some(Segment { input, numbers, packed })
    };
    parse().map(Some).ok_or_else(|| damaged(work.spill.as_ref(), &key))
}
