//! Tables to write, and storages that watch.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{
    ArrayRef, BooleanArray, Float16Array, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array,
    Int64Array, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use bytes::Bytes;
use celltile::Manifest;
use celltile::manifest::FileRecord;
use celltile::obs::{ObsWriteOptions, ObsWritten, write_obs};
use celltile::storage::{Entry, LocalStorage, MemoryStorage, Object, ObjectWriter, Storage};
use celltile::table::{
    Categorical, Categories, CategoryValue, Codes, Column, Dtype, Index, Numeric, StringKind, Table, Text,
    Values,
};

/// Names that have broken other tools.
pub(crate) const ODD_NAMES: [&str; 12] =
    ["a/b", "..", ".", "", "../../x", "%2F", "Age", "age", "é", "trailing ", "_index", "\u{1f600}"];

pub(crate) fn numeric(array: impl arrow_array::Array + 'static, nullable: bool) -> Values {
    Numeric::new(Arc::new(array) as ArrayRef, nullable).unwrap().into()
}

pub(crate) fn category(
    codes: impl IntoIterator<Item = i64>,
    categories: Categories,
    ordered: bool,
) -> Values {
    let codes = Codes::collect(codes, categories.len()).unwrap();
    Categorical::new(codes, categories, ordered).unwrap().into()
}

