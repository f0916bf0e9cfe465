//! What other readers make of what we write, and we of what they write. Needs a Python with zarr, zarrs, zarrista, anndata and
//! annbatch: its command in `CELLTILE_INTEROP_PYTHON`. Without it the tests say so and pass.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::manual_is_multiple_of,
    clippy::print_stderr,
    reason = "a test that panics has found something"
)]

#[path = "support/dataset.rs"]
mod dataset;
#[path = "support/support.rs"]
mod support;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float32Array, Int32Array};
use celltile::obs::{Cache, ObsWriteOptions, write_obs};
use celltile::storage::{LocalStorage, MemoryStorage, Storage};
use celltile::table::{
    Categorical, Categories, Codes, Column, Index, Numeric, StringKind, Table, Text, Values,
};
use celltile::writer::{DatasetWriter, WriterOptions};
use celltile::{ChunkCut, Csr, Dataset, OpenOptions};
use celltile_ingest::convert::{ConvertOptions, convert_file};
use celltile_ingest::source::{MatrixChoice, SourceOptions};
use celltile_zarr::server::Server;
use celltile_zarr::{
    ArraySpec, Compression, Cut, Encoding, GridForm, Hierarchy, KeyStore, LiveView, RegridOptions,
    StoreOptions, Target, ZarrArray, ZarrOpener, export, regrid,
};
use serde_json::{Value, json};
use support::{Numbers, Reference, random_grid, read_all};

/// Runs one of the scripts beside this file, if there is a Python for it.
fn python(script: &str, arguments: &[&str]) -> bool {
    let Ok(command) = std::env::var("CELLTILE_INTEROP_PYTHON") else {
        eprintln!("skipped {script}: CELLTILE_INTEROP_PYTHON is not set");
        return false;
    };
    let mut words = command.split_whitespace();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop").join(script);
    let output = Command::new(words.next().unwrap())
        .args(words)
        .arg(&script)
        .args(arguments)
        .env("ZARR_ARRAY__RECTILINEAR_CHUNKS", "True")
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{script:?}\n{}\n{}", text(&output.stdout), text(&output.stderr));
    eprint!("{}", text(&output.stdout));
    true
}

fn local(path: &Path) -> Arc<KeyStore> {
    Arc::new(KeyStore::new(Arc::new(LocalStorage::new(path))))
}

#[test]
fn arrays_of_zarr_python_read_back_equal() {
    let folder = tempfile::tempdir().unwrap();
    if !python("write_arrays.py", &[folder.path().to_str().unwrap()]) {
        return;
    }
    let cases: Value = serde_json::from_slice(&fs::read(folder.path().join("cases.json")).unwrap()).unwrap();
    for case in cases.as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let array = ZarrArray::open(local(&folder.path().join(name)), "/").unwrap();
        let bytes = fs::read(folder.path().join(format!("{name}.bin"))).unwrap();
        let found = read_all(&array);
        assert_eq!(found.bytes(), bytes, "{name}");
        // And on another grid.
        let mut numbers = Numbers::new(bytes.len() as u64);
        let grid = random_grid(&mut numbers, &found.shape);
        let encoding = Some(Encoding { compression: Compression::Zstd(3), ..Encoding::default() });
        let target = Target { grid, form: GridForm::Rectilinear, encoding };
        let store = local(&folder.path().join(format!("{name}_again")));
        regrid(&array, &store, "/", &target, &RegridOptions::default()).unwrap();
        assert_eq!(read_all(&ZarrArray::open(store, "/").unwrap()), found, "{name}");
    }
}

#[test]
fn our_arrays_are_read_by_zarr_python_zarrs_and_zarrista() {
    let folder = tempfile::tempdir().unwrap();
    let mut numbers = Numbers::new(9);
    let mut cases = Vec::new();
    for case in 0..24_usize {
        let shape: Vec<u64> = (0..=case % 4).map(|_| numbers.between(1, 9)).collect();
        let reference = Reference::random(&mut numbers, &shape);
        let mut grid = random_grid(&mut numbers, &shape);
        let mut encoding =
            Encoding { compression: Compression::Zstd(3), inner: None, checksum: case % 5 == 0 };
        if case % 3 == 0 {
            let double = |axis: &celltile_grid::Axis| {
                let runs: Vec<_> = axis.runs().map(|run| (run.edge * 2, run.count)).collect();
                celltile_grid::Axis::from_runs(runs).unwrap().with_length(axis.length()).unwrap()
            };
            grid = celltile_grid::Grid::new(grid.axes().iter().map(double).collect());
            encoding.inner = Some(vec![2; shape.len()]);
        }
        let spec = ArraySpec { encoding, ..ArraySpec::new(grid, GridForm::Rectilinear, "int32") };
        let name = format!("ours_{case}");
        let array = ZarrArray::create(local(&folder.path().join(&name)), "/", &spec).unwrap();
        reference.write(&array);
        array.store_metadata().unwrap();
        fs::write(folder.path().join(format!("{name}.bin")), reference.bytes()).unwrap();
        cases.push(json!({"name": name, "shape": shape}));
    }
    fs::write(folder.path().join("cases.json"), json!(cases).to_string()).unwrap();
    python("read_arrays.py", &[folder.path().to_str().unwrap()]);
}

