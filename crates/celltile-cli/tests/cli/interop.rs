//! What anndata makes of what comes back.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{convert, interop_pythons, python, real_data, run_on, simulated};

/// Files and what came back of them, compared by one Python at the end: its start takes longer than most comparisons.
struct Pairs {
    folder: TempDir,
    list: String,
}

impl Pairs {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), list: String::new() }
    }

    /// Converts a matrix of a file and exports it again.
    fn add(&mut self, source: &Path, matrix: &str, words: &str) {
        let number = self.list.lines().count();
        let (out, back) = (self.folder.path().join("out"), self.folder.path().join(format!("{number}.h5ad")));
        convert(source, &out, &format!("{words} --overwrite --tile-size 1000")).ok();
        run_on(&back, &format!("export {} -o {{}}", out.display())).ok();
        self.list.push_str(&format!("{}\t{}\t{matrix}\n", source.display(), back.display()));
    }

    fn compare(&self, python: &Path) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/compare_h5ad.py");
        let list = self.folder.path().join("pairs");
        std::fs::write(&list, &self.list).unwrap();
        let output = Command::new(python).arg(script).arg("--pairs").arg(list).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {text}", python.display());
        eprintln!("{} files came back equal, says {}", self.list.lines().count(), python.display());
    }
}

#[test]
fn interop_simulated_cells_come_back_equal() {
    let folder = tempfile::tempdir().unwrap();
    let mut pairs = Pairs::new();
    pairs.add(&simulated(folder.path(), 2500), "X", "");
    for python in interop_pythons() {
        pairs.compare(&python);
    }
}

/// Every matrix of counts in the real h5ad files, with the obs and the var that belong to it.
#[test]
fn interop_real_counts_come_back_equal() {
    let Some(data) = real_data() else { return };
    let pythons = interop_pythons();
    if pythons.is_empty() {
        return;
    }
    let facts: Value = serde_json::from_slice(&std::fs::read(data.join("facts.json")).unwrap()).unwrap();
    let mut pairs = Pairs::new();
    for (key, facts) in facts.as_object().unwrap() {
        let Some((file, matrix)) = key.split_once(':').filter(|(file, _)| file.ends_with(".h5ad")) else {
            continue;
        };
        if facts["integral"] == true && facts["min"].as_f64().is_none_or(|min| min >= 0.0) {
            pairs.add(&data.join(file), matrix, &format!("--preset fast --matrix {matrix}"));
        }
    }
    for python in pythons {
        pairs.compare(&python);
    }
}

/// Frames that pandas makes, of every dtype that anndata writes.
#[test]
fn interop_frames_of_every_dtype_come_back_equal() {
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/dtypes.py");
    for (number, python) in interop_pythons().iter().enumerate() {
        let made = folder.path().join(number.to_string());
        std::fs::create_dir(&made).unwrap();
        let output = Command::new(python).arg(&script).arg(&made).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut pairs = Pairs::new();
        for entry in std::fs::read_dir(&made).unwrap() {
            let source = entry.unwrap().path();
            let folded = source.file_stem().is_some_and(|name| name == "folded");
            pairs.add(&source, "X", if folded { "--max-categories 10" } else { "" });
        }
        pairs.compare(python);
    }
}

/// What the specification says of a dataset's files, recomputed without celltile; and its tables, read by pandas and pyarrow.
#[test]
fn interop_files_are_what_the_specification_says() {
    let (Some(python), Some(data)) = (python(), real_data()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let run = |script: PathBuf, args: &[&std::ffi::OsStr]| {
        let output = Command::new(&python).arg(&script).args(args).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{} {args:?}: {text}", script.display());
    };
    for (file, matrix, size) in [
        ("wu2020", "X", 7),
        ("pbmc3k_raw", "X", 1000),
        ("cellxgene_valid", "raw/X", 10),
        ("layers_csr_csc_dense", "layers/counts", 9),
        ("anndata_v0.7.0", "raw/X", 10),
        ("explicit_zeros", "X", 100),
        ("mini_v0.6.22", "X", 100),
    ] {
        let source = data.join(format!("h5ad/{file}.h5ad"));
        convert(&source, &out, &format!("--matrix {matrix} --overwrite --preset fast --tile-size {size}"))
            .ok();
        run(root.join("../celltile/tests/python/check_obs.py"), &[out.as_os_str()]);
        let words = [out.as_os_str(), source.as_os_str(), matrix.as_ref()];
        run(root.join("tests/python/check_dataset.py"), &words);
    }
}
