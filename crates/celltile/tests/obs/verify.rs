use celltile::Manifest;
use celltile::storage::{MemoryStorage, Storage};
use celltile::verify::{Level, VerifyOptions};

use crate::tables::{every_kind, written};

/// The faults that concern obs: the tiles of these datasets are only claimed.
fn verify(storage: &MemoryStorage, manifest: &Manifest, level: Level) -> Vec<String> {
    storage.write("manifest.json", manifest.to_json().unwrap().as_bytes()).unwrap();
    let report = celltile::verify::verify(storage, &VerifyOptions::default().level(level), &|_| {}).unwrap();
    report.faults.iter().map(ToString::to_string).filter(|fault| fault.contains("obs")).collect()
}

#[test]
fn test_a_whole_table_has_no_faults() {
    let (storage, manifest) = written(&every_kind(30), 7, 2);
    for check in [Level::Basic, Level::Strict] {
        let faults = verify(&storage, &manifest, check);
        assert!(faults.is_empty(), "{faults:?}");
    }
}

#[test]
fn test_every_damaged_byte_of_a_shard_is_seen() {
    let (storage, manifest) = written(&every_kind(12), 6, 2);
    let key = "obs/obs_0000.parquet";
    let whole = storage.read(key).unwrap();
    for at in (0..whole.len()).step_by(61) {
        let mut bytes = whole.to_vec();
        bytes[at] ^= 4;
        storage.write(key, &bytes).unwrap();
        let faults = verify(&storage, &manifest, Level::Basic);
        assert!(faults.iter().any(|fault| fault.contains("obs_0000.parquet")), "byte {at}");
    }
}

#[test]
fn test_all_faults_are_listed() {
    let (storage, mut manifest) = written(&every_kind(30), 5, 2);
    let schema = storage.read("obs/schema.json").unwrap();
    storage.write("obs/obs_0001.parquet", b"short").unwrap();
    storage.remove("obs/obs_0002.parquet").unwrap();
    manifest.obs.as_mut().unwrap().fingerprint = "0".repeat(24);
    let mut faults = verify(&storage, &manifest, Level::Strict);
    faults.sort();
    assert_eq!(faults.len(), 3, "{faults:?}");
    assert!(faults[0].contains("obs_fingerprint"), "{faults:?}");
    assert!(faults[1].contains("obs_0001.parquet") && faults[1].contains("5 bytes"), "{faults:?}");
    assert!(faults[2].contains("obs_0002.parquet"), "{faults:?}");
    storage.write("obs/schema.json", &schema[1..]).unwrap();
    assert!(verify(&storage, &manifest, Level::Strict)[0].contains("schema.json"));
}

#[test]
fn test_shards_in_each_others_place_are_seen() {
    let (storage, manifest) = written(&every_kind(20), 5, 2);
    let [first, second] = ["obs/obs_0000.parquet", "obs/obs_0001.parquet"];
    let bytes = [first, second].map(|key| storage.read(key).unwrap());
    storage.write(first, &bytes[1]).unwrap();
    storage.write(second, &bytes[0]).unwrap();
    assert!(verify(&storage, &manifest, Level::Basic).len() >= 2);
}