const GENES: u64 = 40;
const TILE: u64 = 64;

/// A dataset in a folder, with obs and var, and what must come out of it beside it.
fn with_tables(folder: &Path, n_cells: u64, empty: &[u64]) -> Csr<i32> {
    let csr = dataset::cells(11, n_cells, GENES, TILE, empty);
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(folder.join("dataset")));
    let mut options = WriterOptions::default();
    options.tile_size = TILE;
    options.encode.cut = ChunkCut::Nonzeros(100);
    let mut writer = DatasetWriter::create(Arc::clone(&storage), GENES, &options).unwrap();
    writer.push(csr.view().unwrap()).unwrap();
    let (obs, obs_facts) = obs(n_cells as usize);
    let written = write_obs(storage, &obs, None, TILE, ObsWriteOptions::default()).unwrap();
    writer.set_obs_table(&written).unwrap();
    let names: Text = (0..GENES).map(|gene| Some(format!("gene{gene}"))).collect();
    let length: ArrayRef = Arc::new(Int32Array::from_iter_values((0..GENES as i32).map(|gene| gene * 7)));
    let columns = vec![Column::new("length", Numeric::new(length, false).unwrap())];
    let var = Table::new(GENES as usize, Some(Index::new(Some("gene".to_owned()), names)), columns).unwrap();
    writer.set_var(&var).unwrap();
    writer.finish().unwrap();

    let expected = folder.join("expected");
    fs::create_dir_all(&expected).unwrap();
    let var_facts = json!({
        "index": (0..GENES).map(|gene| format!("gene{gene}")).collect::<Vec<_>>(),
        "columns": {"length": {"dtypes": ["int32"], "values": (0..GENES).map(|gene| gene * 7).collect::<Vec<_>>()}},
    });
    let facts = json!({"cells": n_cells, "genes": GENES, "obs": obs_facts, "var": var_facts});
    fs::write(expected.join("shape.json"), facts.to_string()).unwrap();
    let ints = |values: &[i32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    fs::write(expected.join("indices.bin"), ints(&csr.genes)).unwrap();
    fs::write(expected.join("data.bin"), ints(&csr.counts)).unwrap();
    let offsets: Vec<u8> = csr.indptr.iter().flat_map(|value| value.to_le_bytes()).collect();
    fs::write(expected.join("indptr.bin"), offsets).unwrap();
    csr
}

/// Columns of every kind, some values missing, and what pandas must have of them.
fn obs(n: usize) -> (Table, Value) {
    let rows = || 0..n;
    let names: Text = rows().map(|row| Some(format!("cell-{row}"))).collect();
    let codes: Vec<i64> = rows().map(|row| (row % 3) as i64).collect();
    let ordered: Vec<i64> = rows().map(|row| (row % 4) as i64 - 1).collect();
    let stages = Categories::from_text(["late", "early", "mid"]).unwrap();
    let category = |codes: Vec<i64>, categories: Categories, ordered| {
        Categorical::new(Codes::collect(codes, categories.len()).unwrap(), categories, ordered).unwrap()
    };
    let masked = |row: usize| (row % 5 != 0).then_some(row as i32);
    let floats = |row: usize| (row % 7 != 0).then_some(row as f32 / 2.0);
    let flags = |row: usize| (row % 6 != 0).then_some(row % 2 == 0);
    let texts = |row: usize| (row % 9 != 0).then(|| format!("Zelle {row} äöü"));
    let mask: ArrayRef = Arc::new(rows().map(masked).collect::<Int32Array>());
    let float: ArrayRef = Arc::new(rows().map(floats).collect::<Float32Array>());
    let donors = Categories::from_text(["a/b", "", "c"]).unwrap();
    let columns = vec![
        Column::new("donor", category(codes.clone(), donors, false)),
        Column::new("stage", category(ordered.clone(), stages, true)),
        Column::new("masked", Numeric::new(mask, true).unwrap()),
        Column::new("float", Numeric::new(float, false).unwrap()),
        Column::new(
            "flag",
            Values::bools(rows().map(|row| Some(row % 2 == 0)).collect::<BooleanArray>(), false),
        ),
        Column::new("masked flag", Values::bools(rows().map(flags).collect::<BooleanArray>(), true)),
        Column::new("note", Text::new(rows().map(texts).collect(), StringKind::Masked)),
        Column::new("with/slash", rows().map(|row| Some(format!("s{row}"))).collect::<Text>()),
    ];
    let table = Table::new(n, Some(Index::new(None, names)), columns).unwrap();
    let named = |codes: &[i64], names: &[&str]| -> Vec<Option<String>> {
        codes.iter().map(|&code| usize::try_from(code).ok().map(|code| names[code].to_owned())).collect()
    };
    let facts = json!({
        "index": rows().map(|row| format!("cell-{row}")).collect::<Vec<_>>(),
        "columns": {
            "donor": {"ordered": false, "categories": ["a/b", "", "c"], "values": named(&codes, &["a/b", "", "c"])},
            "stage": {"ordered": true, "categories": ["late", "early", "mid"],
                "values": named(&ordered, &["late", "early", "mid"])},
            "masked": {"dtypes": ["Int32"], "values": rows().map(masked).collect::<Vec<_>>()},
            "float": {"dtypes": ["float32"], "values": rows().map(floats).collect::<Vec<_>>()},
            "flag": {"dtypes": ["bool"], "values": rows().map(|row| row % 2 == 0).collect::<Vec<_>>()},
            "masked flag": {"dtypes": ["boolean"], "values": rows().map(flags).collect::<Vec<_>>()},
            "note": {"dtypes": ["string"], "values": rows().map(texts).collect::<Vec<_>>()},
            "with/slash": {"dtypes": ["object", "str"], "values": rows().map(|row| format!("s{row}")).collect::<Vec<_>>()},
        },
    });
    (table, facts)
}

