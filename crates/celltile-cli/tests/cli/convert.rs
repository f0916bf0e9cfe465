//! `celltile convert` and `export` on simulated cells.

use std::collections::HashMap;

use serde_json::json;

use crate::support::{convert, files, info, run_on, simulated, simulation};

#[test]
fn test_cells_come_back_by_gene_name() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    convert(&simulated(folder.path(), 250), &out, "--tile-size 100").ok();
    assert!(run_on(&out, "verify {} --strict").ok().out.starts_with("sound: 3 tiles"));

    let simulation = simulation(250);
    let cells = simulation.cells(0..250).unwrap();
    let names: Vec<String> = simulation.genes().into_iter().map(|gene| gene.name).collect();
    let mut expected = HashMap::new();
    for (cell, (genes, counts)) in cells.view().unwrap().iter().enumerate() {
        for (&gene, &count) in genes.iter().zip(counts) {
            expected.insert((cell, names[gene as usize].clone()), count);
        }
    }
    let csv = run_on(&out, "rows {} : --format csv").ok().out;
    let mut found = HashMap::new();
    for line in csv.lines().skip(1) {
        let [cell, _, gene, count] = line.split(',').collect::<Vec<_>>().try_into().unwrap();
        found.insert((cell.parse().unwrap(), gene.to_owned()), count.parse().unwrap());
    }
    assert!(found == expected);

    let info = info(&out);
    assert_eq!(
        (&info["n_cells"], &info["n_genes"], &info["nnz"]),
        (&json!(250), &json!(2000), &json!(cells.nnz()))
    );
    assert_eq!(info["has_gene_order"], json!(true));
}

#[test]
fn test_the_export_of_a_dataset_converts_to_the_same_dataset() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let source = simulated(folder.path(), 250);
    convert(&source, &first, "--tile-size 100").ok();
    let back = folder.path().join("back.h5ad");
    let export = |more: &str| run_on(&back, &format!("export {} -o {{}} {more}", first.display()));
    export("").ok();
    export("").fails(1, "--overwrite");
    export("--overwrite --gzip 0").ok();
    convert(&back, &second, "--tile-size 100").ok();
    let (first, second) = (files(&first), files(&second));
    assert_eq!(first.keys().collect::<Vec<_>>(), second.keys().collect::<Vec<_>>());
    for (path, content) in &first {
        // The manifest names the input.
        assert!(path.ends_with("manifest.json") || *content == second[path], "{}", path.display());
    }
}

#[test]
fn test_nothing_depends_on_threads_or_memory() {
    let folder = tempfile::tempdir().unwrap();
    let source = simulated(folder.path(), 250);
    let convert_with = |name: &str, words: &str| {
        let out = folder.path().join(name);
        convert(&source, &out, &format!("--tile-size 64 {words}")).ok();
        files(&out)
    };
    let expected = convert_with("a", "");
    assert!(convert_with("b", "--threads 1") == expected);
    assert!(convert_with("c", "--memory 16MiB --threads 3") == expected);
}

#[test]
fn test_encoding_options_change_bytes_but_no_cell() {
    let folder = tempfile::tempdir().unwrap();
    let source = simulated(folder.path(), 250);
    let mut expected = None;
    for (number, (words, chunks)) in [
        ("--preset small --chunks 5", 5),
        ("--preset balanced --chunk-cells 1", 250),
        ("--preset fast --chunk-cells 100", 3),
        ("--level 3 --chunk-nnz 1000000", 1),
        ("--level 19", 1),
    ]
    .into_iter()
    .enumerate()
    {
        let out = folder.path().join(number.to_string());
        convert(&source, &out, words).ok();
        let info = info(&out);
        assert_eq!(info["n_chunks"], json!(chunks), "{words}");
        let encoder = &info["metadata"]["encoder"];
        let setting = words.split_whitespace().nth(1).unwrap();
        let setting = setting.parse::<i32>().map_or_else(|_| json!(setting), |level| json!(level));
        assert!(encoder["preset"] == setting || encoder["level"] == setting, "{encoder}");
        run_on(&out, "verify {} --strict").ok();
        let cells = run_on(&out, "rows {} : --format mtx").ok().out;
        assert!(*expected.get_or_insert_with(|| cells.clone()) == cells, "{words}");
    }
    for words in [
        "--preset huge",
        "--preset small --level 3",
        "--level 23",
        "--chunks 0",
        "--chunks 2 --chunk-nnz 5",
        "--tile-size 0",
    ] {
        convert(&source, &folder.path().join("x"), words).fails(2, "error:");
    }
    assert!(!folder.path().join("x").exists());
}

#[test]
fn test_a_dataset_is_replaced_only_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let source = simulated(folder.path(), 40);
    convert(&source, &out, "").ok();
    let before = files(&out);
    convert(&source, &out, "").fails(1, "--overwrite");
    assert!(files(&out) == before);
    convert(&source, &out, "--overwrite --tile-size 10").ok();
    assert_eq!(info(&out)["n_tiles"], json!(4));
    run_on(&out, "verify {} --strict").ok();

    let foreign = folder.path().join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("thesis.txt"), "precious").unwrap();
    for words in ["", "--overwrite"] {
        convert(&source, &foreign, words).fails(1, "foreign");
    }
    assert_eq!(files(&foreign).len(), 1);
}

#[test]
fn test_gene_order_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let source = simulated(folder.path(), 100);
    convert(&source, &one, "").ok();
    run_on(&source, "simulate -o {} --cells 100 --genes 2000 --nonzeros 100 --overwrite --seed 0").ok();
    convert(&source, &two, &format!("--gene-order-from {}", one.display())).ok();
    let order = |dataset: &std::path::Path| std::fs::read(dataset.join("var_names.txt")).unwrap();
    assert!(order(&one) == order(&two));
    convert(&source, &two, "--overwrite --gene-order-from nowhere").fails(1, "nowhere");
}

#[test]
fn test_progress_goes_to_standard_error_and_the_summary_to_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    let source = simulated(folder.path(), 100);
    let run = convert(&source, &folder.path().join("out"), "--progress none").ok();
    assert!(run.err.is_empty(), "{}", run.err);
    for line in ["cells", "genes", "nonzeros", "tiles", "ratio", "time"] {
        assert!(run.out.lines().any(|text| text.starts_with(line)), "{line} not in {}", run.out);
    }
    let run = convert(&source, &folder.path().join("bar"), "--progress bar").ok();
    assert!(!run.out.contains("cells/s  "), "{}", run.out);
}

#[test]
fn test_inputs_that_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let text = folder.path().join("text.h5ad");
    std::fs::write(&text, "not HDF5").unwrap();
    for path in [&text, folder.path(), &folder.path().join("missing.h5ad")] {
        convert(path, &out, "").fails(1, path.file_name().unwrap().to_str().unwrap());
        assert!(!out.join("manifest.json").exists());
    }
    let source = simulated(folder.path(), 10);
    convert(&source, &out, "--matrix layers/nothing").fails(1, "layers/nothing");
    convert(&source, &out, "--obs-columns nothing").fails(1, "nothing");
    convert(&source, &out, "--memory lots").fails(2, "lots");
    assert!(!out.join("manifest.json").exists());
}
