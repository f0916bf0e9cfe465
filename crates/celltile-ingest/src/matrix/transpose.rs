use std::ops::Range;
use std::sync::{Arc, Mutex};

use rayon::prelude::*;

use super::dense::DenseMatrix;
use super::gene_rows::GeneRows;
use super::numbers::{BAD, Rounding};
use super::scatter::{Scatter, Scattered, ScatteredBlocks};
use super::sparse::{SparseMatrix, with_share};
use super::{CellBlock, ReadOptions, number_type};
use crate::error::{Error, Result};

/// What lists its entries gene by gene.
#[derive(Debug, Clone)]
pub(crate) enum Entries {
    /// A sparse matrix of the cells of each gene.
    Csc(SparseMatrix),
    /// Some rows of a dense matrix whose chunks are tall.
    DenseRows(DenseMatrix, Range<u64>),
    /// A dense matrix of genes by cells.
    GeneRows(GeneRows),
}

/// The first value in cell order that is no count: cell, gene, and where it is stored.
pub(crate) type FirstBad = Option<(u64, u64, u64)>;

/// What [`Entries::scatter`] made, kept for the next who reads the same matrix.
pub(crate) type Kept = Arc<Mutex<Option<(Rounding, Arc<Scattered>)>>>;

impl Entries {
    fn at(&self) -> (String, String) {
        match self {
            Self::Csc(matrix) => (matrix.file_name().to_owned(), matrix.name().to_owned()),
            Self::DenseRows(matrix, _) => {
                (matrix.values().file_name().to_owned(), matrix.values().path().to_owned())
            }
            Self::GeneRows(matrix) => {
                (matrix.values().file_name().to_owned(), matrix.values().path().to_owned())
            }
        }
    }

    /// Genes, and entries that are likely.
    fn size(&self) -> (u64, u64) {
        match self {
            Self::Csc(matrix) => (matrix.shape().genes, matrix.stored()),
            // Counts are mostly zeros.
            Self::DenseRows(matrix, rows) => {
                let genes = matrix.shape().genes;
                (genes, genes.saturating_mul(rows.end.saturating_sub(rows.start)) / 8)
            }
            Self::GeneRows(matrix) => {
                let shape = matrix.shape();
                (shape.genes, shape.genes.saturating_mul(shape.cells) / 8)
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
            Self::GeneRows(matrix) => matrix.scan(options, bad, each),
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
            Self::GeneRows(matrix) => matrix.value_error(cell, gene),
        }
    }

    /// The cells of a range in blocks. All entries are gone through once and put into buckets of cells; what `kept` has
    /// of an earlier call is used instead.
    pub(crate) fn cells(
        &self,
        range: Range<u64>,
        options: &ReadOptions,
        kept: Option<&Kept>,
    ) -> Result<ScatteredBlocks> {
        let known = kept.and_then(|kept| kept.lock().ok()?.clone());
        if let Some((rounding, scattered)) = known
            && rounding == options.rounding
            && scattered.holds(&range)
        {
            return Ok(scattered.cells(range, options));
        }
        let scattered = self.scatter(range.clone(), options)?;
        if let Some(mut kept) = kept.and_then(|kept| kept.lock().ok()) {
            *kept = Some((options.rounding, Arc::clone(&scattered)));
        }
        Ok(scattered.cells(range, options))
    }

    fn scatter(&self, range: Range<u64>, options: &ReadOptions) -> Result<Arc<Scattered>> {
        let (file, at) = self.at();
        let (genes, expected) = self.size();
        let mut scatter = Scatter::new((&file, &at), range.clone(), genes, expected, options);
        let mut bad = None;
        let scan = ReadOptions { memory: options.memory / 2, ..options.clone() };
        let threads = rayon::current_num_threads();
        self.scan(&scan, &mut bad, &mut |blocks| {
            // Consecutive genes for each thread, of about as many entries.
            let mut parts = Vec::new();
            for block in blocks {
                let target = (block.genes.len() / threads.max(1) / 2).max(1 << 12);
                let mut from = 0;
                while from < block.cells() {
                    let start = block.indptr.get(from).copied().unwrap_or(0);
                    let until = block.indptr.partition_point(|&offset| offset <= start + target);
                    let until = until.saturating_sub(1).clamp(from + 1, block.cells());
                    parts.push((block, from..until));
                    from = until;
                }
            }
            for parts in parts.chunks(threads.max(1) * 4) {
                let pieces: Vec<_> = parts
                    .par_iter()
                    .map(|(block, rows)| {
                        let mut piece = scatter.piece();
                        for at in rows.clone() {
                            let gene = u32::try_from(block.first_cell + at as u64).unwrap_or(u32::MAX);
                            let Some((cells, counts)) = block.cell(at) else { continue };
                            for (&cell, &count) in cells.iter().zip(counts) {
                                piece.push(u64::from(cell), gene, count);
                            }
                        }
                        piece
                    })
                    .collect();
                pieces.iter().try_for_each(|piece| scatter.push(piece))?;
            }
            Ok(())
        })?;
        if let Some(bad) = bad.filter(|bad| range.contains(&bad.0)) {
            return Err(self.value_error(bad)?);
        }
        Ok(scatter.finish())
    }
}
