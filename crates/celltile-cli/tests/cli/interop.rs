//! What anndata makes of what comes back.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{convert, python, real_data, run_on, simulated};

fn compare(python: &Path, source: &Path, back: &Path, more: &[&str]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/compare_h5ad.py");
    let output = Command::new(python).arg(script).args([source, back]).args(more).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {text}", source.display());
}

/// Converts and exports again.
fn there_and_back(source: &Path, folder: &Path, words: &str) -> PathBuf {
    let (out, back) = (folder.join("out"), folder.join("back.h5ad"));
    convert(source, &out, &format!("{words} --overwrite --tile-size 1000")).ok();
    run_on(&back, &format!("export {} -o {{}} --overwrite", out.display())).ok();
    back
}

#[test]
fn interop_simulated_cells_come_back_equal() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let source = simulated(folder.path(), 2500);
    let back = there_and_back(&source, folder.path(), "");
    compare(&python, &source, &back, &[]);
}

#[test]
fn interop_real_counts_come_back_equal() {
    let (Some(python), Some(data)) = (python(), real_data()) else { return };
    let folder = tempfile::tempdir().unwrap();
    for (file, matrix) in [
        ("pbmc3k_raw", "X"),
        ("wu2020", "X"),
        ("cellxgene_valid", "raw/X"),
        ("explicit_zeros", "X"),
        ("layers_csr_csc_dense", "layers/counts"),
        ("layers_csr_csc_dense", "layers/csc_counts"),
        ("layers_csr_csc_dense", "layers/dense_counts"),
        ("anndata_v0.7.0", "raw/X"),
        ("mini_uint16", "X"),
        ("mini_uint16", "layers/transpose"),
        ("dup_cell", "X"),
    ] {
        let source = data.join(format!("h5ad/{file}.h5ad"));
        let back = there_and_back(&source, folder.path(), &format!("--matrix {matrix}"));
        compare(&python, &source, &back, &["--matrix", matrix, "--counts-only"]);
    }
}
