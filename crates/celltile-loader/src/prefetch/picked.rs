//! Cells with some of their genes, before they go into batches.

use celltile::{Count, Csr, OpenChunk};

use crate::batch::{Element, log1p_cp10k};
use crate::options::Transform;

/// Cells with some of their genes, in memory that is used again.
#[derive(Debug)]
pub(super) struct Picked<C> {
    x: Csr<C>,
    /// Over all genes.
    totals: Vec<i64>,
}

impl<C> Default for Picked<C> {
    fn default() -> Self {
        Self { x: Csr { indptr: vec![0], genes: Vec::new(), counts: Vec::new() }, totals: Vec::new() }
    }
}

/// A picked cell.
#[derive(Clone, Copy)]
pub(super) struct Row<'a, C> {
    pub(super) genes: &'a [i32],
    pub(super) counts: &'a [C],
    pub(super) total: i64,
}

impl<C> Default for Row<'_, C> {
    fn default() -> Self {
        Self { genes: &[], counts: &[], total: 0 }
    }
}

impl<C: Count> Picked<C> {
    pub(super) fn n_cells(&self) -> usize {
        self.totals.len()
    }

    pub(super) fn clear(&mut self) {
        self.truncate(0);
    }

    /// Keeps the first cells.
    pub(super) fn truncate(&mut self, n_cells: usize) {
        let Csr { indptr, genes, counts } = &mut self.x;
        indptr.truncate(n_cells + 1);
        let end = indptr.last().and_then(|&end| usize::try_from(end).ok()).unwrap_or_default();
        genes.truncate(end);
        counts.truncate(end);
        self.totals.truncate(n_cells);
    }

    /// Adds cells of a tile chunk, numbered within their tile.
    pub(super) fn add(
        &mut self,
        open: &mut OpenChunk<'_>,
        rows: impl Iterator<Item = usize>,
        map: &[i32],
    ) -> Result<(), celltile::TileError> {
        for row in rows {
            let total = |sum| self.totals.push(i64::try_from(sum).unwrap_or(i64::MAX));
            open.append_mapped_cells(row..row.saturating_add(1), map, total, &mut self.x)?;
        }
        Ok(())
    }

    /// Every cell.
    pub(super) fn rows(&self) -> Vec<Row<'_, C>> {
        let Ok(view) = self.x.view() else { return Vec::new() };
        view.iter().zip(&self.totals).map(|((genes, counts), &total)| Row { genes, counts, total }).collect()
    }

    /// Puts the columns of each cell from the `first` on into order.
    pub(super) fn sort_rows(&mut self, first: usize) {
        let Csr { indptr, genes, counts } = &mut self.x;
        let mut pairs = Vec::new();
        for (low, high) in indptr.iter().zip(indptr.iter().skip(1)).skip(first) {
            let range = usize::try_from(*low).unwrap_or_default()..usize::try_from(*high).unwrap_or_default();
            let (Some(genes), Some(counts)) = (genes.get_mut(range.clone()), counts.get_mut(range)) else {
                continue;
            };
            pairs.clear();
            pairs.extend(genes.iter().copied().zip(counts.iter().copied()));
            pairs.sort_by_key(|(gene, _)| *gene);
            for ((gene, count), pair) in genes.iter_mut().zip(counts).zip(&pairs) {
                (*gene, *count) = *pair;
            }
        }
    }
}

impl<C: Element> Picked<C> {
    /// Adds cells as they are handed out.
    pub(super) fn add_delivered(&mut self, raw: &Picked<i32>, transform: Transform) {
        for Row { genes, counts, total } in raw.rows() {
            let Csr { indptr, genes: own_genes, counts: own_counts } = &mut self.x;
            let start = own_counts.len();
            own_genes.extend_from_slice(genes);
            own_counts.resize(start + counts.len(), C::default());
            deliver(counts, transform, total, own_counts.get_mut(start..).unwrap_or_default());
            indptr.push(i64::try_from(own_counts.len()).unwrap_or(i64::MAX));
            self.totals.push(total);
        }
    }
}

/// Counts of a cell as they are handed out.
pub(super) fn deliver<C: Element>(integers: &[i32], transform: Transform, total: i64, out: &mut [C]) {
    match transform {
        Transform::Counts => {
            for (&count, out) in integers.iter().zip(out) {
                *out = C::from_count(count);
            }
        }
        Transform::Log1pCp10k => log1p_cp10k(integers, total, out),
    }
}
