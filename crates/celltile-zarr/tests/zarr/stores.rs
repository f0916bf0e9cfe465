//! Datasets as AnnData stores: what is exported, and what the live view answers.

use std::sync::Arc;

use crate::dataset::{cells, dataset};
use celltile::obs::Cache;
use celltile::storage::{MemoryStorage, Storage};
use celltile::{Csr, Dataset};
use celltile_zarr::inspect::check;
use celltile_zarr::{Compression, Cut, Hierarchy, KeyStore, LiveView, StoreOptions, ZarrArray, export};
use zarrs::storage::{ListableStorageTraits, ReadableStorageTraits, StorePrefix};

const GENES: u64 = 30;
const TILE: u64 = 20;

fn cuts() -> [Cut; 5] {
    [
        Cut::Tile,
        Cut::default(),
        Cut::TileChunk { nonzeros: 90 },
        Cut::TileChunk { nonzeros: 1 },
        Cut::Regular { nonzeros: 77 },
    ]
}

fn hierarchy(dataset: &Arc<Dataset>, cut: Cut, compression: Compression) -> Hierarchy {
    let options = StoreOptions::default().cut(cut).compression(compression);
    Hierarchy::open(Arc::clone(dataset), &Cache::memory(), options).unwrap()
}

fn read<S: ?Sized + ReadableStorageTraits + 'static>(store: &Arc<S>, path: &str) -> Vec<u8> {
    let array = ZarrArray::open(Arc::clone(store), path).unwrap();
    let length = array.grid().shape()[0];
    array.read_region(std::slice::from_ref(&(0..length))).unwrap().into_fixed().unwrap().into_owned()
}

/// The matrix of a store.
fn matrix<S: ?Sized + ReadableStorageTraits + 'static>(store: &Arc<S>) -> Csr<i32> {
    let ints =
        |path| read(store, path).chunks_exact(4).map(|b| i32::from_le_bytes(b.try_into().unwrap())).collect();
    let indptr =
        read(store, "/X/indptr").chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap())).collect();
    Csr { indptr, genes: ints("/X/indices"), counts: ints("/X/data") }
}

#[test]
fn every_cut_gives_the_cells_back_whatever_tiles_are_empty() {
    for empty in [&[][..], &[0], &[2], &[4], &[0, 1, 2, 3, 4]] {
        // The last tile is not full.
        let csr = cells(1, 4 * TILE + 7, GENES, TILE, empty);
        let dataset = dataset(&csr, GENES, TILE);
        for cut in cuts() {
            for compression in [Compression::None, Compression::Zstd(3)] {
                let hierarchy = hierarchy(&dataset, cut, compression);
                let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
                let report = export(&hierarchy, storage.as_ref(), None, &|_, _| {}).unwrap();
                let written = Arc::new(KeyStore::new(storage));
                let view = Arc::new(LiveView::new(hierarchy));
                assert_eq!(matrix(&written), csr, "{cut:?}, {empty:?}");
                assert_eq!(matrix(&view), csr, "{cut:?}, {empty:?}");
                let keys = written.list().unwrap();
                assert_eq!(keys.len() as u64, report.objects);
                let mut answered = view.list().unwrap();
                answered.sort();
                let mut sorted = keys.clone();
                sorted.sort();
                assert_eq!(answered, sorted);
                for key in &keys {
                    let bytes = written.get(key).unwrap();
                    assert_eq!(bytes, view.get(key).unwrap(), "{key}");
                    assert_eq!(bytes.map(|bytes| bytes.len() as u64), view.size_key(key).unwrap(), "{key}");
                }
                assert_eq!(check(&written).unwrap(), []);
                assert_eq!(check(&view).unwrap(), []);
            }
        }
    }
}

#[test]
fn the_cut_by_tiles_has_the_tiles_nonzeros_as_edges() {
    let csr = cells(2, 5 * TILE, GENES, TILE, &[0, 3]);
    let dataset = dataset(&csr, GENES, TILE);
    let view = Arc::new(LiveView::new(hierarchy(&dataset, Cut::Tile, Compression::None)));
    let data = ZarrArray::open(view, "/X/data").unwrap();
    let edges: Vec<u64> = data.grid().axes()[0].edges().collect();
    let nonzero: Vec<u64> = dataset.manifest().tile_nnz.iter().copied().filter(|&nnz| nnz > 0).collect();
    assert_eq!(edges, nonzero);
}

