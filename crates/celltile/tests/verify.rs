//! Verification sees every damaged byte, and says where.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use celltile::digest::Sha256;
use celltile::genes::{GeneOrder, VarNames};
use celltile::manifest::ObsRecord;
use celltile::storage::{EntryKind, MemoryStorage, Storage};
use celltile::verify::{Fault, Level, VerifyOptions, verify};
use celltile::{ChunkCut, Csr, DatasetWriter, Error, Manifest};
use common::{matrix, options};

/// A small dataset with every file that a dataset can have. (Shards and gene table are no real Parquet files: their
/// content is not looked at here.)
fn full_dataset() -> MemoryStorage {
    let storage = MemoryStorage::new();
    let cells = matrix(1, 14, 20, 12);
    let mut writer =
        DatasetWriter::create(Arc::new(storage.clone()), 20, &options(6, ChunkCut::Nonzeros(20), 2)).unwrap();
    writer.set_gene_order(&GeneOrder::new((0..20).rev().collect()).unwrap()).unwrap();
    writer.set_var_names(&VarNames::new((0..20).map(|i| format!("g{i}")).collect()).unwrap()).unwrap();
    writer.metadata_mut().insert("note".to_owned(), "free".into());
    writer.push(cells.view().unwrap()).unwrap();
    writer.finish().unwrap();
    storage
}

fn faults(storage: &dyn Storage, level: Level) -> Vec<Fault> {
    verify(storage, &VerifyOptions::default().level(level).threads(1), &|_| {}).unwrap().faults
}

fn all_keys(storage: &MemoryStorage) -> Vec<String> {
    let mut keys = Vec::new();
    for folder in ["", "tiles", "obs"] {
        let entries = storage.list(folder).unwrap();
        keys.extend(entries.into_iter().filter(|e| e.kind != EntryKind::Folder).map(|e| e.key));
    }
    keys
}

#[test]
fn test_a_sound_dataset_has_no_faults() {
    let storage = full_dataset();
    for level in [Level::Basic, Level::Strict] {
        assert_eq!(faults(&storage, level), []);
    }
    let calls = AtomicU64::new(0);
    let report = verify(&storage, &VerifyOptions::default().threads(3), &|progress| {
        assert_eq!(progress.n_tiles, 3);
        calls.fetch_add(1, Ordering::SeqCst);
    })
    .unwrap();
    assert_eq!((report.tiles, calls.into_inner()), (3, 3));
    assert_eq!(report.bytes, Manifest::read(&storage).unwrap().bytes());
}

#[test]
fn test_every_damaged_byte_is_seen() {
    let storage = full_dataset();
    let keys = all_keys(&storage);
    assert_eq!(keys.len(), 7, "{keys:?}");
    for key in keys {
        let good = storage.read(&key).unwrap();
        let exempt = match key.as_str() {
            "manifest.json" => {
                let text = std::str::from_utf8(&good).unwrap();
                let start = text.find("\"metadata\": ").unwrap() + "\"metadata\": ".len();
                start..start + Manifest::read(&storage).unwrap().metadata_text().len()
            }
            _ => 0..0,
        };
        for at in (0..good.len()).filter(|at| !exempt.contains(at)) {
            for mask in [0x01, 0x20, 0x80, 0xff] {
                let mut damaged = good.to_vec();
                damaged[at] ^= mask;
                storage.write(&key, &damaged).unwrap();
                let found = faults(&storage, Level::Strict);
                assert!(
                    found.iter().any(|f| f.path.contains(&key)),
                    "{key}: byte {at} xor {mask:#x}: {found:?}"
                );
            }
        }
        storage.write(&key, &good).unwrap();
    }
    assert_eq!(faults(&storage, Level::Strict), []);
}

/// Without the hashes that our writer adds, the rules of the format alone are there to see damage.
#[test]
fn test_damage_in_a_foreign_dataset_is_seen_but_for_hashes_nobody_has() {
    let storage = full_dataset();
    let mut manifest = Manifest::read(&storage).unwrap();
    (manifest.tile_sha256, manifest.tile_checksums) = (None, None);
    manifest.files.clear();
    // As others write it: without our hash.
    let text = manifest.to_json().unwrap();
    let text: String = text.lines().filter(|line| !line.contains("manifest_sha256")).collect();
    storage.write("manifest.json", text.as_bytes()).unwrap();
    storage.remove("tile_checksums.bin").unwrap();
    assert_eq!(faults(&storage, Level::Strict), []);
    let good = storage.read("tiles/tile_000001.dct").unwrap();
    for at in 0..good.len() {
        let mut damaged = good.to_vec();
        damaged[at] ^= 0x04;
        storage.write("tiles/tile_000001.dct", &damaged).unwrap();
        let found = faults(&storage, Level::Strict);
        assert!(!found.is_empty(), "byte {at}");
        assert!(found.iter().all(|f| f.tile == Some(1)), "{found:?}");
    }
}

