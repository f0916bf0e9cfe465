use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use super::{CellBlock, CellBlocks, ReadOptions};
use crate::error::{Error, Result, human_bytes};

/// Most buckets that cells are put into: each has a buffer of its own.
const MOST_BUCKETS: u64 = 1 << 12;

/// Entries that come in any order, put into buckets of consecutive cells. About three bytes an entry stay in memory; what
/// does not fit goes to a file that has no name, so that nothing is left of it however the program ends.
#[derive(Debug)]
pub(crate) struct Scatter {
    file: String,
    at: String,
    cells: Range<u64>,
    genes: u64,
    /// A bucket has `1 << shift` cells.
    shift: u32,
    buckets: Vec<Bucket>,
    /// Bytes in memory.
    pending: u64,
    /// How many of them there may be.
    room: u64,
    spill: Option<Spill>,
    folder: Option<PathBuf>,
}

#[derive(Debug, Default)]
struct Bucket {
    pending: Vec<u8>,
    /// Where in the file the earlier ones are: first byte and number of bytes.
    extents: Vec<(u64, usize)>,
}

#[derive(Debug)]
struct Spill {
    file: File,
    folder: PathBuf,
    end: u64,
}

/// Entries found together, on one thread, encoded for their buckets.
#[derive(Debug)]
pub(crate) struct Piece {
    cells: Range<u64>,
    shift: u32,
    runs: Vec<Run>,
}

/// Entries of one bucket, each as three numbers of seven bits a byte: the steps of cell and gene, and the count.
#[derive(Debug, Default, Clone)]
struct Run {
    bytes: Vec<u8>,
    cell: u32,
    gene: u32,
}

impl Scatter {
    /// Buckets for the cells of a range; `expected` entries are likely. `file` and `at` are for messages.
    pub(crate) fn new(
        (file, at): (&str, &str),
        cells: Range<u64>,
        genes: u64,
        expected: u64,
        options: &ReadOptions,
    ) -> Self {
        let count = cells.end.saturating_sub(cells.start).max(1);
        // A bucket is sorted in a quarter of the memory: eight bytes an entry, and as much for each of its cells.
        let room = (options.memory / 4 / 8).max(1);
        let buckets = expected.div_ceil(room).max(count.div_ceil(room)).clamp(1, MOST_BUCKETS);
        let width = count.div_ceil(buckets).max(1);
        // Powers of two, so that no entry costs a division; rounded down, as long as there are not too many of them.
        let mut shift = width.ilog2();
        while (count - 1) >> shift >= MOST_BUCKETS {
            shift += 1;
        }
        let buckets = ((count - 1) >> shift) + 1;
        Self {
            file: file.to_owned(),
            at: at.to_owned(),
            cells,
            genes,
            shift,
            buckets: (0..buckets).map(|_| Bucket::default()).collect(),
            pending: 0,
            room: options.memory / 4,
            spill: None,
            folder: options.spill.clone(),
        }
    }

    /// Where a thread puts entries, before they are handed over by [`Scatter::push`].
    pub(crate) fn piece(&self) -> Piece {
        Piece { cells: self.cells.clone(), shift: self.shift, runs: vec![Run::default(); self.buckets.len()] }
    }

    /// Takes over a piece. Entries of a cell keep the order of pieces.
    pub(crate) fn push(&mut self, piece: &Piece) -> Result<()> {
        for (bucket, run) in self.buckets.iter_mut().zip(&piece.runs) {
            if run.bytes.is_empty() {
                continue;
            }
            let length = u32::try_from(run.bytes.len()).unwrap_or(u32::MAX);
            bucket.pending.extend_from_slice(&length.to_le_bytes());
            bucket.pending.extend_from_slice(&run.bytes);
            self.pending += run.bytes.len() as u64 + 4;
        }
        if self.pending > self.room { self.flush() } else { Ok(()) }
    }

