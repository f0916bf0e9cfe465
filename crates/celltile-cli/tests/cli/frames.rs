//! Cell tables in every encoding, written with raw h5py, and what becomes of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{command, convert, files, finish, info, python, run_on};

/// What a line or a column has; none where nothing stands.
type Cells = Vec<Option<String>>;

/// Lines of a CSV file as cells; what is missing is none, a quoted empty text is not.
fn csv(text: &str) -> Vec<Cells> {
    let (mut rows, mut row, mut cell, mut quoted, mut any) =
        (Vec::new(), Vec::new(), String::new(), false, false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => cell.extend(chars.next()),
            '"' => (quoted, any) = (!quoted, true),
            ',' | '\n' if !quoted => {
                let text = std::mem::take(&mut cell);
                row.push((any || !text.is_empty()).then_some(text));
                any = false;
                if c == '\n' {
                    rows.push(std::mem::take(&mut row));
                }
            }
            c => cell.push(c),
        }
    }
    rows
}

/// The columns of a dataset by name, as `obs` prints them; the index first.
fn columns(dataset: &Path) -> (Cells, BTreeMap<String, Cells>) {
    let rows = csv(&run_on(dataset, "obs {}").ok().out);
    let column = |at: usize| rows[1..].iter().map(|row| row[at].clone()).collect::<Vec<_>>();
    let name = |at: usize| rows[0][at].clone().unwrap_or_default();
    (column(0), (1..rows[0].len()).map(|at| (name(at), column(at))).collect())
}

fn check(file: &Value, dataset: &Path) {
    let name = file["file"].as_str().unwrap();
    let (index, found) = columns(dataset);
    let strings = |list: &Value| -> Cells {
        list.as_array().unwrap().iter().map(|value| value.as_str().map(str::to_owned)).collect()
    };
    match &file["index"] {
        Value::Null => assert_eq!(index, (0..6).map(|i| Some(format!("c{i}"))).collect::<Vec<_>>(), "{name}"),
        names => assert_eq!(index, strings(names), "{name}"),
    }
    let expected = file["columns"].as_object().unwrap();
    assert!(found.keys().eq(expected.keys().collect::<BTreeSet<_>>()), "{name}");
    let info = info(dataset);
    for column in &info["obs"]["columns"].as_array().unwrap()[1..] {
        let column_name = column["name"].as_str().unwrap();
        let (what, expected) = (format!("{name}: {column_name:?}"), &expected[column_name]);
        let values = strings(&expected["values"]);
        assert_eq!(found[column_name], values, "{what}");
        assert_eq!(column["missing"], values.iter().filter(|value| value.is_none()).count(), "{what}");
        for key in ["kind", "arrow_type"] {
            assert_eq!(column[key], expected[key], "{what}");
        }
        if expected["ordered"].is_null() {
            let mut sorted = strings(&column["categories"]);
            sorted.sort();
            assert_eq!(sorted, strings(&expected["categories"]), "{what}");
        } else {
            assert_eq!(column["categories"], expected["categories"], "{what}");
            assert_eq!(column["ordered"], expected["ordered"], "{what}");
        }
    }
}

#[test]
fn test_tables_of_every_encoding() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/frames.py");
    assert!(Command::new(&python).arg(script).arg(folder.path()).status().unwrap().success());
    let files: Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("frames.json")).unwrap()).unwrap();
    let (out, again) = (folder.path().join("out"), folder.path().join("again"));
    for file in files.as_array().unwrap() {
        let name = file["file"].as_str().unwrap();
        let source = folder.path().join(name);
        let more = file["convert"].as_array().into_iter().flatten().map(|word| word.as_str().unwrap());
        let args = [
            "convert",
            source.to_str().unwrap(),
            "-o",
            out.to_str().unwrap(),
            "--overwrite",
            "--tile-size",
            "4",
        ];
        let run = finish(command(args.into_iter().chain(more)));
        if let Some(words) = file["error"].as_array() {
            let run = run.fails(1, name);
            for word in words {
                assert!(run.err.contains(word.as_str().unwrap()), "{name}: {word}: {}", run.err);
            }
            continue;
        }
        run.ok();
        run_on(&out, "verify {} --strict").ok();
        check(file, &out);
        // Whatever the encoding was, the export is the same table.
        let back = folder.path().join("back.h5ad");
        run_on(&back, &format!("export {} -o {{}} --overwrite", out.display())).ok();
        convert(&back, &again, "--overwrite --tile-size 4").ok();
        check(file, &again);
    }
}

#[test]
fn test_many_categories_become_strings_when_asked() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/frames.py");
    assert!(Command::new(&python).arg(script).arg(folder.path()).status().unwrap().success());
    let out = folder.path().join("out");
    let source = folder.path().join("categories.h5ad");
    let words = "--obs-columns";
    let kind = |limit: &str| {
        let args = ["convert", source.to_str().unwrap(), "-o", out.to_str().unwrap(), "--overwrite", words];
        finish(command(args.into_iter().chain(["129 labels,20001 labels", "--max-categories", limit]))).ok();
        let columns = info(&out)["obs"]["columns"].clone();
        [1_usize, 2].map(|at| columns[at]["kind"].as_str().unwrap().to_owned())
    };
    assert_eq!(kind("128"), ["string", "string"]);
    assert_eq!(kind("20001"), ["category", "category"]);
    assert!(files(&out).keys().any(|path| path.ends_with("obs_0000.parquet")));
}