/// A table with every dtype, missing values wherever they can be, and an index with repeats.
pub(crate) fn every_kind(rows: usize) -> Table {
    let n = i64::try_from(rows).unwrap();
    let each = || 0..n;
    let missing = |i: i64| i % 5 == 3;
    let some = |i: i64| (!missing(i)).then_some(i);
    let small = |i: i64| i8::try_from(i % 100).unwrap();
    let codes = |k: i64| each().map(move |i| if missing(i) { -1 } else { i % k });
    let float = |i: i64| f64::from(i32::try_from(i).unwrap());
    let floats = Categories::from_values([2.5, -0.5, 1e300].map(CategoryValue::Float), None).unwrap();
    let ints = Categories::from_values([7, -3, 0].map(CategoryValue::Int), Some(Dtype::Int8)).unwrap();
    let bools = Categories::from_values([true, false].map(CategoryValue::Bool), None).unwrap();
    let texts = Categories::from_text(["z", "unused", "a", "1"]).unwrap();
    let masked =
        Categories::from_text(["x", "y"]).unwrap().with_dtype(Dtype::Text(StringKind::Masked)).unwrap();
    let many = Categories::from_text((0..300).map(|i| format!("type {i}"))).unwrap();
    let text = || each().map(|i| some(i).map(|i| format!("text \u{e9} {i}"))).collect::<Text>();
    let columns: Vec<(String, Values)> = vec![
        ("cat_text".into(), category(codes(2).map(|c| if c < 0 { c } else { c * 2 }), texts.clone(), false)),
        ("cat_ordered".into(), category(codes(4), texts, true)),
        ("cat_int8".into(), category(codes(3), ints, true)),
        ("cat_float".into(), category(codes(3), floats, false)),
        ("cat_bool".into(), category(codes(2), bools, false)),
        ("cat_masked".into(), category(codes(2), masked, false)),
        ("cat_int16".into(), category(codes(300), many, false)),
        ("cat_missing".into(), category(each().map(|_| -1), Categories::empty(Dtype::Float64), false)),
        ("int8".into(), numeric(each().map(|i| Some(small(i))).collect::<Int8Array>(), false)),
        (
            "int16".into(),
            numeric(each().map(|i| Some(i16::from(small(i)) - 99)).collect::<Int16Array>(), false),
        ),
        (
            "int32".into(),
            numeric(each().map(|i| Some(i32::try_from(i).unwrap() - 7)).collect::<Int32Array>(), false),
        ),
        ("int64".into(), numeric(each().map(|i| Some(i64::MIN + i)).collect::<Int64Array>(), false)),
        (
            "uint8".into(),
            numeric(each().map(|i| Some(u8::try_from(i % 256).unwrap())).collect::<UInt8Array>(), false),
        ),
        (
            "uint16".into(),
            numeric(
                each().map(|i| Some(u16::MAX - u16::try_from(i % 256).unwrap())).collect::<UInt16Array>(),
                false,
            ),
        ),
        (
            "uint32".into(),
            numeric(
                each().map(|i| Some(u32::MAX - u32::try_from(i).unwrap())).collect::<UInt32Array>(),
                false,
            ),
        ),
        (
            "uint64".into(),
            numeric(
                each().map(|i| Some(u64::MAX - u64::try_from(i).unwrap())).collect::<UInt64Array>(),
                false,
            ),
        ),
        ("Int64".into(), numeric(each().map(some).collect::<Int64Array>(), true)),
        (
            "UInt8".into(),
            numeric(
                each().map(|i| some(i).map(|i| u8::try_from(i % 256).unwrap())).collect::<UInt8Array>(),
                true,
            ),
        ),
        (
            "float16".into(),
            numeric(
                each().map(|i| some(i).map(|i| half::f16::from_f64(float(i % 9)))).collect::<Float16Array>(),
                false,
            ),
        ),
        (
            "float32".into(),
            numeric(
                each().map(|i| some(i).map(|i| f32::from(small(i)) / 3.0)).collect::<Float32Array>(),
                false,
            ),
        ),
        (
            "float64".into(),
            numeric(each().map(|i| some(i).map(|i| float(i) / 7.0)).collect::<Float64Array>(), false),
        ),
        (
            "Float64".into(),
            numeric(
                each()
                    .map(|i| some(i).map(|i| if i % 2 == 0 { f64::NAN } else { float(i) }))
                    .collect::<Float64Array>(),
                true,
            ),
        ),
        (
            "inf".into(),
            numeric(
                each().map(|i| Some(if i % 2 == 0 { f64::INFINITY } else { -0.0 })).collect::<Float64Array>(),
                false,
            ),
        ),
        ("bool".into(), Values::bools(each().map(|i| Some(i % 3 == 0)).collect::<BooleanArray>(), false)),
        (
            "boolean".into(),
            Values::bools(each().map(|i| some(i).map(|i| i % 3 == 0)).collect::<BooleanArray>(), true),
        ),
        ("object".into(), text().into()),
        ("string".into(), Text::new(text().values().clone(), StringKind::Masked).into()),
        ("str".into(), Text::new(text().values().clone(), StringKind::MaskedNan).into()),
        ("nothing".into(), each().map(|_| None::<&str>).collect::<Text>().into()),
    ];
    let mut columns: Vec<_> = columns.into_iter().map(|(name, values)| Column::new(name, values)).collect();
    for (k, name) in ODD_NAMES.iter().enumerate() {
        let k = i64::try_from(k).unwrap();
        columns.push(Column::new(*name, numeric(each().map(|i| Some(i * k)).collect::<Int64Array>(), false)));
    }
    columns.push(Column::new("x".repeat(300), numeric(each().map(Some).collect::<Int64Array>(), false)));
    let names = each().map(|i| Some(format!("CELL{}-1", i / 2))).collect::<Text>();
    Table::new(rows, Some(Index::new(None, names)), columns).unwrap()
}

/// A column of each kind of [`every_kind`].
pub(crate) fn few(rows: usize) -> Table {
    let (rows, index, columns) = every_kind(rows).into_parts();
    let names = ["cat_text", "int64", "float32", "boolean", "object"];
    let columns = columns.into_iter().filter(|column| names.contains(&column.name())).collect();
    Table::new(rows, index, columns).unwrap()
}

