//! Every matrix of the real files gives the figures that others computed, or is refused.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::support::{convert, info, real_data, run_on};

/// What `facts.json` says of each matrix, by file and path (or genome).
fn facts(folder: &Path) -> BTreeMap<String, Value> {
    serde_json::from_slice(&std::fs::read(folder.join("facts.json")).unwrap()).unwrap()
}

/// The number after a name in the summary.
fn figure(summary: &str, name: &str) -> u64 {
    let line =
        summary.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} in {summary}"));
    line.trim_start_matches(name).trim().replace(',', "").parse().unwrap()
}

#[test]
fn test_every_matrix_gives_its_figures_or_is_refused() {
    let Some(data) = real_data() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut converted = 0;
    for (key, facts) in facts(&data) {
        // A folder of text files has no matrix inside a file.
        let Some((file, matrix)) = key.split_once(':') else { continue };
        let input = data.join(file);
        // Other kinds of input come with the code that reads them.
        let words = match (file.split('/').next(), input.extension().and_then(|x| x.to_str())) {
            (Some("10x"), _) if matrix == "matrix" => String::new(),
            (Some("10x"), _) => format!("--genome {matrix}"),
            (Some("h5ad"), Some("h5ad")) => format!("--matrix {matrix}"),
            _ => continue,
        };
        // A folder of its own: a refused input leaves what was there before.
        let out = folder.path().join(key.replace('/', "_"));
        let run = convert(&input, &out, &format!("{words} --overwrite --obs-columns= --preset fast"));
        let counts = facts["integral"] == true && facts["min"].as_f64().is_none_or(|min| min >= 0.0);
        if !counts {
            // Old files name it raw.X, and so does the error.
            run.fails(1, matrix.rsplit('/').next().unwrap());
            assert!(!out.join("manifest.json").exists(), "{key}");
            continue;
        }
        let run = run.ok();
        let info = info(&out);
        assert_eq!(info["n_cells"], facts["cells"], "{key}");
        assert_eq!(info["n_genes"], facts["genes"], "{key}");
        assert_eq!(info["nnz"], facts["nonzero"], "{key}");
        assert_eq!(figure(&run.out, "sum of counts") as f64, facts["sum"].as_f64().unwrap(), "{key}");
        run_on(&out, "verify {} --strict").ok();
        converted += 1;
    }
    assert!(converted >= 20, "{converted}");
}

#[test]
fn test_what_the_readme_of_the_files_says_is_refused() {
    let Some(data) = real_data() else { return };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    for (file, message) in [
        ("10x/v2_multiple_genomes.h5", "--genome"),
        ("h5ad/anndata_v0.5.0.h5ad", "X"),
        ("h5ad/anndata_v0.11.4.h5ad", "X"),
        ("h5ad/mini_int64_negative.h5ad", "-"),
        ("h5ad/nan_value.h5ad", "NaN"),
        ("h5ad/truncated.h5ad", "truncated.h5ad"),
    ] {
        let run = convert(&data.join(file), &out, "").fails(1, message);
        assert!(run.err.contains(file.rsplit('/').next().unwrap()), "{}", run.err);
        assert!(!out.join("manifest.json").exists(), "{file}");
    }
}

#[test]
fn test_auto_takes_the_matrix_that_holds_counts() {
    let Some(data) = real_data() else { return };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    for (file, matrix) in [
        ("h5ad/cellxgene_valid.h5ad", "raw/X"),
        ("h5ad/layers_csr_csc_dense.h5ad", "layers/counts"),
        ("h5ad/pbmc3k_raw.h5ad", "X"),
    ] {
        let run = convert(&data.join(file), &out, "--overwrite").ok();
        let line = run.out.lines().find(|line| line.starts_with("matrix")).unwrap();
        assert!(line.trim_start_matches("matrix").trim().starts_with(matrix), "{line}");
    }
}
