//! What holds of datasets in every storage. Each test is given a function that makes a new storage, by name.

use std::sync::Arc;

use celltile::genes::GeneOrder;
use celltile::obs::{Cache, ObsWriteOptions, write_obs};
use celltile::storage::Storage;
use celltile::table::{
    Categorical, Categories, CategoryValue, Codes, Column, Dtype, Index, Numeric, StringKind, Table, Text,
    Values,
};
use celltile::verify::{Level, VerifyOptions, verify};
use celltile::{ChunkCut, Csr, Dataset, DatasetWriter, Error, Manifest, OpenOptions, Verify, WriterOptions};

use crate::common::{Numbers, matrix, options, select, write};

pub(crate) type New<'a> = &'a dyn Fn(&str) -> Arc<dyn Storage>;

const GENES: usize = 300;
const CELLS: usize = 95;
const TILE: u64 = 40;

fn open(storage: &Arc<dyn Storage>, verify: Verify) -> celltile::Result<Dataset> {
    Dataset::open_storage(Arc::clone(storage), &OpenOptions::default().threads(2).verify(verify))
}

/// Takes out what other writers do not add.
fn as_foreign(storage: &dyn Storage) {
    let mut manifest = Manifest::read(storage).unwrap();
    manifest.tile_checksums = None;
    manifest.tile_sha256 = None;
    manifest.files.clear();
    storage.remove("tile_checksums.bin").unwrap();
    storage.write("manifest.json", manifest.to_json().unwrap().as_bytes()).unwrap();
}

pub(crate) fn reads(new: New<'_>) {
    let all = matrix(1, CELLS, 300, 60);
    for (name, cut) in [("a", ChunkCut::Nonzeros(200)), ("b", ChunkCut::Cells(1)), ("c", ChunkCut::Count(3))]
    {
        let storage = new(name);
        write(Arc::clone(&storage), &all, GENES as u64, &options(TILE, cut, 2), 11);
        for foreign in [false, true] {
            if foreign {
                as_foreign(storage.as_ref());
            }
            for verify in [Verify::Full, Verify::Structure] {
                let dataset = open(&storage, verify).unwrap();
                let n_cells = dataset.n_cells();
                assert_eq!(dataset.rows(0..n_cells).unwrap(), all);
                for tile in 0..dataset.n_tiles() {
                    let cells = dataset.tile_cells(tile).unwrap();
                    assert_eq!(dataset.tile(tile).unwrap(), select(&all, cells));
                }
                let mut numbers = Numbers(7);
                for _ in 0..5 {
                    let start = numbers.below(n_cells);
                    let end = start + numbers.below(n_cells + 1 - start);
                    assert_eq!(dataset.rows(start..end).unwrap(), select(&all, start..end));
                    let cells: Vec<u64> = (0..20).map(|_| numbers.below(n_cells)).collect();
                    assert_eq!(dataset.gather(&cells).unwrap(), select(&all, cells));
                }
                let past = dataset.rows(0..n_cells + 1).unwrap_err();
                assert!(matches!(past, Error::OutOfRange { .. }), "{past}");
            }
        }
    }
    let storage = new("none");
    write(Arc::clone(&storage), &Csr::new(), 1, &options(TILE, ChunkCut::Cells(1), 1), 1);
    assert_eq!(open(&storage, Verify::Full).unwrap().rows(0..0).unwrap(), Csr::new());
}

fn numbers(values: impl Iterator<Item = Option<i64>>, nullable: bool) -> Values {
    Numeric::new(Arc::new(values.collect::<arrow_array::Int64Array>()), nullable).unwrap().into()
}

