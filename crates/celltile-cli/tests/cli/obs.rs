//! `celltile obs`, and what `info` says of the cell table.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::support::{command, dataset, dataset_with_obs, files, finish, info, python, run_on};

#[test]
fn test_columns_as_csv() {
    let (_folder, path) = dataset_with_obs();
    let out = run_on(&path, "obs {}").ok().out;
    let head: Vec<&str> = out.splitn(8, '\n').collect();
    assert_eq!(
        head[..7],
        [
            "_index,cell type,count,\"a,b\",flag,note",
            "CELL-0,T cell,-1,0.0,True,\"\"",
            "CELL-1,\"B, \"\"naive\"\"\",0,0.25,False,\"line",
            "1\"",
            "CELL-2,T cell,1,0.5,True,\"line",
            "2\"",
            "CELL-3,,,,False,",
        ]
    );
    assert_eq!(run_on(&path, "obs {} --columns flag,count").ok().out.lines().nth(2), Some("CELL-1,False,0"));
    // The index once, though asked for; and alone.
    assert_eq!(
        run_on(&path, "obs {} --columns flag,_index,flag").ok().out.lines().next(),
        Some("_index,flag")
    );
    let out = run_on(&path, "obs {} --columns=").ok().out;
    assert_eq!((out.lines().count(), out.lines().nth(250)), (251, Some("CELL-249")));
    let args = ["obs".as_ref(), path.as_os_str(), "--column".as_ref(), "a,b".as_ref()];
    assert_eq!(finish(command(args)).ok().out.lines().nth(2), Some("CELL-1,0.25"));
}

#[test]
fn test_what_there_is_not_is_named() {
    let (_folder, path) = dataset_with_obs();
    let run = run_on(&path, "obs {} --columns count,cell_type").fails(1, "\"cell_type\"");
    for name in ["cell type", "count", "a,b", "flag", "note"] {
        assert!(run.err.contains(&format!("\"{name}\"")), "{}", run.err);
    }
    assert!(run.out.is_empty());
    run_on(&path, "obs {} -o x.tsv").fails(2, "x.tsv");
    run_on(&path, "obs {} --overwrite").fails(2, "--output");
    let (_folder, bare, _) = dataset();
    run_on(&bare, "obs {}").fails(1, "no cell table");
    assert_eq!(info(&bare)["obs"], json!(null));
}

#[test]
fn test_info_tells_of_every_column() {
    let (_folder, path) = dataset_with_obs();
    let obs = &info(&path)["obs"];
    assert_eq!(obs["index"], json!("_index"));
    let columns = obs["columns"].as_array().unwrap();
    assert_eq!(
        columns[1],
        json!({"name": "cell type", "kind": "category", "arrow_type": "int8", "n_categories": 3,
            "categories": ["T cell", "B, \"naive\"", "unused"], "ordered": true, "missing": 62})
    );
    assert_eq!(columns[4]["kind"], json!("bool"));
    let missing: Vec<_> = columns.iter().map(|column| column["missing"].as_u64().unwrap()).collect();
    assert_eq!(missing, [0, 62, 62, 62, 0, 62]);
    let out = run_on(&path, "info {}").ok().out;
    let line = out.lines().find(|line| line.starts_with("cell type")).unwrap();
    assert!(
        line.contains("category  int8") && line.contains(" 62  3: T cell, ") && line.ends_with("(ordered)")
    );
    // Another writer's dataset does not say how many are missing: they are counted.
    let manifest = path.join("manifest.json");
    let mut text: serde_json::Value = serde_json::from_slice(&std::fs::read(&manifest).unwrap()).unwrap();
    assert!(text["metadata"]["celltile"]["obs"].as_object_mut().unwrap().remove("missing").is_some());
    text.as_object_mut().unwrap().remove("manifest_sha256");
    std::fs::write(&manifest, text.to_string()).unwrap();
    assert_eq!(info(&path)["obs"], *obs);
}

#[test]
fn test_files_appear_whole_and_replace_only_when_asked() {
    let (folder, path) = dataset_with_obs();
    let csv = run_on(&path, "obs {}").ok().out;
    for name in ["x.csv", "x.parquet", "X.PARQUET"] {
        let target = folder.path().join(name);
        let words = format!("obs {} -o {{}}", path.display());
        assert!(run_on(&target, &words).ok().out.is_empty());
        let first = std::fs::read(&target).unwrap();
        run_on(&target, &words).fails(1, "--overwrite");
        run_on(&target, &format!("{words} --overwrite --columns flag")).ok();
        assert!(std::fs::read(&target).unwrap() != first);
        run_on(&target, &format!("{words} --overwrite")).ok();
        assert!(std::fs::read(&target).unwrap() == first);
        assert!(!name.ends_with("csv") || first == csv.as_bytes());
        // A failure leaves what was there.
        run_on(&target, &format!("{words} --overwrite --columns nothing")).fails(1, "nothing");
        assert!(std::fs::read(&target).unwrap() == first);
    }
    let beside: Vec<_> = files(folder.path()).into_keys().filter(|path| !path.starts_with("cells")).collect();
    assert_eq!(beside, [Path::new("X.PARQUET"), Path::new("x.csv"), Path::new("x.parquet")]);
    run_on(&folder.path().join("none/x.csv"), &format!("obs {} -o {{}}", path.display())).ok();
}

const READ: &str = r#"
import sys
import pandas as pd
import pyarrow.parquet as pq

assert pq.read_schema(sys.argv[1]).names == ["_index", "cell type", "count", "a,b", "flag", "note"] or (
    pq.read_schema(sys.argv[1]).names[0] != "cell type"
)
frame = pd.read_parquet(sys.argv[1])
n = 250
assert frame.shape == (n, 5), frame.shape
assert list(frame.index) == [f"CELL-{i}" for i in range(n)] and frame.index.name is None
kind = frame["cell type"]
assert list(kind.cat.categories) == ["T cell", 'B, "naive"', "unused"] and kind.cat.ordered
assert kind.isna().sum() == 62 and str(frame["count"].dtype) == "Int64" and frame["flag"].dtype == bool
text = pd.read_csv(sys.argv[2], index_col=0, keep_default_na=False, na_values={"count": [""], "a,b": [""]})
assert list(text.index) == list(frame.index)
assert (text["a,b"].fillna(-1) == frame["a,b"].fillna(-1)).all()
assert (text["count"].fillna(-9) == frame["count"].fillna(-9)).all()
assert (text["cell type"] == kind.astype(object).where(kind.notna(), "")).all()
"#;

#[test]
fn test_pandas_reads_both_files() {
    let Some(python) = python() else { return };
    let (folder, path) = dataset_with_obs();
    let (parquet, csv) = (folder.path().join("x.parquet"), folder.path().join("x.csv"));
    for target in [&parquet, &csv] {
        run_on(target, &format!("obs {} -o {{}}", path.display())).ok();
    }
    let output = Command::new(python).args(["-c", READ]).args([parquet, csv]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
