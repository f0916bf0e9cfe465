use std::ops::Range;

use rayon::prelude::*;

use super::dense::DenseMatrix;
use super::numbers::BAD;
use super::sparse::{SparseMatrix, with_share};
use super::{CellBlock, CellBlocks, ReadOptions, number_type};
use crate::error::{Error, Result, human_bytes};

/// What lists its entries gene by gene.
#[derive(Debug, Clone)]
pub(crate) enum Entries {
    /// A sparse matrix of the cells of each gene.
    Csc(SparseMatrix),
    /// Some rows of a dense matrix whose chunks are tall.
    DenseRows(DenseMatrix, Range<u64>),
}

/// The first value in cell order that is no count: cell, gene, and where it is stored.
pub(crate) type FirstBad = Option<(u64, u64, u64)>;

impl Entries {
    fn at(&self) -> (String, String) {
        match self {
            Self::Csc(matrix) => (matrix.file_name().to_owned(), matrix.name().to_owned()),
            Self::DenseRows(matrix, _) => {
                (matrix.values().file_name().to_owned(), matrix.values().path().to_owned())
            }
        }
    }

    /// Goes once through all entries: `each` gets some consecutive genes at a time, as blocks whose rows are genes.
    fn scan(
        &self,
        options: &ReadOptions,
        bad: &mut FirstBad,
        each: &mut dyn FnMut(&[CellBlock]) -> Result<()>,
    ) -> Result<()> {
        match self {
            Self::Csc(matrix) => {
                let mut rows = matrix.rows(0..matrix.major(), options)?;
                let mut block = CellBlock::default();
                while let Some(found) = rows.next_rows(&mut block)? {
                    if let Some(place) = found.bad_index {
                        let at = usize::try_from(place - found.start).unwrap_or(usize::MAX);
                        let row = block.indptr.partition_point(|&offset| offset <= at).saturating_sub(1);
                        return Err(matrix.index_error(place, block.first_cell + row as u64)?);
                    }
                    if found.bad_value.is_some() {
                        for at in 0..block.cells() {
                            let Some((cells, counts)) = block.cell(at) else { continue };
                            let start = block.indptr.get(at).copied().unwrap_or(0);
                            for (within, (&cell, _)) in
                                cells.iter().zip(counts).enumerate().filter(|(_, (_, count))| **count == BAD)
                            {
                                let found = (
                                    u64::from(cell),
                                    block.first_cell + at as u64,
                                    found.start + (start + within) as u64,
                                );
                                *bad = Some(bad.map_or(found, |bad| bad.min(found)));
                            }
                        }
                    }
                    each(std::slice::from_ref(&block))?;
                }
                Ok(())
            }
            Self::DenseRows(matrix, rows) => matrix.scan_columns(rows.clone(), options, bad, each),
        }
    }

    fn value_error(&self, (cell, gene, position): (u64, u64, u64)) -> Result<Error> {
        match self {
            Self::Csc(matrix) => {
                let error = matrix.value_error(position, cell, gene, String::new())?;
                let Some(number) = number_type(matrix.data().dtype()) else { return Ok(error.into()) };
                let sample = 0..matrix.stored().min(1 << 22);
                Ok(with_share(error, matrix.data(), number, sample)?.into())
            }
            Self::DenseRows(matrix, _) => matrix.value_error(cell, gene),
        }
    }
}

/// Turns entries listed by gene into cells, in bounded memory: a first pass counts the entries of each cell, then the
/// cells are cut into buckets that fit, and each bucket takes one more pass.
pub(crate) struct Transposer {
    entries: Entries,
    options: ReadOptions,
    /// First cell of those asked for.
    first: u64,
    /// Entries of each of them.
    lengths: Vec<u32>,
    bucket: Bucket,
}

#[derive(Default)]
struct Bucket {
    /// Cells, counted from the first one asked for.
    cells: Range<usize>,
    /// Where each cell's entries start, and where the last one's end.
    starts: Vec<usize>,
    /// Gene in the high, count in the low half.
    entries: Vec<u64>,
    /// Next cell to hand out.
    next: usize,
}

