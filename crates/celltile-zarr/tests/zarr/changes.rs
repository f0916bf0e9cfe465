//! Arrays put on other grids and appended to, against elements in memory.

use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::support::{Dying, Numbers, Reference, random_grid, read_all};
use celltile_grid::{Axis, Grid};
use celltile_zarr::{
    ArraySpec, Compression, Encoding, GridForm, RegridOptions, StoreTarget, Target, ZarrArray, append,
    regrid, regrid_store, relabel, relabel_store,
};
use serde_json::{Value, json};
use zarrs::storage::store::MemoryStore;
use zarrs::storage::{ListableStorageTraits, ReadableStorageTraits, StoreKey};

fn made(
    store: &Arc<MemoryStore>,
    path: &str,
    grid: Grid,
    form: GridForm,
    reference: &Reference,
) -> ZarrArray<MemoryStore> {
    let array = ZarrArray::create(store.clone(), path, &ArraySpec::new(grid, form, "int32")).unwrap();
    reference.write(&array);
    array.store_metadata().unwrap();
    ZarrArray::open(store.clone(), path).unwrap()
}

fn options(numbers: &mut Numbers) -> RegridOptions {
    RegridOptions {
        memory: numbers.between(100_000, 200_000),
        threads: NonZeroUsize::new(numbers.between(1, 3) as usize),
    }
}

#[test]
fn two_hundred_random_sequences_of_regridding_and_appending() {
    let mut numbers = Numbers::new(2);
    let mut log = String::new();
    for sequence in 0..200_usize {
        let ndim = 1 + sequence % 4;
        let shape: Vec<u64> =
            (0..ndim).map(|_| numbers.between(if sequence % 9 == 0 { 0 } else { 1 }, 9)).collect();
        let mut reference = Reference::random(&mut numbers, &shape);
        let store = Arc::new(MemoryStore::new());
        let grid = random_grid(&mut numbers, &shape);
        let mut array = made(&store, "/0", grid, GridForm::Rectilinear, &reference);
        let (start, mut steps) = (facts(&reference), Vec::new());
        for step in 1..=4 {
            let mut appended = Value::Null;
            let mut along = 0;
            if numbers.one_in(2) {
                let grid = random_grid(&mut numbers, &reference.shape);
                let encoding = (numbers.one_in(2))
                    .then(|| Encoding { compression: Compression::Zstd(1), ..Encoding::default() });
                let target = Target { grid, form: GridForm::Rectilinear, encoding };
                let path = format!("/{step}");
                let report = regrid(&array, &store, &path, &target, &options(&mut numbers)).unwrap();
                assert_eq!(report.chunks, target.grid.n_active().unwrap());
                array = ZarrArray::open(store.clone(), &path).unwrap();
            } else {
                let axis = numbers.between(0, ndim as u64 - 1) as usize;
                along = axis;
                let mut block = reference.shape.clone();
                block[axis] = numbers.between(1, 5);
                let block = Reference::random(&mut numbers, &block);
                match append(&array, axis, block.shape[axis], &block.bytes()) {
                    Ok(longer) => {
                        reference = reference.append(axis, &block);
                        appended = facts(&block);
                        array = ZarrArray::open(store.clone(), longer.path()).unwrap();
                        assert_eq!(array.grid(), longer.grid());
                    }
                    Err(error) => assert!(error.to_string().contains("ends inside chunk"), "{error}"),
                }
            }
            let found = read_all(&array);
            assert_eq!(found, reference, "sequence {sequence}, step {step}, {:?}", array.grid());
            steps.push(json!({"append": appended, "axis": along, "found": facts(&found)}));
        }
        log.push_str(&format!("{}\n", json!({"start": start, "steps": steps})));
    }
    let Ok(python) = std::env::var("CELLTILE_TEST_PYTHON") else {
        eprintln!("skipped NumPy: CELLTILE_TEST_PYTHON is not set");
        return;
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), log).unwrap();
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/check_changes.py");
    let output = std::process::Command::new(python).arg(script).arg(file.path()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    eprint!("{}", text(&output.stdout));
}

fn facts(reference: &Reference) -> Value {
    json!({"shape": reference.shape, "values": reference.values})
}

