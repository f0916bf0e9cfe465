//! One axis against a list of every edge.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests are tests, which clippy.toml allows this in"
)]

use celltile_grid::{Axis, GridError, Place};
use proptest::prelude::*;

/// The slow twin: every edge, one by one.
#[derive(Debug)]
struct Listed {
    length: u64,
    edges: Vec<u64>,
}

impl Listed {
    fn origin(&self, chunk: usize) -> u64 {
        self.edges[..chunk].iter().sum()
    }

    fn check(&self, axis: &Axis) {
        assert_eq!(axis.length(), self.length);
        assert_eq!(axis.edges().collect::<Vec<_>>(), self.edges);
        assert_eq!(axis.n_declared(), self.edges.len() as u64);
        assert_eq!(axis.declared_length(), u128::from(self.edges.iter().sum::<u64>()));
        let active = (0..self.edges.len()).filter(|&k| self.origin(k) < self.length).count();
        assert_eq!(axis.n_active(), active as u64);
        // The specification's procedure: the first cumulative sum that exceeds the index.
        let sums: Vec<u64> = (1..=self.edges.len()).map(|n| self.origin(n)).collect();
        for index in 0..self.length {
            let chunk = sums.iter().position(|&sum| sum > index).unwrap();
            let within = index - (sums[chunk] - self.edges[chunk]);
            let found = axis.locate(index).unwrap();
            assert_eq!((found.chunk, found.within), (chunk as u64, within), "index {index}");
        }
        assert!(axis.locate(self.length).is_err());
        for (k, &edge) in self.edges.iter().enumerate() {
            let found = axis.chunk(k as u64).unwrap();
            let origin = self.origin(k);
            assert_eq!((found.chunk, found.origin, found.edge), (k as u64, origin, edge));
            assert_eq!(found.clipped, (origin..origin + edge).filter(|&i| i < self.length).count() as u64);
        }
        assert!(axis.chunk(self.edges.len() as u64).is_err());
        let first = self.edges.first();
        let same = self.edges.iter().all(|edge| Some(edge) == first);
        if !self.edges.is_empty() {
            assert_eq!(axis.regular_edge(), first.copied().filter(|_| same));
        }
    }
}

/// Edges from a narrow range, so that equal neighbours are common, and a length that they cover.
fn listed() -> impl Strategy<Value = Listed> {
    prop::collection::vec(1_u64..4, 1..600)
        .prop_flat_map(|edges| {
            let sum: u64 = edges.iter().sum();
            (Just(edges), 0..=sum)
        })
        .prop_map(|(edges, length)| Listed { length, edges })
}

fn axis_of(listed: &Listed) -> Axis {
    Axis::from_edges(listed.edges.iter().copied()).unwrap().with_length(listed.length).unwrap()
}

#[derive(Debug, Clone)]
enum Change {
    Resize(u64),
    Append(u64),
    Split(u64, u64),
    Merge(u64, u64),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (0_u64..60).prop_map(Change::Resize),
        (0_u64..5).prop_map(Change::Append),
        (0_u64..12, 0_u64..5).prop_map(|(chunk, at)| Change::Split(chunk, at)),
        (0_u64..12, 0_u64..5).prop_map(|(start, n)| Change::Merge(start, start + n)),
    ]
}

impl Listed {
    /// Applies a change to the list, or refuses.
    fn apply(&mut self, change: &Change, integer: Option<u64>) -> bool {
        let sum: u64 = self.edges.iter().sum();
        match *change {
            Change::Resize(length) => {
                if let Some(edge) = integer {
                    self.edges = vec![edge; usize::try_from(length.div_ceil(edge)).unwrap()];
                } else if length > sum {
                    self.edges.push(length - sum);
                }
                self.length = length;
                true
            }
            Change::Append(edge) => {
                let active = (0..self.edges.len()).filter(|&k| self.origin(k) < self.length).count();
                if edge == 0 || self.origin(active) != self.length {
                    return false;
                }
                self.edges.truncate(active);
                self.edges.push(edge);
                self.length += edge;
                true
            }
            Change::Split(chunk, at) => {
                let chunk = usize::try_from(chunk).unwrap();
                let Some(&edge) = self.edges.get(chunk) else { return false };
                if at == 0 || at >= edge {
                    return false;
                }
                self.edges.splice(chunk..=chunk, [at, edge - at]);
                true
            }
            Change::Merge(start, end) => {
                let (start, end) = (usize::try_from(start).unwrap(), usize::try_from(end).unwrap());
                if start >= end || end > self.edges.len() {
                    return false;
                }
                let joined = self.edges[start..end].iter().sum();
                self.edges.splice(start..end, [joined]);
                true
            }
        }
    }
}

