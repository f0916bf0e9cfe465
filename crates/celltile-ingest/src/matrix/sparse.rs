use std::ops::Range;

use super::numbers::{self, Rounding};
use super::scan::First;
use super::transpose::{Entries, Kept};
use super::{CellBlock, CellBlocks, ReadOptions, Shape, number_type};
use crate::error::{Error, Result, ValueError, ValueFault};
use crate::hdf5::{NumberKind, NumberType};
use crate::tree::{Array, RangeReader};

/// Whether a sparse matrix lists the genes of each cell or the cells of each gene.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Orientation {
    /// Genes of each cell.
    Csr,
    /// Cells of each gene.
    Csc,
}

/// A sparse matrix: `indptr`, `indices` and `data`.
#[derive(Debug, Clone)]
pub struct SparseMatrix {
    name: String,
    orientation: Orientation,
    shape: Shape,
    data: Array,
    indices: Array,
    indptr: Array,
    data_type: NumberType,
    index_type: NumberType,
    indptr_type: NumberType,
    kept: Kept,
}

impl SparseMatrix {
    /// A matrix called `name` in messages. Lengths are checked; values are when they are read.
    ///
    /// # Errors
    ///
    /// [`Error::Length`] where the three disagree with each other or the shape, [`Error::Unsupported`] for types that
    /// are no numbers.
    pub fn new(
        name: &str,
        orientation: Orientation,
        shape: Shape,
        data: impl Into<Array>,
        indices: impl Into<Array>,
        indptr: impl Into<Array>,
    ) -> Result<Self> {
        // A sparse matrix stores no zeros by the chunk.
        let (data, indices, indptr) = (data.into().complete(), indices.into(), indptr.into());
        let type_of = |dataset: &Array, integers: bool| {
            number_type(dataset.dtype())
                .filter(|number| !integers || number.kind != NumberKind::Float)
                .ok_or_else(|| {
                    let wanted = if integers { "integers" } else { "numbers" };
                    dataset.unsupported(format!("{}; expected {wanted}", dataset.dtype()))
                })
        };
        let matrix = Self {
            name: name.to_owned(),
            orientation,
            shape,
            data_type: type_of(&data, false)?,
            index_type: type_of(&indices, true)?,
            indptr_type: type_of(&indptr, true)?,
            data,
            indices,
            indptr,
            kept: Kept::default(),
        };
        if u32::try_from(matrix.minor()).is_err() || u32::try_from(matrix.major()).is_err() {
            return Err(matrix.data.unsupported(format!("{} x {}", shape.cells, shape.genes)));
        }
        let (stored, listed) = (matrix.data.len_1d()?, matrix.indices.len_1d()?);
        if stored != listed {
            return Err(matrix.length_error(
                &matrix.data,
                format!("{stored} values"),
                format!("{} has {listed}", matrix.indices.path()),
            ));
        }
        let rows = matrix.indptr.len_1d()?;
        if matrix.major().checked_add(1) != Some(rows) {
            let (axis, shape) = match orientation {
                Orientation::Csr => ("cells", shape.cells),
                Orientation::Csc => ("genes", shape.genes),
            };
            return Err(matrix.length_error(
                &matrix.indptr,
                format!("{rows} entries"),
                format!("{shape} {axis} need one more than their number"),
            ));
        }
        Ok(matrix)
    }

    /// Cells and genes.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Whether rows are cells or genes.
    pub fn orientation(&self) -> Orientation {
        self.orientation
    }

    /// The values.
    pub fn data(&self) -> &Array {
        &self.data
    }

    /// Entries stored.
    pub fn stored(&self) -> u64 {
        self.data.shape().first().copied().unwrap_or(0)
    }

