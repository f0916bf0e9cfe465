//! Stopping and going on.

use std::sync::Arc;

use celltile_loader::{Buffer, Loader, LoaderOptions, Seat, Shuffle, State, Weighting};

use crate::common::{Numbers, cells_of, dataset, epoch, options};

fn seated(base: &LoaderOptions, rank: u64, world: u64, worker: u64, workers: u64) -> LoaderOptions {
    let mut options = base.clone();
    options.seat = Seat { rank, world, worker, workers };
    options
}

/// The same loader goes on exactly where it was, from any cut point, through JSON.
#[test]
fn test_every_cut_point_of_one_loader() {
    let (dataset, _) = dataset(210, 40, 5);
    let weights = (0..210).map(|cell| f64::from(1 + cell % 3)).collect();
    let weighting = Weighting { weights, replacement: true, draws: Some(100) };
    for (shuffle, weighting) in [
        (Shuffle::Tiles, None),
        (Shuffle::Chunks, None),
        (Shuffle::Cells, None),
        (Shuffle::None, None),
        (Shuffle::None, Some(weighting)),
    ] {
        let mut with = options(9);
        with.shuffle = shuffle;
        with.weighting = weighting;
        let mut loader = Loader::<i32>::new(dataset.clone(), with.clone()).unwrap();
        let whole = cells_of(&epoch(&mut loader));
        let next = cells_of(&epoch(&mut loader));
        let mut states = Vec::new();
        loader.set_epoch(0);
        states.push(loader.state());
        while let Some(batch) = loader.next_batch() {
            drop(batch);
            states.push(loader.state());
        }
        for (steps, state) in states.iter().enumerate().take(whole.len()) {
            let state = State::from_json(&state.to_json().unwrap()).unwrap();
            let mut other = Loader::<i32>::new(dataset.clone(), with.clone()).unwrap();
            other.load_state(&state).unwrap();
            assert_eq!(other.state(), state);
            assert_eq!(cells_of(&epoch(&mut other)), whole[steps..], "{shuffle:?} {steps}");
            assert_eq!(cells_of(&epoch(&mut other)), next);
        }
        // After the last batch the epoch is over.
        let last = &states[whole.len()];
        assert_eq!((last.epoch, last.segments.len()), (1, 0));
    }
}

/// Ranks and workers change in the middle; nothing is read again, nothing is left out.
#[test]
fn test_other_ranks_and_workers_take_what_is_left() {
    let (dataset, _) = dataset(400, 40, 5);
    let mut numbers = Numbers(8);
    for round in 0..20 {
        let mut with = options(1 + numbers.below(12));
        with.shuffle = [Shuffle::Chunks, Shuffle::Cells, Shuffle::Tiles, Shuffle::None][round % 4];
        with.seed = numbers.below(1000);
        with.buffer = Buffer::Cells(1 + numbers.below(150));
        let mut left: Vec<u64> = (0..400).collect();
        if numbers.below(2) == 0 {
            left.retain(|_| numbers.below(3) > 0);
            with.cells = Some(left.as_slice().into());
        }
        if round % 5 == 4 {
            let weights: Arc<[f64]> = (0..400).map(|_| numbers.below(3) as f64).collect();
            left.retain(|&cell| weights[usize::try_from(cell).unwrap()] > 0.0);
            with.weighting = Some(Weighting { weights, replacement: false, draws: None });
        }
        let selected = left.clone();
        let mut state: Option<State> = None;
        while !left.is_empty() {
            let (world, workers) = (1 + numbers.below(3), 1 + numbers.below(3));
            let steps = 1 + numbers.below(8);
            let mut next = None;
            let mut taken = Vec::new();
            let mut n_batches = Vec::new();
            for rank in 0..world {
                let mut lanes: Vec<Loader<f32>> = (0..workers)
                    .map(|worker| {
                        let own = seated(&with, rank, world, worker, workers);
                        let mut loader = Loader::new(dataset.clone(), own).unwrap();
                        if let Some(state) = &state {
                            loader.load_state(state).unwrap();
                        }
                        loader
                    })
                    .collect();
                let mut batches = 0;
                for step in 0..steps {
                    let lane = usize::try_from(step % workers).unwrap();
                    match lanes[lane].next_batch() {
                        Some(batch) => {
                            taken.extend_from_slice(batch.unwrap().cells());
                            batches += 1;
                        }
                        None => break,
                    }
                }
                n_batches.push(batches);
                let mut counting =
                    Loader::<f32>::new(dataset.clone(), seated(&with, rank, world, 0, 1)).unwrap();
                if let Some(state) = &state {
                    counting.load_state(state).unwrap();
                }
                let after = counting.state_after(workers, batches);
                assert_eq!(next.get_or_insert_with(|| after.clone()), &after, "the same on every rank");
            }
            assert!(n_batches.iter().all(|n| *n == n_batches[0]));
            taken.sort_unstable();
            taken.dedup();
            assert!(taken.iter().all(|cell| selected.binary_search(cell).is_ok()));
            left.retain(|cell| taken.binary_search(cell).is_err());
            let after = next.unwrap();
            if after.epoch == 1 {
                break;
            }
            state = Some(after);
        }
        assert!(left.is_empty(), "{left:?}");
    }
}

