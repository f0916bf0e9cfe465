use std::ops::Range;

use rayon::prelude::*;

use super::grid::Grid;
use super::numbers::{BAD, Rounding};
use super::scan::First;
use super::scatter::ScatteredBlocks;
use super::transpose::{Entries, FirstBad};
use super::{CellBlock, CellBlocks, ReadOptions, Shape};
use crate::error::{Error, Result, ValueError};
use crate::tree::Array;

/// A matrix that stores every value.
#[derive(Debug, Clone)]
pub struct DenseMatrix {
    grid: Grid,
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
        let expected = format!("there are {} cells and {} genes", shape.cells, shape.genes);
        let grid = Grid::new(values.into(), (shape.cells, shape.genes), &expected)?;
        grid.check_positions(shape, false)?;
        Ok(Self { chunk: grid.chunk(), grid, shape })
    }

    /// Cells and genes.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The values.
    pub fn values(&self) -> &Array {
        self.grid.values()
    }

    /// Whether its chunks are too tall to hold a row of them: then its cells are sorted from its genes.
    pub(crate) fn is_tall(&self, memory: u64) -> bool {
        let row = self.chunk.0.saturating_mul(self.grid.across().saturating_mul(self.chunk.1));
        row.saturating_mul(4) > memory / 4
    }

    /// The cells of a range in blocks.
    pub(crate) fn cells(&self, range: Range<u64>, options: &ReadOptions) -> Result<Box<dyn CellBlocks>> {
        self.values().check_chunk_bytes(options.memory / 4)?;
        Ok(Box::new(DenseBlocks {
            matrix: self.clone(),
            next: range.start,
            end: range.end.min(self.shape.cells),
            options: options.clone(),
            inner: None,
        }))
    }

    /// The chunk at a place of the grid, as counts; [`BAD`] ones are reported in cell order. Rows of the chunk are
    /// `self.chunk.1` long.
    fn decode(&self, row: u64, column: u64, rounding: Rounding, bad: &First) -> Result<Vec<u32>> {
        let counts = self.grid.counts(row * self.grid.across() + column, rounding)?;
        let (first_cell, first_gene) = (row * self.chunk.0, column * self.chunk.1);
        let width = self.width(column);
        if counts.iter().fold(0, |all, &count| all.max(count)) == BAD {
            let cells = self.shape.cells - first_cell;
            for (within, values) in self.grid.rows(&counts).enumerate().take(to_usize(cells)) {
                if let Some(at) = values.iter().take(width).position(|&count| count == BAD) {
                    bad.report((first_cell + within as u64) * self.shape.genes + first_gene + at as u64);
                    break;
                }
            }
        }
        Ok(counts)
    }

    /// Genes of a chunk at this place of the grid that are inside the shape.
    fn width(&self, column: u64) -> usize {
        to_usize(self.chunk.1.min(self.shape.genes - column * self.chunk.1))
    }

    /// The error for a value that is no count.
    pub(crate) fn value_error(&self, cell: u64, gene: u64) -> Result<Error> {
        self.grid.value_error((cell, gene), (cell, gene))
    }

    /// Looks for a value that is no count in the first, the middle and the last chunk.
    pub(crate) fn sample_fault(&self, _limit: u64, options: &ReadOptions) -> Result<Option<ValueError>> {
        self.values().check_chunk_bytes(options.memory / 4)?;
        let chunks = self.grid.down() * self.grid.across();
        if chunks == 0 {
            return Ok(None);
        }
        for index in [0, chunks / 2, chunks - 1] {
            options.check_cancelled()?;
            let first = First::default();
            self.decode(index / self.grid.across(), index % self.grid.across(), options.rounding, &first)?;
            if let Some(position) = first.get() {
                let at = (position / self.shape.genes, position % self.shape.genes);
                return Ok(Some(*self.grid.fault(at, at)?));
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
        let at_once = to_usize(self.grid.at_once(options.memory / 2));
        let columns: Vec<u64> = (0..self.grid.across()).collect();
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
        if matrix.is_tall(self.options.memory) {
            let end = self.end.min((self.next / height + 1) * height);
            let rows = self.next..end;
            self.next = end;
            let entries = Entries::DenseRows(matrix.clone(), rows.clone());
            self.inner = Some(entries.cells(rows, &self.options, None)?);
            return self.next_block(block);
        }
        // Whole rows of chunks, of about as many values as a block has entries.
        let values = matrix.grid.across().saturating_mul(matrix.chunk.1).max(1);
        let rows = (2 * self.options.block_entries() / values).max(1);
        let end = self.next.saturating_add(rows);
        let end = self.end.min(if end < (self.next / height + 1) * height {
            (self.next / height + 1) * height
        } else {
            end / height * height
        });
        let (top, bottom) = (self.next / height, end.div_ceil(height));
        let bad = First::default();
        let across = matrix.grid.across();
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
