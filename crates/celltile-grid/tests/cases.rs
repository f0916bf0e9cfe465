//! Every conformance case, every key of it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests are tests, which clippy.toml allows this in"
)]

use celltile_grid::{Grid, GridError};
use serde::Deserialize;
use serde_json::value::RawValue;

// A key that is not here fails, so that no key of a case is passed over.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: u32,
    origin: String,
    #[serde(default)]
    decided: bool,
    shape: Vec<u64>,
    /// As text: some integers are past 2^64.
    chunk_shapes: Box<RawValue>,
    chunk_grid: Option<Box<RawValue>>,
    expect: Expect,
    lookups: Option<Vec<Lookup>>,
    clipped: Option<Vec<Vec<u64>>>,
    origins: Option<Vec<Origin>>,
    resize: Option<Resize>,
    serialised: Option<serde_json::Value>,
    is_regular: Option<bool>,
    inner_chunk_shape: Option<Vec<u64>>,
    inner_ok: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    error: Option<String>,
    declared_shape: Option<Vec<u64>>,
    edges: Option<Vec<Vec<u64>>>,
    edges_runs: Option<Vec<Vec<(u64, u64)>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lookup {
    index: Vec<u64>,
    chunk: Option<Vec<u64>>,
    within: Option<Vec<u64>>,
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Origin {
    chunk: Vec<u64>,
    origin: Vec<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resize {
    to: Vec<u64>,
    chunk_shapes: Vec<Vec<u64>>,
}

impl Case {
    fn grid(&self) -> Result<Grid, GridError> {
        let json = match &self.chunk_grid {
            Some(grid) => grid.get().to_owned(),
            None => format!(
                r#"{{"name": "rectilinear", "configuration": {{"kind": "inline", "chunk_shapes": {}}}}}"#,
                self.chunk_shapes.get()
            ),
        };
        Grid::from_json(&json, &self.shape)
    }

    fn check(&self) {
        assert!(!self.origin.is_empty());
        match &self.expect.error {
            Some(why) => {
                let error = self.grid().unwrap_err();
                assert!(is_error(&error, why), "{why:?} gave {error:?}");
                assert!(self.lookups.is_none() && self.resize.is_none() && self.serialised.is_none());
            }
            None => self.check_grid(&self.grid().unwrap()),
        }
    }

    fn check_grid(&self, grid: &Grid) {
        assert_eq!(grid.shape(), self.shape);
        assert_eq!(grid.declared_shape(), *self.expect.declared_shape.as_ref().unwrap());
        match (&self.expect.edges, &self.expect.edges_runs) {
            (Some(edges), None) => assert_eq!(edges_of(grid), *edges),
            (None, Some(runs)) => {
                let found: Vec<Vec<_>> = grid
                    .axes()
                    .iter()
                    .map(|axis| axis.runs().map(|run| (run.edge, run.count)).collect())
                    .collect();
                assert_eq!(found, *runs);
            }
            _ => panic!("edges or edges_runs"),
        }
        for lookup in self.lookups.iter().flatten() {
            lookup.check(grid);
        }
        if let Some(clipped) = &self.clipped {
            for (axis, clipped) in grid.axes().iter().zip(clipped) {
                let found: Vec<u64> =
                    (0..axis.n_declared()).map(|chunk| axis.chunk(chunk).unwrap().clipped).collect();
                assert_eq!(found, *clipped);
                assert_eq!(axis.n_active(), clipped.iter().filter(|&&inside| inside > 0).count() as u64);
            }
        }
        for Origin { chunk, origin } in self.origins.iter().flatten() {
            let found: Vec<u64> = grid.chunk(chunk).unwrap().iter().map(|chunk| chunk.origin).collect();
            assert_eq!(found, *origin);
        }
        if let Some(Resize { to, chunk_shapes }) = &self.resize {
            let mut resized = grid.clone();
            resized.resize(to).unwrap();
            assert_eq!((resized.shape(), edges_of(&resized)), (to.clone(), chunk_shapes.clone()));
        }
        let json: serde_json::Value = serde_json::from_str(&grid.to_json()).unwrap();
        if let Some(serialised) = &self.serialised {
            assert_eq!(json["configuration"]["chunk_shapes"], *serialised);
        }
        assert_eq!(Grid::from_json(&grid.to_json(), &self.shape).unwrap(), *grid);
        if let Some(is_regular) = self.is_regular {
            assert_eq!(grid.to_regular().is_some(), is_regular);
        }
        assert_eq!(self.inner_chunk_shape.is_some(), self.inner_ok.is_some());
        if let Some(inner) = &self.inner_chunk_shape {
            assert_eq!(grid.check_inner(inner).is_ok(), self.inner_ok.unwrap());
        }
    }
}

impl Lookup {
    fn check(&self, grid: &Grid) {
        let found = grid.locate(&self.index);
        if let Some(why) = &self.error {
            assert_eq!(
                (why.as_str(), &self.chunk, &self.within),
                ("index out of bounds (>= array shape)", &None, &None)
            );
            assert!(matches!(found, Err(GridError::IndexOutside { .. })), "{found:?}");
            return;
        }
        let found = found.unwrap();
        let chunk: Vec<u64> = found.iter().map(|position| position.chunk).collect();
        let within: Vec<u64> = found.iter().map(|position| position.within).collect();
        assert_eq!(
            (Some(chunk), Some(within)),
            (self.chunk.clone(), self.within.clone()),
            "index {:?}",
            self.index
        );
    }
}

fn edges_of(grid: &Grid) -> Vec<Vec<u64>> {
    grid.axes().iter().map(|axis| axis.edges().collect()).collect()
}

/// Whether an error is the one that the case's words mean.
fn is_error(error: &GridError, why: &str) -> bool {
    let missing = |wanted: &str| matches!(error, GridError::MissingKey { key, .. } if *key == wanted);
    let of_type = |wanted: &str| matches!(error, GridError::Type { what, .. } if *what == wanted);
    let edge = matches!(error, GridError::Edge { .. });
    match why {
        "edge length must be >= 1"
        | "RLE value must be >= 1"
        | "edge length must be an integer"
        | "edge length must be an integer or an array"
        | "edge length exceeds u64" => edge,
        "RLE items must be integers" => edge || matches!(error, GridError::Count { .. }),
        "RLE count must be >= 1" => matches!(error, GridError::Count { .. }),
        "RLE pair must have exactly two items" => matches!(error, GridError::Pair { .. }),
        "array form must be non-empty" => matches!(error, GridError::NoEdges { .. }),
        "edges sum to less than L" => matches!(error, GridError::EdgesTooShort { .. }),
        "sum of edges exceeds u64" => matches!(error, GridError::SumTooLarge { .. }),
        "chunk_shapes length != number of dimensions" => matches!(error, GridError::Dimensions { .. }),
        "missing kind" => missing("kind"),
        "missing configuration" => missing("configuration"),
        "missing chunk_shapes" => missing("chunk_shapes"),
        "unknown kind" => matches!(error, GridError::Text { key: "kind", .. }),
        "unknown configuration key" => matches!(error, GridError::UnknownKey { object: "configuration", .. }),
        "must_understand:false is not meaningful for a chunk grid" => {
            matches!(error, GridError::MustUnderstand)
        }
        "chunk_shapes must be an array" => of_type("chunk_shapes"),
        "configuration is required, so the bare-string form is invalid" => of_type("chunk_grid"),
        _ => panic!("what error is {why:?}?"),
    }
}

#[test]
fn test_every_conformance_case() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("cases/rectilinear.json")).unwrap();
    assert_eq!((cases.len(), cases.iter().filter(|case| case.decided).count()), (121, 28));
    let failed: Vec<u32> = cases
        .iter()
        .filter(|case| std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case.check())).is_err())
        .map(|case| case.id)
        .collect();
    assert!(failed.is_empty(), "failed: {failed:?}");
}
