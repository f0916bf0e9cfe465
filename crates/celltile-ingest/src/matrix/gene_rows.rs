use std::ops::Range;

use rayon::prelude::*;

use super::numbers::{self, BAD, Rounding};
use super::transpose::{Entries, FirstBad, Kept};
use super::{CellBlock, CellBlocks, ReadOptions, Shape, number_type};
use crate::error::{Error, Result, ValueError, ValueFault};
use crate::hdf5::NumberType;
use crate::tree::{Array, with_scratch};

/// A dense matrix that has a row a gene and a column a cell, as in loom files.
#[derive(Debug, Clone)]
pub struct GeneRows {
    values: Array,
    number: NumberType,
    shape: Shape,
    /// Genes and cells of a chunk.
    chunk: (u64, u64),
    kept: Kept,
}

impl GeneRows {
    /// The matrix in a dataset of two axes.
    ///
    /// # Errors
    ///
    /// [`Error::Length`] if its shape is not `shape`, [`Error::Unsupported`] if it holds no numbers.
    pub fn new(values: Array, shape: Shape) -> Result<Self> {
        let number = number_type(values.dtype())
            .ok_or_else(|| values.unsupported(format!("{}; expected numbers", values.dtype())))?;
        let chunk = match (values.shape(), values.grid()) {
            (&[genes, cells], &[down, across]) if (cells, genes) == (shape.cells, shape.genes) => {
                (down.max(1), across.max(1))
            }
            (found, _) => {
                return Err(Error::Length {
                    file: values.file_name().to_owned(),
                    at: values.path().to_owned(),
                    found: format!("shape {found:?}"),
                    expected: format!("there are {} genes and {} cells", shape.genes, shape.cells),
                });
            }
        };
        if u32::try_from(shape.genes).is_err()
            || u32::try_from(shape.cells).is_err()
            || shape.cells.checked_mul(shape.genes).is_none()
        {
            return Err(values.unsupported(format!("{} x {}", shape.genes, shape.cells)));
        }
        Ok(Self { values, number, shape, chunk, kept: Kept::default() })
    }

    /// Cells and genes.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The values.
    pub fn values(&self) -> &Array {
        &self.values
    }

    pub(crate) fn cells(&self, range: Range<u64>, options: &ReadOptions) -> Result<Box<dyn CellBlocks>> {
        self.values.check_chunk_bytes(options.memory / 4)?;
        Ok(Box::new(Entries::GeneRows(self.clone()).cells(range, options, Some(&self.kept))?))
    }

    fn across(&self) -> u64 {
        self.shape.cells.div_ceil(self.chunk.1)
    }

    /// Goes through all chunks, some at a time: each becomes a block whose rows are genes.
    pub(crate) fn scan(
        &self,
        options: &ReadOptions,
        bad: &mut FirstBad,
        each: &mut dyn FnMut(&[CellBlock]) -> Result<()>,
    ) -> Result<()> {
        let chunks = self.shape.genes.div_ceil(self.chunk.0) * self.across();
        // Decoded values, and entries of twice the size.
        let bytes = self.chunk.0.saturating_mul(self.chunk.1).saturating_mul(12).max(1);
        let at_once = (options.memory / 2 / bytes).clamp(1, 1 << 12);
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
        let (first_gene, first_cell) =
            (index / self.across() * self.chunk.0, index % self.across() * self.chunk.1);
        let genes = self.chunk.0.min(self.shape.genes - first_gene);
        let cells = self.chunk.1.min(self.shape.cells - first_cell);
        let width = usize::try_from(self.chunk.1).unwrap_or(usize::MAX);
        let mut counts = Vec::new();
        with_scratch(|inflater, bytes| -> Result<()> {
            self.values.read_chunk(index, inflater, bytes)?;
            counts.resize(bytes.len() / self.number.size, 0);
            numbers::counts(bytes, self.number, rounding, &mut counts);
            Ok(())
        })?;
        let mut block = CellBlock { first_cell: first_gene, indptr: vec![0], ..CellBlock::default() };
        let mut bad: FirstBad = None;
        let mut rows = counts.chunks(width);
        for gene in first_gene..first_gene + genes {
            let row = rows.next().ok_or_else(|| self.values.damaged("a chunk cut short"))?;
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
        let index = gene / self.chunk.0 * self.across() + cell / self.chunk.1;
        let at = gene % self.chunk.0 * self.chunk.1 + cell % self.chunk.1;
        let at = usize::try_from(at).unwrap_or(usize::MAX).saturating_mul(self.number.size);
        let value = with_scratch(|inflater, bytes| -> Result<Vec<u8>> {
            self.values.read_chunk(index, inflater, bytes)?;
            let value = bytes.get(at..at.saturating_add(self.number.size));
            value.map(<[u8]>::to_vec).ok_or_else(|| self.values.damaged("a chunk cut short"))
        })?;
        let (kind, value) = numbers::fault(&value, self.number);
        let note = if kind == ValueFault::Fractional {
            "; round=nearest or round=floor lets fractional values through, another matrix of the file may hold the counts"
        } else {
            ""
        };
        Ok(Box::new(ValueError {
            file: self.values.file_name().to_owned(),
            matrix: self.values.path().to_owned(),
            cell,
            cell_name: None,
            gene,
            gene_name: None,
            kind,
            value,
            note: note.into(),
        })
        .into())
    }
}
