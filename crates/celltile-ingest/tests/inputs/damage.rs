//! E1: damaged HDF5 files of every kind. What is converted is what was there, or what HDF5's own library reads of the same bytes.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use crate::containers::{Outcome, Random, outcome};
use crate::support::inputs;

/// A file of each kind and of each way to store a matrix, with the options that it needs.
fn kinds() -> Vec<(&'static str, Value)> {
    vec![
        ("c22_unused.h5ad", Value::Null),
        ("a2_i8_u2.h5ad", Value::Null),
        ("a7_csc.h5ad", Value::Null),
        ("a8_rows.h5ad", Value::Null),
        ("a8_contiguous.h5ad", Value::Null),
        ("a8_odd.h5ad", Value::Null),
        ("d5_mixed.h5", json!({"feature_types": ["all"]})),
        ("d2_genomes.h5", json!({"genome": "hg19"})),
        ("loom_chunked.loom", Value::Null),
        ("h5mu_one.h5mu", Value::Null),
    ]
}

/// What `reader.py` makes of the files in a folder.
fn independently(folder: &Path) -> BTreeMap<String, Value> {
    let python = std::env::var_os("CELLTILE_TEST_PYTHON").unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/inputs/reader.py");
    let output = Command::new(python).arg(script).arg(folder).stderr(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "reader.py: {}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn e1_an_hdf5_file_of_any_kind_is_refused_wherever_it_is_cut() {
    let Some(folder) = inputs() else { return };
    let scratch = tempfile::tempdir().unwrap();
    for (name, options) in kinds() {
        let bytes = std::fs::read(folder.join(name)).unwrap();
        let path = scratch.path().join(name);
        for sixteenth in 0..16 {
            std::fs::write(&path, &bytes[..bytes.len() * sixteenth / 16]).unwrap();
            let said = outcome(&path, &options).unwrap_err();
            assert!(said.contains(name), "{sixteenth}: {said}");
            let known = ["truncated", "not an HDF5 file", "empty"].iter().any(|word| said.contains(word));
            assert!(known, "{name} {sixteenth}: {said}");
        }
    }
}

#[test]
fn e1_what_is_read_of_a_changed_file_is_what_is_there() {
    let Some(folder) = inputs() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let changed = scratch.path().join("changed");
    std::fs::create_dir(&changed).unwrap();
    let mut random = Random::new(0x1234_5678_9abc_def1);
    let mut read: BTreeMap<String, (Outcome, Outcome)> = BTreeMap::new();
    for (name, options) in kinds() {
        let whole = outcome(&folder.join(name), &options).unwrap();
        let bytes = std::fs::read(folder.join(name)).unwrap();
        for round in 0..60 {
            // One byte: of two, HDF5's library may stumble over the one that nothing here depends on.
            let mut damaged = bytes.clone();
            let at = random.below(damaged.len());
            damaged[at] = match random.below(4) {
                0 => 0,
                1 => 255,
                2 => damaged[at] ^ (1 << random.below(8)),
                _ => u8::try_from(random.below(256)).unwrap(),
            };
            let file = format!("{round:02}_{name}");
            let path = changed.join(&file);
            std::fs::write(&path, &damaged).unwrap();
            let started = Instant::now();
            match outcome(&path, &options) {
                Ok(found) if found.0 == whole.0 => std::fs::remove_file(&path).unwrap(),
                Ok(found) => _ = read.insert(file, (found, whole.clone())),
                Err(said) => {
                    assert!(said.contains(&file), "{said}");
                    std::fs::remove_file(&path).unwrap();
                }
            }
            assert!(started.elapsed().as_secs() < 20, "{path:?}");
        }
    }
    // What is left became other counts: HDF5's library must find the same.
    let known = independently(&changed);
    for (file, (found, whole)) in &read {
        let entries: Vec<Value> =
            found.0.iter().map(|(cell, gene, count)| json!([cell, gene, count])).collect();
        let less = found.0.iter().filter(|entry| !whole.0.contains(entry)).count();
        assert!(
            known[file] == Value::Array(entries),
            "{file}: {less} entries that were not there; HDF5's library reads {}",
            if known[file].is_null() { "nothing" } else { "others" }
        );
    }
    assert!(read.len() > 20, "{}", read.len());
}
