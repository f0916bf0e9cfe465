//! What is in batches, against the matrix that was written.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use celltile::storage::{MemoryStorage, Storage};
use celltile::{Dataset, OpenOptions};
use celltile_loader::{Buffer, Loader, LoaderOptions, Seat, Shuffle, Transform, Weighting};

use crate::common::{Counted, Far, cells_of, dataset, epoch, matrix, options, row, write};

const SHUFFLES: [Shuffle; 4] = [Shuffle::Tiles, Shuffle::Chunks, Shuffle::Cells, Shuffle::None];

#[test]
fn test_batches_hold_their_cells() {
    for chunk in [1, 7] {
        let (dataset, all) = dataset(333, 50, chunk);
        for shuffle in SHUFFLES {
            let mut options = options(20);
            options.shuffle = shuffle;
            options.totals = true;
            let mut loader = Loader::<i32>::new(dataset.clone(), options).unwrap();
            assert_eq!((loader.n_batches(), loader.n_cells()), (17, 333));
            for number in 0..2 {
                let batches = epoch(&mut loader);
                assert_eq!(batches.len(), 17);
                let mut seen = cells_of(&batches).concat();
                if shuffle == Shuffle::None {
                    assert!(seen.is_sorted(), "{number}");
                }
                for batch in &batches {
                    let rows = batch.x().unwrap();
                    for ((&cell, found), total) in
                        batch.cells().iter().zip(rows.iter()).zip(batch.totals().unwrap())
                    {
                        assert_eq!(found, row(&all, cell), "{shuffle:?} cell {cell}");
                        assert_eq!(*total, found.1.iter().map(|&c| i64::from(c)).sum::<i64>());
                    }
                }
                seen.sort_unstable();
                assert!(seen.into_iter().eq(0..333));
            }
            assert_eq!(loader.epoch(), 2);
        }
    }
}

#[test]
fn test_frames_near_each_other_are_read_at_once() {
    let all = matrix(5, 600);
    let storage = Counted::with(&all, 300, 1);
    let dataset = Dataset::open_storage(storage.clone(), &OpenOptions::default().threads(1)).unwrap();
    let mut with = options(600);
    with.shuffle = Shuffle::Cells;
    with.threads = 1;
    let mut loader = Loader::<i32>::new(Arc::new(dataset), with).unwrap();
    for batch in epoch(&mut loader) {
        for (&cell, found) in batch.cells().iter().zip(batch.x().unwrap().iter()) {
            assert_eq!(found, row(&all, cell));
        }
    }
    // Heads, and 32 cells at a time.
    let reads = storage.reads.load(Ordering::Relaxed);
    assert!(reads < 60, "{reads} reads of 600 tile chunks");
}

#[test]
fn test_genes_are_picked_and_put_into_order() {
    let (dataset, all) = dataset(200, 64, 5);
    for genes in [vec![3, 9, 50], vec![50, 2, 31, 4, 0], (0..60).rev().collect::<Vec<u64>>()] {
        for shuffle in SHUFFLES {
            for transform in [Transform::Counts, Transform::Log1pCp10k] {
                let mut options = options(16);
                options.shuffle = shuffle;
                options.genes = Some(genes.as_slice().into());
                options.totals = true;
                options.transform = transform;
                let mut loader = Loader::<f32>::new(dataset.clone(), options).unwrap();
                assert_eq!(loader.n_genes(), genes.len() as u64);
                for batch in epoch(&mut loader) {
                    let rows = batch.x().unwrap();
                    let of_cell = batch.cells().iter().zip(rows.iter()).zip(batch.totals().unwrap());
                    for ((&cell, (columns, values)), &total) in of_cell {
                        let (all_genes, all_counts) = row(&all, cell);
                        assert_eq!(total, all_counts.iter().map(|&c| i64::from(c)).sum::<i64>());
                        let mut expected: Vec<(i32, f32)> = Vec::new();
                        for (column, gene) in (0..).zip(&genes) {
                            let at = all_genes.iter().position(|&g| g as u64 == *gene);
                            if let Some(at) = at {
                                let count = f64::from(all_counts[at]);
                                let value = match transform {
                                    Transform::Counts => count,
                                    Transform::Log1pCp10k => (count * (1e4 / total as f64)).ln_1p(),
                                };
                                expected.push((column, value as f32));
                            }
                        }
                        let found: Vec<(i32, f32)> =
                            columns.iter().copied().zip(values.iter().copied()).collect();
                        assert_eq!(found, expected);
                    }
                }
            }
        }
    }
}

