use std::sync::Arc;

use arrow_array::{Array, Float64Array, Int32Array};
use celltile::obs::{Cache, ObsReader, ObsSchema, ObsWriteOptions, ObsWriter, write_obs};
use celltile::storage::{MemoryStorage, Storage};
use celltile::table::{Categories, CategoryValue, Column, Index, Kind, Table, Text, Values};
use proptest::prelude::*;

use crate::tables::{category, every_kind, manifest, numeric, options, wide, written};

fn read(storage: &MemoryStorage, manifest: &celltile::Manifest) -> Table {
    let reader = ObsReader::open(Arc::new(storage.clone()), manifest).unwrap().unwrap();
    reader.all(&Cache::memory()).unwrap().to_table().unwrap()
}

#[test]
fn test_every_kind_comes_back() {
    for (rows, tile_size, per_file) in [(1, 1, 1), (23, 5, 2), (23, 100, 1000), (600, 300, 1)] {
        let table = every_kind(rows);
        let (storage, manifest) = written(&table, tile_size, per_file);
        assert_eq!(read(&storage, &manifest), table, "{rows} rows");
        let cache = tempfile::tempdir().unwrap();
        let reader = ObsReader::open(Arc::new(storage), &manifest).unwrap().unwrap();
        for _ in 0..2 {
            let obs = reader.all(&Cache::at(cache.path())).unwrap();
            assert_eq!(obs.to_table().unwrap(), table, "{rows} rows from the cache");
        }
    }
}

#[test]
fn test_no_cells_and_no_columns_are_tables_too() {
    let nothing = Table::new(3, None, Vec::new()).unwrap();
    assert!(ObsWriter::create(Arc::new(MemoryStorage::new()), &nothing, 1, options(1)).is_err());
    let table = every_kind(0);
    let (storage, manifest) = written(&table, 5, 2);
    assert_eq!(manifest.obs.as_ref().unwrap().shard_bytes.len(), 0);
    assert_eq!(read(&storage, &manifest), table);
    let names = Some(Index::new(Some("barcode".into()), ["a", "b"].map(Some).into_iter().collect::<Text>()));
    let table = Table::new(2, names, Vec::new()).unwrap();
    let (storage, manifest) = written(&table, 5, 2);
    assert_eq!(read(&storage, &manifest), table);
    let reader = ObsReader::open(Arc::new(storage), &manifest).unwrap().unwrap();
    assert_eq!(reader.index_column(), Some("barcode"));
}

#[test]
fn test_without_metadata_the_four_kinds_come_back() {
    let table = every_kind(20);
    let (storage, mut manifest) = written(&table, 8, 1);
    manifest.set_metadata(serde_json::Map::new());
    let back = read(&storage, &manifest);
    assert_eq!(back.index(), None);
    assert_eq!(back.columns()[0].name(), "_index_1");
    assert_eq!(back.columns().len(), table.columns().len() + 1);
    for (found, expected) in back.columns()[1..].iter().zip(table.columns()) {
        assert_eq!(found.name(), expected.name());
        assert_eq!(found.values().kind(), expected.values().kind());
        // Of masked floats NaN is a value; without the metadata it is missing.
        if expected.name() != "Float64" {
            assert_eq!(found.values().missing(), expected.values().missing());
        }
    }
}

#[test]
fn test_pushes_of_any_size_give_the_same_bytes() {
    let table = every_kind(47);
    let (whole, manifest) = written(&table, 10, 2);
    for sizes in [vec![47], vec![1; 47], vec![13, 0, 20, 14]] {
        let storage = MemoryStorage::new();
        let like = table.slice(0, 0).unwrap();
        let mut writer = ObsWriter::create(Arc::new(storage.clone()), &like, 10, options(2)).unwrap();
        let mut start = 0;
        for size in sizes {
            writer.push(&table.slice(start, size).unwrap()).unwrap();
            start += size;
        }
        let written = writer.finish().unwrap();
        assert_eq!(Some(&written.record), manifest.obs.as_ref());
        assert_eq!(written.tile_cells, [10, 10, 10, 10, 7]);
        assert_eq!(written.schema.as_bytes(), whole.read("obs/schema.json").unwrap());
        for key in ["obs/obs_0000.parquet", "obs/obs_0002.parquet"] {
            assert_eq!(storage.read(key).unwrap(), whole.read(key).unwrap());
        }
        assert!(storage.read("obs/obs_0003.parquet").is_err());
    }
}

