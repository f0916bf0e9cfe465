//! Inputs, what must come of them, and what does.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use celltile::Dataset;
use celltile::obs::Cache;
use celltile::storage::{MemoryStorage, Storage};
use celltile::table::{Table, Values};
use celltile_ingest::Error;
use celltile_ingest::convert::{ConvertOptions, Duplicates, Summary, convert};
use celltile_ingest::frame::Datetimes;
use celltile_ingest::matrix::Rounding;
use celltile_ingest::plan::Plan;
use celltile_ingest::source::{self, CellAxis, MatrixChoice, SourceOptions};
use serde_json::{Value, json};

/// Scripts that write the inputs.
const SCRIPTS: [&str; 6] = ["make.py", "base.py", "hostile.py", "matrices.py", "tables.py", "texts.py"];

/// The folder of inputs. It is made once for all tests, each of which may be a process of its own, and kept for as long as
/// the scripts are the same.
pub(crate) fn inputs() -> Option<PathBuf> {
    let Some(python) = std::env::var_os("CELLTILE_TEST_PYTHON") else {
        eprintln!("skipped: CELLTILE_TEST_PYTHON is not set");
        return None;
    };
    let scripts = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/inputs");
    let mut hasher = DefaultHasher::new();
    python.hash(&mut hasher);
    for script in SCRIPTS {
        std::fs::read(scripts.join(script)).unwrap().hash(&mut hasher);
    }
    let parent = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let folder = parent.join(format!("inputs-{:016x}", hasher.finish()));
    let lock = std::fs::File::create(parent.join("inputs.lock")).unwrap();
    lock.lock().unwrap();
    if !folder.exists() {
        for old in std::fs::read_dir(&parent).unwrap().flatten() {
            if old.file_name().to_string_lossy().starts_with("inputs-") {
                std::fs::remove_dir_all(old.path()).unwrap();
            }
        }
        let making = parent.join("inputs-making");
        std::fs::create_dir(&making).unwrap();
        let status = Command::new(python).arg(scripts.join("make.py")).arg(&making).status().unwrap();
        assert!(status.success(), "make.py: {status}");
        std::fs::rename(&making, &folder).unwrap();
    }
    Some(folder)
}

pub(crate) fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// The options of a case.
pub(crate) fn source_options(options: &Value) -> SourceOptions {
    let text = |key: &str| options[key].as_str().map(str::to_owned);
    let mut source = SourceOptions::default();
    if let Some(path) = text("matrix") {
        source.matrix = MatrixChoice::Path(path);
    }
    source.genome = text("genome");
    source.modality = text("modality");
    source.obs_names_prefix = text("obs_names_prefix");
    if options["feature_types"].is_array() {
        source.feature_types = Some(strings(&options["feature_types"]));
    }
    source.cells = match options["cells"].as_str() {
        Some("rows") => Some(CellAxis::Rows),
        Some("columns") => Some(CellAxis::Columns),
        _ => None,
    };
    source.mtx_trust_lines = options["mtx_trust_lines"] == true;
    source.mtx_pattern = options["mtx_pattern"] == true;
    source.obs.exclude = strings(&options["obs_exclude"]);
    source.obs.as_category = strings(&options["obs_as_category"]);
    source.obs.datetimes = match options["obs_datetime"].as_str() {
        Some("iso-string") => Datetimes::IsoString,
        Some("int64-ns") => Datetimes::Nanoseconds,
        _ => Datetimes::Refuse,
    };
    source.read.rounding = match options["rounding"].as_str() {
        Some("nearest") => Rounding::Nearest,
        Some("floor") => Rounding::Floor,
        _ => Rounding::Refuse,
    };
    source
}

/// Opens, looks at and converts an input.
pub(crate) fn run(
    input: &Path,
    options: &Value,
    memory: u64,
    output: &Arc<MemoryStorage>,
) -> Result<(Summary, Plan), Error> {
    let source = source_options(options);
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
    Ok((summary, plan))
}

pub(crate) fn open(storage: &Arc<MemoryStorage>) -> Dataset {
    let storage: Arc<dyn Storage> = storage.clone();
    Dataset::open_storage(storage, &celltile::OpenOptions::default()).unwrap()
}

pub(crate) fn obs_of(dataset: &Dataset) -> Table {
    dataset.obs_reader().unwrap().unwrap().all(&Cache::memory()).unwrap().to_table().unwrap()
}

/// The tables of a dataset are those of its input, genes in the dataset's order.
fn check_tables(plan: &Plan, dataset: &Dataset) {
    let order = dataset.gene_order().unwrap().unwrap();
    let rows: Vec<u64> = order.columns().iter().map(|&column| column.unsigned_abs().into()).collect();
    // Text of a fixed width comes back as text.
    let plain = |table: &Table| {
        let columns: Vec<Value> = table
            .columns()
            .iter()
            .map(|column| json!([column.name(), column_json(column.values())]))
            .collect();
        json!([table.index().map(|index| column_json(index.values())), columns])
    };
    assert_eq!(plain(&dataset.var().unwrap().unwrap()), plain(&plan.var().take(&rows).unwrap()));
    assert!(dataset.manifest().obs.is_some());
}

