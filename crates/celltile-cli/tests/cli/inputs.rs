//! Inputs of other kinds than h5ad, and the way back to them.

use celltile::Dataset;

use crate::support::{convert, run, simulated};

/// Nonzeros of a dataset as cell, name of the gene, count.
fn entries(path: &std::path::Path) -> Vec<(usize, String, i32)> {
    let dataset = Dataset::open(path).unwrap();
    let names = dataset.var_names().unwrap().unwrap().into_names();
    let cells = dataset.rows(0..dataset.n_cells()).unwrap();
    let mut found = Vec::new();
    for (cell, (genes, counts)) in cells.view().unwrap().iter().enumerate() {
        for (&gene, &count) in genes.iter().zip(counts) {
            found.push((cell, names[usize::try_from(gene).unwrap()].clone(), count));
        }
    }
    found.sort();
    found
}

#[test]
fn test_a_10x_folder_goes_out_and_comes_back() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    convert(&simulated(scratch.path(), 120), &path("first"), "").ok();
    let export = |more: &[&str]| {
        let (dataset, folder) = (path("first"), path("folder"));
        let mut args =
            vec!["export", dataset.to_str().unwrap(), "-o", folder.to_str().unwrap(), "--format", "mtx"];
        args.extend(more);
        run(args)
    };
    export(&[]).ok();
    export(&[]).fails(1, "--overwrite");
    export(&["--overwrite", "--gzip", "9"]).ok();
    convert(&path("folder"), &path("second"), "--memory 8MiB").ok();
    assert_eq!(entries(&path("second")), entries(&path("first")));
    // The order of genes is known again, and so the tiles are the same.
    let tile = |name: &str| std::fs::read(path(name).join("tiles/tile_000000.dct")).unwrap();
    assert_eq!(tile("second"), tile("first"));
    // A dataset is an input too.
    convert(&path("second"), &path("third"), "--tile-size 50").ok();
    assert_eq!(entries(&path("third")), entries(&path("first")));
}

#[test]
fn test_where_the_cells_of_a_table_are_is_asked() {
    let scratch = tempfile::tempdir().unwrap();
    let (table, out) = (scratch.path().join("counts.csv"), scratch.path().join("out"));
    std::fs::write(&table, ",gene_a,gene_b\ncell_1,1,0\ncell_2,2,3\ncell_3,0,4\n").unwrap();
    convert(&table, &out, "").fails(1, "--cells rows or --cells columns");
    assert!(!out.exists() || !out.join("manifest.json").exists());
    convert(&table, &out, "--cells rows --obs-names-prefix {source}_").ok();
    let dataset = Dataset::open(&out).unwrap();
    assert_eq!((dataset.n_cells(), dataset.n_genes()), (3, 2));
    let options = dataset.manifest().metadata()["celltile"].to_string();
    assert!(options.contains("\"cells\":\"rows\"") && options.contains("{source}_"), "{options}");
    convert(&table, &out, "--cells columns --overwrite").ok();
    assert_eq!(Dataset::open(&out).unwrap().n_cells(), 2);
}