    /// Name in messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn file_name(&self) -> &str {
        self.data.file_name()
    }

    /// Rows of the storage.
    pub(crate) fn major(&self) -> u64 {
        match self.orientation {
            Orientation::Csr => self.shape.cells,
            Orientation::Csc => self.shape.genes,
        }
    }

    fn minor(&self) -> u64 {
        match self.orientation {
            Orientation::Csr => self.shape.genes,
            Orientation::Csc => self.shape.cells,
        }
    }

    fn length_error(&self, dataset: &Array, found: String, expected: String) -> Error {
        Error::Length { file: dataset.file_name().to_owned(), at: dataset.path().to_owned(), found, expected }
    }

    /// What a row of the storage is called.
    fn row_word(&self) -> &'static str {
        match self.orientation {
            Orientation::Csr => "cell",
            Orientation::Csc => "gene",
        }
    }

    /// Checks the whole `indptr`: from 0, never falling, up to the number of entries.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] with the first row where it does not hold.
    pub(crate) fn check_indptr(&self, options: &ReadOptions) -> Result<()> {
        let mut reader = RangeReader::new(self.indptr.clone(), options.memory / 4)?;
        let total = reader.len();
        let stored = i64::try_from(self.stored()).map_err(|_| self.data.damaged("more than 2^63 values"))?;
        let mut window = Vec::new();
        let (mut start, mut last) = (0_u64, 0_i64);
        while start < total {
            options.check_cancelled()?;
            let end = total.min(start + (1 << 18));
            read_offsets(&mut reader, self.indptr_type, start..end, &mut window)?;
            for (at, &offset) in (start..).zip(&window) {
                if at == 0 && offset != 0 {
                    return Err(self.indptr.damaged(format!("starts at {offset}; expected 0")));
                }
                if offset < last {
                    let what = format!(
                        "falls from {last} to {offset} after {} {}; more than 2^31-1 entries in 32-bit offsets do this",
                        self.row_word(),
                        at.saturating_sub(1)
                    );
                    return Err(self.indptr.damaged(what));
                }
                if offset > stored {
                    let what = format!(
                        "{} {} ends at {offset}, past the {stored} values",
                        self.row_word(),
                        at.saturating_sub(1)
                    );
                    return Err(self.indptr.damaged(what));
                }
                last = offset;
            }
            start = end;
        }
        if last != stored {
            return Err(self
                .indptr
                .damaged(format!("ends at {last}; expected the number of values, {stored}")));
        }
        Ok(())
    }

    /// The cells of a range in blocks.
    pub(crate) fn cells(&self, range: Range<u64>, options: &ReadOptions) -> Result<Box<dyn CellBlocks>> {
        self.check_indptr(options)?;
        match self.orientation {
            Orientation::Csr => Ok(Box::new(CsrBlocks { rows: self.rows(range, options)? })),
            Orientation::Csc => {
                Ok(Box::new(Entries::Csc(self.clone()).cells(range, options, Some(&self.kept))?))
            }
        }
    }

    /// Rows of the storage in blocks, whatever they are.
    pub(crate) fn rows(&self, range: Range<u64>, options: &ReadOptions) -> Result<RowBlocks> {
        let chunk_memory = options.memory / 8;
        Ok(RowBlocks {
            data: RangeReader::new(self.data.clone(), chunk_memory)?,
            indices: RangeReader::new(self.indices.clone(), chunk_memory)?,
            indptr: RangeReader::new(self.indptr.clone(), chunk_memory)?,
            next: range.start,
            end: range.end.min(self.major()),
            window: Vec::new(),
            window_start: range.start,
            matrix: self.clone(),
            options: options.clone(),
        })
    }

    /// The error for the value at a position of `data`, which belongs to this cell and gene.
    pub(crate) fn value_error(
        &self,
        position: u64,
        cell: u64,
        gene: u64,
        note: String,
    ) -> Result<Box<ValueError>> {
        let bytes = element(&self.data, position)?;
        let (kind, value) = numbers::fault(&bytes, self.data_type);
        Ok(Box::new(ValueError {
            file: self.file_name().to_owned(),
            matrix: self.name.clone(),
            cell,
            cell_name: None,
            gene,
            gene_name: None,
            kind,
            value,
            note,
        }))
    }

    /// The error for the position at a place of `indices`, in row `row`.
    pub(crate) fn index_error(&self, place: u64, row: u64) -> Result<Error> {
        let bytes = element(&self.indices, place)?;
        let (_, found) = numbers::fault(&bytes, self.index_type);
        let (other, limit) = match self.orientation {
            Orientation::Csr => ("genes", self.shape.genes),
            Orientation::Csc => ("cells", self.shape.cells),
        };
        let what =
            format!("entry {place}, of {} {row}, is {found}; there are {limit} {other}", self.row_word());
        Ok(self.indices.damaged(what))
    }

    /// Looks for a value that is no count among some at the start, the middle and the end.
    pub(crate) fn sample_fault(&self, limit: u64, options: &ReadOptions) -> Result<Option<ValueError>> {
        let mut reader = RangeReader::new(self.data.clone(), options.memory / 4)?;
        let third = (limit / 3).max(1);
        let mut values = Vec::new();
        for start in [0, reader.len() / 2, reader.len().saturating_sub(third)] {
            options.check_cancelled()?;
            let end = start.saturating_add(third).min(reader.len());
            values.resize(usize::try_from(end.saturating_sub(start)).unwrap_or(0), 0_u32);
            let first = First::default();
            let (number, rounding) = (self.data_type, options.rounding);
            reader.read(start..end, &mut values, |bytes, out, at| {
                numbers::counts(bytes, number, rounding, out);
                first.report_bad(out, at);
            })?;
            if let Some(position) = first.get() {
                let (row, column) = self.locate(position, options)?;
                let (cell, gene) = match self.orientation {
                    Orientation::Csr => (row, column),
                    Orientation::Csc => (column, row),
                };
                return Ok(Some(*self.value_error(position, cell, gene, String::new())?));
            }
        }
        Ok(None)
    }

    /// Row of the storage and position within it that an entry belongs to.
    fn locate(&self, position: u64, options: &ReadOptions) -> Result<(u64, u64)> {
        let mut reader = RangeReader::new(self.indptr.clone(), options.memory / 4)?;
        let mut window = Vec::new();
        let (mut start, total) = (0, reader.len());
        let mut row = 0;
        while start < total {
            let end = total.min(start + (1 << 18));
            read_offsets(&mut reader, self.indptr_type, start..end, &mut window)?;
            let below = window
                .partition_point(|&offset| u64::try_from(offset).is_ok_and(|offset| offset <= position));
            row = start + below as u64;
            if below < window.len() {
                break;
            }
            start = end;
        }
        let column = element(&self.indices, position)?;
        let mut index = [0];
        numbers::positions(&column, self.index_type, u32::MAX, &mut index);
        Ok((row.saturating_sub(1), u64::from(index[0])))
    }
}