#[test]
fn joined_tile_chunks_stay_below_the_limit_and_inside_tiles() {
    let csr = cells(3, 5 * TILE, GENES, TILE, &[1]);
    let dataset = dataset(&csr, GENES, TILE);
    let view =
        Arc::new(LiveView::new(hierarchy(&dataset, Cut::TileChunk { nonzeros: 90 }, Compression::None)));
    let data = ZarrArray::open(view, "/X/data").unwrap();
    let edges: Vec<u64> = data.grid().axes()[0].edges().collect();
    assert!(edges.iter().all(|&edge| edge <= 90) && edges.iter().any(|&edge| edge > 45), "{edges:?}");
    let ends: Vec<u64> = edges
        .iter()
        .scan(0, |sum, edge| {
            *sum += edge;
            Some(*sum)
        })
        .collect();
    let mut sum = 0;
    for nnz in &dataset.manifest().tile_nnz {
        sum += nnz;
        assert!(sum == 0 || ends.contains(&sum), "{ends:?} {sum}");
    }
}

#[test]
fn an_empty_dataset_is_a_store_too() {
    let csr = cells(4, 0, GENES, TILE, &[]);
    let dataset = dataset(&csr, GENES, TILE);
    for cut in cuts() {
        let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        export(&hierarchy(&dataset, cut, Compression::None), storage.as_ref(), None, &|_, _| {}).unwrap();
        let store = Arc::new(KeyStore::new(storage));
        assert_eq!(matrix(&store), csr);
        assert_eq!(check(&store).unwrap(), []);
    }
}

#[test]
fn a_place_with_something_in_it_is_left_alone() {
    let csr = cells(5, TILE, GENES, TILE, &[]);
    let hierarchy = hierarchy(&dataset(&csr, GENES, TILE), Cut::Tile, Compression::None);
    let storage = MemoryStorage::new();
    storage.write("notes.txt", b"mine").unwrap();
    let error = export(&hierarchy, &storage, None, &|_, _| {}).unwrap_err();
    assert!(error.to_string().contains("not empty"), "{error}");
}

#[test]
fn folders_list_what_is_in_them() {
    let csr = cells(6, 3 * TILE, GENES, TILE, &[]);
    let view = LiveView::new(hierarchy(&dataset(&csr, GENES, TILE), Cut::Tile, Compression::None));
    let root = view.list_dir(&StorePrefix::root()).unwrap();
    let folders: Vec<_> = root.prefixes().iter().map(|prefix| prefix.as_str().to_owned()).collect();
    assert_eq!(folders, ["X/", "layers/", "obs/", "obsm/", "obsp/", "uns/", "var/", "varm/", "varp/"]);
    let data = view.list_dir(&StorePrefix::new("X/data/").unwrap()).unwrap();
    assert_eq!((data.keys().len(), data.prefixes().len()), (1, 1));
    assert_eq!(view.list_dir(&StorePrefix::new("X/data/c/").unwrap()).unwrap().keys().len(), 3);
}

#[test]
fn counts_as_float32_and_no_further_than_they_are_exact() {
    let mut csr = cells(7, TILE, GENES, TILE, &[]);
    let options = || StoreOptions::default().float32(true);
    let view = |csr: &Csr<i32>| {
        Arc::new(LiveView::new(
            Hierarchy::open(dataset(csr, GENES, TILE), &Cache::memory(), options()).unwrap(),
        ))
    };
    let data = read(&view(&csr), "/X/data");
    let floats: Vec<i32> =
        data.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()) as i32).collect();
    assert_eq!(floats, csr.counts);
    csr.counts[3] = (1 << 24) + 1;
    let array = ZarrArray::open(view(&csr), "/X/data").unwrap();
    let error = array.read_chunk(&[0]).unwrap_err();
    assert!(error.to_string().contains("16777217"), "{error}");
}

#[test]
fn damage_is_an_error_and_no_other_cells() {
    let csr = cells(8, 2 * TILE, GENES, TILE, &[]);
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    crate::dataset::write(Arc::clone(&storage), &csr, GENES, TILE);
    let key = celltile::keys::tile(1);
    let mut bytes = storage.read(&key).unwrap().to_vec();
    let end = bytes.len() - 12;
    bytes[end] ^= 1;
    storage.write(&key, &bytes).unwrap();
    let dataset = Arc::new(Dataset::open_storage(storage, &celltile::OpenOptions::default()).unwrap());
    let hierarchy = hierarchy(&dataset, Cut::Tile, Compression::None);
    assert!(hierarchy.value("X/data/c/0").unwrap().is_some());
    hierarchy.value("X/data/c/1").unwrap_err();
    let target = MemoryStorage::new();
    export(&hierarchy, &target, None, &|_, _| {}).unwrap_err();
    assert!(target.read("zarr.json").is_err(), "an unfinished store has no root");
}