#[test]
fn an_append_killed_anywhere_leaves_the_array_as_it_was_and_can_be_done_again() {
    let mut numbers = Numbers::new(10);
    for kill in 0..12 {
        let reference = Reference::random(&mut numbers, &[6, 5]);
        let store = Arc::new(MemoryStore::new());
        let grid = Grid::from_regular(&[6, 5], &[3, 2]).unwrap();
        made(&store, "/a", grid, GridForm::Regular, &reference);
        let block = Reference::random(&mut numbers, &[4, 5]);
        let longer = reference.append(0, &block);
        let dying = Arc::new(Dying::new(store.clone(), kill));
        let array = ZarrArray::open(dying, "/a").unwrap();
        let done = append(&array, 0, 4, &block.bytes()).is_ok();
        let array = ZarrArray::open(store.clone(), "/a").unwrap();
        assert_eq!(read_all(&array), if done { longer.clone() } else { reference }, "{kill}");
        if !done {
            append(&array, 0, 4, &block.bytes()).unwrap();
        }
        assert_eq!(read_all(&ZarrArray::open(store, "/a").unwrap()), longer);
    }
}

#[test]
fn whole_stores_are_put_on_other_grids_and_interrupted_ones_completed() {
    let store = Arc::new(MemoryStore::new());
    let mut numbers = Numbers::new(11);
    let (one, two) = (Reference::random(&mut numbers, &[40]), Reference::random(&mut numbers, &[9, 7]));
    made(&store, "/g/one", Grid::from_regular(&[40], &[7]).unwrap(), GridForm::Regular, &one);
    made(&store, "/g/two", random_grid(&mut numbers, &[9, 7]), GridForm::Rectilinear, &two);
    let text = |path: &str| -> Value {
        serde_json::from_slice(&store.get(&StoreKey::new(path).unwrap()).unwrap().unwrap()).unwrap()
    };
    let root = json!({"zarr_format": 3, "node_type": "group", "attributes": {"kept": 1}, "consolidated_metadata": {
        "kind": "inline", "must_understand": false,
        "metadata": {"one": text("g/one/zarr.json"), "two": text("g/two/zarr.json")}}});
    let set = |key: &str, value: &Value| {
        let key = StoreKey::new(key).unwrap();
        zarrs::storage::WritableStorageTraits::set(store.as_ref(), &key, value.to_string().into()).unwrap();
    };
    set("g/zarr.json", &root);
    let target = |chunks: &str, arrays: &[&str]| StoreTarget {
        chunks: chunks.parse().unwrap(),
        arrays: arrays.iter().map(|path| (*path).to_owned()).collect(),
        encoding: None,
    };
    let options = RegridOptions::default();
    for kill in 0..60 {
        let out = Arc::new(MemoryStore::new());
        let dying = Arc::new(Dying::new(out.clone(), kill));
        let first = regrid_store(&store, &dying, &target("[[11, [13, 2], 3]]", &[]), &options, &|_, _| {});
        let report = match first {
            Ok(report) => report,
            Err(_) => {
                regrid_store(&store, &out, &target("[[11, [13, 2], 3]]", &[]), &options, &|_, _| {}).unwrap()
            }
        };
        assert_eq!(
            (report.regridded.as_slice(), report.copied.as_slice()),
            (&["/g/one".to_owned()][..], &["/g/two".to_owned()][..])
        );
        assert_eq!(read_all(&ZarrArray::open(out.clone(), "/g/one").unwrap()), one, "{kill}");
        assert_eq!(read_all(&ZarrArray::open(out.clone(), "/g/two").unwrap()), two);
        let faults = celltile_zarr::inspect::check(&out).unwrap();
        assert!(
            faults.iter().all(|f| f.severity == celltile_zarr::inspect::Severity::Note),
            "{kill}: {faults:?}"
        );
        let keys = out.list().unwrap();
        assert!(keys.iter().all(|key| !key.as_str().contains("celltile")), "{keys:?}");
        let group: Value =
            serde_json::from_slice(&out.get(&StoreKey::new("g/zarr.json").unwrap()).unwrap().unwrap())
                .unwrap();
        assert_eq!(group["attributes"]["kept"], json!(1));
    }
    for (chunks, arrays, expected) in [
        ("5", &["/g/none"][..], "no such array"),
        ("5", &["g/two"][..], "2 axes"),
        ("[[3]]", &[][..], "axis 0"),
    ] {
        let out = Arc::new(MemoryStore::new());
        let error = regrid_store(&store, &out, &target(chunks, arrays), &options, &|_, _| {}).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(out.list().unwrap(), []);
    }
    assert_eq!(relabel_store(&store, &[], GridForm::Rectilinear).unwrap(), ["/g/one"]);
    assert_eq!(read_all(&ZarrArray::open(store.clone(), "/g/one").unwrap()), one);
    assert_eq!(text("g/zarr.json")["consolidated_metadata"]["metadata"]["one"], text("g/one/zarr.json"));
    assert!(relabel_store(&store, &["g/none".to_owned()], GridForm::Regular).is_err());
}

