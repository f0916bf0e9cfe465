use std::ops::Range;

use rayon::prelude::*;

use super::numbers::{self, BAD, Rounding};
use super::scan::First;
use super::scatter::ScatteredBlocks;
use super::sparse::share_note;
use super::transpose::{Entries, FirstBad};
use super::{CellBlock, CellBlocks, ReadOptions, Shape, number_type};
use crate::error::{Error, Result, ValueError, ValueFault};
use crate::hdf5::NumberType;
use crate::tree::{Array, with_scratch};

/// A matrix that stores every value.
#[derive(Debug, Clone)]
pub struct DenseMatrix {
    values: Array,
    number: NumberType,
    shape: Shape,
    /// Cells and genes of a chunk.
    chunk: (u64, u64),
}

impl DenseMatrix {
    /// The matrix in an array of two axes, or of one where there is only one cell or only one gene.
    ///
    /// # Errors
    ///
    /// [`Error::Length`] if its shape is not `shape`, [`Error::Unsupported`] if it holds no numbers.
    pub fn new(values: impl Into<Array>, shape: Shape) -> Result<Self> {
        let values = values.into();
        let number = number_type(values.dtype())
            .ok_or_else(|| values.unsupported(format!("{}; expected numbers", values.dtype())))?;
        let chunk = match (values.shape(), values.grid()) {
            (&[cells, genes], &[rows, columns]) if (cells, genes) == (shape.cells, shape.genes) => {
                (rows, columns)
            }
            (&[len], &[edge]) if shape.cells == 1 && len == shape.genes => (1, edge),
            (&[len], &[edge]) if shape.genes == 1 && len == shape.cells => (edge, 1),
            (found, _) => {
                return Err(Error::Length {
                    file: values.file_name().to_owned(),
                    at: values.path().to_owned(),
                    found: format!("shape {found:?}"),
                    expected: format!("there are {} cells and {} genes", shape.cells, shape.genes),
                });
            }
        };
        if u32::try_from(shape.genes).is_err() || shape.cells.checked_mul(shape.genes).is_none() {
            return Err(values.unsupported(format!("{} x {}", shape.cells, shape.genes)));
        }
        Ok(Self { values, number, shape, chunk })
    }

    /// Cells and genes.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The values.
    pub fn values(&self) -> &Array {
        &self.values
    }

    /// The cells of a range in blocks.
    pub(crate) fn cells(&self, range: Range<u64>, options: &ReadOptions) -> Result<Box<dyn CellBlocks>> {
        self.values.check_chunk_bytes(options.memory / 4)?;
        Ok(Box::new(DenseBlocks {
            matrix: self.clone(),
            next: range.start,
            end: range.end.min(self.shape.cells),
            options: options.clone(),
            inner: None,
        }))
    }

    /// Chunks along the genes.
    fn across(&self) -> u64 {
        self.shape.genes.div_ceil(self.chunk.1)
    }

    /// The chunk at a place of the grid, as counts; [`BAD`] ones are reported in cell order. Rows of the chunk are
    /// `self.chunk.1` long.
    fn decode(&self, row: u64, column: u64, rounding: Rounding, bad: &First) -> Result<Vec<u32>> {
        let mut counts = Vec::new();
        with_scratch(|inflater, bytes| -> Result<()> {
            self.values.read_chunk(row * self.across() + column, inflater, bytes)?;
            counts.resize(bytes.len() / self.number.size, 0);
            numbers::counts(bytes, self.number, rounding, &mut counts);
            Ok(())
        })?;
        let (first_cell, first_gene) = (row * self.chunk.0, column * self.chunk.1);
        let width = self.width(column);
        if counts.iter().fold(0, |all, &count| all.max(count)) == BAD {
            let cells = self.shape.cells - first_cell;
            for (within, values) in self.chunk_rows(&counts).enumerate().take(to_usize(cells)) {
                if let Some(at) = values.iter().take(width).position(|&count| count == BAD) {
                    bad.report((first_cell + within as u64) * self.shape.genes + first_gene + at as u64);
                    break;
                }
            }
        }
        Ok(counts)
    }