#[test]
fn test_an_order_is_that_of_the_cells() {
    let table = every_kind(30);
    let order: Vec<u64> = (0..30).map(|i| (i * 7) % 30).collect();
    let storage = MemoryStorage::new();
    let written = write_obs(Arc::new(storage.clone()), &table, Some(&order), 7, options(3)).unwrap();
    storage.write("obs/schema.json", written.schema.as_bytes()).unwrap();
    assert_eq!(read(&storage, &manifest(&written, 7)), table.take(&order).unwrap());
}

#[test]
fn test_other_tables_are_refused() {
    let table = every_kind(5);
    let mut writer =
        ObsWriter::create(Arc::new(MemoryStorage::new()), &table, 10, ObsWriteOptions::default()).unwrap();
    let (rows, index, mut columns) = table.clone().into_parts();
    columns.pop();
    assert!(writer.push(&Table::new(rows, index, columns).unwrap()).is_err());
    let (rows, index, mut columns) = table.into_parts();
    let codes = category([0, 0, 0, 0, 0], Categories::from_text(["z", "other"]).unwrap(), false);
    columns[0] = Column::new("cat_text", codes);
    let error = writer.push(&Table::new(rows, index, columns).unwrap()).unwrap_err().to_string();
    assert!(error.contains("cat_text"), "{error}");
}

#[test]
fn test_too_many_categories_become_text_and_say_so() {
    let names = |n: i64| Categories::from_text((0..n).map(|i| format!("{i:05}"))).unwrap();
    let ints = Categories::from_values([5, 9, 7, 1].map(CategoryValue::Int), None).unwrap();
    let columns = vec![
        Column::new("three", category([0, 1, 2, -1], names(3), true)),
        Column::new("sorted", category([3, 1, 2, 0], names(4), true)),
        Column::new("appearance", category([0, 1, 2, 3], ints.clone(), false)),
        Column::new("lost", category([1, 0, 2, 3], ints, false)),
    ];
    let table = Table::new(4, None, columns).unwrap();
    let storage = MemoryStorage::new();
    let options = ObsWriteOptions { max_categories: 3, ..ObsWriteOptions::default() };
    let written = write_obs(Arc::new(storage.clone()), &table, None, 3, options).unwrap();
    storage.write("obs/schema.json", written.schema.as_bytes()).unwrap();
    let back = read(&storage, &manifest(&written, 3));
    let kinds: Vec<_> = back.columns().iter().map(|c| c.values().kind()).collect();
    assert_eq!(kinds, [Kind::Category, Kind::String, Kind::String, Kind::String]);
    for (name, order) in [("sorted", true), ("appearance", true), ("lost", false)] {
        let Values::Text(text) = back.column(name).unwrap().values() else { panic!("{name}") };
        let unfolded = text.unfold().unwrap();
        assert_eq!(unfolded.is_some(), order, "{name}");
        if let Some(unfolded) = unfolded {
            assert_eq!(&Values::from(unfolded), table.column(name).unwrap().values(), "{name}");
        }
    }
}

