//! Obs and gene table as parts of a whole dataset.

use std::sync::Arc;

use celltile::obs::{Cache, ObsWriteOptions, write_obs};
use celltile::storage::{MemoryStorage, Storage};
use celltile::table::{Column, Index, Table, Text};
use celltile::verify::{Level, VerifyOptions, verify};
use celltile::{Csr, Dataset, DatasetWriter, Error, WriterOptions};

use crate::tables::every_kind;

const CELLS: usize = 25;
const GENES: usize = 8;

fn var() -> Table {
    let names = (0..GENES).map(|i| Some(format!("gene {i}"))).collect::<Text>();
    let ids = (0..GENES).map(|i| Some(format!("ENSG{i}"))).collect::<Text>();
    Table::new(GENES, Some(Index::new(None, names)), vec![Column::new("gene_ids", ids)]).unwrap()
}

fn dataset(obs: &Table) -> MemoryStorage {
    let storage = MemoryStorage::new();
    let mut options = WriterOptions::default();
    options.tile_size = 10;
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let mut writer = DatasetWriter::create(shared.clone(), GENES as u64, &options).unwrap();
    let cells = Csr {
        indptr: (0..=CELLS as i64).collect(),
        genes: (0..CELLS as i32).map(|i| i % GENES as i32).collect(),
        counts: (1..=CELLS as i32).collect(),
    };
    writer.push(cells.view().unwrap()).unwrap();
    writer.set_var(&var()).unwrap();
    let written = write_obs(shared, obs, None, 10, ObsWriteOptions::default()).unwrap();
    writer.set_obs_table(&written).unwrap();
    writer.finish().unwrap();
    storage
}

#[test]
fn test_obs_and_var_come_back_with_the_cells() {
    let obs = every_kind(CELLS);
    let dataset = Dataset::open_storage(Arc::new(dataset(&obs)), &Default::default()).unwrap();
    assert_eq!(dataset.var().unwrap(), Some(var()));
    let reader = dataset.obs_reader().unwrap().unwrap();
    assert_eq!(reader.all(&Cache::memory()).unwrap().to_table().unwrap(), obs);
    let some = dataset.obs_from(&["bool", "cat_text"], &Cache::memory()).unwrap();
    assert_eq!(some.columns()[0].tiles().len(), 3);
    let metadata = dataset.manifest().metadata();
    assert_eq!(metadata["celltile"]["var"]["index"]["column"], "_index");
}

#[test]
fn test_a_whole_dataset_is_sound_and_damage_to_obs_is_not() {
    let storage = dataset(&every_kind(CELLS));
    let check = || verify(&storage, &VerifyOptions::default().level(Level::Strict), &|_| {}).unwrap();
    assert!(check().is_sound(), "{:?}", check().faults);
    for key in ["obs/schema.json", "obs/obs_0000.parquet", "var.parquet"] {
        let whole = storage.read(key).unwrap();
        let mut bytes = whole.to_vec();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        storage.write(key, &bytes).unwrap();
        assert!(check().faults.iter().any(|fault| fault.path.contains(key)), "{key}");
        storage.write(key, &whole).unwrap();
    }
    storage.write("var.parquet", b"").unwrap();
    let opened = Dataset::open_storage(Arc::new(storage.clone()), &Default::default()).unwrap();
    assert!(matches!(opened.var(), Err(Error::Size { .. })));
}

#[test]
fn test_obs_of_other_cells_is_refused() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let mut options = WriterOptions::default();
    options.tile_size = 10;
    let mut writer = DatasetWriter::create(storage.clone(), 1, &options).unwrap();
    let written = write_obs(
        storage,
        &every_kind(25),
        None,
        10,
        ObsWriteOptions { tiles_per_file: 1, ..Default::default() },
    );
    writer.set_obs_table(&written.unwrap()).unwrap();
    assert!(writer.finish().is_err());
}