/// Nonzeros of a dataset as cell, gene of the source, count, in that order.
pub(crate) fn triples(dataset: &Dataset) -> Vec<(u64, i64, i64)> {
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

fn expected_triples(expect: &Value) -> Option<Vec<(u64, i64, i64)>> {
    let integer = |value: &Value| value.as_i64().unwrap();
    if let Some(list) = expect["triples"].as_array() {
        return Some(list.iter().map(|t| (t[0].as_u64().unwrap(), integer(&t[1]), integer(&t[2]))).collect());
    }
    let mut expected = Vec::new();
    for (cell, row) in expect["matrix"].as_array()?.iter().enumerate() {
        for (gene, count) in row.as_array().unwrap().iter().enumerate() {
            if integer(count) != 0 {
                expected.push((cell as u64, i64::try_from(gene).unwrap(), integer(count)));
            }
        }
    }
    Some(expected)
}

/// The tiles of a dataset.
pub(crate) fn contents(storage: &MemoryStorage) -> Vec<Vec<u8>> {
    let mut keys: Vec<_> = storage.list("tiles").unwrap().into_iter().map(|entry| entry.key).collect();
    keys.sort();
    keys.iter().map(|key| storage.read(key).unwrap().to_vec()).collect()
}

/// A column in the form in which cases describe it.
fn column_json(values: &Values) -> Value {
    let array = values.to_array();
    match values {
        Values::Category(category) => {
            let value = |code: i32| {
                let value = usize::try_from(code).ok().and_then(|code| category.categories().get(code));
                value.map_or(Value::Null, |value| value.to_json())
            };
            json!({
                "type": "category",
                "values": category.codes().iter().map(value).collect::<Vec<_>>(),
                "categories": category.categories().iter().map(|value| value.to_json()).collect::<Vec<_>>(),
                "categories_count": category.categories().len(),
                "ordered": category.ordered(),
            })
        }
        Values::Text(text) => json!({"type": "text", "values": text.values().iter().collect::<Vec<_>>()}),
        Values::Bool { values, .. } => json!({"type": "bool", "values": values.iter().collect::<Vec<_>>()}),
        Values::Numeric(numeric) => {
            use arrow_array::cast::AsArray;
            use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt8Type, UInt64Type};
            let values = match numeric.dtype().name() {
                "int64" => json!(array.as_primitive::<Int64Type>().iter().collect::<Vec<_>>()),
                "int32" => json!(array.as_primitive::<Int32Type>().iter().collect::<Vec<_>>()),
                "uint8" => json!(array.as_primitive::<UInt8Type>().iter().collect::<Vec<_>>()),
                "uint64" => json!(array.as_primitive::<UInt64Type>().iter().collect::<Vec<_>>()),
                "float64" => json!(array.as_primitive::<Float64Type>().iter().collect::<Vec<_>>()),
                other => json!(other),
            };
            json!({"type": numeric.dtype().name().to_ascii_lowercase(), "values": values})
        }
    }
}

/// Compares a table with the description of a case: what it says, and no other columns.
fn check_table(what: &str, table: &Table, expect: &Value, faults: &mut Vec<String>) {
    let mut differ = |at: &str, found: Value, wanted: &Value| {
        if !wanted.is_null() && found != *wanted {
            faults.push(format!("{what}: obs {at}: {found}; expected {wanted}"));
        }
    };
    if let Some(index) = table.index() {
        differ("index", column_json(index.values())["values"].clone(), &expect["index"]);
        differ("name of the index", json!(index.name()), &expect["index_name"]);
    } else {
        differ("index", Value::Null, &expect["index"]);
    }
    let Some(columns) = expect["columns"].as_object() else { return };
    let names: Vec<&str> = table.columns().iter().map(|column| column.name()).collect();
    differ("columns", json!(names), &json!(columns.keys().collect::<Vec<_>>()));
    for (name, wanted) in columns {
        let Some(column) = table.column(name) else { continue };
        let found = column_json(column.values());
        for (key, wanted) in wanted.as_object().unwrap() {
            differ(&format!("{name:?}: {key}"), found[key].clone(), wanted);
        }
    }
}

