//! Matrices and layouts that the format allows, for property tests.

use proptest::prelude::*;

use crate::reference::{Layout, Matrix};

/// Any matrix that a tile can hold, small enough to test with.
pub(crate) fn matrix() -> impl Strategy<Value = Matrix> {
    let n_genes = prop_oneof![
        Just(1_u64),
        2..50_u64,
        50..70_000_u64,
        Just(65_535),
        Just(65_536),
        Just(65_537),
        70_000..5_000_000_u64,
        Just(1 << 31),
    ];
    n_genes.prop_flat_map(|n_genes| {
        let cells = prop::collection::vec(cell(n_genes), 0..30);
        cells.prop_map(move |cells| {
            let mut matrix = Matrix { n_genes, indptr: vec![0], genes: vec![], counts: vec![] };
            for (gene, count) in cells
                .into_iter()
                .map(|cell| {
                    let len = cell.len();
                    (cell, len)
                })
                .flat_map(|(cell, len)| {
                    matrix.indptr.push(matrix.indptr.last().unwrap() + len as i64);
                    cell
                })
                .collect::<Vec<_>>()
            {
                matrix.genes.push(gene);
                matrix.counts.push(count);
            }
            matrix
        })
    })
}

/// The genes and counts of one cell.
fn cell(n_genes: u64) -> impl Strategy<Value = Vec<(i32, i32)>> {
    let step = prop_oneof![
        8 => 1..4_u64,
        4 => 1..300_u64,
        1 => 65_534..65_538_u64,
        1 => 1..n_genes.max(2),
    ];
    let count = prop_oneof![
        12 => 1..5_i32,
        2 => 250..260_i32,
        1 => 65_534..65_538_i32,
        1 => Just(i32::MAX),
        1 => 1..=i32::MAX,
    ];
    let len = prop_oneof![2 => Just(0_usize), 8 => 0..40_usize, 1 => 0..700_usize];
    (0..n_genes.min(70_000), len).prop_flat_map(move |(first, len)| {
        prop::collection::vec((step.clone(), count.clone()), len).prop_map(move |steps| {
            let mut gene = first;
            let mut cell = Vec::new();
            for (step, count) in steps {
                if gene >= n_genes {
                    break;
                }
                cell.push((gene as i32, count));
                gene += step;
            }
            cell
        })
    })
}

/// A matrix and a way to lay it out.
pub(crate) fn tile() -> impl Strategy<Value = (Matrix, Layout)> {
    (matrix(), prop::collection::vec(any::<prop::sample::Index>(), 0..10), any::<[bool; 2]>(), 1..4_i32)
        .prop_map(|(matrix, cuts, [backwards, stray_offsets], level)| {
            let n_cells = matrix.indptr.len() - 1;
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(n_cells + 1)).collect();
            cuts.extend([0, n_cells]);
            cuts.sort_unstable();
            let chunks =
                if n_cells == 0 { vec![] } else { cuts.windows(2).map(|cut| cut[0]..cut[1]).collect() };
            (matrix, Layout { chunks, backwards, stray_offsets, level })
        })
}
