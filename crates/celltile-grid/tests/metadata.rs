//! The JSON: what is refused and how, and what is written.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests are tests, which clippy.toml allows this in"
)]

use celltile_grid::{Axis, Grid, GridMetadata};
use proptest::prelude::*;

fn inline(chunk_shapes: &str) -> String {
    format!(r#"{{"name":"rectilinear","configuration":{{"kind":"inline","chunk_shapes":{chunk_shapes}}}}}"#)
}

fn refusal(chunk_shapes: &str) -> String {
    GridMetadata::parse(&inline(chunk_shapes)).unwrap_err().to_string()
}

#[test]
fn test_errors_name_axis_position_and_value() {
    let cases = [
        ("[4, [3, 0]]", "axis 1, position 1: edge length is 0, expected an integer from 1 to 2^64 - 1"),
        ("[4.0]", "axis 0: edge length is 4.0, expected an integer from 1 to 2^64 - 1"),
        ("[[1], [2, 4e0]]", "axis 1, position 1: edge length is 4e0, expected an integer from 1 to 2^64 - 1"),
        ("[-3]", "axis 0: edge length is -3, expected an integer from 1 to 2^64 - 1"),
        ("[[true]]", "axis 0, position 0: edge length is true, expected an integer from 1 to 2^64 - 1"),
        ("[[1, \"3\"]]", "axis 0, position 1: edge length is \"3\", expected an integer from 1 to 2^64 - 1"),
        ("[null]", "axis 0: edge length is null, expected an integer from 1 to 2^64 - 1"),
        ("[[{}]]", "axis 0, position 0: edge length is an object, expected an integer from 1 to 2^64 - 1"),
        (
            "[[[[1, 2], 3]]]",
            "axis 0, position 0: edge length is an array, expected an integer from 1 to 2^64 - 1",
        ),
        (
            "[[18446744073709551616]]",
            "axis 0, position 0: edge length is 18446744073709551616, expected an integer from 1 to 2^64 - 1",
        ),
        (
            "[[5, [2, false]]]",
            "axis 0, position 1: the count of a run is false, expected an integer from 1 to 2^64 - 1",
        ),
        ("[[5, [2, 1, 7, [8]]]]", "axis 0, position 1: a run has 4 elements, expected two: [edge, count]"),
        ("[[5, [2]]]", "axis 0, position 1: a run has 1 elements, expected two: [edge, count]"),
        (
            "[[5], []]",
            "axis 1: the list of edge lengths is empty, expected at least one, even where the axis has length 0",
        ),
        (
            "[[16, [9223372036854775808, 2], 16]]",
            "axis 0, position 1: with 2 x 9223372036854775808 after 16 the edges sum past 2^64 - 1",
        ),
        ("{}", "`chunk_shapes` is an object, expected an array with an element a dimension"),
        ("[3, [4, 05]]", "JSON, line 1, column 79: a number starts with 0 and goes on"),
    ];
    for (chunk_shapes, message) in cases {
        assert_eq!(refusal(chunk_shapes), message, "{chunk_shapes}");
    }
    let long = refusal(&format!("[{}]", "9".repeat(1_000_000)));
    assert_eq!(
        long,
        format!("axis 0: edge length is {}..., expected an integer from 1 to 2^64 - 1", "9".repeat(40))
    );
}

#[test]
fn test_objects_are_read_strictly() {
    let cases = [
        (r#""rectilinear""#, "`chunk_grid` is \"rectilinear\", expected an object"),
        (r#"{"configuration":{}}"#, "`chunk_grid` has no `name`"),
        (
            r#"{"name":"regular","configuration":{"chunk_shape":[1]}}"#,
            "`name` is \"regular\", expected one of [\"rectilinear\"]",
        ),
        (r#"{"name":"rectilinear","name":"rectilinear"}"#, "`chunk_grid` has the key `name` more than once"),
        (
            r#"{"name":"rectilinear","n\u0061me":"rectilinear"}"#,
            "`chunk_grid` has the key `name` more than once",
        ),
        (r#"{"name":"rectilinear","x":1}"#, "`chunk_grid` has the unknown key `x`"),
        (r#"{"name":"rectilinear","must_understand":0}"#, "`must_understand` is 0, expected true"),
        (
            r#"{"must_understand":false}"#,
            "`must_understand` is false, but no array can be read without its chunk grid",
        ),
        (r#"{"name":"rectilinear","configuration":[]}"#, "`configuration` is an array, expected an object"),
        (
            r#"{"configuration":{"chunk_shapes":[],"kind":"inline","kind":"inline"},"name":"rectilinear"}"#,
            "`configuration` has the key `kind` more than once",
        ),
        (
            r#"{"name":"rectilinear","configuration":{"chunk_shapes":[1],"chunk_shapes":[1]}}"#,
            "`configuration` has the key `chunk_shapes` more than once",
        ),
        (
            r#"{"name":"rectilinear","configuration":{"chunk_shapes":"elsewhere","kind":"reference"}}"#,
            "`kind` is \"reference\", expected one of [\"inline\"]",
        ),
        (r#"{"name":"rectilinear"} {}"#, "JSON, line 1, column 24: the text goes on after the value"),
        ("", "JSON, line 1, column 1: a value is expected"),
        ("\u{feff}{}", "JSON, line 1, column 1: a value is expected"),
    ];
    for (json, message) in cases {
        assert_eq!(GridMetadata::parse(json).unwrap_err().to_string(), message, "{json}");
    }
    let any_order = r#"{"must_understand":true,"configuration":{"chunk_shapes":[[2,[3,2]]],"kind":"inline"},"name":"rectilinear"}"#;
    assert_eq!(GridMetadata::parse(any_order).unwrap().to_json(), inline("[[2,[3,2]]]"));
}

#[test]
fn test_the_number_of_dimensions_is_counted() {
    let error = Grid::from_json(&inline("[1, [2], 3, [[4, 1]]]"), &[1]).unwrap_err();
    assert_eq!(error.to_string(), "chunk_shapes has 4 dimensions, expected 1");
    let error = Grid::from_json(&inline("[1]"), &[1, 1]).unwrap_err();
    assert_eq!(error.to_string(), "chunk_shapes has 1 dimensions, expected 2");
    let error = GridMetadata::parse(&inline("[1]")).unwrap().into_grid(&[]).unwrap_err();
    assert_eq!(error.to_string(), "chunk_shapes has 1 dimensions, expected 0");
    let error = Grid::from_json(&inline("[3, [4, 4]]"), &[10, 10]).unwrap_err();
    assert_eq!(error.to_string(), "axis 1: the edges sum to 8, less than the axis' length of 10");
}

#[test]
fn test_the_older_form_is_read_and_written_on_request() {
    let json = r#"{"name":"rectangular","configuration":{"chunk_shape":[[5,5,5,15,15,20,35],10]}}"#;
    let grid = Grid::from_zep0003_json(json, &[100, 100]).unwrap();
    assert_eq!(grid, Grid::from_json(&inline("[[[5,3],[15,2],20,35],10]"), &[100, 100]).unwrap());
    assert_eq!(grid.to_zep0003_json(7).unwrap(), json);
    assert_eq!(
        grid.to_zep0003_json(6).unwrap_err().to_string(),
        "7 edges would be written one by one, expected at most 6"
    );
    assert_eq!(GridMetadata::parse_zep0003(json).unwrap().to_json(), grid.to_json());

    assert!(Grid::from_json(json, &[100, 100]).is_err());
    assert!(Grid::from_zep0003_json(&grid.to_json(), &[100, 100]).is_err());
    let run = r#"{"name":"rectangular","configuration":{"chunk_shape":[[[5,3]]]}}"#;
    assert_eq!(
        GridMetadata::parse_zep0003(run).unwrap_err().to_string(),
        "axis 0, position 0: edge length is an array, expected an integer from 1 to 2^64 - 1"
    );
}

#[test]
fn test_regular_grids_come_and_go() {
    let grid = Grid::from_regular(&[95, 200], &[10, 20]).unwrap();
    assert_eq!((grid.to_regular(), grid.to_json()), (Some(vec![10, 20]), inline("[10,20]")));
    let listed = Grid::from_json(&inline("[[[10, 10]], [[20, 10]]]"), &[95, 200]).unwrap();
    assert_eq!((listed.to_regular(), &listed), (Some(vec![10, 20]), &grid));
    // By meaning the same, but they grow differently, so their metadata are not.
    assert_ne!(GridMetadata::from(grid), GridMetadata::from(listed));

    let overflow = Grid::from_json(&inline("[[4, 4, 4]]"), &[6]).unwrap();
    assert_eq!(overflow.to_regular(), Some(vec![4]));
    assert_ne!(overflow, Grid::from_regular(&[6], &[4]).unwrap());
    assert_eq!(Grid::from_json(&inline("[[4, 4, 2]]"), &[10]).unwrap().to_regular(), None);
    assert_eq!(Grid::from_json(&inline("[[3, 4]]"), &[0]).unwrap().to_regular(), None);
    assert_eq!(
        Grid::from_regular(&[3, 4], &[1, 0]).unwrap_err().to_string(),
        "axis 1: edge length is 0, expected an integer from 1 to 2^64 - 1"
    );
    assert_eq!(
        Grid::from_regular(&[3, 4], &[1]).unwrap_err().to_string(),
        "the chunk shape has 1 dimensions, expected 2"
    );
}

#[test]
fn test_changes_name_the_axis() {
    let mut grid = Grid::from_json(&inline("[[5, 5], [3, 4]]"), &[10, 6]).unwrap();
    grid.append(0, 7).unwrap();
    grid.split(0, 2, 3).unwrap();
    grid.merge(0, 0..2).unwrap();
    assert_eq!((grid.shape(), grid.to_json()), (vec![17, 6], inline("[[10,3,4],[3,4]]")));
    let before = grid.clone();
    assert_eq!(
        grid.append(1, 7).unwrap_err().to_string(),
        "axis 1: cannot append an edge: length 6 ends inside chunk 1, which ends at 7"
    );
    assert_eq!(
        grid.split(0, 2, 4).unwrap_err().to_string(),
        "axis 0: cannot split chunk 2 of edge 4 at 4, expected a number from 1 to the edge - 1"
    );
    assert_eq!(grid.split(0, 3, 4).unwrap_err().to_string(), "axis 0: chunk 3 is not one of the 3 declared");
    assert_eq!(
        grid.merge(1, 1..1).unwrap_err().to_string(),
        "axis 1: cannot merge chunks 1..1, expected at least one chunk"
    );
    assert_eq!(grid.append(2, 1).unwrap_err().to_string(), "axis 2 is not one of the 2 of the grid");
    assert_eq!(grid.resize(&[1]).unwrap_err().to_string(), "the new shape has 1 dimensions, expected 2");
    assert_eq!(
        grid.check_inner(&[1, 3]).unwrap_err().to_string(),
        "axis 1: the edge length 4 of chunk 1 is not a multiple of the inner chunk's 3"
    );
    assert_eq!(grid, before);
}

#[test]
fn test_a_grid_of_no_dimensions_has_one_chunk() {
    let mut grid = Grid::from_json(&inline("[]"), &[]).unwrap();
    assert_eq!((grid.n_declared(), grid.n_active()), (Ok(1), Ok(1)));
    assert_eq!(grid.locate(&[]), Ok(vec![]));
    assert_eq!(grid.chunk(&[]), Ok(vec![]));
    assert_eq!(grid.to_regular(), Some(vec![]));
    assert_eq!(grid.region(&[]).unwrap().next_part(), Some(&[][..]));
    grid.resize(&[]).unwrap();
    assert_eq!(grid.to_json(), inline("[]"));
}

#[test]
fn test_the_number_of_chunks_is_a_checked_product() {
    let many = 1 << 32;
    let grid = Grid::from_regular(&[many, many - 1], &[1, 1]).unwrap();
    assert_eq!(grid.n_active(), Ok(many * (many - 1)));
    let grid = Grid::from_regular(&[many, many], &[1, 1]).unwrap();
    assert_eq!(
        grid.n_active().unwrap_err().to_string(),
        "the number of chunks of a grid of [4294967296, 4294967296] is past 2^64 - 1"
    );
    let grid = Grid::from_regular(&[many, many, 0], &[1, 1, 1]).unwrap();
    assert_eq!((grid.n_active(), grid.n_declared()), (Ok(0), Ok(0)));
}

/// An axis as JSON in some form, and the edges that it means (none for an integer).
fn axis_json() -> impl Strategy<Value = (String, Option<Vec<u64>>)> {
    let element = prop_oneof![
        (1_u64..5).prop_map(|edge| (edge.to_string(), vec![edge])),
        (1_u64..5, 1_u64..5).prop_map(|(edge, count)| {
            (format!("[ {edge},\t{count}]"), vec![edge; usize::try_from(count).unwrap()])
        }),
    ];
    let list = prop::collection::vec(element, 1..12).prop_map(|elements| {
        let (text, edges): (Vec<_>, Vec<_>) = elements.into_iter().unzip();
        (format!("[{}]", text.join(" ,\n")), Some(edges.concat()))
    });
    prop_oneof![4 => list, 1 => (1_u64..9).prop_map(|edge| (edge.to_string(), None))]
}

proptest! {
    #[test]
    fn test_any_form_means_its_edges_and_its_canonical_form_the_same(
        axes in prop::collection::vec((axis_json(), any::<prop::sample::Index>()), 0..5)
    ) {
        let text: Vec<&str> = axes.iter().map(|((text, _), _)| text.as_str()).collect();
        let json = inline(&format!("[{}]", text.join(", ")));
        let lengths: Vec<u64> = axes
            .iter()
            .map(|((_, edges), index)| index.index(edges.as_ref().map_or(50, |edges| 1 + usize::try_from(edges.iter().sum::<u64>()).unwrap())) as u64)
            .collect();
        let grid = Grid::from_json(&json, &lengths).unwrap();
        for (axis, ((text, edges), _)) in grid.axes().iter().zip(&axes) {
            match edges {
                Some(edges) => prop_assert_eq!(&axis.edges().collect::<Vec<_>>(), edges),
                None => prop_assert_eq!(axis, &Axis::regular(axis.length(), text.parse().unwrap()).unwrap()),
            }
            prop_assert_eq!(axis.is_integer(), edges.is_none());
        }
        let canonical = grid.to_json();
        let again = Grid::from_json(&canonical, &lengths).unwrap();
        prop_assert_eq!(&again, &grid);
        prop_assert_eq!(GridMetadata::from(again.clone()), GridMetadata::from(grid.clone()));
        prop_assert_eq!(again.to_json(), canonical);
        let older = grid.to_zep0003_json(u64::MAX).unwrap();
        prop_assert_eq!(Grid::from_zep0003_json(&older, &lengths).unwrap().to_json(), grid.to_json());
    }
}

#[cfg(feature = "serde")]
#[test]
fn test_metadata_inside_other_documents() {
    #[derive(serde::Serialize, serde::Deserialize, PartialEq, Debug)]
    struct Array {
        shape: Vec<u64>,
        chunk_grid: GridMetadata,
    }
    let json = format!(r#"{{"shape":[7],"chunk_grid":{}}}"#, inline("[[[1,18446744073709551615]]]"));
    let array: Array = serde_json::from_str(&json).unwrap();
    assert_eq!(serde_json::to_string(&array).unwrap(), json);
    let value = serde_json::to_value(&array).unwrap();
    assert_eq!(serde_json::from_value::<Array>(value).unwrap(), array);
    let grid = array.chunk_grid.into_grid(&array.shape).unwrap();
    assert_eq!(serde_json::to_string(&grid).unwrap(), grid.to_json());

    let error = serde_json::from_str::<Array>(&json.replace("[1,", "[1.0,")).unwrap_err();
    assert!(error.to_string().starts_with("axis 0, position 0: edge length is 1.0"), "{error}");
}