    /// Moves what is in memory to the file.
    fn flush(&mut self) -> Result<()> {
        let spill = match &mut self.spill {
            Some(spill) => spill,
            None => self.spill.insert(Spill::new(self.folder.clone())?),
        };
        for bucket in &mut self.buckets {
            if !bucket.pending.is_empty() {
                bucket.extents.push((spill.end, bucket.pending.len()));
                spill.append(&bucket.pending)?;
                bucket.pending = Vec::new();
            }
        }
        self.pending = 0;
        Ok(())
    }

    /// Everything is there.
    pub(crate) fn finish(self) -> Arc<Scattered> {
        Arc::new(Scattered(self))
    }
}

impl Spill {
    fn new(folder: Option<PathBuf>) -> Result<Self> {
        let folder = folder.unwrap_or_else(std::env::temp_dir);
        let file = tempfile::tempfile_in(&folder).map_err(|source| Error::Io {
            path: folder.clone(),
            action: "make a file for what does not fit into memory in",
            source,
        })?;
        Ok(Self { file, folder, end: 0 })
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let io = |source| Error::Io {
            path: self.folder.clone(),
            action: "write what does not fit into memory to a file in",
            source,
        };
        self.file.write_all(bytes).map_err(io)?;
        self.end += bytes.len() as u64;
        Ok(())
    }
}

impl Piece {
    /// Adds an entry; one of a cell outside the range is left out.
    #[inline]
    pub(crate) fn push(&mut self, cell: u64, gene: u32, count: u32) {
        if !self.cells.contains(&cell) {
            return;
        }
        let cell = cell - self.cells.start;
        let bucket = usize::try_from(cell >> self.shift).unwrap_or(usize::MAX);
        let Some(run) = self.runs.get_mut(bucket) else { return };
        let within = u32::try_from(cell & ((1 << self.shift) - 1)).unwrap_or(u32::MAX);
        run.number(zigzag(within.wrapping_sub(run.cell)));
        run.number(zigzag(gene.wrapping_sub(run.gene)));
        run.number(count);
        run.cell = within;
        run.gene = gene;
    }
}

impl Run {
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "seven bits at a time")]
    fn number(&mut self, mut number: u32) {
        while number >= 128 {
            self.bytes.push(number as u8 | 128);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }
}

/// Small steps in either direction become small numbers.
const fn zigzag(step: u32) -> u32 {
    let step = step.cast_signed();
    ((step << 1) ^ (step >> 31)).cast_unsigned()
}

const fn unzigzag(number: u32) -> u32 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

#[inline]
fn take(rest: &mut &[u8]) -> Option<u32> {
    let mut number = 0_u32;
    for shift in (0..35).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        number |= u32::from(byte & 127) << shift;
        if byte < 128 {
            return Some(number);
        }
    }
    None
}

/// Calls `each` with the cell (within its bucket), gene and count of all entries of a bucket's bytes.
fn decode(mut bytes: &[u8], mut each: impl FnMut(u32, u32, u32)) -> Option<()> {
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let (mut run, after) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
        bytes = after;
        let (mut cell, mut gene) = (0_u32, 0_u32);
        while !run.is_empty() {
            cell = cell.wrapping_add(unzigzag(take(&mut run)?));
            gene = gene.wrapping_add(unzigzag(take(&mut run)?));
            each(cell, gene, take(&mut run)?);
        }
    }
    Some(())
}

/// All entries of a matrix, bucket by bucket: any cells can be had, any number of times.
#[derive(Debug)]
pub(crate) struct Scattered(Scatter);

impl Scattered {
    /// Whether these cells are among those that were put in.
    pub(crate) fn holds(&self, cells: &Range<u64>) -> bool {
        cells.start >= self.0.cells.start && cells.end <= self.0.cells.end
    }

    /// The cells of a range in blocks.
    pub(crate) fn cells(self: &Arc<Self>, range: Range<u64>, options: &ReadOptions) -> ScatteredBlocks {
        let end = range.end.min(self.0.cells.end);
        ScatteredBlocks {
            from: Arc::clone(self),
            next: range.start,
            end,
            options: options.clone(),
            loaded: Loaded::default(),
        }
    }

