use std::ops::Range;

use rayon::prelude::*;

use super::grid::Grid;
use super::numbers::{BAD, Rounding};
use super::transpose::{Entries, FirstBad, Kept};
use super::{CellBlock, CellBlocks, ReadOptions, Shape};
use crate::error::{Error, Result};
use crate::tree::Array;

/// A dense matrix that has a row a gene and a column a cell, as in loom files.
#[derive(Debug, Clone)]
pub struct GeneRows {
    grid: Grid,
    shape: Shape,
    kept: Kept,
}

impl GeneRows {
    /// The matrix in a dataset of two axes.
    ///
    /// # Errors
    ///
    /// [`Error::Length`] if its shape is not `shape`, [`Error::Unsupported`] if it holds no numbers.
    pub fn new(values: Array, shape: Shape) -> Result<Self> {
        let expected = format!("there are {} genes and {} cells", shape.genes, shape.cells);
        let grid = Grid::new(values, (shape.genes, shape.cells), &expected)?;
        grid.check_positions(shape, true)?;
        Ok(Self { grid, shape, kept: Kept::default() })
    }

    /// Cells and genes.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The values.
    pub fn values(&self) -> &Array {
        self.grid.values()
    }

    pub(crate) fn cells(&self, range: Range<u64>, options: &ReadOptions) -> Result<Box<dyn CellBlocks>> {
        self.values().check_chunk_bytes(options.memory / 4)?;
        Ok(Box::new(Entries::GeneRows(self.clone()).cells(range, options, Some(&self.kept))?))
    }

    /// Goes through all chunks, some at a time: each becomes a block whose rows are genes.
    pub(crate) fn scan(
        &self,
        options: &ReadOptions,
        bad: &mut FirstBad,
        each: &mut dyn FnMut(&[CellBlock]) -> Result<()>,
    ) -> Result<()> {
        let chunks = self.grid.down() * self.grid.across();
        let at_once = self.grid.at_once(options.memory / 2);
        let mut start = 0;
        while start < chunks {
            options.check_cancelled()?;
            let end = chunks.min(start + at_once);
            let blocks: Vec<Result<(CellBlock, FirstBad)>> =
                (start..end).into_par_iter().map(|index| self.block(index, options.rounding)).collect();
            let mut found = Vec::with_capacity(blocks.len());
            for block in blocks {
                let (block, faulty) = block?;
                if let Some(faulty) = faulty {
                    *bad = Some(bad.map_or(faulty, |bad| bad.min(faulty)));
                }
                found.push(block);
            }
            each(&found)?;
            start = end;
        }
        Ok(())
    }

    /// The nonzeros of a chunk by gene, and the first value in cell order that is no count.
    fn block(&self, index: u64, rounding: Rounding) -> Result<(CellBlock, FirstBad)> {
        let (across, chunk) = (self.grid.across(), self.grid.chunk());
        let (first_gene, first_cell) = (index / across * chunk.0, index % across * chunk.1);
        let genes = chunk.0.min(self.shape.genes - first_gene);
        let cells = chunk.1.min(self.shape.cells - first_cell);
        let counts = self.grid.counts(index, rounding)?;
        let mut block = CellBlock { first_cell: first_gene, indptr: vec![0], ..CellBlock::default() };
        let mut bad: FirstBad = None;
        let mut rows = self.grid.rows(&counts);
        for gene in first_gene..first_gene + genes {
            let row = rows.next().ok_or_else(|| self.values().damaged("a chunk cut short"))?;
            for (cell, &count) in (first_cell..first_cell + cells).zip(row) {
                if count == BAD {
                    let found = (cell, gene, 0);
                    bad = Some(bad.map_or(found, |bad| bad.min(found)));
                } else if count != 0 {
                    block.genes.push(u32::try_from(cell).unwrap_or(BAD));
                    block.counts.push(count);
                }
            }
            block.indptr.push(block.genes.len());
        }
        Ok((block, bad))
    }

    /// The error for a value that is no count.
    pub(crate) fn value_error(&self, cell: u64, gene: u64) -> Result<Error> {
        self.grid.value_error((cell, gene), (gene, cell))
    }
}