/// Every kind of column, with missing values, categories that no cell has, and names that are no file names.
fn obs() -> Table {
    let each = || 0..CELLS;
    let missing = |i: usize| i % 7 == 3;
    let number = |i: usize| i64::try_from(i).unwrap();
    let code = |i: usize, n: usize| if missing(i) { -1 } else { i64::try_from(i % n).unwrap() };
    let category = |n: usize, list: Categories, ordered| -> Values {
        let codes = Codes::collect(each().map(|i| code(i, n)), list.len()).unwrap();
        Categorical::new(codes, list, ordered).unwrap().into()
    };
    let levels = Categories::from_values([3, 1, 2].map(CategoryValue::Int), Some(Dtype::Int8)).unwrap();
    let text = || each().map(|i| (!missing(i)).then(|| format!("t {}", i % 5))).collect::<Text>();
    let columns: Vec<(&str, Values)> = vec![
        ("cell type", category(2, Categories::from_text(["z", "a", "unused"]).unwrap(), false)),
        ("level", category(3, levels, true)),
        ("Int", numbers(each().map(|i| (!missing(i)).then_some(i64::MAX - number(i))), true)),
        ("int", numbers(each().map(|i| Some(number(i))), false)),
        ("flag", Values::bools(each().map(|i| (!missing(i)).then_some(i % 2 == 0)).collect(), true)),
        ("../../x", text().into()),
        ("a/b", Text::new(text().values().clone(), StringKind::Masked).into()),
    ];
    let columns = columns.into_iter().map(|(name, values)| Column::new(name, values)).collect();
    let names = each().map(|i| Some(format!("CELL-{i}"))).collect::<Text>();
    Table::new(CELLS, Some(Index::new(Some("barcode".into()), names)), columns).unwrap()
}

fn var() -> Table {
    let names = (0..GENES).map(|i| Some(format!("gene {i}"))).collect::<Text>();
    let ids = (0..GENES).map(|i| Some(format!("ENSG{i}"))).collect::<Text>();
    Table::new(GENES, Some(Index::new(None, names)), vec![Column::new("gene_ids", ids)]).unwrap()
}

fn write_whole(storage: &Arc<dyn Storage>, how: &WriterOptions) -> celltile::Result<Csr> {
    let cells = matrix(4, CELLS, 300, 60);
    let mut writer = DatasetWriter::create(Arc::clone(storage), GENES as u64, how)?;
    writer.push(cells.view().unwrap())?;
    writer.set_var(&var())?;
    writer.set_gene_order(&GeneOrder::new((0..300).rev().collect()).unwrap())?;
    let shards = ObsWriteOptions { tiles_per_file: 2, ..ObsWriteOptions::default() };
    writer.set_obs_table(&write_obs(Arc::clone(storage), &obs(), None, TILE, shards)?)?;
    writer.finish()?;
    Ok(cells)
}

fn how() -> WriterOptions {
    options(TILE, ChunkCut::Nonzeros(200), 2)
}

fn faults(storage: &dyn Storage) -> Vec<String> {
    let options = VerifyOptions::default().level(Level::Strict).threads(2);
    let report = verify(storage, &options, &|_| {}).unwrap();
    report.faults.iter().map(ToString::to_string).collect()
}

pub(crate) fn tables(new: New<'_>) {
    let storage = new("tables");
    let cells = write_whole(&storage, &how()).unwrap();
    assert_eq!(faults(storage.as_ref()), [""; 0]);
    let dataset = open(&storage, Verify::Full).unwrap();
    assert_eq!(dataset.rows(0..CELLS as u64).unwrap(), cells);
    assert_eq!(dataset.var().unwrap().unwrap(), var());
    let reader = dataset.obs_reader().unwrap().unwrap();
    assert_eq!(reader.index_column(), Some("barcode"));
    assert_eq!(reader.meta().missing("flag"), Some(14));
    assert_eq!(reader.meta().missing("int"), Some(0));
    let folder = tempfile::tempdir().unwrap();
    // Fetched into memory, fetched into the cache, mapped from there.
    for cache in [Cache::memory(), Cache::at(folder.path()), Cache::at(folder.path())] {
        assert_eq!(reader.all(&cache).unwrap().to_table().unwrap(), obs());
        let some = dataset.obs_from(&["a/b", "level"], &cache).unwrap().to_table().unwrap();
        assert_eq!(some.columns()[0].values(), obs().column("a/b").unwrap().values());
        assert_eq!(some.columns()[1].values(), obs().column("level").unwrap().values());
    }
    let error = dataset.obs_from(&["flagg"], &Cache::memory()).unwrap_err().to_string();
    assert!(error.contains("\"flagg\"") && error.contains("\"flag\""), "{error}");
}

