//! The conformance cases: tiles that an independent program wrote from the specification.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "a test may panic"
)]

#[path = "support/npz.rs"]
mod npz;

use std::path::{Path, PathBuf};

use celltile_tile::{Csr, Decoder, Error, Fault, Tile, verify_strict};
use serde::Deserialize;

#[derive(Deserialize)]
struct Index {
    good: Vec<Good>,
    bad: Vec<Bad>,
}

#[derive(Deserialize)]
struct Good {
    file: String,
    expect: String,
}

#[derive(Deserialize)]
struct Bad {
    file: String,
    why: String,
    refused_by: String,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

fn index() -> Index {
    serde_json::from_slice(&std::fs::read(folder().join("index.json")).unwrap()).unwrap()
}

fn decode(bytes: &[u8]) -> Result<Csr, Error> {
    let tile = Tile::open(bytes)?;
    let mut out = Csr::new();
    tile.decode(&mut Decoder::new()?, &mut out)?;
    Ok(out)
}

/// The structural faults, or those of strict verification.
fn faults(bytes: &[u8]) -> Vec<Fault> {
    match Tile::parse(bytes) {
        Ok(tile) => verify_strict(&tile),
        Err(error) => vec![Fault { error, times: 1 }],
    }
}

#[test]
fn test_good_tiles_decode_exactly() {
    let index = index();
    assert_eq!(index.good.len(), 14);
    for Good { file, expect } in index.good {
        let bytes = std::fs::read(folder().join(&file)).unwrap();
        let array = |name| npz::integers(&folder().join(&expect), name);
        let decoded = decode(&bytes).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(decoded.indptr, array("indptr"), "{file}");
        assert!(decoded.genes.iter().copied().map(i64::from).eq(array("indices")), "{file}: genes");
        assert!(decoded.counts.iter().copied().map(i64::from).eq(array("counts")), "{file}: counts");
        let n_genes = Tile::parse(&bytes).unwrap().head().n_genes();
        assert_eq!(vec![i64::from(n_genes)], array("n_genes"), "{file}");
        assert_eq!(faults(&bytes), [], "{file}");
    }
}

#[test]
fn test_good_tiles_decode_alike_in_parts() {
    let mut decoder = Decoder::new().unwrap().round_counts(true);
    for Good { file, .. } in index().good {
        let bytes = std::fs::read(folder().join(&file)).unwrap();
        let whole = decode(&bytes).unwrap();
        let tile = Tile::open(&bytes).unwrap();
        let head = tile.head();
        let n_cells = head.n_cells();

        // Cell by cell, as float32.
        let mut cells = Csr::<f32>::new();
        for cell in 0..n_cells {
            tile.append_cells(&mut decoder, cell..cell + 1, None, &mut cells).unwrap();
        }
        assert_eq!(cells.indptr, whole.indptr, "{file}");
        assert_eq!(cells.genes, whole.genes, "{file}");
        assert!(cells.counts.iter().copied().eq(whole.counts.iter().map(|&count| count as f32)), "{file}");

        // A range from the middle of a chunk to the middle of another.
        let mut range = Csr::<i32>::new();
        tile.append_cells(&mut decoder, n_cells / 3..n_cells - n_cells / 4, None, &mut range).unwrap();
        assert_eq!(
            range,
            whole.view().unwrap().cells(n_cells / 3..n_cells - n_cells / 4).unwrap().to_csr(),
            "{file}"
        );

        // Every other gene, renumbered backwards; too large a map for the widest tile.
        if head.n_genes() < 1 << 24 {
            let map: Vec<i32> =
                (0..head.n_genes() as i32).map(|g| if g % 2 == 0 { 1000 - g / 2 } else { -1 }).collect();
            let map: Vec<i32> = map.into_iter().map(|g| g.max(-1)).collect();
            let mut mapped = Csr::<i32>::new();
            tile.append_cells(&mut decoder, 0..n_cells, Some(&map), &mut mapped).unwrap();
            let mut expected = Csr::<i32>::new();
            for (genes, counts) in whole.view().unwrap().iter() {
                for (gene, count) in genes.iter().zip(counts) {
                    if map[*gene as usize] >= 0 {
                        expected.genes.push(map[*gene as usize]);
                        expected.counts.push(*count);
                    }
                }
                expected.indptr.push(expected.genes.len() as i64);
            }
            assert_eq!(mapped, expected, "{file}");
        }
    }
}

#[test]
fn test_bad_tiles_are_refused() {
    let index = index();
    assert_eq!(index.bad.len(), 63);
    for Bad { file, why, refused_by } in index.bad {
        let bytes = std::fs::read(folder().join(&file)).unwrap();
        let decoded = decode(&bytes);
        match refused_by.as_str() {
            "every decode" => {
                let error = decoded.expect_err(&file);
                println!("{file} ({why}): {error}");
            }
            "strict verification only" => {
                assert!(decoded.is_ok(), "{file}: {decoded:?}");
            }
            other => panic!("{file}: refused by {other}?"),
        }
        let faults = faults(&bytes);
        assert!(!faults.is_empty(), "{file}: strict verification finds nothing, but: {why}");
        println!("    strict: {}", faults.iter().map(Fault::to_string).collect::<Vec<_>>().join("; "));
    }
}
