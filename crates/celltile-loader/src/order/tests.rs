//! Orders against their promises, and against a slow reference.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::rng::Rng;
use super::*;

struct Case {
    order: Order,
    shuffle: Shuffle,
    drop_last: bool,
    uneven: Uneven,
    /// The cells of each group.
    groups: Vec<Vec<u64>>,
    cells: Vec<u64>,
}

fn case(rng: &mut Rng) -> Case {
    let n = match rng.below(8) {
        0 => rng.below(4),
        _ => 1 + rng.below(400),
    };
    let mut cuts = Vec::new();
    let mut at = 0;
    while at < n {
        at += 1 + rng.below(12);
        cuts.push(at.min(n));
    }
    let selected: Option<Vec<u64>> = (rng.below(3) == 0).then(|| {
        let keep: Vec<bool> = (0..n).map(|_| rng.below(2) == 0).collect();
        (0..n).filter(|&c| keep[usize::try_from(c).unwrap()]).collect()
    });
    let cells: Vec<u64> = selected.clone().unwrap_or_else(|| (0..n).collect());
    let mut groups: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    for &cell in &cells {
        groups.entry(cuts.partition_point(|&cut| cut <= cell)).or_default().push(cell);
    }
    let selection = Selection::new(n, selected.map(Arc::from), cuts.into_iter());
    let shuffle = [Shuffle::Chunks, Shuffle::None, Shuffle::Cells][usize::try_from(rng.below(3)).unwrap()];
    let uneven = if rng.below(2) == 0 { Uneven::Drop } else { Uneven::Pad };
    let drop_last = rng.below(2) == 0;
    let order = Order::new(selection, shuffle, None, (rng.next(), uneven, drop_last));
    Case { order, shuffle, drop_last, uneven, groups: groups.into_values().collect(), cells }
}

fn segment(rng: &mut Rng) -> Segment {
    Segment {
        world: 1 + rng.below(4),
        workers: 1 + rng.below(3),
        batch_size: 1 + rng.below(20),
        buffer: 20 + rng.below(60),
        steps: 0,
    }
}

/// All batches of a lane, read from fills that begin anywhere.
fn lane_batches(order: &Order, epoch: u64, before: &[Segment], now: &Segment, seat: Seat) -> Vec<Vec<u64>> {
    let lane = order.lane(epoch, before, now, seat);
    let len = lane.len(&Deal::new(now, order.uneven, order.drop_last));
    let mut cells = Vec::new();
    let mut fill = Vec::new();
    while (cells.len() as u64) < len {
        let places = lane.fill(cells.len() as u64, &mut fill);
        assert_eq!(places.end - places.start, fill.len() as u64);
        assert_eq!(places.start, cells.len() as u64);
        // Asking for a place in the middle gives the same fill.
        let mut again = Vec::new();
        assert_eq!(lane.fill(places.end - 1, &mut again), places);
        assert_eq!(again, fill);
        cells.extend_from_slice(&fill);
    }
    cells.truncate(usize::try_from(len).unwrap());
    cells.chunks(usize::try_from(now.batch_size).unwrap()).map(<[u64]>::to_vec).collect()
}

/// The batches of a rank as a process sees them that takes those of its workers in turn.
fn rank_batches(order: &Order, epoch: u64, before: &[Segment], now: &Segment, rank: u64) -> Vec<Vec<u64>> {
    let seat = |worker| Seat { rank, world: now.world, worker, workers: now.workers };
    let mut lanes: Vec<std::collections::VecDeque<Vec<u64>>> =
        (0..now.workers).map(|worker| lane_batches(order, epoch, before, now, seat(worker)).into()).collect();
    let mut batches = Vec::new();
    let mut turn = 0;
    while lanes.iter().any(|lane| !lane.is_empty()) {
        batches.extend(lanes[turn].pop_front());
        turn = (turn + 1) % lanes.len();
    }
    batches
}

fn counts(cells: impl IntoIterator<Item = u64>) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    for cell in cells {
        *counts.entry(cell).or_default() += 1;
    }
    counts
}

