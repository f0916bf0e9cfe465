//! `celltile bench`: that it measures, not what.

use serde_json::Value;

use crate::support::{dataset, run_on};

#[test]
fn test_bench_reports_every_figure() {
    let (_folder, path, cells) = dataset();
    let report: Value =
        serde_json::from_str(&run_on(&path, "bench {} --json --rounds 2 --encode").ok().out).unwrap();
    assert_eq!(report["cells"], 250);
    assert_eq!(report["nonzeros"], cells.nnz());
    for key in ["zstd", "decode", "decode_whole_tiles", "decode_all_threads"] {
        for figure in ["cells_per_second", "nonzeros_per_second", "over_zstd", "over_zstd_median"] {
            assert!(report[key][figure].as_f64().is_some_and(|x| x > 0.0), "{key} {figure}");
        }
    }
    assert_eq!(report["over_zstd"], report["decode"]["over_zstd"]);
    assert_eq!(report["encode"].as_array().unwrap().len(), 6);
    assert!(report["gather"]["cells_per_second_one_thread"].as_f64().unwrap() > 0.0);

    let out = run_on(&path, "bench {} --rounds 1").ok().out;
    assert!(out.lines().last().unwrap().starts_with("over_zstd "), "{out}");
}
