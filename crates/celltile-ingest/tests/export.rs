//! A dataset and the h5ad file that it becomes.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::field_reassign_with_default,
    reason = "a test that panics fails; options are non-exhaustive"
)]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use celltile::genes::{GeneOrder, VarNames};
use celltile::storage::LocalStorage;
use celltile::{Csr, Dataset, DatasetWriter, WriterOptions};
use celltile_ingest::export::{H5adOptions, MtxOptions, export_h5ad, export_mtx};
use celltile_ingest::matrix::{CellBlock, ReadOptions};
use celltile_ingest::source::{self, SourceOptions};

const GENES: usize = 300;

/// Cells in the dataset's order of genes: gene `j` of the dataset is gene `(7 j + 3) mod 300` of the source.
fn order() -> Vec<i32> {
    (0..GENES).map(|j| i32::try_from((7 * j + 3) % GENES).unwrap()).collect()
}

/// The count of a cell in the source's gene: the script computes the same.
fn count(cell: usize, gene: usize) -> i32 {
    match (cell * 31 + gene * 17) % 11 {
        0 => i32::try_from(cell * gene % 70_000 + 1).unwrap(),
        _ => 0,
    }
}

fn dataset(folder: &Path, cells: usize, dtype: Option<&str>) -> Dataset {
    let mut options = WriterOptions::default();
    options.tile_size = 64;
    let storage = Arc::new(LocalStorage::new(folder));
    let mut writer = DatasetWriter::create(storage, GENES as u64, &options).unwrap();
    let mut csr = Csr::new();
    for cell in 0..cells {
        for (j, &gene) in order().iter().enumerate() {
            let count = count(cell, usize::try_from(gene).unwrap());
            if count > 0 && cell % 5 != 2 {
                csr.genes.push(i32::try_from(j).unwrap());
                csr.counts.push(count);
            }
        }
        csr.indptr.push(i64::try_from(csr.genes.len()).unwrap());
    }
    writer.push(csr.view().unwrap()).unwrap();
    writer.set_gene_order(&GeneOrder::new(order()).unwrap()).unwrap();
    let names = order().iter().map(|gene| format!("gene {gene}")).collect();
    writer.set_var_names(&VarNames::new(names).unwrap()).unwrap();
    if let Some(dtype) = dtype {
        let parts = serde_json::json!([{"path": "obsm/X_pca", "shape": [cells, 50], "what": "array"}]);
        let source = serde_json::json!({"source": {"dtype": dtype, "not_carried": parts}});
        writer.metadata_mut().insert("celltile".into(), source);
    }
    writer.finish().unwrap();
    Dataset::open(folder).unwrap()
}

fn check(file: &Path, cells: usize, dtype: &str) {
    let Some(python) = std::env::var_os("CELLTILE_TEST_PYTHON") else {
        eprintln!("skipped: CELLTILE_TEST_PYTHON is not set");
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/check_export.py");
    let output =
        Command::new(python).arg(script).arg(file).arg(cells.to_string()).arg(dtype).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn test_export_restores_order_and_dtype() {
    let folder = tempfile::tempdir().unwrap();
    // uint8 does not hold the counts, so that int32 takes its place; SciPy knows no sparse float16.
    for (dtype, expected) in [
        (None, "int32"),
        (Some("float32"), "float32"),
        (Some("int64"), "int64"),
        (Some("uint8"), "int32"),
        (Some("float16"), "float32"),
    ] {
        let path = folder.path().join(format!("{dtype:?}"));
        let dataset = dataset(&path, 200, dtype);
        let file = path.join("x.h5ad");
        for level in [Some(1), None] {
            let mut options = H5adOptions::default();
            options.level = level;
            let summary = export_h5ad(&dataset, &file, &options).unwrap();
            assert_eq!((summary.cells, summary.genes, summary.dtype), (200, 300, expected));
            assert_eq!(summary.nonzeros, dataset.manifest().nnz());
            assert_eq!(summary.not_carried.len(), usize::from(dtype.is_some()));
            assert!(summary.source_order);
            check(&file, 200, expected);
        }
    }
}

#[test]
fn test_export_of_no_cells() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = dataset(&folder.path().join("d"), 0, None);
    let file = folder.path().join("x.h5ad");
    export_h5ad(&dataset, &file, &H5adOptions::default()).unwrap();
    check(&file, 0, "int32");
}

#[test]
fn test_two_billion_genes_without_names_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d");
    DatasetWriter::create_at(&path, 1 << 31, &WriterOptions::default()).unwrap().finish().unwrap();
    let file = folder.path().join("x.h5ad");
    let error =
        export_h5ad(&Dataset::open(&path).unwrap(), &file, &H5adOptions::default()).unwrap_err().to_string();
    assert!(error.contains("2147483648 without names"), "{error}");
    assert!(!file.exists());
}

