//! What other readers say: pandas and pyarrow, where a Python has them (`CELLTILE_TEST_PYTHON`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bytes::Bytes;
use celltile::genes::var_table::{from_parquet, to_parquet};

use crate::tables::{every_kind, wide, written_to};

/// The Python to use, or a message that there is none.
fn python() -> Option<PathBuf> {
    let python = std::env::var_os("CELLTILE_TEST_PYTHON").map(PathBuf::from);
    if python.is_none() {
        println!("skipped: CELLTILE_TEST_PYTHON names no Python with pandas and pyarrow");
    }
    python
}

fn run(python: &Path, script: &str, arguments: &[&Path]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python").join(script);
    let output = Command::new(python).arg(script).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn test_pyarrow_finds_the_obs_of_the_specification() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    for (number, (rows, tile_size, per_file)) in
        [(23, 5, 2), (700, 300, 1), (0, 5, 1)].into_iter().enumerate()
    {
        let root = folder.path().join(number.to_string());
        written_to(&root, &every_kind(rows), tile_size, per_file);
        println!("{}", run(&python, "check_obs.py", &[&root]));
    }
    let root = folder.path().join("wide");
    written_to(&root, &wide(5000, 50), 1000, 3);
    println!("{}", run(&python, "check_obs.py", &[&root]));
}

#[test]
fn test_pandas_frames_come_back_from_var_parquet() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    run(&python, "check_var.py", &[Path::new("write"), folder.path()]);
    for entry in fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let table = from_parquet(&Bytes::from(fs::read(&path).unwrap()), &name).unwrap();
        let ours = path.with_file_name(name.replace("foreign-", "ours-"));
        fs::write(ours, to_parquet(&table).unwrap()).unwrap();
    }
    println!("{}", run(&python, "check_var.py", &[Path::new("read"), folder.path()]));
}