    fn scan(&self, bucket: usize, mut each: impl FnMut(u32, u32, u32)) -> Result<()> {
        let Some(bucket) = self.0.buckets.get(bucket) else { return Ok(()) };
        let mut buffer = Vec::new();
        for &(start, length) in &bucket.extents {
            let Some(spill) = &self.0.spill else { continue };
            buffer.resize(length, 0);
            spill.file.read_exact_at(&mut buffer, start).map_err(|source| Error::Io {
                path: spill.folder.clone(),
                action: "read back what did not fit into memory from a file in",
                source,
            })?;
            decode(&buffer, &mut each).ok_or_else(|| self.broken())?;
        }
        decode(&bucket.pending, &mut each).ok_or_else(|| self.broken())
    }

    fn broken(&self) -> Error {
        Error::Damaged {
            file: self.0.file.clone(),
            at: self.0.at.clone(),
            what: "what was kept of it on disk is damaged".into(),
        }
    }
}

/// Cells of a [`Scattered`] matrix.
#[derive(Debug)]
pub(crate) struct ScatteredBlocks {
    from: Arc<Scattered>,
    next: u64,
    end: u64,
    options: ReadOptions,
    loaded: Loaded,
}

/// Consecutive cells of one bucket, sorted.
#[derive(Debug, Default)]
struct Loaded {
    first: u64,
    /// Where each cell's entries start, and where the last one's end.
    starts: Vec<usize>,
    /// Gene in the high, count in the low half.
    entries: Vec<u64>,
    /// Next cell to hand out.
    next: usize,
}

impl Loaded {
    fn cells(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }
}

impl ScatteredBlocks {
    /// Sorts the next cells, of one bucket, as many as fit.
    fn load(&mut self) -> Result<()> {
        let scatter = &self.from.0;
        let place = self.next - scatter.cells.start;
        let bucket = place >> scatter.shift;
        let bucket_start = bucket << scatter.shift;
        let bucket_end = (scatter.cells.start + bucket_start).saturating_add(1 << scatter.shift);
        let until = self.end.min(bucket_end);
        let index = usize::try_from(bucket).unwrap_or(usize::MAX);
        let skip = u32::try_from(place - bucket_start).unwrap_or(u32::MAX);
        let cells = usize::try_from(until - self.next).unwrap_or(usize::MAX);
        let needed = (cells as u64).saturating_mul(8);
        if needed > self.options.memory {
            return Err(Error::Memory {
                file: scatter.file.clone(),
                at: format!("{}: to sort {cells} cells", scatter.at),
                needed: human_bytes(needed),
                allowed: human_bytes(self.options.memory),
            });
        }
        let mut lengths = vec![0_u32; cells];
        let slot = |cell: u32| cell.checked_sub(skip).map(|cell| cell as usize);
        self.from.scan(index, |cell, _, _| {
            if let Some(length) = slot(cell).and_then(|cell| lengths.get_mut(cell)) {
                *length = length.saturating_add(1);
            }
        })?;
        let room = usize::try_from(self.options.memory / 4 / 8).unwrap_or(usize::MAX);
        let most = scatter.genes.saturating_mul(2).max(1 << 20);
        let loaded = &mut self.loaded;
        loaded.starts.clear();
        loaded.starts.push(0);
        let mut total = 0_usize;
        for (at, &length) in lengths.iter().enumerate() {
            if u64::from(length) > most {
                let cell = self.next + at as u64;
                return Err(Error::Damaged {
                    file: scatter.file.clone(),
                    at: scatter.at.clone(),
                    what: format!("cell {cell} has {length} entries for {} genes", scatter.genes),
                });
            }
            let with = total.saturating_add(length as usize);
            if at > 0 && with > room {
                break;
            }
            total = with;
            loaded.starts.push(total);
        }
        drop(lengths);
        let taken = loaded.cells();
        let mut cursors = loaded.starts.get(..taken).unwrap_or(&[]).to_vec();
        loaded.entries.clear();
        loaded.entries.resize(total, 0);
        let entries = &mut loaded.entries;
        self.from.scan(index, |cell, gene, count| {
            if let Some(cursor) = slot(cell).and_then(|cell| cursors.get_mut(cell)) {
                if let Some(entry) = entries.get_mut(*cursor) {
                    *entry = u64::from(gene) << 32 | u64::from(count);
                }
                *cursor += 1;
            }
        })?;
        loaded.first = self.next;
        loaded.next = 0;
        self.next += taken as u64;
        Ok(())
    }
}