proptest! {
    #[test]
    fn test_lookups_match_a_list_of_every_edge(listed in listed()) {
        listed.check(&axis_of(&listed));
    }

    #[test]
    fn test_integer_form_matches_the_list_of_its_edges(length in 0_u64..200, edge in 1_u64..20) {
        let axis = Axis::regular(length, edge).unwrap();
        let edges = vec![edge; usize::try_from(length.div_ceil(edge)).unwrap()];
        let listed = Listed { length, edges };
        listed.check(&axis);
        if length > 0 {
            prop_assert_eq!(axis, axis_of(&listed));
        }
    }

    #[test]
    fn test_changes_match_a_list_of_every_edge(
        integer in prop::option::of(1_u64..6),
        edges in prop::collection::vec(1_u64..4, 1..6),
        length in 0_u64..20,
        changes in prop::collection::vec(change(), 0..12),
    ) {
        let (mut axis, mut listed) = match integer {
            Some(edge) => (
                Axis::regular(length, edge).unwrap(),
                Listed { length, edges: vec![edge; usize::try_from(length.div_ceil(edge)).unwrap()] },
            ),
            None => {
                let length = length.min(edges.iter().sum());
                let listed = Listed { length, edges };
                (axis_of(&listed), listed)
            }
        };
        for change in &changes {
            let before = axis.clone();
            let form = axis.regular_edge().filter(|_| axis.is_integer());
            let changed = match *change {
                Change::Resize(length) => { axis.resize(length); Ok(()) }
                Change::Append(edge) => axis.append(edge),
                Change::Split(chunk, at) => axis.split(chunk, at),
                Change::Merge(start, end) => axis.merge(start..end),
            };
            prop_assert_eq!(changed.is_ok(), listed.apply(change, form), "{:?}: {:?}", change, changed);
            if changed.is_err() {
                prop_assert_eq!(&axis, &before);
            }
            listed.check(&axis);
        }
    }
}

#[test]
fn test_extreme_lengths_are_exact() {
    let axis = Axis::regular(u64::MAX, 1).unwrap();
    assert_eq!(axis.locate(u64::MAX - 1).unwrap().chunk, u64::MAX - 1);
    assert_eq!(axis.n_active(), u64::MAX);

    let axis = Axis::regular(u64::MAX, 1 << 63).unwrap();
    assert_eq!((axis.n_declared(), axis.n_active(), axis.declared_length()), (2, 2, 1 << 64));
    let last = axis.chunk(1).unwrap();
    assert_eq!((last.origin, last.edge, last.clipped), (1 << 63, 1 << 63, (1 << 63) - 1));

    let axis = Axis::from_runs([(1, u64::MAX)]).unwrap();
    assert_eq!(axis.chunk(u64::MAX - 1).unwrap().origin, u64::MAX - 1);
    assert_eq!(axis.locate(u64::MAX - 1).unwrap().within, 0);
}

#[test]
fn test_an_integer_edge_past_the_last_index_appends_or_refuses() {
    let mut axis = Axis::regular(u64::MAX, 1 << 63).unwrap();
    let error = axis.append(5).unwrap_err();
    assert!(matches!(error, GridError::EndsInsideChunk { chunk: 1, chunk_end, .. } if chunk_end == 1 << 64));
    assert!(matches!(axis.split(0, 5), Err(GridError::SumTooLarge { .. })));
    assert!(matches!(axis.merge(0..2), Err(GridError::SumTooLarge { .. })));
    assert_eq!(axis, Axis::regular(u64::MAX, 1 << 63).unwrap());
}

#[test]
fn test_errors_name_the_position() {
    let at = |position| Place { axis: None, position: Some(position) };
    let zero = Axis::from_edges([3, 0, 2]).unwrap_err();
    assert_eq!(zero, GridError::Edge { place: at(1), found: "0".into() });
    let count = Axis::from_runs([(3, 1), (2, 2), (2, 0)]).unwrap_err();
    assert_eq!(count, GridError::Count { place: at(2), found: "0".into() });
    let sum = Axis::from_runs([(16, 1), (1 << 63, 2)]).unwrap_err();
    assert_eq!(sum, GridError::SumTooLarge { place: at(1), edge: 1 << 63, count: 2, sum: 16 });
    assert!(matches!(Axis::from_edges([]), Err(GridError::NoEdges { .. })));
    assert!(matches!(Axis::regular(0, 0), Err(GridError::Edge { .. })));
    let short = Axis::from_edges([3, 4]).unwrap().with_length(8).unwrap_err();
    assert_eq!(short.to_string(), "the edges sum to 7, less than the axis' length of 8");
}