#[test]
fn test_every_cell_once_an_epoch_and_equal_batches_on_every_rank() {
    let mut rng = Rng::new(&[1]);
    for _ in 0..600 {
        let case = case(&mut rng);
        let now = segment(&mut rng);
        let ranks: Vec<Vec<Vec<u64>>> =
            (0..now.world).map(|rank| rank_batches(&case.order, 3, &[], &now, rank)).collect();
        let sizes = |batches: &Vec<Vec<u64>>| batches.iter().map(Vec::len).collect::<Vec<_>>();
        assert!(ranks.iter().all(|batches| sizes(batches) == sizes(&ranks[0])), "equal batches");
        assert_eq!(case.order.rank_batches(3, &[], &now), ranks[0].len() as u64);
        let seen = counts(ranks.into_iter().flatten().flatten());
        assert!(seen.keys().all(|cell| case.cells.contains(cell)));
        let delivered: u64 = seen.values().sum();
        let n = case.cells.len() as u64;
        let most_left_out = if case.drop_last { now.world * now.workers * (now.batch_size - 1) } else { 0 };
        match case.uneven {
            Uneven::Drop => {
                assert!(seen.values().all(|&times| times == 1));
                assert!(delivered + most_left_out + now.world > n);
            }
            Uneven::Pad => {
                assert!(delivered < n + now.world && delivered + most_left_out >= n);
                if !case.drop_last {
                    assert_eq!(seen.len() as u64, n, "every cell");
                }
            }
        }
        if now.world == 1 && !case.drop_last {
            assert_eq!(delivered, n);
        }
    }
}

/// Stops after any number of steps, goes on with other ranks, workers, batch sizes and buffers, several times.
#[test]
fn test_the_rest_of_an_epoch_is_what_was_left() {
    let mut rng = Rng::new(&[2]);
    for _ in 0..600 {
        let mut case = case(&mut rng);
        case.order.drop_last = false;
        let mut before: Vec<Segment> = Vec::new();
        let mut left: BTreeMap<u64, u64> = counts(case.cells.iter().copied());
        for _ in 0..1 + rng.below(4) {
            let mut now = segment(&mut rng);
            let ranks: Vec<Vec<Vec<u64>>> =
                (0..now.world).map(|rank| rank_batches(&case.order, 9, &before, &now, rank)).collect();
            assert_eq!(case.order.rank_batches(9, &before, &now), ranks[0].len() as u64);
            let all = counts(ranks.iter().flatten().flatten().copied());
            // What is dealt is what was left, but for dropped or padded cells.
            let (few, n_left) = (now.world, left.len() as u64);
            match case.uneven {
                Uneven::Drop => {
                    assert!(all.values().all(|&times| times == 1) && all.len() as u64 + few > n_left);
                    assert!(all.keys().all(|cell| left.contains_key(cell)));
                }
                Uneven::Pad => {
                    assert!(all.keys().eq(left.keys()));
                    assert!(all.values().sum::<u64>() < n_left + few);
                }
            }
            now.steps = rng.below(ranks[0].len() as u64 + 2);
            let steps = usize::try_from(now.steps).unwrap();
            for cell in ranks.iter().flat_map(|batches| batches.iter().take(steps)).flatten() {
                left.remove(cell);
            }
            // Padding that was taken before its original leaves that to be taken: only then is there more.
            before.push(now);
            let next = Segment { world: 1, workers: 1, ..now };
            let rest = counts(rank_batches(&case.order, 9, &before, &next, 0).into_iter().flatten());
            assert!(rest.values().all(|&times| times == 1));
            let more: Vec<_> = rest.keys().filter(|cell| !left.contains_key(cell)).collect();
            assert!(left.keys().all(|cell| rest.contains_key(cell)), "nothing is lost");
            assert!(more.is_empty() || (case.uneven == Uneven::Pad && (more.len() as u64) < few), "{more:?}");
            left = rest;
        }
    }
}