impl Transposer {
    pub(crate) fn new(entries: Entries, range: Range<u64>, options: &ReadOptions) -> Result<Self> {
        let cells = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        let mut options = options.clone();
        let needed = (cells as u64).saturating_mul(4);
        if needed > options.memory / 2 {
            let (file, at) = entries.at();
            let (needed, allowed) = (human_bytes(needed.saturating_mul(2)), human_bytes(options.memory));
            return Err(Error::Memory {
                file,
                at: format!("{at}: to turn genes into cells"),
                needed,
                allowed,
            });
        }
        options.memory -= needed;
        let mut lengths = vec![0_u32; cells];
        let mut bad = None;
        let first = u32::try_from(range.start).unwrap_or(u32::MAX);
        let parts = rayon::current_num_threads() * 4;
        let each_part = cells.div_ceil(parts).max(1);
        // The scan holds a quarter; the bucket may hold half.
        let scan = ReadOptions { memory: options.memory / 2, ..options.clone() };
        entries.scan(&scan, &mut bad, &mut |blocks| {
            let sorted = sorted_rows(blocks);
            lengths.par_chunks_mut(each_part).enumerate().for_each(|(part, lengths)| {
                let start = first.saturating_add(u32::try_from(part * each_part).unwrap_or(u32::MAX));
                for_entries(blocks, &sorted, start, lengths.len(), |cell, _, _| {
                    if let Some(length) = lengths.get_mut(cell) {
                        *length = length.saturating_add(1);
                    }
                });
            });
            Ok(())
        })?;
        let end = range.end;
        if let Some(bad) = bad.filter(|bad| (range.start..end).contains(&bad.0)) {
            return Err(entries.value_error(bad)?);
        }
        Ok(Self { entries, options, first: range.start, lengths, bucket: Bucket::default() })
    }

    /// Fills the next bucket; `false` when no cells are left.
    fn next_bucket(&mut self) -> Result<bool> {
        let start = self.bucket.cells.end;
        if start >= self.lengths.len() {
            return Ok(false);
        }
        let room = usize::try_from(self.options.memory / 2 / 8).unwrap_or(usize::MAX);
        let mut starts = vec![0];
        let mut total = 0_usize;
        for &length in self.lengths.get(start..).unwrap_or(&[]) {
            // A place in `starts` costs as much as an entry.
            let with = total.saturating_add(length as usize);
            if starts.len() > 1 && with.saturating_add(starts.len()) > room {
                break;
            }
            total = with;
            starts.push(total);
        }
        let cells = start..start + starts.len() - 1;
        self.bucket.entries.clear();
        self.bucket.entries.resize(total, 0);
        // Parts of about equal numbers of entries, each with its own slices.
        let parts = rayon::current_num_threads() * 4;
        let each_part = total.div_ceil(parts).max(1);
        let mut cursors: Vec<usize> = starts.get(..cells.len()).unwrap_or(&[]).to_vec();
        let mut work: Vec<(usize, usize, &mut [usize], &mut [u64])> = Vec::new();
        let (mut rest, mut rest_cursors) = (self.bucket.entries.as_mut_slice(), cursors.as_mut_slice());
        let mut cell = 0;
        while cell < cells.len() {
            let from = starts.get(cell).copied().unwrap_or(total);
            let until = starts.partition_point(|&start| start <= from + each_part).saturating_sub(1);
            let until = until.clamp(cell + 1, cells.len());
            let end = starts.get(until).copied().unwrap_or(total);
            let (part, after) = rest.split_at_mut((end - from).min(rest.len()));
            let (part_cursors, after_cursors) =
                rest_cursors.split_at_mut((until - cell).min(rest_cursors.len()));
            work.push((cell, from, part_cursors, part));
            (rest, rest_cursors, cell) = (after, after_cursors, until);
        }
        let first = self.first + start as u64;
        let first = u32::try_from(first).unwrap_or(u32::MAX);
        let scan = ReadOptions { memory: self.options.memory / 2, ..self.options.clone() };
        self.entries.scan(&scan, &mut None, &mut |blocks| {
            let sorted = sorted_rows(blocks);
            work.par_iter_mut().for_each(|(cell, from, cursors, part)| {
                let start = first.saturating_add(u32::try_from(*cell).unwrap_or(u32::MAX));
                for_entries(blocks, &sorted, start, cursors.len(), |cell, gene, count| {
                    if let Some(cursor) = cursors.get_mut(cell) {
                        if let Some(entry) = part.get_mut(cursor.wrapping_sub(*from)) {
                            *entry = u64::from(gene) << 32 | u64::from(count);
                        }
                        *cursor += 1;
                    }
                });
            });
            Ok(())
        })?;
        if cursors.iter().zip(starts.iter().skip(1)).any(|(cursor, end)| cursor != end) {
            let (file, at) = self.entries.at();
            return Err(Error::Damaged { file, at, what: "changed while it was read".into() });
        }
        self.bucket.next = 0;
        self.bucket.starts = starts;
        self.bucket.cells = cells;
        Ok(true)
    }
}

