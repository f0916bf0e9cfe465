//! Damaged tiles.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use celltile::storage::{MemoryStorage, Storage};
use celltile::{Dataset, OpenOptions};
use celltile_loader::{Loader, OnDamage, Shuffle};

use crate::common::{Far, cells_of, epoch, matrix, options, row, write};

const N: u64 = 200;

/// A dataset of five tiles, of which one is spoilt.
fn damaged(spoil: impl Fn(&mut Vec<u8>)) -> Arc<Dataset> {
    let storage = spoilt(5, spoil);
    Arc::new(Dataset::open_storage(storage, &OpenOptions::default().threads(2)).unwrap())
}

fn spoilt(chunk: u64, spoil: impl Fn(&mut Vec<u8>)) -> Arc<MemoryStorage> {
    let storage = Arc::new(MemoryStorage::new());
    write(storage.clone(), &matrix(1, N), 40, chunk);
    let key = "tiles/tile_000002.dct";
    let mut bytes = storage.read(key).unwrap().to_vec();
    spoil(&mut bytes);
    storage.remove(key).unwrap();
    if !bytes.is_empty() {
        storage.write(key, &bytes).unwrap();
    }
    storage
}

#[allow(clippy::ptr_arg, reason = "one of several ways to spoil a file")]
fn last_byte(bytes: &mut Vec<u8>) {
    let at = bytes.len() - 9;
    bytes[at] ^= 0x10;
}

/// The first chunk's `cell_hi`.
#[allow(clippy::ptr_arg, reason = "one of several ways to spoil a file")]
fn table(bytes: &mut Vec<u8>) {
    bytes[64 + 8] ^= 0x80;
}

#[test]
fn test_a_damaged_chunk_table_is_an_error_when_chunks_are_to_be_drawn() {
    let mut with = options(8);
    with.shuffle = Shuffle::Chunks;
    let error = Loader::<i32>::new(damaged(table), with).unwrap_err().to_string();
    assert!(error.contains("tile_000002"), "{error}");
}

#[test]
fn test_damage_is_an_error_that_names_the_tile() {
    for spoil in [last_byte as fn(&mut Vec<u8>), Vec::clear, |bytes| bytes.truncate(bytes.len() / 2)] {
        let dataset = damaged(spoil);
        for shuffle in [Shuffle::Tiles, Shuffle::Cells, Shuffle::None] {
            let mut with = options(8);
            with.shuffle = shuffle;
            let mut loader = Loader::<i32>::new(dataset.clone(), with).unwrap();
            let mut good = 0;
            let error = loop {
                match loader.next_batch().expect("an error before the end") {
                    Ok(_) => good += 1,
                    Err(error) => break error.to_string(),
                }
            };
            assert!(error.contains("tile_000002"), "{error}");
            // The loader is where it was; asking again finds the same.
            assert!(loader.next_batch().unwrap().unwrap_err().to_string().contains("tile_000002"));
            let steps = loader.state().segments.first().map_or(0, |segment| segment.steps);
            assert_eq!(steps, good);
            if shuffle == Shuffle::None {
                assert!(good > 0);
            }
        }
    }
}

#[test]
fn test_damaged_cells_are_skipped_and_counted_if_asked() {
    let all = matrix(1, N);
    for (spoil, lost) in [(last_byte as fn(&mut Vec<u8>), 5), (Vec::clear, 40), (table, 40)] {
        let dataset = damaged(spoil);
        for shuffle in [Shuffle::Tiles, Shuffle::Chunks, Shuffle::Cells, Shuffle::None] {
            for genes in [None, Some((0..60).collect())] {
                let mut with = options(8);
                with.shuffle = shuffle;
                with.genes = genes;
                with.on_damage = OnDamage::Skip;
                with.totals = true;
                let mut loader = Loader::<i32>::new(dataset.clone(), with).unwrap();
                let batches = epoch(&mut loader);
                assert_eq!(batches.len(), 25, "as many batches as without damage");
                for batch in &batches {
                    let rows = batch.x().unwrap();
                    assert_eq!(rows.n_cells(), batch.n_cells());
                    let totals = batch.totals().unwrap();
                    for ((&cell, found), total) in batch.cells().iter().zip(rows.iter()).zip(totals) {
                        assert_eq!(found, row(&all, cell));
                        assert_eq!(*total, found.1.iter().map(|&c| i64::from(c)).sum::<i64>());
                    }
                }
                let mut seen = cells_of(&batches).concat();
                seen.sort_unstable();
                let expected: Vec<u64> = (0..N)
                    .filter(|cell| !(80..120).contains(cell) || seen.binary_search(cell).is_ok())
                    .collect();
                assert_eq!(seen, expected);
                assert_eq!(seen.len() as u64 + lost, N);
                let stats = loader.stats();
                assert_eq!((stats.lost_cells, stats.cells), (lost, N - lost));
                assert!(stats.damaged_chunks >= 1);
            }
        }
    }
}

/// A tile that cannot be opened makes nobody ask for the others again.
#[test]
fn test_a_damaged_tile_costs_no_second_round_of_requests() {
    let reads = |spoil: fn(&mut Vec<u8>)| {
        let storage = Far::away(spoilt(40, spoil), Duration::ZERO);
        let dataset = Dataset::open_storage(storage.clone(), &OpenOptions::default().threads(1)).unwrap();
        let mut with = options(200);
        with.shuffle = Shuffle::Tiles;
        with.on_damage = OnDamage::Skip;
        epoch(&mut Loader::<i32>::new(Arc::new(dataset), with).unwrap());
        storage.reads.load(Ordering::Relaxed)
    };
    // The frames of the tile are not asked for: it has one chunk.
    assert_eq!(reads(table), reads(|_| ()) - 1);
}

#[test]
fn test_counts_that_do_not_fit_are_no_damage() {
    let storage = Arc::new(MemoryStorage::new());
    let mut cells = matrix(1, 50);
    cells.counts[0] = (1 << 24) + 1;
    write(storage.clone(), &cells, 40, 5);
    let dataset = Arc::new(Dataset::open_storage(storage, &OpenOptions::default()).unwrap());
    let mut with = options(8);
    with.on_damage = OnDamage::Skip;
    let mut loader = Loader::<f32>::new(dataset.clone(), with.clone()).unwrap();
    assert!(std::iter::from_fn(|| loader.next_batch()).any(|batch| batch.is_err()));
    with.round_counts = true;
    assert_eq!(epoch(&mut Loader::<f32>::new(dataset, with).unwrap()).len(), 7);
}
