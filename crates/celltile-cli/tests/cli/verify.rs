//! `celltile verify`.

use celltile::storage::{MemoryStorage, Storage};
use celltile::verify::{Level, VerifyOptions};
use rayon::prelude::*;

use crate::support::{convert, dataset, files, run_on};

#[test]
fn test_a_sound_dataset() {
    let (_folder, path, _) = dataset();
    let run = run_on(&path, "verify {}").ok();
    assert!(run.out.starts_with("sound: 3 tiles, ") && run.err.is_empty(), "{}{}", run.out, run.err);
    assert!(run_on(&path, "verify {} --strict --threads 1").ok().out.contains("every count decoded"));
}

#[test]
fn test_all_faults_are_told_not_the_first() {
    let (_folder, path, _) = dataset();
    for tile in [0, 2] {
        let file = path.join(format!("tiles/tile_{tile:06}.dct"));
        let mut bytes = std::fs::read(&file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&file, bytes).unwrap();
    }
    std::fs::remove_file(path.join("var_names.txt")).unwrap();
    for words in ["verify {}", "verify {} --strict"] {
        let run = run_on(&path, words).fails(1, "");
        for name in ["tile_000000.dct", "tile_000002.dct", "var_names.txt"] {
            assert!(run.out.contains(name), "{name} not in {}", run.out);
        }
        assert!(!run.out.contains("tile_000001.dct"), "{}", run.out);
        assert!(run.out.lines().last().unwrap().starts_with("faults: "), "{}", run.out);
    }
}

/// A converted dataset has shards, a schema and a gene table that are real Parquet and JSON: each of their bytes counts too.
#[test]
fn test_every_damaged_byte_of_a_converted_dataset_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let (source, out) = (folder.path().join("cells.h5ad"), folder.path().join("out"));
    run_on(&source, "simulate -o {} --cells 12 --genes 20 --nonzeros 8").ok();
    convert(&source, &out, "--tile-size 7").ok();
    let files: Vec<(String, Vec<u8>)> =
        files(&out).into_iter().map(|(path, bytes)| (path.to_str().unwrap().to_owned(), bytes)).collect();
    let storage = || {
        let storage = MemoryStorage::new();
        for (key, bytes) in &files {
            storage.write(key, bytes).unwrap();
        }
        storage
    };
    let faults = |storage: &MemoryStorage| {
        let options = VerifyOptions::default().level(Level::Strict).threads(1);
        celltile::verify::verify(storage, &options, &|_| {}).unwrap().faults
    };
    assert_eq!(faults(&storage()), []);
    let expected =
        ["manifest.json", "obs/schema.json", "var.parquet", "gene_order.npy", "tile_checksums.bin"];
    for name in expected {
        assert!(files.iter().any(|(key, _)| key == name), "{name}");
    }
    for (key, good) in &files {
        let exempt = if key == "manifest.json" { metadata(good) } else { 0..0 };
        let unseen: Vec<usize> = (0..good.len())
            .into_par_iter()
            .filter(|at| !exempt.contains(at))
            .map_init(storage, |storage, at| {
                let mut damaged = good.clone();
                damaged[at] ^= 1 << (at % 8);
                storage.write(key, &damaged).unwrap();
                let seen = faults(storage).iter().any(|fault| fault.path.contains(key.as_str()));
                storage.write(key, good).unwrap();
                (at, seen)
            })
            .filter_map(|(at, seen)| (!seen).then_some(at))
            .collect();
        assert!(unseen.is_empty(), "{key}: damage unseen at bytes {unseen:?} of {}", good.len());
    }
}

/// The place of the free-form metadata in a manifest: up to the brace that closes it.
fn metadata(manifest: &[u8]) -> std::ops::Range<usize> {
    let text = std::str::from_utf8(manifest).unwrap();
    let start = text.find("\"metadata\": ").unwrap() + "\"metadata\": ".len();
    let storage = MemoryStorage::new();
    storage.write("manifest.json", manifest).unwrap();
    start..start + celltile::Manifest::read(&storage).unwrap().metadata_text().len()
}