#[test]
fn test_cancelled_export_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = dataset(&folder.path().join("d"), 10, None);
    let cancel = std::sync::atomic::AtomicBool::new(true);
    let mut options = H5adOptions::default();
    options.cancel = Some(&cancel);
    let out = folder.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let error = export_h5ad(&dataset, &out.join("x.h5ad"), &options).unwrap_err();
    assert!(matches!(error, celltile_ingest::Error::Cancelled), "{error}");
    assert_eq!(std::fs::read_dir(out).unwrap().count(), 0);
}

/// A folder of 10x v3 reads back as what it was: with this crate, and with SciPy.
#[test]
fn a_10x_folder_reads_back_equal() {
    let scratch = tempfile::tempdir().unwrap();
    for cells in [0, 1, 333] {
        let dataset = dataset(&scratch.path().join(format!("dataset-{cells}")), cells, Some("uint16"));
        let folder = scratch.path().join(format!("folder-{cells}"));
        let summary = export_mtx(&dataset, &folder, &MtxOptions::default()).unwrap();
        assert!(summary.source_order);
        let mut names: Vec<_> =
            std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["barcodes.tsv.gz", "features.tsv.gz", "matrix.mtx.gz"]);

        let source = source::open(&folder, &SourceOptions::default()).unwrap();
        assert_eq!((source.info().shape.cells, source.info().shape.genes), (cells as u64, GENES as u64));
        assert_eq!(source.gene_names().get(3), Some("gene 3"));
        let mut blocks = source.cells(0..cells as u64, &ReadOptions::default()).unwrap();
        let (mut block, mut seen) = (CellBlock::default(), 0);
        while blocks.next_block(&mut block).unwrap() {
            for at in 0..block.cells() {
                let (genes, counts) = block.cell(at).unwrap();
                let expected: Vec<(u32, u32)> = (0..GENES)
                    .filter(|&gene| seen % 5 != 2 && count(seen, gene) > 0)
                    .map(|gene| (u32::try_from(gene).unwrap(), count(seen, gene).unsigned_abs()))
                    .collect();
                assert_eq!(genes.iter().copied().zip(counts.iter().copied()).collect::<Vec<_>>(), expected);
                seen += 1;
            }
        }
        assert_eq!(seen, cells);

        let again = export_mtx(&dataset, &folder, &MtxOptions::default()).unwrap_err().to_string();
        assert!(again.contains("--overwrite"), "{again}");
        let mut options = MtxOptions::default();
        options.overwrite = true;
        export_mtx(&dataset, &folder, &options).unwrap();
        let Some(python) = std::env::var_os("CELLTILE_TEST_PYTHON") else {
            eprintln!("skipped: CELLTILE_TEST_PYTHON is not set");
            continue;
        };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/check_mtx.py");
        let status = Command::new(python).arg(script).arg(&folder).arg(cells.to_string()).status().unwrap();
        assert!(status.success());
    }
}

#[test]
fn names_that_no_list_can_hold_are_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let storage = Arc::new(LocalStorage::new(scratch.path().join("dataset")));
    let mut writer = DatasetWriter::create(storage, 1, &WriterOptions::default()).unwrap();
    writer.set_var_names(&VarNames::new(vec!["a\tb".into()]).unwrap()).unwrap();
    writer.finish().unwrap();
    let dataset = Dataset::open(scratch.path().join("dataset")).unwrap();
    let folder = scratch.path().join("folder");
    let said = export_mtx(&dataset, &folder, &MtxOptions::default()).unwrap_err().to_string();
    assert!(said.contains("features.tsv.gz") && said.contains("line 1"), "{said}");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}