/// `columns` columns of about the same size.
pub(crate) fn wide(rows: usize, columns: usize) -> Table {
    let columns = (0..columns)
        .map(|c| {
            let values = (0..rows).map(|r| {
                let mixed = (r as u64 * 1000 + c as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                Some(i32::try_from(mixed >> 40).unwrap())
            });
            Column::new(format!("column {c}"), numeric(values.collect::<Int32Array>(), false))
        })
        .collect();
    Table::new(rows, None, columns).unwrap()
}

/// A manifest to go with some written obs, with tiles that are only claimed.
pub(crate) fn manifest(written: &ObsWritten, tile_size: u64) -> Manifest {
    let mut manifest = Manifest::empty(10, tile_size);
    manifest.n_cells = written.tile_cells.iter().sum();
    manifest.tile_cells = written.tile_cells.clone();
    manifest.tile_nnz = vec![0; written.tile_cells.len()];
    manifest.tile_bytes = written.tile_cells.iter().map(|cells| 64 + 96 + 8 * (cells + 1) + 64).collect();
    manifest.obs = Some(written.record.clone());
    manifest.files.insert("obs/schema.json".into(), FileRecord::of(written.schema.as_bytes()));
    let metadata = serde_json::json!({"celltile": {"obs": written.meta.to_json()}});
    manifest.set_metadata(metadata.as_object().unwrap().clone());
    manifest
}

pub(crate) fn options(tiles_per_file: u64) -> ObsWriteOptions {
    ObsWriteOptions { tiles_per_file, ..ObsWriteOptions::default() }
}

/// A table as obs in memory.
pub(crate) fn written(table: &Table, tile_size: u64, tiles_per_file: u64) -> (MemoryStorage, Manifest) {
    let storage = MemoryStorage::new();
    let written =
        write_obs(Arc::new(storage.clone()), table, None, tile_size, options(tiles_per_file)).unwrap();
    storage.write("obs/schema.json", written.schema.as_bytes()).unwrap();
    let manifest = manifest(&written, tile_size);
    (storage, manifest)
}

/// The same in a folder, manifest included.
pub(crate) fn written_to(
    folder: &std::path::Path,
    table: &Table,
    tile_size: u64,
    tiles_per_file: u64,
) -> Manifest {
    let storage = Arc::new(LocalStorage::new(folder));
    let written = write_obs(storage.clone(), table, None, tile_size, options(tiles_per_file)).unwrap();
    storage.write("obs/schema.json", written.schema.as_bytes()).unwrap();
    storage.write("obs/schema.json", written.schema.as_bytes()).unwrap();
    let manifest = manifest(&written, tile_size);
    storage.write("manifest.json", manifest.to_json().unwrap().as_bytes()).unwrap();
    manifest
}

/// A storage that counts what is read from it.
#[derive(Debug)]
pub(crate) struct Counting<S> {
    pub(crate) inner: S,
    pub(crate) bytes: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) delay: std::time::Duration,
}

impl<S> Counting<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self { inner, bytes: AtomicU64::new(0), reads: AtomicU64::new(0), delay: std::time::Duration::ZERO }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    fn count(&self, bytes: &Bytes) {
        self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.reads.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(self.delay);
    }
}

impl<S: Storage> Storage for Counting<S> {
    fn locate(&self, key: &str) -> String {
        self.inner.locate(key)
    }
    fn is_remote(&self) -> bool {
        true
    }
    fn open(&self, key: &str) -> celltile::Result<Box<dyn Object>> {
        self.inner.open(key)
    }
    fn read(&self, key: &str) -> celltile::Result<Bytes> {
        let bytes = self.inner.read(key)?;
        self.count(&bytes);
        Ok(bytes)
    }
    fn read_range(&self, key: &str, range: Range<u64>) -> celltile::Result<Bytes> {
        let bytes = self.inner.read_range(key, range)?;
        self.count(&bytes);
        Ok(bytes)
    }
    fn list(&self, folder: &str) -> celltile::Result<Vec<Entry>> {
        self.inner.list(folder)
    }
    fn create(&self, key: &str) -> celltile::Result<Box<dyn ObjectWriter>> {
        self.inner.create(key)
    }
    fn remove(&self, key: &str) -> celltile::Result<()> {
        self.inner.remove(key)
    }
}
