//! Conversions as a whole.

use std::sync::Arc;

use celltile::Dataset;
use celltile::storage::{MemoryStorage, Storage};
use celltile_ingest::Error;
use celltile_ingest::convert::{ConvertOptions, Stages, convert};
use celltile_ingest::plan::Plan;
use celltile_ingest::source::{self, SourceOptions};
use serde_json::Value;

use crate::support::{contents, inputs, open, run};

#[test]
fn gene_order_falls_by_total_and_can_be_taken_over() {
    let Some(folder) = inputs() else { return };
    let output = Arc::new(MemoryStorage::new());
    run(&folder.join("a8_rows.h5ad"), &Value::Null, 1 << 30, &output).unwrap();
    let first = open(&output);
    let cells = first.rows(0..first.n_cells()).unwrap();
    let mut totals = vec![0_i64; 10];
    for (gene, count) in cells.genes.iter().zip(&cells.counts) {
        totals[usize::try_from(*gene).unwrap()] += i64::from(*count);
    }
    assert!(totals.is_sorted_by(|a, b| a >= b), "{totals:?}");

    // Another matrix of the same genes, in the first one's order.
    let from = celltile_ingest::convert::GeneOrderFrom::dataset(&first, "first").unwrap();
    let mut convert_options = ConvertOptions { gene_order_from: Some(from), ..ConvertOptions::default() };
    convert_options.writer.tile_size = 3;
    let convert_to = |name: &str, options: &ConvertOptions| -> Result<Dataset, Error> {
        let target = Arc::new(MemoryStorage::new());
        let source = SourceOptions::default();
        let plan = Plan::of_source(source::open(folder.join(name), &source)?, &source, options)?;
        let storage: Arc<dyn Storage> = target.clone();
        convert(&plan, storage, options)?;
        Ok(open(&target))
    };
    let second = convert_to("a8_odd.h5ad", &convert_options).unwrap();
    assert_eq!(second.var_names().unwrap(), first.var_names().unwrap());
    assert_eq!(second.gene_order().unwrap(), first.gene_order().unwrap());
    let error = convert_to("a10_one_gene.h5ad", &convert_options).unwrap_err().to_string();
    assert!(error.contains("first") && error.contains("are missing from the input"), "{error}");
}

#[test]
fn a_conversion_can_be_stopped_and_leaves_no_dataset() {
    let Some(folder) = inputs() else { return };
    let output: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let options = ConvertOptions::default();
    let source = SourceOptions::default();
    let opened = source::open(folder.join("a7_csc.h5ad"), &source).unwrap();
    let plan = Plan::of_source(opened, &source, &options).unwrap();
    options.read.cancel.store(true, std::sync::atomic::Ordering::Relaxed);
    let error = convert(&plan, Arc::clone(&output), &options).unwrap_err();
    assert!(matches!(error, Error::Cancelled));
    assert!(Dataset::open_storage(output, &celltile::OpenOptions::default()).is_err());
}

/// What is stored gene by gene is gone through once, not by everyone who encodes some of its cells.
#[test]
fn cells_of_inputs_that_are_stored_by_gene_are_put_aside_before_they_are_encoded() {
    let Some(folder) = inputs() else { return };
    for (name, memory, aside) in [
        ("a7_csc.h5ad", 1 << 30, true),
        ("loom_large.loom", 1 << 30, true),
        ("a8_tall.h5ad", 1 << 20, true),
        ("a8_tall.h5ad", 1 << 30, false),
        ("a8_odd.h5ad", 1 << 20, false),
    ] {
        let source = SourceOptions::default();
        let mut options = ConvertOptions { memory, ..ConvertOptions::default() };
        options.writer.tile_size = 7;
        let plan = || {
            let opened = source::open(folder.join(name), &source).unwrap();
            Plan::of_source(opened, &source, &options).unwrap()
        };
        assert_eq!(plan().inputs()[0].by_gene, aside, "{name} in {memory}");
        let whole = Arc::new(MemoryStorage::new());
        let storage: Arc<dyn Storage> = whole.clone();
        convert(&plan(), storage, &options).unwrap();
        let made = Arc::new(MemoryStorage::new());
        let storage: Arc<dyn Storage> = made.clone();
        Stages::plan(&plan(), &storage, &options).unwrap();
        let stages = || Stages::open(Arc::clone(&storage), &source, &options).unwrap();
        assert_eq!(stages().needs_scatter(), aside, "{name} in {memory}");
        stages().count(0..1).unwrap();
        if aside {
            let said = stages().encode(0..1).unwrap_err().to_string();
            assert!(said.contains("scatter --inputs 0:1"), "{said}");
            stages().scatter(0..1).unwrap();
        }
        stages().encode(0..2).unwrap();
        stages().encode(2..plan().n_tiles()).unwrap();
        stages().finish().unwrap();
        assert!(contents(&made) == contents(&whole), "{name} in {memory}");
    }
}
