//! The simulator's cells are repeatable, and look like real ones.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "a test may fail, and its numbers are small"
)]

use std::collections::HashSet;
use std::sync::LazyLock;

use celltile_ingest::simulate::{SimulateError, SimulateOptions, Simulation};
use celltile_tile::{Csr, EncodeOptions, TileEncoder};

fn simulation(change: impl FnOnce(&mut SimulateOptions)) -> Simulation {
    let mut options = SimulateOptions::new(600);
    change(&mut options);
    Simulation::new(options).unwrap()
}

/// 600 cells with everything else at its default, and their counts: made once.
static DEFAULT: LazyLock<(Simulation, Csr)> = LazyLock::new(|| {
    let simulation = simulation(|_| ());
    let counts = simulation.cells(0..600).unwrap();
    (simulation, counts)
});

/// Rows `range` of a matrix.
fn rows(whole: &Csr, range: std::ops::Range<usize>) -> Csr {
    let mut part = whole.view().unwrap().cells(range).unwrap().to_csr();
    let first = part.indptr[0];
    for x in &mut part.indptr {
        *x -= first;
    }
    part
}

#[test]
fn test_ranges_are_independent_of_each_other() {
    let (simulation, whole) = &*DEFAULT;
    whole.view().unwrap();
    for range in [0..1, 599..600, 17..300, 255..257, 40..40] {
        assert_eq!(simulation.cells(range.start as u64..range.end as u64).unwrap(), rows(whole, range));
    }
    let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    assert_eq!(one_thread.install(|| simulation.cells(0..600)).unwrap(), *whole);
}

#[test]
fn test_seeds_differ_and_repeat() {
    let cells =
        |seed| simulation(|o| (o.seed, o.genes, o.nonzeros) = (seed, 3000, 200.0)).cells(0..50).unwrap();
    assert_eq!(cells(1), cells(1));
    assert_ne!(cells(1), cells(2));
}

/// The sum of everything, so that an accidental change of the model, or of what a platform computes, is seen.
#[test]
fn test_counts_never_change() {
    let cells = simulation(|o| (o.genes, o.nonzeros) = (2000, 100.0)).cells(0..600).unwrap();
    let digest = cells.genes.iter().zip(&cells.counts).fold(cells.nnz() as u64, |digest, (&gene, &count)| {
        digest.wrapping_mul(0x100_0000_01b3).wrapping_add(((gene as u64) << 32) + count as u64)
    });
    assert_eq!(format!("{digest:016x}"), "1f6f4bb8a0f07cf0");
}

