//! Threads and memory: nothing is left behind.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use celltile::{Dataset, OpenOptions};
use celltile_loader::{Loader, Next, Shuffle};

use crate::common::{Far, dataset, matrix, options};

/// Threads of this process whose names begin like this.
#[cfg(target_os = "linux")]
fn threads(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let named = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    named.filter(|found| found.starts_with(name)).count()
}

#[cfg(target_os = "linux")]
#[test]
fn test_a_hundred_loaders_dropped_half_way_leave_no_threads() {
    let (dataset, _) = dataset(400, 50, 5);
    for steps in 0..100 {
        let mut loader = Loader::<f32>::new(dataset.clone(), options(4)).unwrap();
        for _ in 0..steps % 7 {
            loader.next_batch().unwrap().unwrap();
        }
    }
    // A joined thread can be seen for an instant.
    let until = Instant::now() + Duration::from_secs(20);
    while (threads("celltile-plan") > 0 || threads("celltile-decode") > 0) && Instant::now() < until {
        std::thread::yield_now();
    }
    assert_eq!((threads("celltile-plan"), threads("celltile-decode")), (0, 0));
}

#[test]
fn test_waiting_can_be_cut_short_and_loses_nothing() {
    let storage = Far::with(&matrix(5, 100), 50, 5, Duration::from_millis(5));
    let dataset = Arc::new(Dataset::open_storage(storage, &OpenOptions::default()).unwrap());
    let mut loader = Loader::<f32>::new(dataset, options(10)).unwrap();
    let (mut waited, mut cells) = (0, 0);
    loop {
        match loader.next_within(Duration::from_millis(1)).unwrap() {
            Next::Batch(batch) => cells += batch.n_cells(),
            Next::Waiting => waited += 1,
            Next::End => break,
        }
    }
    assert_eq!(cells, 100);
    assert!(waited > 0);
}

/// A server that is silent keeps nobody from stopping.
#[test]
fn test_stopping_waits_for_no_network() {
    let storage = Far::with(&matrix(5, 100), 50, 5, Duration::ZERO);
    let dataset = Arc::new(Dataset::open_storage(storage.clone(), &OpenOptions::default()).unwrap());
    let mut with = options(10);
    with.shuffle = Shuffle::Tiles;
    let mut loader = Loader::<f32>::new(dataset, with).unwrap();
    let silent = storage.gate.write().unwrap();
    let (sender, stopped) = channel();
    let other = std::thread::spawn(move || {
        assert!(matches!(loader.next_within(Duration::from_millis(20)).unwrap(), Next::Waiting));
        loader.stop();
        sender.send(()).unwrap();
        // Nothing is lost: it goes on when there are answers again.
        std::iter::from_fn(|| loader.next_batch()).map(|batch| batch.unwrap().n_cells()).sum::<usize>()
    });
    let answer = stopped.recv_timeout(Duration::from_secs(60));
    drop(silent);
    assert_eq!((answer, other.join().unwrap()), (Ok(()), 100));
}

/// Arrays of batches that are gone are used again: after the first few, the same addresses come back.
#[test]
fn test_batches_use_memory_again() {
    let (dataset, _) = dataset(2000, 100, 10);
    let mut loader = Loader::<f32>::new(dataset, options(10)).unwrap();
    let mut addresses = std::collections::HashSet::new();
    for _ in 0..4 {
        while let Some(batch) = loader.next_batch() {
            addresses.insert(batch.unwrap().counts().as_ptr() as usize);
        }
    }
    // 800 batches.
    assert!(addresses.len() < 60, "{}", addresses.len());
}