/// An epoch's length counts what was delivered before a state was loaded, whoever it was delivered to.
#[test]
fn test_an_epoch_has_the_batches_before_and_after_a_state() {
    let (dataset, _) = dataset(230, 40, 5);
    for shuffle in [Shuffle::Chunks, Shuffle::Cells] {
        let mut with = options(9);
        with.shuffle = shuffle;
        let mut loader = Loader::<i32>::new(dataset.clone(), seated(&with, 0, 2, 0, 1)).unwrap();
        let whole = loader.n_batches();
        for steps in 1..whole {
            loader.next_batch().unwrap().unwrap();
            for world in [1, 2, 3] {
                let mut other = Loader::<i32>::new(dataset.clone(), seated(&with, 0, world, 0, 1)).unwrap();
                other.load_state(&loader.state()).unwrap();
                let length = other.n_batches();
                if world == 2 {
                    assert_eq!(length, whole);
                }
                assert_eq!(length, steps + epoch(&mut other).len() as u64);
                // The next epoch is a whole one.
                assert_eq!(other.n_batches(), 230_u64.div_ceil(world).div_ceil(9));
            }
        }
    }
}

/// A worker's own state, as a data loader that asks its workers keeps it.
#[test]
fn test_a_worker_goes_on_from_its_own_state() {
    let (dataset, _) = dataset(200, 40, 5);
    let own = seated(&options(7), 1, 2, 2, 3);
    let mut loader = Loader::<i32>::new(dataset.clone(), own.clone()).unwrap();
    let whole = cells_of(&epoch(&mut loader));
    for steps in 0..=whole.len() {
        loader.set_epoch(0);
        for _ in 0..steps {
            loader.next_batch().unwrap().unwrap();
        }
        let state = loader.state();
        let mut other = Loader::<i32>::new(dataset.clone(), own.clone()).unwrap();
        other.load_state(&state).unwrap();
        assert_eq!(cells_of(&epoch(&mut other)), whole[steps..]);
        assert_eq!(other.epoch(), 1);
        let mut wrong = Loader::<i32>::new(dataset.clone(), seated(&options(7), 1, 2, 1, 3)).unwrap();
        assert!(wrong.load_state(&state).unwrap_err().to_string().contains("worker 2"));
    }
}

#[test]
fn test_restart_goes_back_to_where_the_epoch_was_begun() {
    let (dataset, _) = dataset(100, 40, 5);
    let mut loader = Loader::<i32>::new(dataset, options(10)).unwrap();
    let first = loader.next_batch().unwrap().unwrap().cells().to_vec();
    let state = loader.state();
    let second = loader.next_batch().unwrap().unwrap().cells().to_vec();
    loader.restart().unwrap();
    assert_eq!(loader.next_batch().unwrap().unwrap().cells(), first);
    loader.load_state(&state).unwrap();
    assert_eq!(loader.next_batch().unwrap().unwrap().cells(), second);
    loader.next_batch().unwrap().unwrap();
    loader.restart().unwrap();
    assert_eq!(loader.next_batch().unwrap().unwrap().cells(), second);
}

#[test]
fn test_states_that_do_not_fit_are_refused() {
    let (dataset, _) = dataset(100, 40, 5);
    let mut loader = Loader::<i32>::new(dataset.clone(), options(10)).unwrap();
    loader.next_batch().unwrap().unwrap();
    let state = loader.state();
    let mut seed = options(10);
    seed.seed = 99;
    let mut other = Loader::<i32>::new(dataset, seed).unwrap();
    assert!(other.load_state(&state).unwrap_err().to_string().contains("order is"));
    let mut bad = state.clone();
    bad.version = 2;
    assert!(loader.load_state(&bad).is_err());
    for change in [0, u64::MAX] {
        let mut bad = state.clone();
        bad.segments[0].world = change;
        assert!(loader.load_state(&bad).is_err());
        let mut bad = state.clone();
        bad.segments[0].batch_size = change;
        assert!(loader.load_state(&bad).is_err());
    }
    // More steps than there are batches: the epoch is over.
    let mut beyond = state;
    beyond.segments[0].steps = u64::MAX;
    loader.load_state(&beyond).unwrap();
    assert!(loader.next_batch().is_none());
    assert!(State::from_json("{").is_err());
    assert!(State::from_json("[]").is_err());
}
