//! Arrays with rectilinear grids inside zarrs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{Numbers, Reference, random_grid, read_all};
use celltile_grid::{Axis, Grid};
use celltile_zarr::{ArraySpec, Compression, Encoding, GridForm, ZarrArray, ZarrError};
use zarrs::array::{Array, ArrayBytes};
use zarrs::storage::store::MemoryStore;
use zarrs::storage::{ReadableStorageTraits, StoreKey, WritableStorageTraits};

fn with_grid(shape: &str, grid: &str) -> String {
    format!(
        r#"{{"zarr_format":3,"node_type":"array","shape":{shape},"data_type":"int32","chunk_grid":{grid},
        "chunk_key_encoding":{{"name":"default","configuration":{{"separator":"/"}}}},"fill_value":0,
        "codecs":[{{"name":"bytes","configuration":{{"endian":"little"}}}}]}}"#
    )
}

fn rectilinear(shape: &str, edges: &str) -> String {
    let configuration = format!(r#"{{"kind":"inline","chunk_shapes":{edges}}}"#);
    with_grid(shape, &format!(r#"{{"name":"rectilinear","configuration":{configuration}}}"#))
}

fn store_with(text: &str) -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new());
    store.set(&StoreKey::new("a/zarr.json").unwrap(), text.to_owned().into()).unwrap();
    store
}

#[test]
fn a_run_of_a_million_million_chunks_is_an_ordinary_array() {
    let store = store_with(&rectilinear("[1000000000000]", "[[[1,1000000000000]]]"));
    let start = Instant::now();
    let array = ZarrArray::open(store, "/a").unwrap();
    array.write_chunk(&[999_999_999_999], ArrayBytes::new_flen(7_i32.to_ne_bytes().to_vec())).unwrap();
    let end = array.read_region(&[999_999_999_998..1_000_000_000_000]).unwrap().into_fixed().unwrap();
    assert_eq!(end.to_vec(), [0, 7].map(i32::to_ne_bytes).concat());
    assert!(start.elapsed() < Duration::from_secs(1), "took {:?}", start.elapsed());
}

#[test]
fn zarrs_own_arrays_keep_their_own_grid() {
    let store = store_with(&rectilinear("[6]", "[[1,2,3]]"));
    let ours = ZarrArray::open(store.clone(), "/a").unwrap();
    assert!(format!("{:?}", ours.array().chunk_grid()).contains("RectilinearGrid {"));
    let theirs = Array::open(store, "/a").unwrap();
    assert!(format!("{:?}", theirs.chunk_grid()).contains("RectilinearChunkGrid {"));
}

#[test]
fn grids_that_are_not_valid_are_refused_with_their_place() {
    for (shape, edges, place) in [
        ("[6]", "[[1,0,5]]", "axis 0, position 1"),
        ("[6,6]", "[6,[1,2]]", "axis 1"),
        ("[6]", "[[4.0,2]]", "axis 0, position 0"),
        ("[6,6]", "[6]", "dimensions"),
        ("[6]", "[[[1,18446744073709551616]]]", "axis 0, position 0"),
    ] {
        let error = ZarrArray::open(store_with(&rectilinear(shape, edges)), "/a").unwrap_err();
        assert!(matches!(error, ZarrError::Grid { .. }), "{error}");
        assert!(error.to_string().contains(place) && error.to_string().contains("/a"), "{error}");
    }
    for grid in [
        r#"{"name":"regular","configuration":{"chunk_shape":[0]}}"#,
        r#"{"name":"regular","configuration":{"chunk_shape":[1,2]}}"#,
        r#"{"name":"regular"}"#,
        r#"{"name":"hexagonal","configuration":{}}"#,
        r#"{"name":"rectilinear","configuration":{"kind":"inline","chunk_shapes":[[6]],"x":1}}"#,
    ] {
        ZarrArray::open(store_with(&with_grid("[6]", grid)), "/a").unwrap_err();
    }
    let missing = ZarrArray::open(store_with("{}"), "/b").unwrap_err();
    assert!(matches!(missing, ZarrError::NotFound { .. }), "{missing}");
}

#[test]
fn a_chunk_larger_than_memory_is_refused_before_it_is_made() {
    let array = ZarrArray::open(store_with(&rectilinear("[5]", "[[1000000000000000]]")), "/a").unwrap();
    for error in [array.read_chunk(&[0]).unwrap_err(), array.read_region(&[0..1]).unwrap_err()] {
        assert!(matches!(error, ZarrError::ChunkTooLarge { .. }), "{error}");
    }
}

#[test]
fn shards_divide_every_edge_or_the_array_is_refused() {
    let grid = Grid::new(vec![Axis::from_edges([4, 8, 2]).unwrap()]);
    let mut spec = ArraySpec::new(grid, GridForm::Rectilinear, "int32");
    spec.encoding = Encoding { inner: Some(vec![4]), ..Encoding::default() };
    let error = ZarrArray::create(Arc::new(MemoryStore::new()), "/a", &spec).unwrap_err();
    assert!(error.to_string().contains("axis 0") && error.to_string().contains('4'), "{error}");
}

#[test]
fn what_is_written_is_read_whatever_the_grid_and_the_codecs() {
    let mut numbers = Numbers::new(1);
    for round in 0..120 {
        let shape: Vec<u64> = (0..round % 5).map(|_| numbers.between(0, 14)).collect();
        let reference = Reference::random(&mut numbers, &shape);
        let mut grid = random_grid(&mut numbers, &shape);
        let mut inner = None;
        if round % 3 == 0 {
            // Edges that all divide by two.
            let double = |axis: &Axis| {
                let runs: Vec<_> = axis.runs().map(|run| (run.edge * 2, run.count)).collect();
                if runs.is_empty() {
                    axis.clone()
                } else {
                    Axis::from_runs(runs).unwrap().with_length(axis.length()).unwrap()
                }
            };
            grid = Grid::new(grid.axes().iter().map(double).collect());
            inner = Some(vec![2; shape.len()]).filter(|inner| grid.check_inner(inner).is_ok());
        }
        let mut spec = ArraySpec::new(grid.clone(), GridForm::Rectilinear, "int32");
        let compression = if round % 2 == 0 { Compression::Zstd(3) } else { Compression::None };
        spec.encoding = Encoding { compression, inner, checksum: round % 7 == 0 };
        let store = Arc::new(MemoryStore::new());
        let array = ZarrArray::create(store.clone(), "/g/a", &spec).unwrap();
        reference.write(&array);
        array.store_metadata().unwrap();
        let again = ZarrArray::open(store, "/g/a").unwrap();
        assert_eq!(read_all(&again), reference, "{grid:?}");
        assert_eq!(again.grid(), &grid);
    }
}

#[test]
fn nothing_is_stored_for_chunks_past_the_array() {
    let grid = Grid::new(vec![Axis::from_edges([4, 4, 4]).unwrap().with_length(5).unwrap()]);
    let store = Arc::new(MemoryStore::new());
    let array = ZarrArray::create(store.clone(), "/a", &ArraySpec::new(grid, GridForm::Rectilinear, "int32"))
        .unwrap();
    let chunk = || ArrayBytes::new_flen(vec![1; 16]);
    array.write_chunk(&[1], chunk()).unwrap();
    array.write_chunk(&[2], chunk()).unwrap_err();
    assert_eq!(store.get(&StoreKey::new("a/c/2").unwrap()).unwrap(), None);
    array.store_metadata().unwrap();
    let text = store.get(&StoreKey::new("a/zarr.json").unwrap()).unwrap().unwrap();
    assert!(String::from_utf8_lossy(&text).contains(r#""chunk_shapes":[[[4,3]]]"#));
}