fn hierarchy(folder: &Path, options: StoreOptions) -> Hierarchy {
    let dataset = Arc::new(Dataset::open(folder.join("dataset")).unwrap());
    Hierarchy::open(dataset, &Cache::memory(), options).unwrap()
}

fn check(store: &str, folder: &Path) {
    python("read_anndata.py", &[store, folder.join("expected").to_str().unwrap()]);
}

#[test]
fn exports_are_read_by_anndata_annbatch_zarrs_and_zarrista() {
    let folder = tempfile::tempdir().unwrap();
    with_tables(folder.path(), 5 * TILE + 9, &[]);
    let cuts = [
        ("tile", Cut::Tile, Compression::None),
        ("chunk", Cut::TileChunk { nonzeros: 500 }, Compression::Zstd(3)),
        ("default", Cut::default(), Compression::None),
        ("regular", Cut::Regular { nonzeros: 333 }, Compression::Zstd(1)),
    ];
    for (name, cut, compression) in cuts {
        let store = folder.path().join(format!("{name}.zarr"));
        let hierarchy = hierarchy(folder.path(), StoreOptions::default().cut(cut).compression(compression));
        assert_eq!(hierarchy.left_out(), [] as [String; 0]);
        export(&hierarchy, &LocalStorage::new(&store), None, &|_, _| {}).unwrap();
        check(store.to_str().unwrap(), folder.path());
    }
}

#[test]
fn datasets_with_empty_tiles_are_read_by_anndata() {
    for (number, empty) in [&[0][..], &[1], &[2], &[0, 1, 2]].into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        with_tables(folder.path(), 3 * TILE - 1, empty);
        let store = folder.path().join(format!("empty_{number}.zarr"));
        let hierarchy = hierarchy(folder.path(), StoreOptions::default().cut(Cut::Tile));
        export(&hierarchy, &LocalStorage::new(&store), None, &|_, _| {}).unwrap();
        check(store.to_str().unwrap(), folder.path());
    }
}

#[test]
fn the_served_store_is_read_by_anndata() {
    let folder = tempfile::tempdir().unwrap();
    with_tables(folder.path(), 4 * TILE + 3, &[1]);
    let view = LiveView::new(hierarchy(folder.path(), StoreOptions::default().cut(Cut::Tile)));
    let server = Server::bind(view, SocketAddr::from(([127, 0, 0, 1], 0)), Box::new(|_, _| {})).unwrap();
    let (url, stop) = (server.url(), server.stop_handle());
    let running = std::thread::spawn(move || server.run());
    check(url.trim_end_matches('/'), folder.path());
    stop.stop();
    running.join().unwrap().unwrap();
}

#[test]
fn stores_of_anndata_come_back_through_a_dataset() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    if !python("write_anndata.py", &[place]) {
        return;
    }
    let cases: Value = serde_json::from_slice(&fs::read(folder.path().join("cases.json")).unwrap()).unwrap();
    for (number, case) in cases.as_array().unwrap().iter().enumerate() {
        let options = SourceOptions {
            matrix: MatrixChoice::Path(case["matrix"].as_str().unwrap().to_owned()),
            openers: vec![Arc::new(ZarrOpener)],
            ..SourceOptions::default()
        };
        let input = folder.path().join(case["name"].as_str().unwrap());
        let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        let summary = convert_file(&input, Arc::clone(&storage), &options, &ConvertOptions::default());
        let summary = summary.unwrap_or_else(|error| panic!("{case}: {error}"));
        assert!(summary.format.starts_with("zarr v"), "{case}");
        let dataset = Arc::new(Dataset::open_storage(storage, &OpenOptions::default()).unwrap());
        let hierarchy = Hierarchy::open(dataset, &Cache::memory(), StoreOptions::default()).unwrap();
        let out = folder.path().join(format!("out_{number}.zarr"));
        export(&hierarchy, &LocalStorage::new(out), None, &|_, _| {}).unwrap();
    }
    python("check_import.py", &[place]);
}