/// One element of a dataset, as stored.
pub(crate) fn element(dataset: &Array, position: u64) -> Result<Vec<u8>> {
    let mut reader = RangeReader::new(dataset.clone(), u64::MAX)?;
    let mut out = [0_u64];
    reader.read(position..position + 1, &mut out, |bytes, out, _| {
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(bytes) {
            *to = *from;
        }
        if let [out] = out {
            *out = u64::from_le_bytes(word);
        }
    })?;
    let mut bytes = out[0].to_le_bytes().to_vec();
    bytes.truncate(dataset.element_size());
    Ok(bytes)
}

fn read_offsets(
    reader: &mut RangeReader,
    number: NumberType,
    range: Range<u64>,
    out: &mut Vec<i64>,
) -> Result<()> {
    out.resize(usize::try_from(range.end - range.start).unwrap_or(0), 0);
    reader.read(range, out, |bytes, out, _| numbers::offsets(bytes, number, out))
}

/// Rows of the storage in blocks, in order; `indptr` is known to be sound.
pub(crate) struct RowBlocks {
    matrix: SparseMatrix,
    data: RangeReader,
    indices: RangeReader,
    indptr: RangeReader,
    next: u64,
    end: u64,
    /// Offsets of rows `window_start ..`, one more than rows.
    window: Vec<i64>,
    window_start: u64,
    options: ReadOptions,
}

/// What [`RowBlocks::next_rows`] found.
pub(crate) struct Rows {
    /// Position of the block's first entry in `data` and `indices`.
    pub(crate) start: u64,
    /// First bad index, if any: a position in `indices`.
    pub(crate) bad_index: Option<u64>,
    /// First bad value, if any: a position in `data`.
    pub(crate) bad_value: Option<u64>,
}

impl RowBlocks {
    /// Rows of offsets read at once.
    const WINDOW: u64 = 1 << 16;

    fn window_at(&self, row: u64) -> Option<u64> {
        let at = usize::try_from(row.checked_sub(self.window_start)?).ok()?;
        self.window.get(at).and_then(|&offset| u64::try_from(offset).ok())
    }