pub(crate) fn replacing(new: New<'_>) {
    let storage = new("replaced");
    write_whole(&storage, &how()).unwrap();
    storage.write("README.txt", b"mine").unwrap();
    let error = write_whole(&storage, &how()).unwrap_err();
    assert!(matches!(error, Error::Occupied { .. }), "{error}");
    assert_eq!(faults(storage.as_ref()), [""; 0]);
    let mut again = how();
    again.overwrite = true;
    // Fewer cells: tiles and shards of the old dataset must go.
    let few = matrix(9, 10, 300, 40);
    let mut writer = DatasetWriter::create(Arc::clone(&storage), GENES as u64, &again).unwrap();
    writer.push(few.view().unwrap()).unwrap();
    writer.finish().unwrap();
    assert_eq!(faults(storage.as_ref()), [""; 0]);
    assert_eq!(storage.list("tiles").unwrap().len(), 1);
    assert_eq!(storage.read("README.txt").unwrap(), "mine");
    assert_eq!(open(&storage, Verify::Full).unwrap().rows(0..10).unwrap(), few);
}

pub(crate) fn unfinished(new: New<'_>) {
    let storage = new("unfinished");
    let cells = matrix(8, CELLS, 300, 60);
    let mut writer = DatasetWriter::create(Arc::clone(&storage), GENES as u64, &how()).unwrap();
    writer.push(cells.view().unwrap()).unwrap();
    writer.set_var(&var()).unwrap();
    drop(writer);
    let error = open(&storage, Verify::Full).map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::NotADataset { .. }), "{error}");
    assert!(error.to_string().contains(&storage.locate("")), "{error}");
    // What is left is cleared away without being asked: nobody can have opened it.
    write_whole(&storage, &how()).unwrap();
    assert_eq!(faults(storage.as_ref()), [""; 0]);
    let nothing = open(&new("nothing"), Verify::Full).map(|_| ()).unwrap_err();
    assert!(matches!(nothing, Error::NotADataset { .. }), "{nothing}");
}

pub(crate) fn damage(new: New<'_>) {
    let storage = new("damaged");
    let cells = write_whole(&storage, &how()).unwrap();
    for key in
        ["tiles/tile_000001.dct", "obs/obs_0001.parquet", "obs/schema.json", "var.parquet", "gene_order.npy"]
    {
        let whole = storage.read(key).unwrap();
        for (what, bytes) in [
            ("cut", whole[..whole.len() - 1].to_vec()),
            ("longer", [&whole[..], b"x"].concat()),
            ("flipped", {
                let mut bytes = whole.to_vec();
                let middle = bytes.len() / 2;
                bytes[middle] ^= 4;
                bytes
            }),
            ("empty", Vec::new()),
        ] {
            storage.write(key, &bytes).unwrap();
            let found = faults(storage.as_ref());
            assert!(found.iter().any(|fault| fault.contains(key)), "{key} {what}: {found:?}");
            // What is read is right, or an error that names the object. (The middle of a shard may be of another column.)
            let dataset =
                open(&new("damaged"), Verify::Full).or_else(|_| open(&storage, Verify::Full)).unwrap();
            if let Ok(found) = dataset.rows(40..80) {
                assert!(!key.starts_with("tiles") || what == "longer", "{key} {what}");
                assert_eq!(found, select(&cells, 40..80));
            } else {
                assert!(key.starts_with("tiles"), "{key} {what}");
            }
        }
        storage.remove(key).unwrap();
        assert!(faults(storage.as_ref()).iter().any(|fault| fault.contains(key)), "{key} removed");
        storage.write(key, &whole).unwrap();
    }
    assert_eq!(faults(storage.as_ref()), [""; 0]);
}
