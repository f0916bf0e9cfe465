//! Genes back in the order of the source.

/// Sorts the genes of a cell, and keeps what it needs for that. A cell of many genes is sorted by marking its genes in
/// a bitmap and reading them off, which takes time in proportion to its nonzeros and a 64th of all genes; one of few by
/// comparison.
#[derive(Debug, Default)]
pub(super) struct CellSorter {
    marks: Vec<u64>,
    counts: Vec<i32>,
    pairs: Vec<(i32, i32)>,
}

impl CellSorter {
    pub(super) fn sort(&mut self, genes: &mut [i32], counts: &mut [i32]) {
        if genes.is_sorted() {
            return;
        }
        let most =
            genes.iter().copied().max().and_then(|gene| usize::try_from(gene).ok()).unwrap_or_default();
        if genes.len().saturating_mul(16) < most / 64 || most > 1 << 24 {
            self.sort_few(genes, counts);
        } else {
            self.sort_many(genes, counts, most);
        }
    }

    fn sort_few(&mut self, genes: &mut [i32], counts: &mut [i32]) {
        self.pairs.clear();
        self.pairs.extend(genes.iter().copied().zip(counts.iter().copied()));
        self.pairs.sort_unstable();
        for ((gene, count), (to_gene, to_count)) in self.pairs.iter().zip(genes.iter_mut().zip(counts)) {
            (*to_gene, *to_count) = (*gene, *count);
        }
    }

    #[allow(
        clippy::indexing_slicing,
        clippy::cast_sign_loss,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        reason = "genes are 0..=most, which both buffers hold; the loop is per nonzero"
    )]
    fn sort_many(&mut self, genes: &mut [i32], counts: &mut [i32], most: usize) {
        let words = most / 64 + 1;
        if self.marks.len() < words {
            self.marks.resize(words, 0);
            self.counts.resize(words * 64, 0);
        }
        for (gene, count) in genes.iter().zip(counts.iter()) {
            let gene = *gene as usize;
            self.marks[gene / 64] |= 1 << (gene % 64);
            self.counts[gene] = *count;
        }
        let mut at = 0;
        for (word, marks) in self.marks[..words].iter_mut().enumerate() {
            let mut left = std::mem::take(marks);
            while left != 0 {
                let gene = word * 64 + left.trailing_zeros() as usize;
                left &= left - 1;
                genes[at] = gene as i32;
                counts[at] = self.counts[gene];
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_sort_gives_what_sorting_pairs_gives() {
        let mut sorter = CellSorter::default();
        for (len, step) in [(0, 7), (1, 7), (5, 7_919), (3_000, 7_919), (3_000, 1_000_003), (20, 1_000_003)] {
            let gene = |i: i32| i64::from(i) * step % 2_000_003;
            let genes: Vec<i32> = (0..len).map(|i| i32::try_from(gene(i)).unwrap()).collect();
            let counts: Vec<i32> = (1..=len).collect();
            let mut expected: Vec<_> = genes.iter().copied().zip(counts.iter().copied()).collect();
            expected.sort_unstable();
            let (mut genes, mut counts) = (genes, counts);
            sorter.sort(&mut genes, &mut counts);
            assert_eq!(genes.into_iter().zip(counts).collect::<Vec<_>>(), expected);
        }
    }
}
