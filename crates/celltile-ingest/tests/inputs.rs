//! Inputs that broke other tools, and what this crate makes of them. `inputs/make.py` writes them with raw h5py, in the
//! Python that `CELLTILE_TEST_PYTHON` names; without it these tests do nothing.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use celltile::Dataset;
use celltile::storage::{MemoryStorage, Storage};
use celltile::table::Values;
use celltile_ingest::Error;
use celltile_ingest::convert::{ConvertOptions, Duplicates, Summary, convert};
use celltile_ingest::frame::{ColumnChoice, Frame};
use celltile_ingest::hdf5::{File, OpenOptions};
use celltile_ingest::matrix::Rounding;
use celltile_ingest::plan::Plan;
use celltile_ingest::source::{self, MatrixChoice, SourceOptions};
use celltile_ingest::tree::Tree;
use serde_json::Value;

/// The folder of inputs, made once; gone with the process' temporary folder.
fn inputs() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<tempfile::TempDir>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let Some(python) = std::env::var_os("CELLTILE_TEST_PYTHON") else {
            eprintln!("skipped: CELLTILE_TEST_PYTHON is not set");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/inputs/make.py");
        let status = Command::new(python).arg(script).arg(folder.path()).status().unwrap();
        assert!(status.success(), "make.py: {status}");
        Some(folder)
    });
    folder.as_ref().map(tempfile::TempDir::path)
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// Opens, looks at and converts an input.
fn run(input: &Path, options: &Value, memory: u64, output: &Arc<MemoryStorage>) -> Result<Summary, Error> {
    let mut source = SourceOptions::default();
    if let Some(path) = options["matrix"].as_str() {
        source.matrix = MatrixChoice::Path(path.to_owned());
    }
    source.genome = options["genome"].as_str().map(str::to_owned);
    if options["feature_types"].is_array() {
        source.feature_types = Some(strings(&options["feature_types"]));
    }
    source.read.rounding = match options["rounding"].as_str() {
        Some("nearest") => Rounding::Nearest,
        Some("floor") => Rounding::Floor,
        _ => Rounding::Refuse,
    };
    let mut convert_options =
        ConvertOptions { memory, read: source.read.clone(), ..ConvertOptions::default() };
    convert_options.writer.threads = 2;
    if options["duplicates"] == "sum" {
        convert_options.duplicates = Duplicates::Sum;
    }
    let opened = source::open(input, &source)?;
    convert_options.writer.tile_size = (opened.info().shape.cells / 5).max(3);
    let plan = Plan::of_source(opened, &source, &convert_options)?;
    let storage: Arc<dyn Storage> = output.clone();
    let summary = convert(&plan, storage, &convert_options)?;
    check_tables(&plan, &open(output));
    Ok(summary)
}

fn open(storage: &Arc<MemoryStorage>) -> Dataset {
    let storage: Arc<dyn Storage> = storage.clone();
    Dataset::open_storage(storage, &celltile::OpenOptions::default()).unwrap()
}

/// The tables of a dataset are those of its input, genes in the dataset's order.
fn check_tables(plan: &Plan, dataset: &Dataset) {
    let order = dataset.gene_order().unwrap().unwrap();
    let rows: Vec<u64> = order.columns().iter().map(|&column| column.unsigned_abs().into()).collect();
    assert_eq!(dataset.var().unwrap().unwrap(), plan.var().take(&rows).unwrap());
    assert!(dataset.manifest().obs.is_some());
}

/// Nonzeros of a dataset as cell, gene of the source, count, in that order.
fn triples(dataset: &Dataset) -> Vec<(u64, i64, i64)> {
    let order = dataset.gene_order().unwrap().unwrap();
    let cells = dataset.rows(0..dataset.n_cells()).unwrap();
    let mut found = Vec::new();
    for (cell, (genes, counts)) in cells.view().unwrap().iter().enumerate() {
        for (&gene, &count) in genes.iter().zip(counts) {
            let gene = order.columns()[usize::try_from(gene).unwrap()];
            found.push((cell as u64, i64::from(gene), i64::from(count)));
        }
    }
    found.sort_unstable();
    found
}

fn expected_triples(expect: &Value) -> Vec<(u64, i64, i64)> {
    let integer = |value: &Value| value.as_i64().unwrap();
    if let Some(list) = expect["triples"].as_array() {
        return list.iter().map(|t| (t[0].as_u64().unwrap(), integer(&t[1]), integer(&t[2]))).collect();
    }
    let mut expected = Vec::new();
    for (cell, row) in expect["matrix"].as_array().unwrap().iter().enumerate() {
        for (gene, count) in row.as_array().unwrap().iter().enumerate() {
            if integer(count) != 0 {
                expected.push((cell as u64, i64::try_from(gene).unwrap(), integer(count)));
            }
        }
    }
    expected
}

