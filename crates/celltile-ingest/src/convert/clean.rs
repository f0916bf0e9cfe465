use std::ops::Range;

use crate::error::{Error, RepeatedError, ValueError, ValueFault};
use crate::source::Source;

/// What to do where a cell holds a gene more than once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Duplicates {
    /// Refuse the cell.
    #[default]
    Refuse,
    /// Add the counts up.
    Sum,
}

/// What was found while cleaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Findings {
    /// Cells whose genes did not ascend.
    pub(super) unsorted: u64,
    /// Zeros that were stored.
    pub(super) zeros: u64,
    /// Entries that were added to another of the same cell and gene.
    pub(super) repeated: u64,
}

impl std::ops::AddAssign for Findings {
    fn add_assign(&mut self, other: Self) {
        self.unsorted += other.unsorted;
        self.zeros += other.zeros;
        self.repeated += other.repeated;
    }
}

/// Brings cells in order: genes ascend, each at most once, and no count is zero.
#[derive(Debug, Default)]
pub(super) struct Cleaner {
    pairs: Vec<u64>,
    genes: Vec<u32>,
    counts: Vec<u32>,
    pub(super) findings: Findings,
}

/// A gene that a cell holds more than once, or whose sum is no count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    gene: u32,
    values: Vec<u32>,
    too_large: bool,
}

impl Fault {
    /// A sum that is no count.
    pub(super) fn too_large(gene: u32, values: Vec<u32>) -> Self {
        Self { gene, values, too_large: true }
    }
}

impl Cleaner {
    /// The cell in order; its own slices if it was.
    pub(super) fn clean<'a>(
        &'a mut self,
        genes: &'a [u32],
        counts: &'a [u32],
        duplicates: Duplicates,
    ) -> Result<(&'a [u32], &'a [u32]), Fault> {
        let ascending = genes.iter().zip(genes.iter().skip(1)).fold(true, |all, (a, b)| all & (a < b));
        let zeros = counts.iter().fold(0_u64, |zeros, &count| zeros + u64::from(count == 0));
        if ascending && zeros == 0 {
            return Ok((genes, counts));
        }
        self.findings.zeros += zeros;
        self.pairs.clear();
        self.pairs
            .extend(genes.iter().zip(counts).map(|(&gene, &count)| u64::from(gene) << 32 | u64::from(count)));
        if !ascending {
            self.findings.unsorted += u64::from(!genes.is_sorted());
            self.pairs.sort_unstable();
        }
        self.genes.clear();
        self.counts.clear();
        for group in self.pairs.chunk_by(|a, b| a >> 32 == b >> 32) {
            let (gene, count) = match group {
                [pair] => split(*pair),
                [first, ..] => {
                    let (gene, _) = split(*first);
                    let sum: u64 = group.iter().map(|&pair| u64::from(split(pair).1)).sum();
                    let fault = |too_large| Fault {
                        gene,
                        values: group.iter().take(8).map(|&pair| split(pair).1).collect(),
                        too_large,
                    };
                    if duplicates == Duplicates::Refuse {
                        return Err(fault(false));
                    }
                    self.findings.repeated += group.len() as u64 - 1;
                    let sum = i32::try_from(sum).map_err(|_| fault(true))?;
                    (gene, sum.unsigned_abs())
                }
                [] => continue,
            };
            if count != 0 {
                self.genes.push(gene);
                self.counts.push(count);
            }
        }
        Ok((&self.genes, &self.counts))
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the halves of a pair are split on purpose")]
fn split(pair: u64) -> (u32, u32) {
    ((pair >> 32) as u32, pair as u32)
}

/// The error for a fault in a cell.
pub(super) fn fault_error(fault: &Fault, cell: u64, source: &dyn Source) -> Error {
    let info = source.info();
    let gene_name = source.gene_names().get(fault.gene as usize).map(str::to_owned);
    let cell_name = source.cell_name(cell);
    let values = fault.values.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let (file, matrix, gene) = (info.file.clone(), info.matrix.clone(), u64::from(fault.gene));
    if fault.too_large {
        let kind = ValueFault::TooLarge;
        let value = format!("the sum of {values}");
        let note = String::new();
        Error::Value(Box::new(ValueError {
            file,
            matrix,
            cell,
            cell_name,
            gene,
            gene_name,
            kind,
            value,
            note,
        }))
    } else {
        Error::Repeated(Box::new(RepeatedError { file, matrix, cell, cell_name, gene, gene_name, values }))
    }
}

/// Cuts cells into parts of about `target` entries each.
pub(super) fn parts(indptr: &[usize], target: usize) -> Vec<Range<usize>> {
    let cells = indptr.len().saturating_sub(1);
    let mut parts = Vec::new();
    let mut start = 0;
    while start < cells {
        let from = indptr.get(start).copied().unwrap_or(0);
        let end = indptr.partition_point(|&offset| offset <= from.saturating_add(target)).saturating_sub(1);
        // Cells without entries take their time too.
        let end = end.clamp(start + 1, cells).min(start + target.max(1));
        parts.push(start..end);
        start = end;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(
        genes: &[u32],
        counts: &[u32],
        duplicates: Duplicates,
    ) -> Result<(Vec<u32>, Vec<u32>, Findings), Fault> {
        let mut cleaner = Cleaner::default();
        let (genes, counts) = cleaner.clean(genes, counts, duplicates)?;
        let (genes, counts) = (genes.to_vec(), counts.to_vec());
        Ok((genes, counts, cleaner.findings))
    }

    #[test]
    fn sorts_and_drops_zeros() {
        let (genes, counts, findings) = clean(&[7, 2, 5], &[1, 0, 3], Duplicates::Refuse).unwrap();
        assert_eq!((genes, counts), (vec![5, 7], vec![3, 1]));
        assert_eq!(findings, Findings { unsorted: 1, zeros: 1, repeated: 0 });
        let (genes, _, findings) = clean(&[2, 5], &[0, 0], Duplicates::Refuse).unwrap();
        assert_eq!((genes, findings.zeros, findings.unsorted), (vec![], 2, 0));
    }

    #[test]
    fn repeated_genes() {
        let fault = clean(&[3, 3, 8], &[1, 4, 2], Duplicates::Refuse).unwrap_err();
        assert_eq!(fault, Fault { gene: 3, values: vec![1, 4], too_large: false });
        let (genes, counts, findings) = clean(&[3, 8, 3], &[1, 2, 4], Duplicates::Sum).unwrap();
        assert_eq!((genes, counts), (vec![3, 8], vec![5, 2]));
        assert_eq!(findings, Findings { unsorted: 1, zeros: 0, repeated: 1 });
        // A zero beside a count of the same gene is a repeat too.
        assert!(clean(&[3, 3], &[0, 4], Duplicates::Refuse).is_err());
        let most = i32::MAX.unsigned_abs();
        assert!(clean(&[3, 3], &[1, most], Duplicates::Sum).unwrap_err().too_large);
        assert_eq!(clean(&[3, 3], &[0, most], Duplicates::Sum).unwrap().1, [most]);
    }

    #[test]
    fn parts_cover_all_cells() {
        let indptr = [0, 0, 5, 9, 9, 30, 31];
        let parts = parts(&indptr, 10);
        assert_eq!(parts, [0..4, 4..5, 5..6]);
    }
}
