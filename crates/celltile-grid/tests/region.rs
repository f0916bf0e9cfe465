//! Selections against the chunk of every selected element.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests are tests, which clippy.toml allows this in"
)]

use std::ops::Range;

use celltile_grid::{Axis, AxisPart, Grid, GridError, Place, Selection};
use proptest::prelude::*;

/// A selection that owns its indices.
#[derive(Debug, Clone)]
enum Chosen {
    Range(Range<u64>),
    Stepped(Range<u64>, u64),
    Indices(Vec<u64>),
}

impl Chosen {
    fn selection(&self) -> Selection<'_> {
        match self {
            Self::Range(range) => range.clone().into(),
            Self::Stepped(range, step) => Selection::Stepped { range: range.clone(), step: *step },
            Self::Indices(indices) => indices.as_slice().into(),
        }
    }

    fn listed(&self) -> Vec<u64> {
        match self {
            Self::Range(range) => range.clone().collect(),
            Self::Stepped(range, step) => range.clone().step_by(usize::try_from(*step).unwrap()).collect(),
            Self::Indices(indices) => indices.clone(),
        }
    }
}

fn axis() -> impl Strategy<Value = Axis> {
    let list = prop::collection::vec((1_u64..4, 1_u64..4), 1..20)
        .prop_map(|runs| Axis::from_runs(runs).unwrap())
        .prop_flat_map(|axis| {
            let length = axis.length();
            (Just(axis), 0..=length)
        })
        .prop_map(|(axis, length)| axis.with_length(length).unwrap());
    let integer = (0_u64..40, 1_u64..9).prop_map(|(length, edge)| Axis::regular(length, edge).unwrap());
    prop_oneof![4 => list, 1 => integer]
}

fn chosen(length: u64) -> impl Strategy<Value = Chosen> {
    let range = (0..=length, 0..=length).prop_map(|(a, b)| a.min(b)..a.max(b));
    let indices = if length == 0 {
        Just(vec![]).boxed()
    } else {
        prop_oneof![
            prop::collection::vec(0..length, 0..30),
            prop::collection::btree_set(0..length, 0..30).prop_map(|set| set.into_iter().collect()),
        ]
        .boxed()
    };
    prop_oneof![
        range.clone().prop_map(Chosen::Range),
        (range, 1_u64..9).prop_map(|(range, step)| Chosen::Stepped(range, step)),
        indices.prop_map(Chosen::Indices),
    ]
}

fn axis_and_chosen() -> impl Strategy<Value = (Axis, Chosen)> {
    axis().prop_flat_map(|axis| {
        let length = axis.length();
        (Just(axis), chosen(length))
    })
}

fn check_part(axis: &Axis, listed: &[u64], part: &AxisPart) {
    assert_eq!(part.chunk, axis.chunk(part.chunk.chunk).unwrap());
    let selected = usize::try_from(part.selected.start).unwrap()..usize::try_from(part.selected.end).unwrap();
    let within: Vec<u64> = listed[selected]
        .iter()
        .map(|&index| {
            let position = axis.locate(index).unwrap();
            assert_eq!(position.chunk, part.chunk.chunk);
            position.within
        })
        .collect();
    assert_eq!(part.within, *within.iter().min().unwrap()..within.iter().max().unwrap() + 1);
    assert_eq!(part.contiguous, within == part.within.clone().collect::<Vec<_>>());
    assert_eq!(part.is_whole(), within == (0..part.chunk.clipped).collect::<Vec<_>>());
}

proptest! {
    #[test]
    fn test_parts_along_an_axis_match_every_element((axis, chosen) in axis_and_chosen()) {
        let listed = chosen.listed();
        let parts: Vec<AxisPart> = axis.select(chosen.selection()).unwrap().collect();
        let mut next = 0;
        for part in &parts {
            prop_assert_eq!(part.selected.start, next);
            next = part.selected.end;
            check_part(&axis, &listed, part);
        }
        prop_assert_eq!(next, listed.len() as u64);
        prop_assert!(parts.windows(2).all(|pair| pair[0].chunk != pair[1].chunk));
        if let Chosen::Range(range) = chosen {
            let chunks: Vec<u64> = axis.chunk_range(range).unwrap().collect();
            prop_assert_eq!(parts.iter().map(|part| part.chunk.chunk).collect::<Vec<_>>(), chunks);
        }
    }

    #[test]
    fn test_parts_of_a_grid_are_the_product_of_those_of_its_axes(
        given in prop::collection::vec(axis_and_chosen(), 0..4)
    ) {
        let grid = Grid::new(given.iter().map(|(axis, _)| axis.clone()).collect());
        let selections: Vec<Selection<'_>> = given.iter().map(|(_, chosen)| chosen.selection()).collect();
        let mut expected: Vec<Vec<AxisPart>> = vec![vec![]];
        for (axis, chosen) in &given {
            let parts: Vec<AxisPart> = axis.select(chosen.selection()).unwrap().collect();
            expected = expected
                .into_iter()
                .flat_map(|before| parts.iter().map(move |part| [before.clone(), vec![part.clone()]].concat()))
                .collect();
        }
        let mut found = Vec::new();
        let mut parts = grid.select(&selections).unwrap();
        while let Some(part) = parts.next_part() {
            found.push(part.to_vec());
        }
        prop_assert!(parts.next_part().is_none());
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn test_selections_outside_the_array_are_refused() {
    let grid = Grid::from_regular(&[10, 10], &[4, 4]).unwrap();
    let place = |position| Place { axis: Some(1), position };
    let error = grid.region(&[0..10, 3..11]).unwrap_err();
    assert_eq!(error, GridError::RangeOutside { place: place(None), start: 3, end: 11, length: 10 });
    #[allow(clippy::reversed_empty_ranges, reason = "the point of the test")]
    let error = grid.region(&[0..10, 7..6]).unwrap_err();
    assert_eq!(error, GridError::RangeOutside { place: place(None), start: 7, end: 6, length: 10 });
    let error = grid.select(&[(0..1).into(), Selection::Indices(&[3, 9, 10])]).unwrap_err();
    assert_eq!(error, GridError::IndexOutside { place: place(Some(2)), index: 10, length: 10 });
    let error = grid.select(&[(0..1).into(), Selection::Stepped { range: 0..1, step: 0 }]).unwrap_err();
    assert_eq!(error, GridError::Step { place: place(None) });
    assert!(matches!(
        grid.region(&[0..1, 0..1, 0..1]),
        Err(GridError::Dimensions { found: 3, expected: 2, .. })
    ));
}

#[test]
fn test_a_region_of_a_trillion_chunks_is_lazy() {
    let axis = Axis::from_runs([(1, 1_000_000_000_000), (3, 2)]).unwrap();
    let length = axis.length();
    let grid = Grid::new(vec![axis; 2]);
    let mut parts = grid.region(&[0..length, length - 7..length]).unwrap();
    for _ in 0..2 {
        for chunk in 999_999_999_999..1_000_000_000_002_u64 {
            assert_eq!(parts.next_part().unwrap()[1].chunk.chunk, chunk);
        }
    }
    let mut last = grid.axes()[0].select(Selection::Stepped { range: 1..length, step: 1 << 39 }).unwrap();
    assert_eq!(last.nth(1).unwrap().chunk.chunk, (1 << 39) + 1);
    assert!(matches!(grid.n_declared(), Err(GridError::TooManyChunks(_))));
}
