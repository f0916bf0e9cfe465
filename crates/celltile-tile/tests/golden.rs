//! Tiles that released versions wrote. They must decode to the same cells for ever.
//!
//! `golden/VERSION.json` holds the cells, `golden/VERSION-ENCODING.dct` tiles of them. New versions add files; files are
//! never changed.
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

use std::path::{Path, PathBuf};

use celltile_tile::{
    ChunkCut, Compression, Csr, Decoder, EncodeOptions, Preset, Tile, TileEncoder, verify_strict,
};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Cells {
    n_genes: u32,
    indptr: Vec<i64>,
    genes: Vec<i32>,
    counts: Vec<i32>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

#[test]
fn test_golden_tiles_decode_to_the_recorded_cells() {
    let mut tiles = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "dct") {
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap();
        let (version, _) = name.split_once('-').unwrap();
        let cells = std::fs::read(folder().join(format!("{version}.json"))).unwrap();
        let Cells { n_genes, indptr, genes, counts } = serde_json::from_slice(&cells).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let tile = Tile::open(&bytes).unwrap();
        assert_eq!(tile.head().n_genes(), n_genes, "{name}");
        let mut decoded = Csr::<i32>::new();
        tile.decode(&mut Decoder::new().unwrap(), &mut decoded).unwrap();
        assert_eq!(decoded, Csr { indptr, genes, counts }, "{name}");
        assert_eq!(verify_strict(&tile), [], "{name}");
        tiles += 1;
    }
    assert!(tiles >= 5, "only {tiles} golden tiles");
}

/// Cells of every kind: sparse, dense, empty, with large counts and, as there are 200,000 genes, with large gaps.
fn cells() -> Cells {
    let mut seed = 7_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let mut cells = Cells { n_genes: 200_000, indptr: vec![0], genes: vec![], counts: vec![] };
    for cell in 0..60 {
        let len = if cell % 11 == 10 { 0 } else { 20 + random(60) };
        let mut gene = 0;
        for i in 0..len {
            gene += if i == 0 { random(3) } else { 1 + random(1 + i * i / 8) };
            if i == 15 && cell % 9 == 0 {
                gene += 65_534 + random(4);
            }
            cells.genes.push(gene as i32);
            cells.counts.push(match random(40) {
                0 => 65_534 + random(4) as i32,
                1 => random(1 << 31).max(1) as i32,
                2..8 => 1 + random(300) as i32,
                _ => 1 + random(3) as i32,
            });
        }
        cells.indptr.push(cells.genes.len() as i64);
    }
    cells
}

#[test]
#[ignore = "writes the golden files of this version"]
fn write_golden_files_of_this_version() {
    let version = env!("CARGO_PKG_VERSION");
    let recorded = folder().join(format!("{version}.json"));
    if !recorded.exists() {
        std::fs::write(&recorded, serde_json::to_vec(&cells()).unwrap()).unwrap();
    }
    let cells: Cells = serde_json::from_slice(&std::fs::read(recorded).unwrap()).unwrap();
    let csr = Csr { indptr: cells.indptr, genes: cells.genes, counts: cells.counts };
    let mut encodings: Vec<(String, EncodeOptions)> = Preset::ALL
        .iter()
        .map(|preset| {
            let compression = Compression::Preset(*preset);
            (preset.to_string(), EncodeOptions { compression, cut: ChunkCut::Nonzeros(700) })
        })
        .collect();
    let level = Compression::Level(19);
    encodings.push(("level19".into(), EncodeOptions { compression: level, cut: ChunkCut::Count(8) }));
    encodings.push(("cells1".into(), EncodeOptions { cut: ChunkCut::Cells(1), ..EncodeOptions::default() }));
    let training =
        EncodeOptions { compression: Compression::Preset(Preset::Training), cut: ChunkCut::Cells(1) };
    encodings.push(("training1".into(), training));
    for (name, options) in encodings {
        let path = folder().join(format!("{version}-{name}.dct"));
        // Files of this version that are there already are never changed.
        if !path.exists() {
            let bytes =
                TileEncoder::new(&options).unwrap().encode(csr.view().unwrap(), cells.n_genes).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
    }
}
