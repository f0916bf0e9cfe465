//! Shards that lie, byte by byte: an error or other values, never a panic and no memory beyond measure.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use celltile::Manifest;
use celltile::obs::{Cache, ObsReader};
use celltile::storage::{MemoryStorage, Storage};
use proptest::prelude::*;

use crate::tables::{few, written};

const SHARD: &str = "obs/obs_0000.parquet";

/// Reads everything from the dataset with another first shard.
fn read_with(storage: &MemoryStorage, manifest: &Manifest, shard: &[u8]) -> Result<u64, celltile::Error> {
    storage.write(SHARD, shard).unwrap();
    let mut manifest = manifest.clone();
    manifest.obs.as_mut().unwrap().shard_bytes[0] = shard.len() as u64;
    let reader = ObsReader::open(Arc::new(storage.clone()), &manifest)?.unwrap();
    let obs = reader.all(&Cache::memory())?;
    let rows = obs.rows();
    for column in obs.columns() {
        if let Ok(values) = column.values() {
            assert_eq!(values.len() as u64, rows);
        }
    }
    Ok(rows)
}

fn small() -> (MemoryStorage, Manifest, Vec<u8>) {
    let (storage, manifest) = written(&few(12), 6, 2);
    let shard = storage.read(SHARD).unwrap().to_vec();
    (storage, manifest, shard)
}

#[test]
fn test_truncated_shards_are_refused() {
    let (storage, manifest, shard) = small();
    assert_eq!(read_with(&storage, &manifest, &shard).unwrap(), 12);
    for length in (0..shard.len()).step_by(37) {
        assert!(read_with(&storage, &manifest, &shard[..length]).is_err(), "{length}");
    }
}

#[test]
fn test_a_size_that_is_not_the_manifests_is_refused() {
    let (storage, manifest, mut shard) = small();
    shard.push(0);
    storage.write(SHARD, &shard).unwrap();
    let reader = ObsReader::open(Arc::new(storage), &manifest).unwrap().unwrap();
    let error = reader.all(&Cache::memory()).unwrap_err();
    assert!(matches!(error, celltile::Error::Size { .. }), "{error}");
}

#[test]
fn test_flipped_bytes_never_panic() {
    let (storage, manifest, shard) = small();
    let hook = std::panic::take_hook();
    // Panics that are contained would print a page each; they are counted instead.
    let panics = Arc::new(AtomicU64::new(0));
    let counter = panics.clone();
    std::panic::set_hook(Box::new(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
    }));
    let mut refused = 0;
    for at in 0..shard.len() {
        for flip in [0xff, 0x01, 0x80] {
            let mut bytes = shard.clone();
            bytes[at] ^= flip;
            refused += u64::from(read_with(&storage, &manifest, &bytes).is_err());
        }
    }
    std::panic::set_hook(hook);
    println!("{refused} refused, {} of them by a panic that was contained", panics.load(Ordering::Relaxed));
    assert!(refused > 1000);
}

#[test]
fn test_a_shard_of_other_columns_rows_or_groups_is_refused() {
    let (storage, manifest, _) = small();
    let shard_of =
        |rows, tile_size, per_file| written(&few(rows), tile_size, per_file).0.read(SHARD).unwrap();
    for (shard, message) in [
        (shard_of(12, 5, 3), "row groups: found 3, expected 2"),
        (shard_of(12, 7, 2), "rows of row group 0: found 7"),
        (shard_of(6, 6, 2), "row groups: found 1, expected 2"),
    ] {
        let error = read_with(&storage, &manifest, &shard).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    let other = written(&crate::tables::wide(12, 3), 6, 2).0.read(SHARD).unwrap();
    let error = read_with(&storage, &manifest, &other).unwrap_err().to_string();
    assert!(error.contains("columns: found 3"), "{error}");
}

#[test]
fn test_codes_outside_the_vocabulary_are_refused() {
    let (storage, mut manifest, shard) = small();
    let schema = String::from_utf8(storage.read("obs/schema.json").unwrap().to_vec()).unwrap();
    let fewer = schema.replace(r#"["z","unused","a","1"]"#, r#"["z"]"#);
    assert_ne!(fewer, schema);
    storage.write("obs/schema.json", fewer.as_bytes()).unwrap();
    manifest.files.clear();
    let error = read_with(&storage, &manifest, &shard).unwrap_err().to_string();
    assert!(error.contains("outside the 1 categories"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_bytes_are_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..400), framed: bool) {
        let (storage, manifest, _) = small();
        if framed && bytes.len() > 12 {
            let end = bytes.len();
            bytes[..4].copy_from_slice(b"PAR1");
            bytes[end - 4..].copy_from_slice(b"PAR1");
            let footer = u32::try_from(end - 12).unwrap().to_le_bytes();
            bytes[end - 8..end - 4].copy_from_slice(&footer);
        }
        prop_assert!(read_with(&storage, &manifest, &bytes).is_err());
    }
}