/// Everything again, without prefix sums, searches or cuts that are computed.
#[test]
fn test_lines_are_those_of_a_slow_reference() {
    let mut rng = Rng::new(&[3]);
    for _ in 0..400 {
        let case = case(&mut rng);
        if case.shuffle == Shuffle::Cells {
            continue;
        }
        let now = segment(&mut rng);
        let (epoch, seed) = (rng.below(9), case.order.seed);
        let shuffled = case.shuffle != Shuffle::None;
        let mut groups = case.groups.clone();
        if shuffled {
            Rng::new(&[purpose::LINE, seed, epoch, 0]).shuffle(&mut groups);
        }
        let line: Vec<(usize, u64)> =
            groups.iter().enumerate().flat_map(|(g, cells)| cells.iter().map(move |&c| (g, c))).collect();
        let n = line.len();
        let world = usize::try_from(now.world).unwrap();
        let share = if case.uneven == Uneven::Drop { n / world } else { n.div_ceil(world) };
        let (mut start, mut lane_number) = (0, 0);
        for rank in 0..now.world {
            for worker in 0..now.workers {
                let workers = usize::try_from(now.workers).unwrap();
                let w = usize::try_from(worker).unwrap();
                let len = share / workers + usize::from(w < share % workers);
                let places: Vec<(usize, usize, u64)> = (start..start + len)
                    .map(|p| {
                        let (group, cell) = line[p % n];
                        (p / n, group, cell)
                    })
                    .collect();
                start += len;
                let n_fills = len.div_ceil(usize::try_from(now.buffer).unwrap()).max(1);
                let mut fills: Vec<Vec<u64>> = vec![Vec::new()];
                let mut at = 0;
                for item in places.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
                    let end = at + item.len();
                    if end * n_fills > len * fills.len() && !fills.last().unwrap().is_empty() {
                        fills.push(Vec::new());
                    }
                    fills.last_mut().unwrap().extend(item.iter().map(|(_, _, cell)| *cell));
                    at = end;
                }
                for (number, fill) in fills.iter_mut().enumerate() {
                    if shuffled {
                        let key = [purpose::FILL, seed, epoch, 0, lane_number, number as u64];
                        Rng::new(&key).shuffle(fill);
                    }
                }
                let mut expected: Vec<u64> = fills.concat();
                if case.drop_last {
                    let batch = usize::try_from(now.batch_size).unwrap();
                    expected.truncate(expected.len() / batch * batch);
                }
                let seat = Seat { rank, world: now.world, worker, workers: now.workers };
                let found = lane_batches(&case.order, epoch, &[], &now, seat).concat();
                assert_eq!(found, expected);
                lane_number += 1;
            }
        }
    }
}

#[test]
fn test_a_rank_touches_few_more_groups_than_its_share() {
    let n = 20_000;
    let selection = Selection::new(n, None, (0..n).step_by(50));
    let order = Order::new(selection, Shuffle::Chunks, None, (7, Uneven::Pad, false));
    for world in [2, 3, 8, 16] {
        let now = Segment { world, workers: 1, batch_size: 64, buffer: 1000, steps: 0 };
        for rank in 0..world {
            let mut groups: Vec<u64> =
                rank_batches(&order, 0, &[], &now, rank).concat().iter().map(|cell| cell / 50).collect();
            groups.sort_unstable();
            groups.dedup();
            let share = 400.0 / world as f64;
            assert!(groups.len() as f64 <= 1.1 * share, "{world} {rank} {}", groups.len());
        }
    }
}

#[test]
fn test_epochs_seeds_and_ranks_differ() {
    let orders = |seed, epoch| {
        let selection = Selection::new(500, None, (0..500).step_by(5));
        let order = Order::new(selection, Shuffle::Chunks, None, (seed, Uneven::Pad, false));
        let now = Segment { world: 1, workers: 1, batch_size: 10, buffer: 100, steps: 0 };
        rank_batches(&order, epoch, &[], &now, 0).concat()
    };
    assert_eq!(orders(1, 1), orders(1, 1));
    assert_ne!(orders(1, 1), orders(1, 2));
    assert_ne!(orders(1, 1), orders(2, 1));
    assert!(orders(0, 0).windows(2).filter(|pair| pair[1] == pair[0] + 1).count() < 25);
}

fn weighted(weights: &[f64], replacement: bool, draws: Option<u64>, seed: u64) -> Vec<u64> {
    let n = weights.len() as u64;
    let weighting = Weighting { weights: weights.into(), replacement, draws };
    let selection = Selection::new(n, None, std::iter::empty());
    let order = Order::new(selection, Shuffle::Chunks, Some(weighting), (seed, Uneven::Pad, false));
    let now = Segment { world: 1, workers: 1, batch_size: 7, buffer: 50, steps: 0 };
    rank_batches(&order, 0, &[], &now, 0).concat()
}

#[test]
fn test_draws_with_replacement_follow_the_weights() {
    let weights: Vec<f64> = (0..50).map(|i| f64::from(i % 10)).collect();
    let sum: f64 = weights.iter().sum();
    let n = 100_000;
    let drawn = counts(weighted(&weights, true, Some(n), 11));
    let mut chi = 0.0;
    for (cell, weight) in weights.iter().enumerate() {
        let found = drawn.get(&(cell as u64)).copied().unwrap_or(0) as f64;
        if *weight == 0.0 {
            assert_eq!(found, 0.0);
        } else {
            let expected = n as f64 * weight / sum;
            chi += (found - expected).powi(2) / expected;
        }
    }
    // 44 degrees of freedom.
    assert!(chi < 85.0, "{chi}");
}