/// Runs every case whose file's name starts with one of the words: its matrix, genes, tables and notes, or its error. Each
/// runs with several limits of memory, which must make no difference.
pub(crate) fn rows(starts: &[&str]) {
    let Some(folder) = inputs() else { return };
    let cases: Value = serde_json::from_slice(&std::fs::read(folder.join("cases.json")).unwrap()).unwrap();
    let mut alike: HashMap<String, Vec<Vec<u8>>> = HashMap::new();
    let (mut faults, mut checked) = (Vec::new(), 0);
    for (at, case) in cases.as_array().unwrap().iter().enumerate() {
        let name = case["file"].as_str().unwrap();
        if !starts.iter().any(|start| name.starts_with(start)) {
            continue;
        }
        checked += 1;
        // A small limit cuts the matrix into many blocks and buckets, and makes the second pass read cells again.
        let alone = [1 << 30];
        let limits: &[u64] =
            if case["options"]["same"] == "a2" { &alone } else { &[1 << 30, 4 << 20, 1 << 20] };
        for &memory in limits {
            let what = format!("{name} {} ({memory})", case["options"]);
            let Some(bytes) = check(&folder, name, case, memory, &what, &mut faults) else { continue };
            // The same cells give the same bytes, whatever the types they came in and the memory.
            let group = case["options"]["same"].as_str().map_or_else(|| format!("{at}"), str::to_owned);
            let first = alike.entry(group).or_insert_with(|| bytes.clone());
            if *first != bytes {
                faults.push(format!("{what}: other bytes"));
            }
        }
    }
    assert!(checked > 0, "no case starts with {starts:?}");
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Runs one case with one limit; the tiles that came of it.
fn check(
    folder: &Path,
    name: &str,
    case: &Value,
    memory: u64,
    what: &str,
    faults: &mut Vec<String>,
) -> Option<Vec<Vec<u8>>> {
    let (expect, options) = (&case["expect"], &case["options"]);
    let target = Arc::new(MemoryStorage::new());
    let result = run(&folder.join(name), options, memory, &target);
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
        return None;
    }
    let (summary, plan) = match result {
        Ok(found) => found,
        Err(Error::Memory { .. }) if memory <= 4 << 20 => return None,
        Err(error) => {
            faults.push(format!("{what}: {error}"));
            return None;
        }
    };
    let dataset = open(&target);
    let mut differ = |at: &str, found: Value, wanted: Value| {
        if !wanted.is_null() && found != wanted {
            faults.push(format!("{what}: {at}: {found}; expected {wanted}"));
        }
    };
    if let Some(wanted) = expected_triples(expect) {
        let found = triples(&dataset);
        if found != wanted {
            differ("entries", json!(found), json!(wanted));
        }
        differ("nonzeros", json!(summary.nonzeros), json!(wanted.len()));
        differ("sum", json!(summary.sum), json!(wanted.iter().map(|triple| triple.2).sum::<i64>()));
    }
    if let Some(rows) = expect["matrix"].as_array() {
        differ("cells", json!(dataset.n_cells()), json!(rows.len()));
        if let Some(row) = rows.first() {
            differ("genes", json!(dataset.n_genes()), json!(row.as_array().unwrap().len()));
        }
    }
    differ("cells", json!(dataset.n_cells()), expect["cells"].clone());
    let count = |key: &str| json!(expect[key].as_u64().unwrap_or(0));
    // What is rounded to zero is a stored zero, except in a dense matrix.
    if options["rounding"].is_null() {
        differ("zeros dropped", json!(summary.zeros_dropped), count("zeros"));
    }
    if !name.contains("descending") && !name.contains("a4_summed") && !name.starts_with("d14_") {
        differ("unsorted cells", json!(summary.unsorted_cells), count("unsorted"));
    }
    differ("repeated entries", json!(summary.repeated_summed), count("repeated"));
    differ("matrix chosen", json!(summary.matrix), expect["chosen"].clone());
    differ("features dropped", json!(summary.features_dropped), expect["dropped"].clone());
    differ("dtype", json!(plan.inputs()[0].dtype), expect["dtype"].clone());
    if expect["not_carried"].is_array() {
        let paths: Vec<&str> = plan.inputs()[0].not_carried.iter().map(|part| part.path.as_str()).collect();
        differ("not carried", json!(paths), expect["not_carried"].clone());
    }
    if expect["genes"].is_array() {
        let (genes, order) = (strings(&expect["genes"]), dataset.gene_order().unwrap().unwrap());
        let names = dataset.var_names().unwrap().unwrap().into_names();
        let wanted: Vec<&String> =
            order.columns().iter().map(|&column| &genes[usize::try_from(column).unwrap()]).collect();
        differ("genes", json!(names), json!(wanted));
    }
    let recorded = dataset.manifest().metadata()["celltile"]["source"]["options"].clone();
    for (key, wanted) in expect["recorded"].as_object().into_iter().flatten() {
        differ(&format!("metadata: {key}"), recorded[key].clone(), wanted.clone());
    }
    if !options["rounding"].is_null() {
        differ("metadata: round", recorded["round"].clone(), options["rounding"].clone());
    }
    if !options["duplicates"].is_null() {
        differ("metadata: duplicates", recorded["duplicates"].clone(), options["duplicates"].clone());
    }
    if expect["obs"].is_object() {
        check_table(what, &obs_of(&dataset), &expect["obs"], faults);
    }
    Some(contents(&target))
}