#[test]
fn test_cells_are_sorted_positive_and_within_the_genes() {
    let (_, cells) = &*DEFAULT;
    for (genes, counts) in cells.view().unwrap().iter() {
        assert!(genes.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(genes.iter().all(|&gene| (0..36_601).contains(&gene)));
        assert!(counts.iter().all(|&count| count > 0));
    }
}

#[test]
fn test_number_of_nonzeros_is_what_was_asked_for() {
    for (genes, nonzeros) in [(36_601, 2000.0), (9000, 120.0), (5000, 1500.0), (1000, 60.0)] {
        let cells = simulation(|o| (o.genes, o.nonzeros) = (genes, nonzeros)).cells(0..600).unwrap();
        let found = cells.nnz() as f64 / 600.0;
        assert!((found - nonzeros).abs() < 0.08 * nonzeros, "{found} nonzeros a cell, expected {nonzeros}");
    }
}

#[test]
fn test_counts_vary_as_real_ones_do() {
    let (_, cells) = &*DEFAULT;
    let (mut sums, mut squares, mut seen) = (vec![0.0; 36_601], vec![0.0; 36_601], vec![0.0; 36_601]);
    for (&gene, &count) in cells.genes.iter().zip(&cells.counts) {
        sums[gene as usize] += f64::from(count);
        squares[gene as usize] += f64::from(count) * f64::from(count);
        seen[gene as usize] += 1.0;
    }
    let total: f64 = sums.iter().sum();
    let mut sorted = sums.clone();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let share = |n: usize| sorted[..n].iter().sum::<f64>() / total;
    // Real 10x v3 cells: 13 to 23 % and 34 to 49 %, and 35 to 50 % of the genes without a count.
    assert!((0.08..0.25).contains(&share(10)), "{}", share(10));
    assert!((0.28..0.50).contains(&share(100)), "{}", share(100));
    let silent = sums.iter().filter(|&&sum| sum == 0.0).count() as f64 / 36_601.0;
    assert!((0.3..0.5).contains(&silent), "{silent}");

    // The variance grows with the square of the mean, and there are more zeros than a Poisson would give.
    let (mut overdispersion, mut zeros, mut poisson, mut genes) = (vec![], 0.0, 0.0, 0.0);
    for gene in 0..36_601 {
        let mean = sums[gene] / 600.0;
        if (1.0..10.0).contains(&mean) {
            let variance = squares[gene] / 600.0 - mean * mean;
            overdispersion.push((variance - mean) / (mean * mean));
            zeros += 1.0 - seen[gene] / 600.0;
            poisson += f64::exp(-mean);
            genes += 1.0;
        }
    }
    overdispersion.sort_by(f64::total_cmp);
    let median = overdispersion[overdispersion.len() / 2];
    assert!((0.6..3.0).contains(&median), "{median}");
    assert!(genes > 300.0 && zeros / genes > poisson / genes + 0.1);

    let ones = cells.counts.iter().filter(|&&count| count == 1).count() as f64 / cells.nnz() as f64;
    assert!((0.55..0.75).contains(&ones), "{ones}");
}

/// Real 10x v3 cells take 0.73 to 0.83 bytes a nonzero at zstd level 19, genes in order of their totals.
#[test]
fn test_cells_compress_as_real_ones_do() {
    let (_, cells) = &*DEFAULT;
    let mut totals = vec![0_i64; 36_601];
    for (&gene, &count) in cells.genes.iter().zip(&cells.counts) {
        totals[gene as usize] += i64::from(count);
    }
    let mut order: Vec<usize> = (0..36_601).collect();
    order.sort_by_key(|&gene| -totals[gene]);
    let mut place = vec![0_i32; 36_601];
    for (new, &old) in order.iter().enumerate() {
        place[old] = new as i32;
    }
    let mut sorted = Csr::new();
    for (genes, counts) in cells.view().unwrap().iter() {
        let mut row: Vec<(i32, i32)> =
            genes.iter().zip(counts).map(|(&gene, &count)| (place[gene as usize], count)).collect();
        row.sort_unstable();
        sorted.genes.extend(row.iter().map(|x| x.0));
        sorted.counts.extend(row.iter().map(|x| x.1));
        sorted.indptr.push(sorted.genes.len() as i64);
    }
    let mut encoder = TileEncoder::new(&EncodeOptions::default()).unwrap();
    let bytes = encoder.encode(sorted.view().unwrap(), 36_601).unwrap();
    let ratio = bytes.len() as f64 / cells.nnz() as f64;
    assert!((0.65..0.85).contains(&ratio), "{ratio} bytes a nonzero");
}

#[test]
fn test_facts_describe_every_cell() {
    let (simulation, _) = &*DEFAULT;
    let facts: Vec<_> = (0..600).map(|cell| simulation.facts(cell).unwrap()).collect();
    assert_eq!(facts.iter().map(|x| &x.barcode).collect::<HashSet<_>>().len(), 600);
    let seen = |of: fn(&celltile_ingest::simulate::CellFacts) -> usize| {
        facts.iter().map(of).collect::<HashSet<_>>().len()
    };
    assert_eq!(seen(|x| x.donor), Simulation::donors().len());
    assert_eq!(seen(|x| x.batch), Simulation::batches().len());
    assert_eq!(seen(|x| x.cell_type), Simulation::cell_types().len());
    assert!(facts.is_sorted_by_key(|x| x.donor));
    let genes = simulation.genes();
    assert_eq!(genes.len(), 36_601);
    assert_eq!(genes.iter().map(|x| &x.name).collect::<HashSet<_>>().len(), 36_601);
    assert_eq!(genes.iter().filter(|x| x.name.starts_with("MT-")).count(), 13);
}

#[test]
fn test_cells_of_a_type_are_alike() {
    let (simulation, cells) = &*DEFAULT;
    let types = Simulation::cell_types().len();
    // Mean share of each gene in the even cells of each type; an odd cell is nearest to its own type.
    let mut means = vec![vec![0.0; 36_601]; types];
    let view = cells.view().unwrap();
    let rows: Vec<_> = view.iter().collect();
    let of = |cell: usize| simulation.facts(cell as u64).unwrap().cell_type;
    for (cell, (genes, counts)) in rows.iter().enumerate().step_by(2) {
        let total: f64 = counts.iter().map(|&x| f64::from(x)).sum();
        for (&gene, &count) in genes.iter().zip(*counts) {
            means[of(cell)][gene as usize] += f64::from(count) / total;
        }
    }
    for mean in &mut means {
        let sum: f64 = mean.iter().sum();
        mean.iter_mut().for_each(|x| *x = (*x / sum.max(1e-9) + 1e-6).ln());
    }
    let (mut right, mut all) = (0, 0);
    for (cell, (genes, counts)) in rows.iter().enumerate().skip(1).step_by(2) {
        let score = |mean: &[f64]| -> f64 {
            genes.iter().zip(*counts).map(|(&gene, &count)| f64::from(count) * mean[gene as usize]).sum()
        };
        let best = (0..types).max_by(|&a, &b| score(&means[a]).total_cmp(&score(&means[b]))).unwrap();
        right += usize::from(best == of(cell));
        all += 1;
    }
    assert!(right * 10 > all * 8, "{right} of {all}");
}

#[test]
fn test_impossible_options_are_refused() {
    let refused = |change: fn(&mut SimulateOptions)| {
        let mut options = SimulateOptions::new(10);
        change(&mut options);
        Simulation::new(options).unwrap_err()
    };
    assert_eq!(refused(|o| o.genes = 0), SimulateError::Genes(0));
    assert_eq!(refused(|o| o.cells = 1 << 32), SimulateError::Cells(1 << 32));
    assert!(matches!(refused(|o| o.nonzeros = f64::NAN), SimulateError::Nonzeros { .. }));
    assert!(matches!(refused(|o| o.genes = 100), SimulateError::Nonzeros { genes: 100, .. }));
    let simulation = simulation(|o| (o.cells, o.genes, o.nonzeros) = (10, 20, 2.0));
    assert_eq!(simulation.cells(3..11).unwrap_err(), SimulateError::Range { start: 3, end: 11, cells: 10 });
    assert!(simulation.facts(10).is_err());
    assert_eq!(simulation.cells(10..10).unwrap(), Csr::new());
}

#[test]
fn test_tiny_matrices_can_be_simulated() {
    for genes in 1..8 {
        let simulation = simulation(|o| (o.cells, o.genes, o.nonzeros) = (9, genes, 0.4));
        assert_eq!(simulation.cells(0..9).unwrap().n_cells(), 9);
        assert_eq!(simulation.genes().len(), genes as usize);
    }
    assert_eq!(simulation(|o| o.cells = 0).cells(0..0).unwrap(), Csr::new());
}