impl CellBlocks for Transposer {
    #[allow(clippy::cast_possible_truncation, reason = "the halves of an entry are split on purpose")]
    fn next_block(&mut self, block: &mut CellBlock) -> Result<bool> {
        while self.bucket.next >= self.bucket.cells.len() {
            if !self.next_bucket()? {
                return Ok(false);
            }
        }
        self.options.check_cancelled()?;
        let bucket = &mut self.bucket;
        let target = usize::try_from(self.options.block_entries()).unwrap_or(usize::MAX);
        let from = bucket.starts.get(bucket.next).copied().unwrap_or(0);
        let until =
            bucket.starts.partition_point(|&start| start <= from.saturating_add(target)).saturating_sub(1);
        let until = until.clamp(bucket.next + 1, bucket.cells.len());
        block.first_cell = self.first + (bucket.cells.start + bucket.next) as u64;
        block.indptr.clear();
        block
            .indptr
            .extend(bucket.starts.get(bucket.next..=until).unwrap_or(&[]).iter().map(|start| start - from));
        let end = bucket.starts.get(until).copied().unwrap_or(from);
        let entries = bucket.entries.get(from..end).unwrap_or(&[]);
        block.genes.clear();
        block.genes.extend(entries.iter().map(|entry| (entry >> 32) as u32));
        block.counts.clear();
        block.counts.extend(entries.iter().map(|&entry| entry as u32));
        bucket.next = until;
        Ok(true)
    }
}

/// For each row of each block, whether its positions ascend.
fn sorted_rows(blocks: &[CellBlock]) -> Vec<Vec<bool>> {
    blocks
        .iter()
        .map(|block| {
            (0..block.cells())
                .into_par_iter()
                .with_min_len(64)
                .map(|at| block.cell(at).is_some_and(|(positions, _)| positions.is_sorted()))
                .collect()
        })
        .collect()
}

/// Calls `each` with every entry whose cell is one of `cells` from `start` on: the cell counted from there, gene, count.
/// Genes ascend.
fn for_entries(
    blocks: &[CellBlock],
    sorted: &[Vec<bool>],
    start: u32,
    cells: usize,
    mut each: impl FnMut(usize, u32, u32),
) {
    let end = start.saturating_add(u32::try_from(cells).unwrap_or(u32::MAX));
    for (block, sorted) in blocks.iter().zip(sorted) {
        for (at, &sorted) in sorted.iter().enumerate() {
            let Some((mut positions, mut counts)) = block.cell(at) else { continue };
            let gene = u32::try_from(block.first_cell + at as u64).unwrap_or(u32::MAX);
            if sorted {
                let from = positions.partition_point(|&cell| cell < start);
                let until = positions.partition_point(|&cell| cell < end);
                positions = positions.get(from..until).unwrap_or(&[]);
                counts = counts.get(from..until).unwrap_or(&[]);
            }
            for (&cell, &count) in positions.iter().zip(counts) {
                if sorted || (start..end).contains(&cell) {
                    each((cell - start) as usize, gene, count);
                }
            }
        }
    }
}