#[test]
fn test_transform_without_genes() {
    let (dataset, all) = dataset(90, 64, 5);
    let mut options = options(16);
    options.transform = Transform::Log1pCp10k;
    let mut loader = Loader::<f32>::new(dataset, options).unwrap();
    for batch in epoch(&mut loader) {
        assert!(batch.totals().is_none());
        for (&cell, (_, values)) in batch.cells().iter().zip(batch.x().unwrap().iter()) {
            let counts = row(&all, cell).1;
            let total: i64 = counts.iter().map(|&c| i64::from(c)).sum();
            let expected = counts.iter().map(|&c| (f64::from(c) * (1e4 / total as f64)).ln_1p() as f32);
            assert!(values.iter().copied().eq(expected));
        }
    }
}

/// Counts that no float32 holds: totals and logarithms are those of the counts, not of the rounded ones.
#[test]
fn test_totals_and_logarithms_of_large_counts_are_exact() {
    let mut all = matrix(4, 80);
    for (number, count) in all.counts.iter_mut().enumerate().filter(|(number, _)| number % 3 == 0) {
        *count = (1 << 24) + 1 + 2 * i32::try_from(number).unwrap();
    }
    let storage = Arc::new(MemoryStorage::new());
    write(storage.clone(), &all, 50, 5);
    let dataset = Arc::new(Dataset::open_storage(storage, &OpenOptions::default()).unwrap());
    for genes in [None, Some((0..60).collect::<Arc<[u64]>>()), Some((0..60).rev().collect())] {
        for transform in [Transform::Counts, Transform::Log1pCp10k] {
            let mut options = options(16);
            options.genes = genes.clone();
            options.totals = true;
            options.round_counts = true;
            options.transform = transform;
            let mut loader = Loader::<f32>::new(dataset.clone(), options).unwrap();
            for batch in epoch(&mut loader) {
                let rows = batch.x().unwrap();
                let of_cell = batch.cells().iter().zip(rows.iter()).zip(batch.totals().unwrap());
                for ((&cell, (_, values)), &total) in of_cell {
                    let counts = row(&all, cell).1;
                    assert_eq!(total, counts.iter().map(|&c| i64::from(c)).sum::<i64>());
                    let expected = counts.iter().map(|&count| match transform {
                        Transform::Counts => count as f32,
                        Transform::Log1pCp10k => (f64::from(count) * (1e4 / total as f64)).ln_1p() as f32,
                    });
                    let mut expected: Vec<f32> = expected.collect();
                    if genes.as_ref().is_some_and(|genes| !genes.is_sorted()) {
                        expected.reverse();
                    }
                    assert_eq!(values, expected);
                }
            }
        }
    }
}

#[test]
fn test_chosen_cells_and_no_cells() {
    let (dataset, all) = dataset(300, 50, 4);
    for shuffle in SHUFFLES {
        let chosen: Vec<u64> = (0..300).filter(|cell| cell % 7 == 2 || *cell > 290).rev().collect();
        let mut with = options(10);
        with.shuffle = shuffle;
        with.cells = Some(chosen.as_slice().into());
        let mut loader = Loader::<i32>::new(dataset.clone(), with).unwrap();
        let batches = epoch(&mut loader);
        for batch in &batches {
            for (&cell, found) in batch.cells().iter().zip(batch.x().unwrap().iter()) {
                assert_eq!(found, row(&all, cell));
            }
        }
        let mut seen = cells_of(&batches).concat();
        seen.sort_unstable();
        assert!(seen.iter().eq(chosen.iter().rev()));

        let mut none = options(10);
        none.shuffle = shuffle;
        none.cells = Some(Vec::new().into());
        let mut loader = Loader::<i32>::new(dataset.clone(), none).unwrap();
        assert!(loader.next_batch().is_none() && loader.next_batch().is_none());
        assert_eq!((loader.epoch(), loader.n_batches()), (2, 0));
    }
    let (empty, _) = crate::common::dataset(0, 50, 4);
    assert!(Loader::<f32>::new(empty, options(10)).unwrap().next_batch().is_none());
}

#[test]
fn test_weighted_draws_hold_their_cells() {
    let (dataset, all) = dataset(120, 50, 4);
    let weights: Arc<[f64]> = (0..120).map(|cell| f64::from(cell % 3)).collect();
    for replacement in [true, false] {
        let mut with = options(10);
        with.weighting = Some(Weighting { weights: weights.clone(), replacement, draws: Some(70) });
        let mut loader = Loader::<i32>::new(dataset.clone(), with).unwrap();
        let batches = epoch(&mut loader);
        assert_eq!(batches.len(), 7);
        for batch in &batches {
            for (&cell, found) in batch.cells().iter().zip(batch.x().unwrap().iter()) {
                assert_eq!(found, row(&all, cell));
                assert_ne!(cell % 3, 0);
            }
        }
    }
}

#[test]
fn test_orders_do_not_depend_on_threads_or_memory() {
    let (dataset, _) = dataset(500, 60, 6);
    let orders = |threads, memory| {
        let mut options = options(16);
        options.threads = threads;
        options.memory = memory;
        let mut loader = Loader::<f32>::new(dataset.clone(), options).unwrap();
        (cells_of(&epoch(&mut loader)), cells_of(&epoch(&mut loader)))
    };
    let one = orders(1, None);
    assert_ne!(one.0, one.1);
    for (threads, memory) in [(2, None), (5, Some(1 << 20)), (3, Some(12_000))] {
        assert_eq!(orders(threads, memory), one);
    }
}

