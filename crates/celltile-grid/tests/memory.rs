//! What grids take from the heap, counted.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests are tests, which clippy.toml allows this in"
)]

use allocation_counter::measure;
use celltile_grid::{Axis, Grid, GridMetadata, Position};

const TRILLION: u64 = 1_000_000_000_000;

fn inline(chunk_shapes: &str) -> String {
    format!(r#"{{"name":"rectilinear","configuration":{{"kind":"inline","chunk_shapes":{chunk_shapes}}}}}"#)
}

/// Edges of a fixed pseudo-random sequence, from 1 to 1000.
fn random_edges(n: usize) -> impl Iterator<Item = u64> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        1 + state % 1000
    })
    .take(n)
}

#[test]
fn test_a_run_of_a_trillion_edges_is_constant_in_everything() {
    let json = inline("[[[1,1000000000000]]]");
    let used = measure(|| {
        let mut grid = Grid::from_json(&json, &[TRILLION]).unwrap();
        assert_eq!(grid.n_active(), Ok(TRILLION));
        assert_eq!(grid.locate(&[TRILLION - 1]).unwrap()[0], Position { chunk: TRILLION - 1, within: 0 });
        assert_eq!(grid.chunk(&[TRILLION / 2]).unwrap()[0].origin, TRILLION / 2);
        assert_eq!(
            grid.region(std::slice::from_ref(&(5..TRILLION))).unwrap().next_part().unwrap()[0].chunk.chunk,
            5
        );
        assert_eq!(grid.to_json(), json);
        assert_eq!(grid.to_regular(), Some(vec![1]));
        assert_eq!(grid, Grid::from_regular(&[TRILLION], &[1]).unwrap());
        grid.resize(&[TRILLION + 5]).unwrap();
        grid.append(0, 7).unwrap();
        grid.merge(0, 3..TRILLION - 3).unwrap();
        grid.split(0, 3, 9).unwrap();
        assert_eq!(grid.to_json(), inline("[[[1,3],9,999999999985,[1,3],5,7]]"));
        assert!(grid.to_zep0003_json(1000).is_ok());
    });
    assert!(used.bytes_max < 4096, "{used:?}");
}

#[test]
fn test_lookups_and_iteration_take_nothing_from_the_heap() {
    let axis = Axis::from_edges(random_edges(300)).unwrap();
    let length = axis.length();
    let grid = Grid::new(vec![axis.clone(), axis]);
    let mut positions = [Position::default(); 2];
    let mut parts = grid.region(&[0..length, 0..length]).unwrap();
    let mut n = 0;
    let used = measure(|| {
        for index in (0..length).step_by(97) {
            grid.locate_into(&[index, length - 1 - index], &mut positions).unwrap();
        }
        n += parts.next_part().map_or(0, <[_]>::len);
        n += grid.axes()[0].select(0..length).unwrap().count();
    });
    assert_eq!(used.count_total, 0, "{used:?}");
    let used = measure(|| {
        while let Some(part) = parts.next_part() {
            n += part.len();
        }
    });
    assert_eq!((used.count_total, n), (0, 2 * 300 * 300 + 300), "{used:?}");
}

#[test]
fn test_a_million_runs_take_less_than_24_bytes_each() {
    let edges: Vec<String> = random_edges(1_000_000).map(|edge| edge.to_string()).collect();
    let json = inline(&format!("[[{}]]", edges.join(",")));
    let mut metadata = None;
    let used = measure(|| metadata = Some(GridMetadata::parse(&json).unwrap()));
    let axis = Axis::from_edges(random_edges(1_000_000)).unwrap();
    let grid = metadata.unwrap().into_grid(&[axis.length()]).unwrap();
    assert_eq!(grid.axes(), [axis]);
    let runs = grid.axes()[0].n_runs();
    assert!(runs > 990_000);
    let per_run = used.bytes_current as f64 / runs as f64;
    assert!(per_run < 24.0, "{per_run} bytes a run");
    assert!(i64::try_from(grid.axes()[0].heap_bytes()).unwrap() <= used.bytes_current);
}

#[test]
fn test_hostile_metadata_take_a_small_multiple_of_their_size() {
    let n = 20_000;
    let many = |element: &str| vec![element; n].join(",");
    let hostile = [
        inline(&"[".repeat(n)),
        inline(&format!("[{}", r#"{"a":"#.repeat(n))),
        inline(&format!("[{}]", many("1"))),
        inline(&format!("[{}]", many("[1]"))),
        inline(&format!("[[{}]]", many("[18446744073709551615,18446744073709551615]"))),
        inline(&format!("[[{}]]", many("1,2"))),
        inline(&format!("[[[1,{}]]]", many("1"))),
        inline(&format!("[{}]", "9".repeat(n))),
        inline(&format!("[\"{}\"]", r"\u00e9".repeat(n))),
        format!(r#"{{"{}":1}}"#, "k".repeat(n)),
        format!(r#"{{"name":"{}"}}"#, r"\n".repeat(n)),
    ];
    for json in hostile {
        let used = measure(|| {
            let _ = Grid::from_json(&json, &[10]);
            let _ = Grid::from_zep0003_json(&json, &[10]);
        });
        assert!(
            // An edge of 2 bytes of text is a run, which a list that grows holds twice for a moment.
            used.bytes_max <= 20 * json.len() as u64,
            "{used:?} for {} bytes {}",
            json.len(),
            &json[..90]
        );
        // Without a shape to stop at, 4 bytes of text make an axis.
        let used = measure(|| {
            let _ = GridMetadata::parse(&json);
        });
        assert!(
            used.bytes_max <= 64 * json.len() as u64,
            "{used:?} for {} bytes {}",
            json.len(),
            &json[..90]
        );
    }
}