#[test]
fn test_category_values_keep_their_type_in_the_schema() {
    let values = [
        CategoryValue::Int(1),
        CategoryValue::Text("1"),
        CategoryValue::Float(1.0),
        CategoryValue::Bool(true),
        CategoryValue::Int(i128::from(u64::MAX)),
    ];
    let mixed = Categories::from_values(values, None).unwrap();
    let table = Table::new(3, None, vec![Column::new("m", category([4, 1, 2], mixed, false))]).unwrap();
    let (storage, manifest) = written(&table, 2, 1);
    let text = storage.read("obs/schema.json").unwrap();
    let text = std::str::from_utf8(&text).unwrap();
    assert!(text.contains(r#""categories": [1,"1",1.0,true,18446744073709551615]"#), "{text}");
    assert_eq!(read(&storage, &manifest), table);
}

#[test]
fn test_schema_faults_say_where() {
    let with = |column: &str| {
        let text = format!(r#"{{"format":"deltacells-obs","version":1,"columns":[{column}]}}"#);
        ObsSchema::parse(text.as_bytes(), "s").map(|_| ()).map_err(|e| e.to_string())
    };
    with(r#"{"name":"a","kind":"numeric","arrow_type":"double"}"#).unwrap();
    with(r#"{"name":"a","kind":"category","arrow_type":"int32","categories":[]}"#).unwrap();
    for (column, message) in [
        (r#"3"#, "columns[0].name"),
        (r#"{"name":"a","kind":"number","arrow_type":"double"}"#, "columns[0].kind: found \"number\""),
        (r#"{"name":"a","kind":"numeric","arrow_type":"string"}"#, "columns[0].arrow_type"),
        (r#"{"name":"a","kind":"category","arrow_type":"int8"}"#, "columns[0].categories"),
        (
            r#"{"name":"a","kind":"category","arrow_type":"int8","categories":[null]}"#,
            "columns[0].categories[0]",
        ),
        (r#"{"name":"a","kind":"category","arrow_type":"int8","categories":["x","x"]}"#, "listed twice"),
        (
            r#"{"name":"a","kind":"bool","arrow_type":"bool"},{"name":"a","kind":"bool","arrow_type":"bool"}"#,
            "columns[1].name",
        ),
    ] {
        let error = with(column).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
    assert!(ObsSchema::parse(b"{}", "s").is_err());
    assert!(ObsSchema::parse(b"[", "s").is_err());
}

#[test]
fn test_an_unknown_column_is_named_with_those_that_there_are() {
    let (storage, manifest) = written(&wide(4, 3), 2, 1);
    let reader = ObsReader::open(Arc::new(storage), &manifest).unwrap().unwrap();
    let error = reader.columns(&["nope"], &Cache::memory()).unwrap_err().to_string();
    assert!(error.contains("\"nope\"") && error.contains("\"column 2\""), "{error}");
    let obs = reader.columns(&["column 2", "column 0", "column 2"], &Cache::memory()).unwrap();
    assert_eq!(obs.columns()[0].tiles()[1].len(), 2);
    assert_eq!(obs.columns()[0].tiles(), obs.columns()[2].tiles());
    assert_ne!(obs.columns()[0].tiles(), obs.columns()[1].tiles());
}

/// Any column, by a seed.
fn any_values(rows: usize) -> impl Strategy<Value = Values> {
    let ints = proptest::collection::vec(proptest::option::of(any::<i32>()), rows);
    let floats = proptest::collection::vec(proptest::option::of(any::<f64>()), rows);
    let bools = proptest::collection::vec(proptest::option::of(any::<bool>()), rows);
    let texts = proptest::collection::vec(proptest::option::of(".{0,8}"), rows);
    let codes = (1_i64..400, any::<bool>())
        .prop_flat_map(move |(n, ordered)| (Just(n), Just(ordered), proptest::collection::vec(-1..n, rows)));
    prop_oneof![
        ints.prop_map(|v| numeric(Int32Array::from(v), false)),
        (floats, any::<bool>()).prop_map(|(v, nullable)| numeric(Float64Array::from(v), nullable)),
        bools.prop_map(|v| Values::bools(v.into(), false)),
        texts.prop_map(|v| v.into_iter().collect::<Text>().into()),
        codes.prop_map(|(n, ordered, codes)| {
            let names = Categories::from_text((0..n).rev().map(|i| format!("c{i}"))).unwrap();
            category(codes, names, ordered)
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_table_comes_back(
        (rows, values) in (0_usize..60).prop_flat_map(|rows| {
            (Just(rows), proptest::collection::vec((".{0,5}", any_values(rows)), 1..6))
        }),
        tile_size in 1_u64..25,
        per_file in 1_u64..4,
    ) {
        let mut columns: Vec<Column> = Vec::new();
        for (name, values) in values {
            if !columns.iter().any(|column| column.name() == name) {
                columns.push(Column::new(name, values));
            }
        }
        let index = (rows % 2 == 0).then(|| {
            Index::new(Some("_index".to_owned()), (0..rows).map(|i| Some(i.to_string())).collect::<Text>())
        });
        let table = Table::new(rows, index, columns).unwrap();
        let (storage, manifest) = written(&table, tile_size, per_file);
        prop_assert_eq!(read(&storage, &manifest), table);
    }
}
