//! `celltile simulate`.

use crate::support::{dataset, run_on, simulated};

#[test]
fn test_equal_options_give_equal_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = simulated(folder.path(), 300);
    let first = std::fs::read(&path).unwrap();
    let words = "simulate -o {} --cells 300 --genes 2000 --nonzeros 100 --overwrite";
    run_on(&path, &format!("{words} --threads 1")).ok();
    assert!(std::fs::read(&path).unwrap() == first);
    run_on(&path, &format!("{words} --seed 1")).ok();
    assert!(std::fs::read(&path).unwrap() != first);
}

#[test]
fn test_a_file_is_replaced_only_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.h5ad");
    std::fs::write(&path, "precious").unwrap();
    run_on(&path, "simulate -o {} --cells 10").fails(1, "--overwrite");
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}

#[test]
fn test_impossible_options_are_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.h5ad");
    run_on(&path, "simulate -o {} --genes 0").fails(2, "0 genes");
    run_on(&path, "simulate -o {} --genes 10 --nonzeros 8").fails(2, "8 nonzeros");
    run_on(&path, "simulate -o {} --cells 5000000000").fails(2, "5000000000 cells");
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
}

#[test]
fn test_a_dataset_is_exported_to_a_new_file() {
    let (folder, path, _) = dataset();
    let back = folder.path().join("back.h5ad");
    let words = format!("export {} -o {{}}", path.display());
    let run = run_on(&back, &words).ok();
    assert!(
        run.out.lines().any(|line| line.starts_with("counts as") && line.ends_with("int32")),
        "{}",
        run.out
    );
    let bytes = std::fs::read(&back).unwrap();
    assert!(bytes.starts_with(b"\x89HDF\r\n"));
    run_on(&back, &words).fails(1, "--overwrite");
    run_on(&back, &format!("{words} --overwrite")).ok();
    assert!(std::fs::read(&back).unwrap() == bytes);
}