#[test]
fn a_regridding_killed_anywhere_goes_on_and_ends_the_same() {
    let mut numbers = Numbers::new(3);
    for kill in 0..40 {
        let shape = [numbers.between(5, 20), numbers.between(5, 20)];
        let reference = Reference::random(&mut numbers, &shape);
        let store = Arc::new(MemoryStore::new());
        let grid = random_grid(&mut numbers, &shape);
        let source = made(&store, "/old", grid, GridForm::Rectilinear, &reference);
        let target = Target {
            grid: random_grid(&mut numbers, &shape),
            form: GridForm::Rectilinear,
            encoding: Some(Encoding { compression: Compression::Zstd(1), ..Encoding::default() }),
        };
        let dying = Arc::new(Dying::new(store.clone(), kill));
        let options = options(&mut numbers);
        if regrid(&source, &dying, "/new", &target, &options).is_err() {
            let unfinished = ZarrArray::open(store.clone(), "/new");
            assert!(unfinished.is_err() || kill > 0);
            if kill > 1 && unfinished.is_err() {
                let other = Target { encoding: None, ..target.clone() };
                let error = regrid(&source, &store, "/new", &other, &options).unwrap_err();
                assert!(error.to_string().contains("interrupted"), "{error}");
            }
            if unfinished.is_err() {
                regrid(&source, &store, "/new", &target, &options).unwrap();
            }
        }
        assert_eq!(read_all(&ZarrArray::open(store.clone(), "/new").unwrap()), reference);
    }
}

#[test]
fn a_place_that_is_taken_is_left_alone() {
    let store = Arc::new(MemoryStore::new());
    let reference = Reference::random(&mut Numbers::new(4), &[5]);
    let grid = || Grid::from_regular(&[5], &[2]).unwrap();
    let array = made(&store, "/a", grid(), GridForm::Regular, &reference);
    let target = Target { grid: grid(), form: GridForm::Regular, encoding: None };
    let error = regrid(&array, &store, "/a", &target, &RegridOptions::default()).unwrap_err();
    assert!(error.to_string().contains("is there already"), "{error}");
}

#[test]
fn too_little_memory_is_said_before_anything_is_written() {
    let store = Arc::new(MemoryStore::new());
    let reference = Reference::random(&mut Numbers::new(5), &[1000]);
    let array =
        made(&store, "/a", Grid::from_regular(&[1000], &[1000]).unwrap(), GridForm::Regular, &reference);
    let target =
        Target { grid: Grid::from_regular(&[1000], &[10]).unwrap(), form: GridForm::Regular, encoding: None };
    let options = RegridOptions { memory: 4000, threads: None };
    let error = regrid(&array, &store, "/b", &target, &options).unwrap_err();
    assert!(error.to_string().contains("memory"), "{error}");
    let keys = store.list().unwrap();
    assert!(keys.iter().all(|key| key.as_str().starts_with("a/")), "{keys:?}");
}

