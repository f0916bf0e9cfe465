//! Datasets as inputs.

use std::path::Path;
use std::sync::Arc;

use celltile::storage::{LocalStorage, MemoryStorage, Storage};
use celltile_ingest::convert::{ConvertOptions, convert_file};
use celltile_ingest::source::SourceOptions;
use serde_json::{Value, json};

use crate::support::{inputs, obs_of, open, run, triples};

fn make(input: &Path, target: &Path, tile_size: u64) {
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(target));
    let mut options = ConvertOptions::default();
    options.writer.tile_size = tile_size;
    convert_file(input, storage, &SourceOptions::default(), &options).unwrap();
}

/// Tiles of another size: cells, obs, genes and what is known of the source follow.
#[test]
fn a_dataset_is_tiled_again_with_its_tables_and_metadata() {
    let Some(folder) = inputs() else { return };
    let scratch = tempfile::tempdir().unwrap();
    for name in ["b8_raw.h5ad", "d5_mixed.h5", "c22_unused.h5ad", "a11_empty.h5ad", "a10_no_cells_csr.h5ad"] {
        let (first, again) = (scratch.path().join(name), Arc::new(MemoryStorage::new()));
        make(&folder.join(name), &first, 4);
        let before = celltile::Dataset::open(&first).unwrap();
        let (summary, plan) = run(&first, &Value::Null, 1 << 20, &again).unwrap();
        let after = open(&again);
        assert_eq!(summary.format, "deltacells");
        // In the source's order of genes, which both datasets name.
        assert_eq!(triples(&after), triples(&before), "{name}");
        assert_eq!(after.gene_order().unwrap(), before.gene_order().unwrap(), "{name}");
        assert_eq!(after.var_names().unwrap(), before.var_names().unwrap(), "{name}");
        assert_eq!(after.var().unwrap(), before.var().unwrap(), "{name}");
        assert_eq!(obs_of(&after), obs_of(&before), "{name}");
        assert_ne!(after.manifest().tile_size, before.manifest().tile_size);
        let source =
            |dataset: &celltile::Dataset| dataset.manifest().metadata()["celltile"]["source"].clone();
        assert_eq!(source(&after)["options"]["made_from"], source(&before), "{name}");
        assert_eq!(source(&after)["dtype"], source(&before)["dtype"], "{name}");
        assert_eq!(json!(plan.inputs()[0].format), "deltacells");
    }
}

/// E9: a damaged dataset is refused as an input, wherever a byte of a tile has changed.
#[test]
fn e9_a_damaged_dataset_is_no_input() {
    let Some(folder) = inputs() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let first = scratch.path().join("first");
    make(&folder.join("a7_csc.h5ad"), &first, 1000);
    let tile = first.join("tiles/tile_000000.dct");
    let good = std::fs::read(&tile).unwrap();
    let whole = triples(&celltile::Dataset::open(&first).unwrap());
    let mut refused = 0;
    for at in (0..good.len()).step_by(good.len() / 97 + 1).chain(0..64.min(good.len())) {
        let mut damaged = good.clone();
        damaged[at] ^= 0x41;
        std::fs::write(&tile, &damaged).unwrap();
        let output = Arc::new(MemoryStorage::new());
        match run(&first, &Value::Null, 1 << 30, &output) {
            // A byte that nothing depends on may go unseen; what is converted is what was there.
            Ok(_) => assert_eq!(triples(&open(&output)), whole, "byte {at}"),
            Err(error) => {
                assert!(error.to_string().contains("tile"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 90, "{refused}");
    std::fs::write(&tile, &good).unwrap();
    std::fs::write(first.join("manifest.json"), "{").unwrap();
    assert!(run(&first, &Value::Null, 1 << 30, &Arc::new(MemoryStorage::new())).is_err());
}
