//! Section E: containers and file systems.

use std::sync::Arc;

use celltile::genes::VarNames;
use celltile::storage::MemoryStorage;
use celltile_ingest::Error;
use celltile_ingest::source::{self, SourceOptions};
use serde_json::Value;

use celltile_ingest::hdf5::{Dataset, File, Node, OpenOptions};
use serde_json::json;

use crate::support::{inputs, open, rows, run, triples};

#[test]
fn e_files_that_are_no_inputs_are_named_for_what_they_are() {
    rows(&["other", "text.h5ad"]);
}

#[test]
fn e_links_and_new_versions_of_the_format() {
    rows(&["links", "latest"]);
}

#[test]
fn e_numbers_and_lengths_that_other_files_do_not_have() {
    rows(&["shape_", "odd_numbers", "bomb_", "pipe"]);
}

#[test]
fn e6_a_category_that_is_listed_twice_is_refused_by_name() {
    rows(&["e6_"]);
}

/// Cut at every sixteenth: an error that names the file, never a panic.
#[test]
fn e1_a_cut_file_is_refused_wherever_it_was_cut() {
    let Some(folder) = inputs() else { return };
    let scratch = tempfile::tempdir().unwrap();
    for name in ["a7_csc.h5ad", "d5_mixed.h5", "loom_chunked.loom", "h5mu_one.h5mu"] {
        let bytes = std::fs::read(folder.join(name)).unwrap();
        for sixteenth in 0..16 {
            let path = scratch.path().join(name);
            std::fs::write(&path, &bytes[..bytes.len() * sixteenth / 16]).unwrap();
            let output = Arc::new(MemoryStorage::new());
            let said = run(&path, &Value::Null, 1 << 30, &output).err().unwrap().to_string();
            assert!(said.contains(name), "{sixteenth}: {said}");
            let known = ["truncated", "not an HDF5 file", "empty"].iter().any(|word| said.contains(word));
            assert!(known, "{name} {sixteenth}: {said}");
        }
    }
}

/// A file that another process writes to is refused, and read when asked for; inputs are never opened for writing.
#[test]
fn e2_a_locked_file_is_refused_or_read_without_its_lock() {
    let Some(folder) = inputs() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("held.h5ad");
    std::fs::copy(folder.join("a8_rows.h5ad"), &path).unwrap();
    let mut permissions = std::fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    let holder = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    std::fs::set_permissions(&path, permissions).unwrap();
    holder.lock().unwrap();
    let error = source::open(&path, &SourceOptions::default()).err().unwrap();
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    assert!(error.to_string().contains("held.h5ad"), "{error}");
    let options = SourceOptions { ignore_lock: true, ..SourceOptions::default() };
    assert_eq!(source::open(&path, &options).unwrap().info().shape.cells, 20);
    drop(holder);
    source::open(&path, &SourceOptions::default()).unwrap();
}

/// What an input becomes: its counts and the names of its genes.
pub(crate) type Outcome = (Vec<(u64, i64, i64)>, Vec<String>);

/// What an input becomes, or what was said.
pub(crate) fn outcome(path: &std::path::Path, options: &Value) -> Result<Outcome, String> {
    let output = Arc::new(MemoryStorage::new());
    run(path, options, 64 << 20, &output).map_err(|error| error.to_string())?;
    let dataset = open(&output);
    Ok((triples(&dataset), dataset.var_names().unwrap().map(VarNames::into_names).unwrap_or_default()))
}

/// A small generator, so that every run damages the same bytes.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }
}

/// Inputs of text: the file that is damaged, the input, its options, and whether its packing has a checksum.
fn text_inputs() -> Vec<(&'static str, &'static str, Value, bool)> {
    let rows = json!({"cells": "rows"});
    vec![
        ("mtx_v3.gz/matrix.mtx.gz", "mtx_v3.gz", Value::Null, true),
        ("mtx_v3.gz/features.tsv.gz", "mtx_v3.gz", Value::Null, true),
        ("mtx_v3.gz/barcodes.tsv.gz", "mtx_v3.gz", Value::Null, true),
        ("mtx_v3/matrix.mtx", "mtx_v3", Value::Null, false),
        ("mtx_v3/features.tsv", "mtx_v3", Value::Null, false),
        ("mtx_v3.zst/matrix.mtx.zst", "mtx_v3.zst", Value::Null, false),
        ("csv_rows.csv.gz", "csv_rows.csv.gz", rows.clone(), true),
        ("csv_rows.csv.zst", "csv_rows.csv.zst", rows.clone(), false),
        ("csv_rows.csv", "csv_rows.csv", rows, false),
    ]
}

/// A copy of an input in a folder of its own.
fn copy(folder: &std::path::Path, input: &str, scratch: &std::path::Path) -> std::path::PathBuf {
    let to = scratch.join(input);
    if folder.join(input).is_dir() {
        std::fs::create_dir_all(&to).unwrap();
        for entry in std::fs::read_dir(folder.join(input)).unwrap().flatten() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    } else {
        std::fs::copy(folder.join(input), &to).unwrap();
    }
    to
}