    fn chunk_rows<'a>(&self, counts: &'a [u32]) -> impl Iterator<Item = &'a [u32]> {
        counts.chunks(to_usize(self.chunk.1).max(1))
    }

    /// Genes of a chunk at this place of the grid that are inside the shape.
    fn width(&self, column: u64) -> usize {
        to_usize(self.chunk.1.min(self.shape.genes - column * self.chunk.1))
    }

    /// The stored bytes of one value.
    fn stored(&self, cell: u64, gene: u64) -> Result<Vec<u8>> {
        let index = cell / self.chunk.0 * self.across() + gene / self.chunk.1;
        let at = to_usize(cell % self.chunk.0 * self.chunk.1 + gene % self.chunk.1) * self.number.size;
        with_scratch(|inflater, bytes| {
            self.values.read_chunk(index, inflater, bytes)?;
            let value = bytes.get(at..at + self.number.size);
            value.map(<[u8]>::to_vec).ok_or_else(|| self.values.damaged("a chunk cut short"))
        })
    }

    fn fault(&self, cell: u64, gene: u64) -> Result<Box<ValueError>> {
        let (kind, value) = numbers::fault(&self.stored(cell, gene)?, self.number);
        Ok(Box::new(ValueError {
            file: self.values.file_name().to_owned(),
            matrix: self.values.path().to_owned(),
            cell,
            cell_name: None,
            gene,
            gene_name: None,
            kind,
            value,
            note: String::new(),
        }))
    }

    /// The error for a value that is no count.
    pub(crate) fn value_error(&self, cell: u64, gene: u64) -> Result<Error> {
        let mut error = self.fault(cell, gene)?;
        if error.kind == ValueFault::Fractional {
            // The share within the chunk that holds it.
            let index = cell / self.chunk.0 * self.across() + gene / self.chunk.1;
            let (fractional, values) = with_scratch(|inflater, bytes| -> Result<(u64, u64)> {
                self.values.read_chunk(index, inflater, bytes)?;
                let mut fractional = 0;
                for value in bytes.chunks_exact(self.number.size) {
                    let mut count = [0];
                    numbers::counts(value, self.number, Rounding::Refuse, &mut count);
                    let is = count == [BAD] && numbers::fault(value, self.number).0 == ValueFault::Fractional;
                    fractional += u64::from(is);
                }
                Ok((fractional, (bytes.len() / self.number.size) as u64))
            })?;
            error.note = share_note(fractional, values);
        }
        Ok(error.into())
    }

    /// Looks for a value that is no count in the first, the middle and the last chunk.
    pub(crate) fn sample_fault(&self, _limit: u64, options: &ReadOptions) -> Result<Option<ValueError>> {
        self.values.check_chunk_bytes(options.memory / 4)?;
        let down = self.shape.cells.div_ceil(self.chunk.0);
        let chunks = down * self.across();
        if chunks == 0 {
            return Ok(None);
        }
        for index in [0, chunks / 2, chunks - 1] {
            options.check_cancelled()?;
            let first = First::default();
            self.decode(index / self.across(), index % self.across(), options.rounding, &first)?;
            if let Some(position) = first.get() {
                return Ok(Some(*self.fault(position / self.shape.genes, position % self.shape.genes)?));
            }
        }
        Ok(None)
    }

    /// Goes through some rows gene by gene, for chunks too tall to hold a row of them.
    pub(crate) fn scan_columns(
        &self,
        rows: Range<u64>,
        options: &ReadOptions,
        bad: &mut FirstBad,
        each: &mut dyn FnMut(&[CellBlock]) -> Result<()>,
    ) -> Result<()> {
        let row = rows.start / self.chunk.0;
        let first_cell = row * self.chunk.0;
        // A decoded chunk takes four bytes a value, its entries at most eight more.
        let chunk = self.chunk.0.saturating_mul(self.chunk.1).saturating_mul(12).max(1);
        let at_once = to_usize(options.memory / 2 / chunk).max(1);
        let columns: Vec<u64> = (0..self.across()).collect();
        for batch in columns.chunks(at_once) {
            options.check_cancelled()?;
            let first_bad = First::default();
            let blocks: Vec<Result<CellBlock>> = batch
                .par_iter()
                .map(|&column| {
                    let counts = self.decode(row, column, options.rounding, &first_bad)?;
                    Ok(self.column_block(&counts, column, first_cell, &rows))
                })
                .collect();
            let blocks = blocks.into_iter().collect::<Result<Vec<_>>>()?;
            if let Some(position) = first_bad.get() {
                let found = (position / self.shape.genes, position % self.shape.genes, position);
                *bad = Some(bad.map_or(found, |bad| bad.min(found)));
            }
            each(&blocks)?;
        }
        Ok(())
    }

    /// A chunk's nonzeros by gene.
    fn column_block(&self, counts: &[u32], column: u64, first_cell: u64, rows: &Range<u64>) -> CellBlock {
        let width = self.width(column);
        let mut block =
            CellBlock { first_cell: column * self.chunk.1, indptr: vec![0], ..Default::default() };
        for gene in 0..width {
            let values = counts.iter().skip(gene).step_by(to_usize(self.chunk.1));
            for (cell, &count) in (first_cell..rows.end).zip(values) {
                if count != 0 && cell >= rows.start {
                    block.genes.push(u32::try_from(cell).unwrap_or(BAD));
                    block.counts.push(count);
                }
            }
            block.indptr.push(block.genes.len());
        }
        block
    }
}

