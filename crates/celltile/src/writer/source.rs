//! Cells as a source has them -> cells as a tile holds them: genes renumbered and sorted, zeros dropped.

use celltile_tile::{Csr, CsrView};

use super::job::Batch;
use crate::error::{CellFault, Error, Result};

/// Up to this many genes, a table of all genes sorts a cell.
const TABLE_GENES: usize = 1 << 20;

/// Renumbers and sorts cells, in memory that is used again.
#[derive(Debug)]
pub(super) struct Sorter {
    n_genes: usize,
    /// A bit a gene: whether the cell has it.
    marks: Vec<u64>,
    /// The count of each gene that is marked.
    table: Vec<i32>,
    pairs: Vec<(i32, i32)>,
    out: Csr,
    pub(super) zeros_dropped: u64,
    pub(super) unsorted_cells: u64,
}

impl Sorter {
    pub(super) fn new(n_genes: u32) -> Self {
        Self {
            n_genes: usize::try_from(n_genes).unwrap_or(usize::MAX),
            marks: Vec::new(),
            table: Vec::new(),
            pairs: Vec::new(),
            out: Csr::new(),
            zeros_dropped: 0,
            unsorted_cells: 0,
        }
    }

    /// Brings the cells of a batch into the dataset's order, in place.
    ///
    /// # Errors
    /// [`Error::Cell`] for a gene out of range, a repeated gene or a negative count.
    pub(super) fn normalise(&mut self, batch: &mut Batch) -> Result<()> {
        if batch.spans.iter().all(|span| span.map.is_none()) {
            return Ok(());
        }
        let fault = |e: celltile_tile::Error| Error::Argument {
            what: "cells",
            found: e.to_string(),
            expected: "a CSR matrix".to_owned(),
        };
        self.out.clear();
        let cells = batch.cells.view().map_err(fault)?;
        let ends = batch.spans.iter().skip(1).map(|span| span.start).chain([cells.n_cells()]);
        for (span, end) in batch.spans.iter().zip(ends) {
            let part = cells.cells(span.start..end).map_err(fault)?;
            match &span.map {
                None => self.copy(part),
                Some(map) => {
                    let first =
                        batch.first_cell.saturating_add(u64::try_from(span.start).unwrap_or(u64::MAX));
                    self.sort(part, map, first)?;
                }
            }
        }
        std::mem::swap(&mut batch.cells, &mut self.out);
        batch.spans.clear();
        Ok(())
    }

    fn copy(&mut self, cells: CsrView<'_>) {
        for (genes, counts) in cells.iter() {
            self.out.genes.extend_from_slice(genes);
            self.out.counts.extend_from_slice(counts);
            self.end_cell();
        }
    }

    fn sort(&mut self, cells: CsrView<'_>, map: &[i32], first_cell: u64) -> Result<()> {
        for (cell, (genes, counts)) in (first_cell..).zip(cells.iter()) {
            let zeros = counts.iter().filter(|count| **count == 0).count();
            self.zeros_dropped = self.zeros_dropped.saturating_add(u64::try_from(zeros).unwrap_or(u64::MAX));
            let sorted = genes.iter().zip(genes.iter().skip(1)).all(|(a, b)| a < b);
            self.unsorted_cells = self.unsorted_cells.saturating_add(u64::from(!sorted));
            // A table pays unless the cell is nearly empty: then all of it would be searched for a few genes.
            let by_table = self.n_genes <= TABLE_GENES && genes.len() >= self.n_genes / 1024;
            let done =
                if by_table { self.by_table(genes, counts, map) } else { self.by_pairs(genes, counts, map) };
            if let Err(new) = done {
                // The sorter goes on with other cells: those before this one.
                self.marks.fill(0);
                return Err(self.explain(cell, genes, counts, map, new));
            }
            self.end_cell();
        }
        Ok(())
    }

    /// Sorts by marking genes in a table. The error is the new number of the gene at fault.
    fn by_table(&mut self, genes: &[i32], counts: &[i32], map: &[i32]) -> Result<(), i32> {
        self.marks.resize(self.n_genes.div_ceil(64), 0);
        self.table.resize(self.n_genes, 0);
        let mut stored = 0_usize;
        for (gene, &count) in genes.iter().zip(counts) {
            let new = usize::try_from(*gene).ok().and_then(|g| map.get(g)).copied().ok_or(i32::MIN)?;
            if count <= 0 {
                if count == 0 { continue } else { return Err(new) }
            }
            let Ok(at) = usize::try_from(new) else { continue };
            let bit = 1_u64 << (at % 64);
            let (Some(mark), Some(slot)) = (self.marks.get_mut(at / 64), self.table.get_mut(at)) else {
                return Err(new);
            };
            if *mark & bit != 0 {
                return Err(new);
            }
            *mark |= bit;
            *slot = count;
            stored += 1;
        }
        self.out.genes.reserve(stored);
        self.out.counts.reserve(stored);
        let mut base = 0_i32;
        for (mark, values) in self.marks.iter_mut().zip(self.table.chunks(64)) {
            let mut bits = std::mem::take(mark);
            while bits != 0 {
                let within = bits.trailing_zeros();
                bits &= bits - 1;
                self.out.genes.push(base + within.cast_signed());
                // Every marked gene has a slot.
                self.out.counts.push(values.get(within as usize).copied().unwrap_or_default());
            }
            // At most 2^20 genes.
            base += 64;
        }
        Ok(())
    }