/// Text cut at every sixteenth. A table of plain text that ends with a whole line cannot be told from a shorter one, nor a
/// plain list that was cut in the last field of its last line; all else is refused, and what is converted was there.
#[test]
fn e1_cut_text_is_refused_or_is_the_start_of_what_it_was() {
    let Some(folder) = inputs() else { return };
    let scratch = tempfile::tempdir().unwrap();
    for (damaged, input, options, _) in text_inputs() {
        let path = copy(&folder, input, scratch.path());
        let whole = outcome(&path, &options).unwrap();
        let target = scratch.path().join(damaged);
        let bytes = std::fs::read(&target).unwrap();
        for sixteenth in 0..16 {
            std::fs::write(&target, &bytes[..bytes.len() * sixteenth / 16]).unwrap();
            match outcome(&path, &options) {
                Err(said) => assert!(said.contains(input), "{damaged} {sixteenth}: {said}"),
                Ok(found) => {
                    // Plain lists too: the last line may be cut in its last field.
                    assert!(
                        ["csv_rows.csv", "mtx_v3/features.tsv"].contains(&damaged),
                        "{damaged} {sixteenth}"
                    );
                    let kept = &found.0[..found.0.len().saturating_sub(1)];
                    assert!(kept.iter().all(|entry| whole.0.contains(entry)), "{damaged} {sixteenth}");
                }
            }
        }
        std::fs::write(&target, &bytes).unwrap();
    }
}

/// Text with bytes changed: nothing panics or hangs, and where a checksum covers it, what is converted is what was there.
#[test]
fn e1_changed_bytes_of_text_are_noticed_where_a_checksum_covers_them() {
    let Some(folder) = inputs() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for (damaged, input, options, checked) in text_inputs() {
        let path = copy(&folder, input, scratch.path());
        let whole = outcome(&path, &options).unwrap();
        let target = scratch.path().join(damaged);
        let bytes = std::fs::read(&target).unwrap();
        for round in 0..120 {
            let mut changed = bytes.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(changed.len());
                changed[at] = match random.below(3) {
                    0 => changed[at] ^ (1 << random.below(8)),
                    1 => [0, 9, 10, 32, 45, 57, 255][random.below(7)],
                    _ => u8::try_from(random.below(256)).unwrap(),
                };
            }
            std::fs::write(&target, &changed).unwrap();
            let started = std::time::Instant::now();
            if let Ok(found) = outcome(&path, &options)
                && checked
            {
                assert_eq!(found, whole, "{damaged} {round}");
            }
            assert!(started.elapsed().as_secs() < 20, "{damaged} {round}");
        }
        std::fs::write(&target, &bytes).unwrap();
    }
}

/// The dataset at a path of links.
fn hdf5_dataset(file: &File, path: &str) -> Dataset {
    let mut group = file.root().unwrap();
    for part in path.split('/') {
        match group.child(part).unwrap().unwrap() {
            Node::Group(inner) => group = inner,
            Node::Dataset(dataset) => return dataset,
        }
    }
    panic!("{path} is a group");
}

/// Compressed chunks of HDF5 files carry a checksum: a changed byte in one is an error, or changes nothing.
#[test]
fn e1_changed_bytes_of_compressed_chunks_are_noticed() {
    let Some(folder) = inputs() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for (name, arrays) in [
        ("a7_csc.h5ad", &["X/data", "X/indices", "X/indptr"][..]),
        ("a8_tall.h5ad", &["X"]),
        ("a8_odd.h5ad", &["X"]),
        ("loom_chunked.loom", &["matrix"]),
        ("loom_large.loom", &["matrix"]),
    ] {
        let whole = outcome(&folder.join(name), &Value::Null).unwrap();
        let bytes = std::fs::read(folder.join(name)).unwrap();
        let file = File::open(folder.join(name), OpenOptions::default()).unwrap();
        let mut places = Vec::new();
        for array in arrays {
            let dataset = hdf5_dataset(&file, array);
            places.extend(dataset.chunks().unwrap().iter().map(|chunk| (chunk.address, chunk.size)));
        }
        let path = scratch.path().join(name);
        let mut noticed = 0;
        for _ in 0..80 {
            let mut changed = bytes.clone();
            let (address, size) = places[random.below(places.len())];
            let at = usize::try_from(address).unwrap() + random.below(usize::try_from(size).unwrap());
            changed[at] ^= 1 << random.below(8);
            std::fs::write(&path, &changed).unwrap();
            match outcome(&path, &Value::Null) {
                Ok(found) => assert_eq!(found, whole, "{name}: byte {at}"),
                Err(said) => {
                    assert!(said.contains(name), "{said}");
                    noticed += 1;
                }
            }
        }
        assert!(noticed > 60, "{name}: {noticed}");
    }
}