#[test]
fn test_two_tiles_swapped_are_seen() {
    // Tiles of equal cells and nonzeros, so that nothing but the hashes and sizes can tell.
    let cells = Csr { indptr: (0..=8).collect(), genes: vec![3; 8], counts: vec![1, 2, 3, 4, 4, 3, 2, 1] };
    let storage = MemoryStorage::new();
    common::write(Arc::new(storage.clone()), &cells, 20, &options(4, ChunkCut::default(), 1), 8);
    let (a, b) = ("tiles/tile_000000.dct", "tiles/tile_000001.dct");
    let (first, second) = (storage.read(a).unwrap(), storage.read(b).unwrap());
    assert_eq!(first.len(), second.len());
    storage.write(a, &second).unwrap();
    storage.write(b, &first).unwrap();
    for level in [Level::Basic, Level::Strict] {
        let found = faults(&storage, level);
        assert!(
            found.iter().any(|f| f.tile == Some(0)) && found.iter().any(|f| f.tile == Some(1)),
            "{found:?}"
        );
    }
}

#[test]
fn test_missing_extra_and_left_over_files() {
    let storage = full_dataset();
    for key in ["gene_order.npy", "var_names.txt", "tile_checksums.bin", "tiles/tile_000001.dct"] {
        let good = storage.read(key).unwrap();
        storage.remove(key).unwrap();
        let found = faults(&storage, Level::Basic);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].to_string().contains(key) && found[0].what.contains("no such file"), "{found:?}");
        storage.write(key, &good).unwrap();
    }
    for key in ["tiles/tile_000003.dct", "tiles/x", "obs/obs_0000.parquet", "obs/schema.json", "var.parquet"]
    {
        storage.write(key, b"x").unwrap();
        let found = faults(&storage, Level::Basic);
        assert!(
            found.iter().any(|f| f.path.contains(key) && f.what.contains("not part of")),
            "{key}: {found:?}"
        );
        storage.remove(key).unwrap();
    }
    storage.write("README.md", b"x").unwrap();
    assert_eq!(faults(&storage, Level::Basic), []);
}

#[test]
fn test_all_faults_are_reported_with_their_places() {
    let storage = full_dataset();
    for tile in [0, 2] {
        let key = format!("tiles/tile_00000{tile}.dct");
        let mut bytes = storage.read(&key).unwrap().to_vec();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        storage.write(&key, &bytes).unwrap();
    }
    storage.write("var_names.txt", b"a\n").unwrap();
    let found = faults(&storage, Level::Strict);
    let of = |tile| found.iter().filter(move |f: &&Fault| f.tile == tile).count();
    assert!(of(Some(0)) >= 3 && of(Some(1)) == 0 && of(Some(2)) >= 3 && of(None) >= 1, "{found:?}");
    assert!(found.iter().any(|f| f.to_string().contains("(tile 2): crc32")), "{found:?}");
}

#[test]
fn test_obs_shards_are_compared_with_the_manifest() {
    let storage = MemoryStorage::new();
    let mut writer =
        DatasetWriter::create(Arc::new(storage.clone()), 20, &options(6, ChunkCut::default(), 1)).unwrap();
    writer.push(matrix(1, 14, 20, 12).view().unwrap()).unwrap();
    storage.write("obs/obs_0000.parquet", b"one").unwrap();
    storage.write("obs/obs_0001.parquet", b"three").unwrap();
    let record = ObsRecord {
        tiles_per_file: 2,
        shard_bytes: vec![3, 5],
        shard_sha256: vec![Sha256::of(b"one"), Sha256::of(b"three")],
        fingerprint: "0".repeat(24),
    };
    writer.set_obs(b"{}", record).unwrap();
    writer.finish().unwrap();
    let of_shards = || {
        let found = faults(&storage, Level::Basic);
        found.into_iter().filter(|f| f.path.contains("obs_0001")).collect::<Vec<_>>()
    };
    assert_eq!(of_shards(), []);
    storage.write("obs/obs_0001.parquet", b"thrEe").unwrap();
    assert!(of_shards()[0].what.contains("SHA-256"));
    storage.write("obs/obs_0001.parquet", b"thre").unwrap();
    assert!(of_shards()[0].what.contains("4 bytes, the manifest says 5"));
}

#[test]
fn test_manifest_that_cannot_be_read() {
    let storage = full_dataset();
    storage.write("manifest.json", b"{\"format\": \"deltacells-dataset\", \"version\": 9}").unwrap();
    let found = faults(&storage, Level::Basic);
    assert_eq!(found.len(), 1);
    assert!(found[0].what.contains("version: found 9, expected 2"), "{found:?}");
    storage.remove("manifest.json").unwrap();
    let error = verify(&storage, &VerifyOptions::default(), &|_| {}).unwrap_err();
    assert!(matches!(error, Error::NotADataset { .. }), "{error}");
}