    /// Sorts pairs of gene and count. The error is the new number of the gene at fault.
    fn by_pairs(&mut self, genes: &[i32], counts: &[i32], map: &[i32]) -> Result<(), i32> {
        self.pairs.clear();
        for (gene, &count) in genes.iter().zip(counts) {
            let new = usize::try_from(*gene).ok().and_then(|g| map.get(g)).copied().ok_or(i32::MIN)?;
            let outside = usize::try_from(new).is_ok_and(|new| new >= self.n_genes);
            if count < 0 || outside {
                return Err(new);
            }
            if count > 0 && new >= 0 {
                self.pairs.push((new, count));
            }
        }
        self.pairs.sort_unstable();
        let mut previous = -1;
        for &(gene, count) in &self.pairs {
            if gene == previous {
                return Err(gene);
            }
            previous = gene;
            self.out.genes.push(gene);
            self.out.counts.push(count);
        }
        Ok(())
    }

    fn end_cell(&mut self) {
        self.out.indptr.push(i64::try_from(self.out.genes.len()).unwrap_or(i64::MAX));
    }

    /// What is wrong with a cell, in the source's numbers; `new` is the number at which sorting stopped.
    #[cold]
    fn explain(&self, cell: u64, genes: &[i32], counts: &[i32], map: &[i32], new: i32) -> Error {
        let mut first = None;
        for (&gene, &count) in genes.iter().zip(counts) {
            let Some(mapped) = usize::try_from(gene).ok().and_then(|g| map.get(g)).copied() else {
                let n_genes = u64::try_from(map.len()).unwrap_or(u64::MAX);
                return Error::Cell {
                    cell,
                    reason: CellFault::GeneOutOfRange { gene: gene.into(), n_genes },
                };
            };
            if count < 0 {
                return Error::Cell {
                    cell,
                    reason: CellFault::Count { gene: gene.into(), count: count.into() },
                };
            }
            if mapped != new || count == 0 {
                continue;
            }
            if let Some(first) = first {
                let reason = CellFault::RepeatedGene { gene: gene.into(), first, second: count.into() };
                return Error::Cell { cell, reason };
            }
            first = Some(i64::from(count));
        }
        Error::Argument {
            what: "gene map",
            found: format!("{new} for a gene of cell {cell}"),
            expected: format!("less than {}", self.n_genes),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use celltile_tile::Csr;

    use super::{Batch, Sorter};

    fn normalise(n_genes: u32, map: &[i32], cells: &[&[(i32, i32)]]) -> crate::Result<Csr> {
        let map: Arc<[i32]> = map.into();
        let mut batch = Batch { first_cell: 100, ..Batch::default() };
        for cell in cells {
            let (genes, counts): (Vec<i32>, Vec<i32>) = cell.iter().copied().unzip();
            batch.push_cell(&genes, &counts, Some(&map));
        }
        let mut sorter = Sorter::new(n_genes);
        sorter.normalise(&mut batch).map(|()| batch.cells)
    }

    #[test]
    fn test_both_ways_sort_renumber_and_drop_zeros() {
        let cells: &[&[(i32, i32)]] = &[&[(3, 5), (1, 0), (0, 7), (2, 9)], &[], &[(2, 1)]];
        let expected = Csr { indptr: vec![0, 2, 2, 2], genes: vec![0, 2], counts: vec![5, 7] };
        // With few genes by table, with many by pairs.
        assert_eq!(normalise(4, &[2, 1, -1, 0], cells).unwrap(), expected);
        assert_eq!(normalise(1 << 30, &[2, 1, -1, 0], cells).unwrap(), expected);
    }

    #[test]
    fn test_faults_name_cell_gene_and_counts() {
        for n_genes in [4, 1 << 30] {
            let message = |cell: &[(i32, i32)], map: &[i32]| {
                normalise(n_genes, map, &[&[(0, 1)], cell]).unwrap_err().to_string()
            };
            let map = [2, 1, 3, 0];
            assert_eq!(
                message(&[(3, 5), (1, 2), (3, 6)], &map),
                "cell 101: gene 3 occurs more than once (counts 5 and 6)"
            );
            assert_eq!(message(&[(4, 1)], &map), "cell 101: gene 4 is out of range: there are 4 genes");
            assert_eq!(message(&[(-1, 1)], &map), "cell 101: gene -1 is out of range: there are 4 genes");
            assert_eq!(message(&[(2, -3)], &map), "cell 101: gene 2 has count -3, expected 1 to 2147483647");
            assert!(
                message(&[(2, 1)], &[0, 1, i32::MAX])
                    .starts_with("gene map: found 2147483647 for a gene of cell 101")
            );
        }
    }

    #[test]
    fn test_an_error_leaves_no_marks_behind() {
        let map: Arc<[i32]> = [0, 1].into();
        let mut sorter = Sorter::new(2);
        let mut batch = Batch::default();
        batch.push_cell(&[0, 0], &[1, 1], Some(&map));
        assert!(sorter.normalise(&mut batch).is_err());
        let mut batch = Batch::default();
        batch.push_cell(&[0], &[1], Some(&map));
        assert!(sorter.normalise(&mut batch).is_ok());
    }

    #[test]
    fn test_a_zero_or_a_dropped_gene_twice_is_no_fault() {
        let cells: &[&[(i32, i32)]] = &[&[(0, 0), (0, 4), (1, 3), (1, 5)]];
        let expected = Csr { indptr: vec![0, 1], genes: vec![0], counts: vec![4] };
        assert_eq!(normalise(2, &[0, -1], cells).unwrap(), expected);
    }
}