impl CellBlocks for ScatteredBlocks {
    #[allow(clippy::cast_possible_truncation, reason = "the halves of an entry are split on purpose")]
    fn next_block(&mut self, block: &mut CellBlock) -> Result<bool> {
        self.options.check_cancelled()?;
        if self.loaded.next >= self.loaded.cells() {
            if self.next >= self.end {
                return Ok(false);
            }
            self.load()?;
        }
        let loaded = &mut self.loaded;
        let target = usize::try_from(self.options.block_entries()).unwrap_or(usize::MAX);
        let from = loaded.starts.get(loaded.next).copied().unwrap_or(0);
        let until =
            loaded.starts.partition_point(|&start| start <= from.saturating_add(target)).saturating_sub(1);
        let until = until.clamp(loaded.next + 1, loaded.cells());
        block.first_cell = loaded.first + loaded.next as u64;
        block.indptr.clear();
        block
            .indptr
            .extend(loaded.starts.get(loaded.next..=until).unwrap_or(&[]).iter().map(|start| start - from));
        let end = loaded.starts.get(until).copied().unwrap_or(from);
        let entries = loaded.entries.get(from..end).unwrap_or(&[]);
        block.genes.clear();
        block.genes.extend(entries.iter().map(|entry| (entry >> 32) as u32));
        block.counts.clear();
        block.counts.extend(entries.iter().map(|&entry| entry as u32));
        loaded.next = until;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes out is what went in, in the order in which it came, whatever the memory and the range.
    #[test]
    fn test_scatter_gives_back_every_entry_of_every_cell() {
        let (cells, genes) = (1000_u64, 70_000_u32);
        let mut state = 1_u64;
        let mut random = move |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % limit
        };
        let entries: Vec<(u64, u32, u32)> = (0..40_000)
            .map(|_| {
                let gene = random(genes.into());
                (random(cells), u32::try_from(gene).unwrap(), u32::try_from(random(1 << 31)).unwrap())
            })
            .collect();
        for memory in [1 << 29, 200_000, 20_000, 64] {
            for range in [0..cells, 100..900, 999..1000] {
                let options = ReadOptions { memory, ..ReadOptions::default() };
                let mut scatter = Scatter::new(("f", "m"), range.clone(), genes.into(), 40_000, &options);
                for part in entries.chunks(1777) {
                    let mut piece = scatter.piece();
                    part.iter().for_each(|&(cell, gene, count)| piece.push(cell, gene, count));
                    scatter.push(&piece).unwrap();
                }
                let scattered = scatter.finish();
                let inner = range.start + (range.end - range.start) / 3..range.end;
                for range in [range, inner] {
                    let mut expected: Vec<_> =
                        entries.iter().copied().filter(|entry| range.contains(&entry.0)).collect();
                    expected.sort_by_key(|entry| entry.0);
                    // Eight bytes a cell must fit.
                    let read = ReadOptions { memory: memory.max(8192), ..options.clone() };
                    let mut blocks = scattered.cells(range.clone(), &read);
                    let (mut block, mut found, mut next) = (CellBlock::default(), Vec::new(), range.start);
                    while blocks.next_block(&mut block).unwrap() {
                        assert_eq!(block.first_cell, next);
                        for at in 0..block.cells() {
                            let (genes, counts) = block.cell(at).unwrap();
                            found.extend(genes.iter().zip(counts).map(|(&gene, &count)| (next, gene, count)));
                            next += 1;
                        }
                    }
                    assert_eq!(next, range.end);
                    assert_eq!(found, expected, "{memory} {range:?}");
                }
            }
        }
    }
}
