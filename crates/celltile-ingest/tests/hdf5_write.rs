//! What h5py makes of the files that the writer writes.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::field_reassign_with_default,
    reason = "a test that panics fails; options are non-exhaustive"
)]

use std::path::Path;
use std::process::Command;

use celltile_ingest::hdf5::{Attr, CHUNK_LEN, Element, Packer, Writer};

/// Runs a script of `tests/python` with the Python that tests may use; says so and does nothing where there is none.
fn python(script: &str, file: &Path) {
    let Some(python) = std::env::var_os("CELLTILE_TEST_PYTHON") else {
        eprintln!("skipped: CELLTILE_TEST_PYTHON is not set");
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python").join(script);
    let output = Command::new(python).arg(script).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn write(file: &Path, level: Option<u32>) -> u64 {
    let writer = Writer::create(file, level).unwrap();
    let names: Vec<String> = (0..5_000).map(|i| format!("column number {i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let attrs = [
        ("text", Attr::Text("é")),
        ("empty text", Attr::Text("")),
        ("texts", Attr::Texts(&["a", "", "ß"])),
        ("no texts", Attr::Texts(&[])),
        ("many texts", Attr::Texts(&names)),
        ("integers", Attr::Integers(&[3, -4_000_000_000])),
        ("true", Attr::Bool(true)),
    ];
    writer.group("/", &attrs).unwrap();
    writer.group("/g", &attrs).unwrap();
    writer.group("/g/deeper", &[]).unwrap();
    for (name, element) in [
        ("int8", Element::Int8),
        ("uint16", Element::UInt16),
        ("int32", Element::Int32),
        ("int64", Element::Int64),
        ("float16", Element::Float16),
        ("float32", Element::Float32),
        ("float64", Element::Float64),
    ] {
        let mut bytes = Vec::new();
        element.extend(&mut bytes, &[0, 1, 100]);
        writer.array(&format!("/g/{name}"), element, &bytes, &attrs).unwrap();
        writer.array(&format!("/g/no {name}"), element, &[], &[]).unwrap();
    }
    writer.array("/g/bool", Element::Bool, &[0, 1, 1], &[]).unwrap();
    writer.scalar("/scalar", Element::Int64, &7_i64.to_le_bytes(), &[]).unwrap();
    writer.texts("/g/texts", &["", "a", "日本"], &attrs).unwrap();
    writer.texts("/g/no texts", &[], &[]).unwrap();
    let many: Vec<String> = (0..100_000).map(|i| format!("AAAC{i}-1")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    writer.texts("/g/deeper/many texts", &many, &[]).unwrap();

    let mut stream = writer.stream("/stream", Element::Int32, &[]).unwrap();
    let mut packer = Packer::new(writer.level());
    let values: Vec<i32> = (0..300_000).collect();
    for chunk in values.chunks(CHUNK_LEN) {
        let mut bytes = Vec::new();
        Element::Int32.extend(&mut bytes, chunk);
        stream.push(packer.pack(&bytes, CHUNK_LEN * 4), chunk.len()).unwrap();
    }
    stream.finish().unwrap();
    assert!(!file.exists());
    writer.finish().unwrap()
}

#[test]
fn test_h5py_reads_what_is_written() {
    let folder = tempfile::tempdir().unwrap();
    for level in [Some(1), Some(9), None] {
        let file = folder.path().join("x.h5");
        let size = write(&file, level);
        assert_eq!(size, std::fs::metadata(&file).unwrap().len());
        python("check_write.py", &file);
        std::fs::remove_file(&file).unwrap();
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn test_bytes_depend_on_nothing_but_the_content() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a.h5"), folder.path().join("another name.h5"));
    write(&a, Some(1));
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    write(&b, Some(1));
    assert!(std::fs::read(a).unwrap() == std::fs::read(b).unwrap());
}

#[test]
fn test_dropped_writer_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.h5");
    std::fs::write(&file, "old").unwrap();
    let writer = Writer::create(&file, None).unwrap();
    writer.array("/a", Element::Int8, &[1], &[]).unwrap();
    drop(writer);
    assert_eq!(std::fs::read(&file).unwrap(), b"old");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn test_create_in_a_missing_folder_names_the_file() {
    let error = Writer::create(Path::new("/nowhere at all/x.h5"), None).unwrap_err();
    assert!(error.to_string().contains("/nowhere at all/x.h5"), "{error}");
}
