//! What is said of stores.

use std::sync::Arc;

use crate::support::{Numbers, Reference};
use celltile_grid::Grid;
use celltile_zarr::inspect::{Finding, NodeInfo, Severity, check, inspect};
use celltile_zarr::{ArraySpec, GridForm, ZarrArray};
use serde_json::{Value, json};
use zarrs::storage::store::MemoryStore;
use zarrs::storage::{ReadableStorageTraits, StoreKey, WritableStorageTraits};

fn put(store: &MemoryStore, key: &str, value: &Value) {
    store.set(&StoreKey::new(key).unwrap(), value.to_string().into()).unwrap();
}

fn get(store: &MemoryStore, key: &str) -> Value {
    serde_json::from_slice(&store.get(&StoreKey::new(key).unwrap()).unwrap().unwrap()).unwrap()
}

/// A group with an array in it.
fn store() -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new());
    let reference = Reference::random(&mut Numbers::new(1), &[6, 4]);
    let grid = Grid::from_regular(&[6, 4], &[3, 4]).unwrap();
    let array =
        ZarrArray::create(store.clone(), "/g/a", &ArraySpec::new(grid, GridForm::Rectilinear, "int32"))
            .unwrap();
    reference.write(&array);
    array.store_metadata().unwrap();
    let group = |metadata: Value| {
        json!({"zarr_format": 3, "node_type": "group", "attributes": {}, "consolidated_metadata":
        {"kind": "inline", "must_understand": false, "metadata": metadata}})
    };
    put(&store, "g/zarr.json", &json!({"zarr_format": 3, "node_type": "group", "attributes": {}}));
    let (g, a) = (get(&store, "g/zarr.json"), get(&store, "g/a/zarr.json"));
    put(&store, "zarr.json", &group(json!({"g": g, "g/a": a})));
    store
}

fn findings(store: &Arc<MemoryStore>) -> Vec<Finding> {
    check(store).unwrap()
}

#[test]
fn a_sound_store_has_nothing_to_say() {
    assert_eq!(findings(&store()), []);
}

#[test]
fn nodes_are_listed_with_their_grids() {
    let nodes = inspect(&store()).unwrap();
    let paths: Vec<_> = nodes
        .iter()
        .map(|node| match node {
            NodeInfo::Group { path, .. } | NodeInfo::Broken { path, .. } => path.clone(),
            NodeInfo::Array(array) => array.path.clone(),
            _ => unreachable!(),
        })
        .collect();
    assert_eq!(paths, ["/", "/g", "/g/a"]);
    let NodeInfo::Array(array) = &nodes[2] else { panic!("{nodes:?}") };
    assert_eq!((array.shape.as_slice(), array.data_type.as_str(), array.stored), (&[6, 4][..], "int32", 2));
    assert_eq!(array.codecs, ["bytes"]);
    assert_eq!((array.axes[0].active, array.axes[0].largest), (2, 3));
}

#[test]
fn a_bad_edge_is_named_with_array_and_axis() {
    let store = store();
    let mut metadata = get(&store, "g/a/zarr.json");
    metadata["chunk_grid"]["configuration"]["chunk_shapes"] = json!([3, [2, 0, 2]]);
    put(&store, "g/a/zarr.json", &metadata);
    let found = findings(&store);
    let fault = found.iter().find(|finding| finding.path == "/g/a" && finding.axis == Some(1)).unwrap();
    assert!(fault.severity == Severity::Fault && fault.message.contains("position 1"), "{fault:?}");
    assert!(found.iter().any(|finding| finding.message.contains("chunk_grid differs")), "{found:?}");
}

#[test]
fn chunks_past_the_end_are_noted() {
    let store = store();
    let mut metadata = get(&store, "g/a/zarr.json");
    metadata["shape"] = json!([3, 4]);
    metadata["chunk_grid"]["configuration"]["chunk_shapes"] = json!([[[3, 2]], 4]);
    put(&store, "g/a/zarr.json", &metadata);
    put(&store, "zarr.json", &json!({"zarr_format": 3, "node_type": "group"}));
    let found = findings(&store);
    let messages: Vec<_> = found.iter().map(|finding| (finding.axis, finding.message.as_str())).collect();
    assert_eq!(
        messages,
        [
            (Some(0), "declares 2 chunks up to 6, 1 of which hold elements up to 3"),
            (Some(0), "stores c/1/0, past the 1 chunks that hold elements: no reader sees it"),
        ]
    );
}

#[test]
fn an_empty_place_is_no_store() {
    let found = findings(&Arc::new(MemoryStore::new()));
    assert!(found[0].message.contains("no array or group"), "{found:?}");
}