    /// The next rows into `block`, whose `genes` then are positions along the other axis. Bad entries hold
    /// [`numbers::BAD`].
    pub(crate) fn next_rows(&mut self, block: &mut CellBlock) -> Result<Option<Rows>> {
        self.options.check_cancelled()?;
        if self.next >= self.end {
            return Ok(None);
        }
        if self.window_at(self.next + 1).is_none() {
            let end = self.end.min(self.next + Self::WINDOW) + 1;
            read_offsets(&mut self.indptr, self.matrix.indptr_type, self.next..end, &mut self.window)?;
            self.window_start = self.next;
        }
        let broken = || self.matrix.indptr.damaged("changed while it was read");
        let start = self.window_at(self.next).ok_or_else(broken)?;
        block.first_cell = self.next;
        block.indptr.clear();
        block.indptr.push(0);
        let target = self.options.block_entries();
        let mut row = self.next;
        let mut end = start;
        while row < self.end {
            let Some(next) = self.window_at(row + 1) else { break };
            let entries = next.checked_sub(end).ok_or_else(broken)?;
            // A row of more entries than there are positions repeats some: too long to look for which.
            if entries > self.matrix.minor().saturating_mul(2).max(1 << 20) {
                let what = format!(
                    "{} {row} has {entries} entries for {} positions",
                    self.matrix.row_word(),
                    self.matrix.minor()
                );
                return Err(self.matrix.indptr.damaged(what));
            }
            if row > self.next && next - start > target {
                break;
            }
            end = next;
            block.indptr.push(usize::try_from(end - start).map_err(|_| broken())?);
            row += 1;
        }
        self.next = row;
        let entries = usize::try_from(end - start).map_err(|_| broken())?;
        block.genes.resize(entries, 0);
        block.counts.resize(entries, 0);
        let (bad_index, bad_value) = (First::default(), First::default());
        let matrix = &self.matrix;
        let limit = u32::try_from(matrix.minor()).unwrap_or(u32::MAX);
        let rounding: Rounding = self.options.rounding;
        let (indices, data) = rayon::join(
            || {
                self.indices.read(start..end, &mut block.genes, |bytes, out, at| {
                    numbers::positions(bytes, matrix.index_type, limit, out);
                    bad_index.report_bad(out, at);
                })
            },
            || {
                self.data.read(start..end, &mut block.counts, |bytes, out, at| {
                    numbers::counts(bytes, matrix.data_type, rounding, out);
                    bad_value.report_bad(out, at);
                })
            },
        );
        indices?;
        data?;
        Ok(Some(Rows { start, bad_index: bad_index.get(), bad_value: bad_value.get() }))
    }
}

struct CsrBlocks {
    rows: RowBlocks,
}

impl CellBlocks for CsrBlocks {
    fn next_block(&mut self, block: &mut CellBlock) -> Result<bool> {
        let Some(rows) = self.rows.next_rows(block)? else { return Ok(false) };
        let Some(position) = rows.bad_index.into_iter().chain(rows.bad_value).min() else { return Ok(true) };
        let matrix = &self.rows.matrix;
        let at = usize::try_from(position - rows.start).unwrap_or(usize::MAX);
        let row = block.indptr.partition_point(|&offset| offset <= at).saturating_sub(1);
        let cell = block.first_cell + row as u64;
        if rows.bad_index == Some(position) {
            return Err(matrix.index_error(position, cell)?);
        }
        let gene = block.genes.get(at).copied().unwrap_or(numbers::BAD);
        let error = matrix.value_error(position, cell, u64::from(gene), String::new())?;
        Err(with_share(
            error,
            &matrix.data,
            matrix.data_type,
            rows.start..rows.start + block.counts.len() as u64,
        )?
        .into())
    }
}

/// Adds to an error about a fractional value how many values of a range are fractional, and what lets them through.
pub(crate) fn with_share(
    mut error: Box<ValueError>,
    data: &Array,
    number: NumberType,
    range: Range<u64>,
) -> Result<Box<ValueError>> {
    if error.kind == ValueFault::Fractional {
        let mut reader = RangeReader::new(data.clone(), u64::MAX)?;
        let mut fractional = vec![0_u32; usize::try_from(range.end - range.start).unwrap_or(0)];
        let values = fractional.len();
        reader.read(range, &mut fractional, |bytes, out, _| {
            for (to, from) in out.iter_mut().zip(bytes.chunks_exact(number.size)) {
                let mut count = [0];
                numbers::counts(from, number, Rounding::Refuse, &mut count);
                *to = u32::from(
                    count == [numbers::BAD] && numbers::fault(from, number).0 == ValueFault::Fractional,
                );
            }
        })?;
        let count: u64 = fractional.iter().map(|&one| u64::from(one)).sum();
        error.note = share_note(count, values as u64);
    }
    Ok(error)
}

pub(crate) fn share_note(fractional: u64, values: u64) -> String {
    let thousandths = u128::from(fractional) * 100_000 / u128::from(values.max(1));
    format!(
        "; {fractional} of {values} values read here are fractional ({}.{:03} %): round=nearest or round=floor lets \
         them through, another matrix of the file may hold the counts",
        thousandths / 1000,
        thousandths % 1000
    )
}