fn to_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

struct DenseBlocks {
    matrix: DenseMatrix,
    next: u64,
    end: u64,
    options: ReadOptions,
    inner: Option<ScatteredBlocks>,
}

impl DenseBlocks {
    /// Whether a row of chunks fits, decoded.
    fn fits(&self) -> bool {
        let row =
            self.matrix.chunk.0.saturating_mul(self.matrix.across().saturating_mul(self.matrix.chunk.1));
        row.saturating_mul(4) <= self.options.memory / 4
    }
}

impl CellBlocks for DenseBlocks {
    fn next_block(&mut self, block: &mut CellBlock) -> Result<bool> {
        self.options.check_cancelled()?;
        if let Some(inner) = &mut self.inner {
            if inner.next_block(block)? {
                return Ok(true);
            }
            self.inner = None;
        }
        if self.next >= self.end {
            return Ok(false);
        }
        let matrix = &self.matrix;
        let height = matrix.chunk.0;
        if !self.fits() {
            let end = self.end.min((self.next / height + 1) * height);
            let rows = self.next..end;
            self.next = end;
            let entries = Entries::DenseRows(matrix.clone(), rows.clone());
            self.inner = Some(entries.cells(rows, &self.options, None)?);
            return self.next_block(block);
        }
        // Whole rows of chunks, of about as many values as a block has entries.
        let values = matrix.across().saturating_mul(matrix.chunk.1).max(1);
        let rows = (2 * self.options.block_entries() / values).max(1);
        let end = self.next.saturating_add(rows);
        let end = self.end.min(if end < (self.next / height + 1) * height {
            (self.next / height + 1) * height
        } else {
            end / height * height
        });
        let (top, bottom) = (self.next / height, end.div_ceil(height));
        let bad = First::default();
        let across = matrix.across();
        let chunks: Vec<Result<Vec<u32>>> = (top * across..bottom * across)
            .into_par_iter()
            .map(|index| matrix.decode(index / across, index % across, self.options.rounding, &bad))
            .collect();
        let chunks = chunks.into_iter().collect::<Result<Vec<_>>>()?;
        if let Some(position) = bad.get() {
            let cell = position / matrix.shape.genes;
            if (self.next..end).contains(&cell) {
                return Err(matrix.value_error(cell, position % matrix.shape.genes)?);
            }
        }
        let cells: Vec<u64> = (self.next..end).collect();
        let parts: Vec<(Vec<usize>, Vec<u32>, Vec<u32>)> = cells
            .par_chunks(32)
            .map(|cells| {
                let (mut lengths, mut genes, mut counts) = (Vec::new(), Vec::new(), Vec::new());
                for &cell in cells {
                    let before = genes.len();
                    let within = to_usize(cell % height) * to_usize(matrix.chunk.1);
                    let first = to_usize((cell / height - top) * across);
                    for (column, chunk) in (0..across).zip(chunks.get(first..).unwrap_or(&[])) {
                        let row = chunk.get(within..).unwrap_or(&[]);
                        let gene = u32::try_from(column * matrix.chunk.1).unwrap_or(BAD);
                        for (gene, &count) in (gene..).zip(row.iter().take(matrix.width(column))) {
                            if count != 0 {
                                genes.push(gene);
                                counts.push(count);
                            }
                        }
                    }
                    lengths.push(genes.len() - before);
                }
                (lengths, genes, counts)
            })
            .collect();
        block.first_cell = self.next;
        block.indptr.clear();
        block.indptr.push(0);
        block.genes.clear();
        block.counts.clear();
        let mut total = 0;
        for (lengths, genes, counts) in parts {
            block.indptr.extend(lengths.iter().map(|length| {
                total += length;
                total
            }));
            block.genes.extend_from_slice(&genes);
            block.counts.extend_from_slice(&counts);
        }
        self.next = end;
        Ok(true)
    }
}
