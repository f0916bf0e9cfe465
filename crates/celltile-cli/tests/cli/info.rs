//! `celltile info`.

use serde_json::{Value, json};

use crate::support::{dataset, run_on};

#[test]
fn test_info_as_table() {
    let (_folder, path, cells) = dataset();
    let out = run_on(&path, "info {}").ok().out;
    let line = |name: &str| {
        let found = out.lines().find(|line| line.starts_with(name));
        found.unwrap_or_else(|| panic!("no {name} in {out}")).to_owned()
    };
    assert!(line("cells").ends_with(" 250"));
    assert!(line("genes").ends_with(" 2,000"));
    let grouped = format!("{},{:03}", cells.nnz() / 1000, cells.nnz() % 1000);
    assert!(line("nonzeros").contains(&grouped));
    assert!(line("tiles ").contains("3 of 100 cells, up to 7 tile chunks"));
    assert!(line("written by").contains(&format!("celltile {}, preset balanced", env!("CARGO_PKG_VERSION"))));
    assert!(line("with").contains("var_names, tile checksums"));
}

#[test]
fn test_info_as_json() {
    let (_folder, path, cells) = dataset();
    let info: Value = serde_json::from_str(&run_on(&path, "info {} --json").ok().out).unwrap();
    assert_eq!(info["n_cells"], json!(250));
    assert_eq!(info["nnz"], json!(cells.nnz()));
    assert_eq!(info["n_tiles"], json!(3));
    assert_eq!(info["has_var_names"], json!(true));
    assert_eq!(info["has_obs"], json!(false));
    let size: u64 =
        std::fs::read_dir(path.join("tiles")).unwrap().map(|x| x.unwrap().metadata().unwrap().len()).sum();
    assert_eq!(info["tile_bytes"], json!(size));
}