#[test]
fn test_a_far_storage_gives_the_same_and_shows_as_waiting() {
    let cells = matrix(5, 300);
    let near = Arc::new(MemoryStorage::new());
    write(near.clone(), &cells, 50, 5);
    let slow = Far::with(&cells, 50, 5, Duration::from_millis(2));
    let open = |storage: Arc<dyn Storage>| {
        Arc::new(Dataset::open_storage(storage, &OpenOptions::default()).unwrap())
    };
    let mut expected = Loader::<i32>::new(open(near), options(32)).unwrap();
    let mut found = Loader::<i32>::new(open(slow), options(32)).unwrap();
    let (expected, batches) = (epoch(&mut expected), epoch(&mut found));
    assert_eq!(cells_of(&expected), cells_of(&batches));
    for (a, b) in expected.iter().zip(&batches) {
        assert_eq!((a.indptr(), a.genes(), a.counts()), (b.indptr(), b.genes(), b.counts()));
    }
    let stats = found.stats();
    assert!(stats.wait >= Duration::from_millis(2) && stats.fetch >= Duration::from_millis(2));
    assert_eq!((stats.cells, stats.batches), (300, 10));
    assert!(stats.bytes > 0 && stats.cells_per_second > 0.0);
}

#[test]
fn test_options_that_make_no_sense_are_refused() {
    let (dataset, _) = dataset(100, 50, 4);
    let refused = |change: &dyn Fn(&mut LoaderOptions)| {
        let mut with = options(10);
        change(&mut with);
        Loader::<i32>::new(dataset.clone(), with).expect_err("refused").to_string()
    };
    let weights = |w: &[f64]| Some(Weighting { weights: w.into(), replacement: true, draws: None });
    for (text, message) in [
        (refused(&|o| o.batch_size = 0), "batch_size"),
        (refused(&|o| o.group = 0), "group"),
        (refused(&|o| o.transform = Transform::Log1pCp10k), "transform"),
        (refused(&|o| o.cells = Some([1, 100].as_slice().into())), "cells: found 100"),
        (refused(&|o| o.cells = Some([7, 1, 7].as_slice().into())), "cell 7 more than once"),
        (refused(&|o| o.genes = Some([60].as_slice().into())), "genes: found 60"),
        (refused(&|o| o.genes = Some([5, 5].as_slice().into())), "gene 5 twice"),
        (refused(&|o| o.genes = Some([].as_slice().into())), "genes: found none"),
        (refused(&|o| o.memory = Some(100)), "memory: found 100"),
        (refused(&|o| o.seat = Seat { rank: 2, world: 2, worker: 0, workers: 1 }), "rank: found 2"),
        (refused(&|o| o.seat = Seat { rank: 0, world: 0, worker: 0, workers: 1 }), "world_size"),
        (refused(&|o| o.seat = Seat { rank: 0, world: u64::MAX, worker: 0, workers: 2 }), "world_size"),
        (refused(&|o| o.seat = Seat { rank: 0, world: 1, worker: 1, workers: 1 }), "worker: found 1"),
        (refused(&|o| o.weighting = weights(&[1.0])), "1 weights"),
        (refused(&|o| o.weighting = weights(&[0.0; 100])), "0 for every selected cell"),
        (refused(&|o| o.weighting = weights(&[f64::NAN; 100])), "NaN for cell 0"),
        (refused(&|o| o.weighting = weights(&[f64::MAX; 100])), "sum is infinite"),
        (refused(&|o| o.columns = vec!["donor".to_owned()]), "no obs column \"donor\""),
    ] {
        assert!(text.contains(message), "{text}");
    }
}

/// A batch takes memory for the cells there are, not for those it could have.
#[test]
fn test_the_largest_batch_size() {
    let (dataset, _) = dataset(300, 50, 4);
    for genes in [None, Some([3, 1].as_slice().into())] {
        let mut with = options(10);
        with.batch_size = u64::from(u32::MAX);
        with.genes = genes;
        let batches = epoch(&mut Loader::<f32>::new(dataset.clone(), with).unwrap());
        assert_eq!(batches.iter().map(celltile_loader::Batch::n_cells).collect::<Vec<_>>(), [300]);
    }
}

#[test]
fn test_a_buffer_in_bytes() {
    let (dataset, _) = dataset(300, 50, 4);
    let mut with = options(10);
    with.buffer = Buffer::Bytes(1 << 14);
    let loader = Loader::<f32>::new(dataset, with).unwrap();
    let state = loader.state_after(1, 1);
    assert!((50..300).contains(&state.segments[0].buffer), "{state:?}");
}