/// The tiles of a dataset.
fn contents(storage: &MemoryStorage) -> Vec<Vec<u8>> {
    let mut keys: Vec<_> = storage.list("tiles").unwrap().into_iter().map(|entry| entry.key).collect();
    keys.sort();
    keys.iter().map(|key| storage.read(key).unwrap().to_vec()).collect()
}

#[test]
fn every_case_gives_its_matrix_or_its_error() {
    let Some(folder) = inputs() else { return };
    let cases: Value = serde_json::from_slice(&std::fs::read(folder.join("cases.json")).unwrap()).unwrap();
    let mut alike: HashMap<String, Vec<Vec<u8>>> = HashMap::new();
    let mut faults = Vec::new();
    for (at, case) in cases.as_array().unwrap().iter().enumerate() {
        let name = case["file"].as_str().unwrap();
        let (expect, options) = (&case["expect"], &case["options"]);
        // A small limit cuts the matrix into many blocks and buckets, and makes the second pass read cells again.
        let limits: &[u64] =
            if options["same"].is_null() { &[1 << 30, 4 << 20, 1 << 20] } else { &[1 << 30] };
        for &memory in limits {
            let target = Arc::new(MemoryStorage::new());
            let result = run(&folder.join(name), options, memory, &target);
            let what = format!("{name} {options} ({memory})");
            if expect["error"].is_array() {
                match result {
                    Ok(_) => faults.push(format!("{what}: converted; expected an error")),
                    // A limit may be too small for the genes or a chunk alone.
                    Err(Error::Memory { .. }) if memory <= 4 << 20 => {}
                    Err(error) => {
                        let said = error.to_string();
                        for word in strings(&expect["error"]) {
                            if !said.contains(&word) {
                                faults.push(format!("{what}: said {said:?}; expected {word:?} in it"));
                            }
                        }
                        if !said.contains(name) {
                            faults.push(format!("{what}: said {said:?}, which does not name the file"));
                        }
                    }
                }
                assert!(target.size("manifest.json").is_err(), "{what}");
                continue;
            }
            let summary = match result {
                Ok(summary) => summary,
                Err(Error::Memory { .. }) if memory <= 4 << 20 => continue,
                Err(error) => {
                    faults.push(format!("{what}: {error}"));
                    continue;
                }
            };
            let dataset = open(&target);
            let (found, wanted) = (triples(&dataset), expected_triples(expect));
            if found != wanted {
                faults.push(format!(
                    "{what}: {} nonzeros, {} expected, or others",
                    found.len(),
                    wanted.len()
                ));
            }
            if let Some(rows) = expect["matrix"].as_array() {
                assert_eq!(dataset.n_cells(), rows.len() as u64, "{what}");
                if let Some(row) = rows.first() {
                    assert_eq!(dataset.n_genes(), row.as_array().unwrap().len() as u64, "{what}");
                }
            }
            let count = |key: &str| expect[key].as_u64().unwrap_or(0);
            // What is rounded to zero is a stored zero, except in a dense matrix.
            if options["rounding"].is_null() {
                assert_eq!(summary.zeros_dropped, count("zeros"), "{what}");
            }
            assert_eq!(
                summary.unsorted_cells,
                if name == "a7_csc_descending.h5ad" { 0 } else { count("unsorted") }
                    + u64::from(name.contains("a4_summed")),
                "{what}"
            );
            assert_eq!(summary.repeated_summed, count("repeated"), "{what}");
            assert_eq!(summary.nonzeros, wanted.len() as u64, "{what}");
            let sum: i64 = wanted.iter().map(|triple| triple.2).sum();
            assert_eq!(summary.sum, sum.unsigned_abs(), "{what}");
            if let Some(chosen) = expect["chosen"].as_str() {
                assert_eq!(summary.matrix, chosen, "{what}");
            }
            if expect["dropped"].is_array() {
                assert_eq!(summary.features_dropped, strings(&expect["dropped"]), "{what}");
            }
            if expect["genes"].is_array() {
                let (genes, order) = (strings(&expect["genes"]), dataset.gene_order().unwrap().unwrap());
                let names = dataset.var_names().unwrap().unwrap().into_names();
                for (name, &column) in names.iter().zip(order.columns()) {
                    assert_eq!(*name, genes[usize::try_from(column).unwrap()], "{what}");
                }
            }
            // The same cells give the same bytes, whatever the types they came in and the memory.
            let group = options["same"].as_str().map_or_else(|| format!("{at}"), str::to_owned);
            let bytes = contents(&target);
            let first = alike.entry(group).or_insert_with(|| bytes.clone());
            assert!(*first == bytes, "{what}: other bytes");
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn gene_order_falls_by_total_and_can_be_taken_over() {
    let Some(folder) = inputs() else { return };
    let output = Arc::new(MemoryStorage::new());
    run(&folder.join("a8_rows.h5ad"), &Value::Null, 1 << 30, &output).unwrap();
    let first = open(&output);
    let cells = first.rows(0..first.n_cells()).unwrap();
    let mut totals = vec![0_i64; 10];
    for (gene, count) in cells.genes.iter().zip(&cells.counts) {
        totals[usize::try_from(*gene).unwrap()] += i64::from(*count);
    }
    assert!(totals.is_sorted_by(|a, b| a >= b), "{totals:?}");

    // Another matrix of the same genes, in the first one's order.
    let from = celltile_ingest::convert::GeneOrderFrom::dataset(&first, "first").unwrap();
    let mut convert_options = ConvertOptions { gene_order_from: Some(from), ..ConvertOptions::default() };
    convert_options.writer.tile_size = 3;
    let convert_to = |name: &str, options: &ConvertOptions| -> Result<Dataset, Error> {
        let target = Arc::new(MemoryStorage::new());
        let source = SourceOptions::default();
        let plan = Plan::of_source(source::open(folder.join(name), &source)?, &source, options)?;
        let storage: Arc<dyn Storage> = target.clone();
        convert(&plan, storage, options)?;
        Ok(open(&target))
    };
    let second = convert_to("a8_odd.h5ad", &convert_options).unwrap();
    assert_eq!(second.var_names().unwrap(), first.var_names().unwrap());
    assert_eq!(second.gene_order().unwrap(), first.gene_order().unwrap());
    let error = convert_to("a10_one_gene.h5ad", &convert_options).unwrap_err().to_string();
    assert!(error.contains("first") && error.contains("are missing from the input"), "{error}");
}

#[test]
fn a_conversion_can_be_stopped_and_leaves_no_dataset() {
    let Some(folder) = inputs() else { return };
    let output: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let options = ConvertOptions::default();
    let source = SourceOptions::default();
    let opened = source::open(folder.join("a7_csc.h5ad"), &source).unwrap();
    let plan = Plan::of_source(opened, &source, &options).unwrap();
    options.read.cancel.store(true, std::sync::atomic::Ordering::Relaxed);
    let error = convert(&plan, Arc::clone(&output), &options).unwrap_err();
    assert!(matches!(error, Error::Cancelled));
    assert!(Dataset::open_storage(output, &celltile::OpenOptions::default()).is_err());
}

#[test]
fn frames_of_every_encoding_are_read() {
    let Some(folder) = inputs() else { return };
    let file = File::open(folder.join("frames.h5ad"), OpenOptions::default()).unwrap();
    let frame = Frame::open(&Tree::of_file(&file).unwrap(), "obs", "obs").unwrap();
    assert_eq!(frame.index_name(), Some("index"));
    assert_eq!(frame.names().unwrap().iter().collect::<Vec<_>>(), ["c", "c", "d"]);
    let table = frame.table(&ColumnChoice::default()).unwrap();
    let names: Vec<_> = table.columns().iter().map(|column| column.name()).collect();
    assert_eq!(
        names,
        ["_index", "G1/S", "a", "flag", "big", "fixed", "whole", "maybe", "text", "stage", "level", "legacy"]
    );
    let column = |name: &str| table.column(name).unwrap().values().clone();
    let missing = |name: &str| column(name).missing();
    assert_eq!(names.map_missing(missing), [0, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 1]);
    let Values::Category(stage) = column("stage") else { panic!() };
    assert!(stage.ordered());
    assert_eq!(stage.codes().iter().collect::<Vec<_>>(), [0, -1, 1]);
    assert_eq!(stage.categories().len(), 3);
    let Values::Category(level) = column("level") else { panic!() };
    assert_eq!(level.categories().get(1).unwrap().to_json(), serde_json::json!(20));
    let Values::Category(legacy) = column("legacy") else { panic!() };
    assert_eq!(legacy.codes().iter().collect::<Vec<_>>(), [1, 0, -1]);
    let Values::Numeric(whole) = column("whole") else { panic!() };
    assert!(whole.nullable());
    assert_eq!(format!("{:?}", whole.array().data_type()), "Int64");

    let file = File::open(folder.join("frames_old.h5ad"), OpenOptions::default()).unwrap();
    let table = Frame::open(&Tree::of_file(&file).unwrap(), "obs", "obs")
        .unwrap()
        .table(&ColumnChoice::default())
        .unwrap();
    assert_eq!(table.index().unwrap().name(), None);
    let Values::Category(group) = table.column("group").unwrap().values().clone() else { panic!() };
    assert_eq!(group.codes().iter().collect::<Vec<_>>(), [0, 1, 1]);
    assert!(matches!(table.column("score").unwrap().values(), Values::Numeric(_)));
}

/// Missing values of each column.
trait MapMissing {
    fn map_missing(&self, f: impl Fn(&str) -> usize) -> Vec<usize>;
}

impl MapMissing for Vec<&str> {
    fn map_missing(&self, f: impl Fn(&str) -> usize) -> Vec<usize> {
        self.iter().map(|name| f(name)).collect()
    }
}