#[test]
fn a_regular_grid_becomes_the_equal_rectilinear_one_by_its_metadata() {
    let store = Arc::new(MemoryStore::new());
    let reference = Reference::random(&mut Numbers::new(6), &[10, 4]);
    let array =
        made(&store, "/a", Grid::from_regular(&[10, 4], &[3, 4]).unwrap(), GridForm::Regular, &reference);
    let chunk = StoreKey::new("a/c/3/0").unwrap();
    let before = store.get(&chunk).unwrap();
    relabel(&array, array.grid(), GridForm::Rectilinear).unwrap();
    let array = ZarrArray::open(store.clone(), "/a").unwrap();
    assert_eq!((array.form(), read_all(&array)), (GridForm::Rectilinear, reference.clone()));
    let listed = Grid::new(vec![
        Axis::from_runs([(3, 4)]).unwrap().with_length(10).unwrap(),
        Axis::from_edges([4, 9]).unwrap().with_length(4).unwrap(),
    ]);
    relabel(&array, &listed, GridForm::Rectilinear).unwrap();
    let array = ZarrArray::open(store.clone(), "/a").unwrap();
    assert_eq!((array.grid(), read_all(&array)), (&listed, reference.clone()));
    relabel(&array, &Grid::from_regular(&[10, 4], &[3, 4]).unwrap(), GridForm::Regular).unwrap();
    let array = ZarrArray::open(store.clone(), "/a").unwrap();
    assert_eq!((array.form(), read_all(&array)), (GridForm::Regular, reference));
    assert_eq!(store.get(&chunk).unwrap(), before);
    // The last chunk holds one row but is stored as three.
    let cut = Grid::new(vec![Axis::from_edges([3, 3, 3, 1]).unwrap(), Axis::regular(4, 4).unwrap()]);
    let error = relabel(&array, &cut, GridForm::Rectilinear).unwrap_err();
    assert!(error.to_string().contains("axis 0 one whose chunk 3 has edge 1 in place of edge 3"), "{error}");
}

#[test]
fn equal_grids_and_codecs_copy_chunks_as_they_are() {
    let store = Arc::new(MemoryStore::new());
    let reference = Reference::random(&mut Numbers::new(7), &[10]);
    let array = made(&store, "/a", Grid::from_regular(&[10], &[3]).unwrap(), GridForm::Regular, &reference);
    let target = Target { grid: array.grid().clone(), form: GridForm::Rectilinear, encoding: None };
    let report = regrid(&array, &store, "/b", &target, &RegridOptions::default()).unwrap();
    assert!(report.copied);
    assert_eq!(read_all(&ZarrArray::open(store, "/b").unwrap()), reference);
}

#[test]
fn appending_keeps_a_regular_grid_where_it_can_and_consolidated_metadata_in_step() {
    let store = Arc::new(MemoryStore::new());
    let reference = Reference::random(&mut Numbers::new(8), &[6]);
    let array = made(&store, "/g/a", Grid::from_regular(&[6], &[3]).unwrap(), GridForm::Regular, &reference);
    let array_text = store.get(&StoreKey::new("g/a/zarr.json").unwrap()).unwrap().unwrap();
    let root = format!(
        r#"{{"zarr_format":3,"node_type":"group","attributes":{{}},"consolidated_metadata":{{"kind":"inline",
        "must_understand":false,"metadata":{{"g/a":{}}}}}}}"#,
        String::from_utf8_lossy(&array_text)
    );
    let root_key = StoreKey::new("zarr.json").unwrap();
    zarrs::storage::WritableStorageTraits::set(store.as_ref(), &root_key, root.into()).unwrap();
    let three = Reference { shape: vec![3], values: vec![7, 8, 9] };
    let array = append(&array, 0, 3, &three.bytes()).unwrap();
    assert_eq!(array.form(), GridForm::Regular);
    let one = Reference { shape: vec![1], values: vec![5] };
    let array = append(&array, 0, 1, &one.bytes()).unwrap();
    assert_eq!(array.form(), GridForm::Rectilinear);
    assert_eq!(read_all(&array), reference.append(0, &three).append(0, &one));
    let root = store.get(&root_key).unwrap().unwrap();
    let root: serde_json::Value = serde_json::from_slice(&root).unwrap();
    let entry = &root["consolidated_metadata"]["metadata"]["g/a"];
    assert_eq!(entry["shape"], serde_json::json!([10]));
    assert_eq!(entry["chunk_grid"]["configuration"]["chunk_shapes"], serde_json::json!([[[3, 3], 1]]));
    assert!(append(&array, 0, 2, &one.bytes()).is_err());
    assert!(append(&array, 0, 0, &[]).is_err());
    assert!(append(&array, 1, 1, &one.bytes()).is_err());
}