#[test]
fn test_draws_without_replacement_follow_the_weights() {
    let weights = [1.0, 2.0, 3.0, 0.0, 4.0];
    let runs = 20_000;
    let mut seen: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for seed in 0..runs {
        let drawn = weighted(&weights, false, None, seed);
        assert_eq!(counts(drawn.iter().copied()).len(), 4);
        assert!(!drawn.contains(&3));
        *seen.entry((drawn[0], drawn[1])).or_default() += 1;
    }
    let mut chi = 0.0;
    for (first, second) in [0, 1, 2, 4].into_iter().flat_map(|a| [0, 1, 2, 4].map(|b| (a, b))) {
        if first != second {
            let p = weights[first] / 10.0 * weights[second] / (10.0 - weights[first]);
            let expected = runs as f64 * p;
            let found = seen.get(&(first as u64, second as u64)).copied().unwrap_or(0) as f64;
            chi += (found - expected).powi(2) / expected;
        }
    }
    // 11 degrees of freedom.
    assert!(chi < 38.0, "{chi}");
    assert_eq!(weighted(&weights, false, Some(2), 1), weighted(&weights, false, None, 1)[..2]);
}

#[test]
fn test_draws_go_on_with_other_ranks() {
    let weights: Vec<f64> = (0..97).map(|i| f64::from(i % 4)).collect();
    for replacement in [true, false] {
        let weighting = Weighting { weights: weights.as_slice().into(), replacement, draws: None };
        let selection = Selection::new(97, None, std::iter::empty());
        let order = Order::new(selection, Shuffle::Chunks, Some(weighting), (5, Uneven::Drop, false));
        let one = Segment { world: 1, workers: 1, batch_size: 4, buffer: 16, steps: 0 };
        let all = rank_batches(&order, 2, &[], &one, 0).concat();
        let mut before = Segment { world: 3, workers: 2, batch_size: 2, buffer: 16, steps: 0 };
        for steps in 0..8 {
            before.steps = steps;
            let rest = rank_batches(&order, 2, &[before], &one, 0).concat();
            let taken = usize::try_from(steps * 6).unwrap();
            assert_eq!(rest, all[taken..], "steps {steps}");
        }
    }
}

/// Draws are one sequence, whoever takes them: what is left is its rest, after any chain of stops.
#[test]
fn test_draws_are_a_sequence_of_which_ranks_take_the_next() {
    let mut rng = Rng::new(&[4]);
    for round in 0..300 {
        let n = 1 + rng.below(150);
        let weights: Vec<f64> = (0..n).map(|_| f64::from(u32::try_from(rng.below(4)).unwrap())).collect();
        let weighting = (round % 3 > 0 && weights.iter().any(|w| *w > 0.0)).then(|| Weighting {
            weights: weights.as_slice().into(),
            replacement: round % 3 == 1,
            draws: None,
        });
        let uneven = if rng.below(2) == 0 { Uneven::Drop } else { Uneven::Pad };
        let selection = Selection::new(n, None, std::iter::empty());
        let order = Order::new(selection, Shuffle::Cells, weighting, (rng.next(), uneven, false));
        let one = Segment { world: 1, workers: 1, batch_size: 5, buffer: 20, steps: 0 };
        let all = rank_batches(&order, 2, &[], &one, 0).concat();
        assert_eq!(all.len() as u64, order.len());
        let (mut before, mut taken) = (Vec::new(), 0);
        for _ in 0..3 {
            let mut now = segment(&mut rng);
            let ranks: Vec<Vec<Vec<u64>>> =
                (0..now.world).map(|rank| rank_batches(&order, 2, &before, &now, rank)).collect();
            let n_batches = ranks[0].len();
            assert!(ranks.iter().all(|batches| batches.len() == n_batches));
            now.steps = rng.below(n_batches as u64 + 1);
            let steps = usize::try_from(now.steps).unwrap();
            let dealt: Vec<u64> =
                (0..steps).flat_map(|step| ranks.iter().flat_map(move |rank| rank[step].clone())).collect();
            let left = &all[taken..];
            // Those past the end are padding: fewer than there are ranks.
            assert!(dealt.len() < left.len() + usize::try_from(now.world).unwrap());
            assert!(dealt.iter().eq(left.iter().cycle().take(dealt.len())));
            taken += dealt.len().min(left.len());
            before.push(now);
            assert_eq!(rank_batches(&order, 2, &before, &one, 0).concat(), all[taken..]);
        }
    }
}
