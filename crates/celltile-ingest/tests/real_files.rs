//! Files that other tools wrote, against figures computed with scipy and anndata. They are found through
//! `CELLTILE_TEST_DATA`; without it these tests do nothing.

use std::path::{Path, PathBuf};

use celltile_ingest::Error;
use celltile_ingest::matrix::{CellBlock, ReadOptions};
use celltile_ingest::source::{self, MatrixChoice, Source, SourceOptions};
use serde_json::Value;

fn data() -> Option<PathBuf> {
    let folder = std::env::var_os("CELLTILE_TEST_DATA").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("skipped: CELLTILE_TEST_DATA is not set");
    }
    folder
}

/// Entries, nonzeros, sum, largest count.
#[derive(Debug, PartialEq, Eq, Default)]
struct Totals {
    cells: u64,
    stored: u64,
    nonzero: u64,
    sum: u64,
    max: u64,
}

fn totals(source: &dyn Source, options: &ReadOptions) -> Result<Totals, Error> {
    let mut totals = Totals::default();
    let mut blocks = source.cells(0..source.info().shape.cells, options)?;
    let mut block = CellBlock::default();
    while blocks.next_block(&mut block)? {
        assert_eq!(block.first_cell, totals.cells);
        assert_eq!(block.indptr.last(), Some(&block.genes.len()));
        assert_eq!(block.genes.len(), block.counts.len());
        assert!(block.genes.iter().all(|&gene| u64::from(gene) < source.info().shape.genes));
        totals.cells += block.cells() as u64;
        totals.stored += block.counts.len() as u64;
        totals.nonzero += block.counts.iter().filter(|&&count| count > 0).count() as u64;
        totals.sum += block.counts.iter().map(|&count| u64::from(count)).sum::<u64>();
        totals.max = totals.max.max(block.counts.iter().copied().max().unwrap_or(0).into());
    }
    Ok(totals)
}

fn open(folder: &Path, name: &str, matrix: &str) -> Result<Box<dyn Source>, Error> {
    let mut options = SourceOptions::default();
    if name.starts_with("10x/") {
        options.genome = (matrix != "matrix").then(|| matrix.to_owned());
    } else if !name.starts_with("mtx/") {
        options.matrix = MatrixChoice::Path(matrix.to_owned());
    }
    source::open(folder.join(name), &options)
}

#[test]
fn matrices_have_the_figures_that_scipy_finds() {
    let Some(folder) = data() else { return };
    let facts: Value = serde_json::from_slice(&std::fs::read(folder.join("facts.json")).unwrap()).unwrap();
    let mut checked = 0;
    for (key, fact) in facts.as_object().unwrap() {
        // What has no matrix of a name is a folder with one.
        let (name, matrix) = key.split_once(':').unwrap_or((key, "matrix"));
        if name.contains("zarr") {
            continue;
        }
        let source = open(&folder, name, matrix).unwrap_or_else(|error| panic!("{key}: {error}"));
        let info = source.info();
        assert_eq!(Some(info.shape.cells), fact["cells"].as_u64(), "{key}");
        assert_eq!(Some(info.shape.genes), fact["genes"].as_u64(), "{key}");
        if let Some(dtype) = fact["dtype"].as_str() {
            assert_eq!(info.dtype, dtype, "{key}");
        }
        assert_eq!(source.gene_names().len() as u64, info.shape.genes, "{key}");
        // A small limit cuts the matrix into many blocks and buckets.
        for memory in [1 << 29, 8 << 20] {
            let options = ReadOptions { memory, ..ReadOptions::default() };
            let found = totals(source.as_ref(), &options);
            if fact["integral"] == false || fact["min"].as_f64().is_some_and(|min| min < 0.0) {
                assert!(matches!(found, Err(Error::Value(_))), "{key}: {found:?}");
                continue;
            }
            let found = found.unwrap_or_else(|error| panic!("{key}: {error}"));
            // A figure that is not listed is not compared.
            let figure = |name: &str, found: u64| match fact[name].as_f64() {
                // Sums of counts are far below 2^53.
                Some(figure) => format!("{figure:.0}").parse().unwrap(),
                None => found,
            };
            assert_eq!(found.cells, info.shape.cells, "{key}");
            assert_eq!(found.nonzero, figure("nonzero", found.nonzero), "{key}");
            if info.encoding != "dense" {
                assert_eq!(found.stored, figure("stored", found.stored), "{key}");
            }
            assert_eq!((found.sum, found.max), (figure("sum", found.sum), figure("max", found.max)), "{key}");
        }
        checked += 1;
    }
    assert!(checked > 10, "{checked}");
}

#[test]
fn tables_of_real_files_can_be_read() {
    let Some(folder) = data() else { return };
    for entry in
        std::fs::read_dir(folder.join("h5ad")).unwrap().chain(std::fs::read_dir(folder.join("10x")).unwrap())
    {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name.ends_with("zip") || ["truncated.h5ad", "anndata_v0.11.4.h5ad"].contains(&name.as_str()) {
            continue;
        }
        let mut options =
            SourceOptions { matrix: MatrixChoice::Path("X".into()), ..SourceOptions::default() };
        if path.extension().is_some_and(|extension| extension == "h5") {
            options.matrix = MatrixChoice::Auto;
            options.genome = name.contains("v2").then(|| "hg19_chr21".into());
        }
        let source = source::open(&path, &options).unwrap_or_else(|error| panic!("{name}: {error}"));
        for (kind, table) in [("obs", source.obs()), ("var", source.var())] {
            match table {
                Ok(table) => assert!(table.index().is_some(), "{name}"),
                Err(Error::Columns { columns, .. }) => {
                    assert!(name.contains("v0.13.3"), "{name}: {columns:?}");
                    eprintln!("{name}: {kind}: {columns:?}");
                }
                Err(error) => panic!("{name}: {error}"),
            }
        }
    }
}

#[test]
fn files_that_hold_no_counts_are_refused() {
    let Some(folder) = data() else { return };
    let refusal = |name: &str, matrix: MatrixChoice| -> String {
        let options = SourceOptions { matrix, ..SourceOptions::default() };
        let error = match source::open(folder.join("h5ad").join(name), &options) {
            Ok(source) => totals(source.as_ref(), &ReadOptions::default()).unwrap_err(),
            Err(error) => error,
        };
        error.to_string()
    };
    let said = refusal("anndata_v0.5.0.h5ad", MatrixChoice::Auto);
    assert!(said.contains("no matrix holds counts") && said.contains("raw.X"), "{said}");
    let said = refusal("anndata_v0.11.4.h5ad", MatrixChoice::Auto);
    assert!(said.contains("no X"), "{said}");
    let said = refusal("mini_int64_negative.h5ad", MatrixChoice::Auto);
    assert!(said.contains("negative value (-") && said.contains("cell "), "{said}");
    let said = refusal("nan_value.h5ad", MatrixChoice::Auto);
    assert!(said.contains("not a number"), "{said}");
    let said = refusal("truncated.h5ad", MatrixChoice::Auto);
    assert!(said.contains("truncated: 240602 bytes long"), "{said}");
    let options = SourceOptions::default();
    let said = source::open(folder.join("10x/v2_multiple_genomes.h5"), &options).err().unwrap().to_string();
    assert!(said.contains("another_genome, hg19_chr21"), "{said}");
}

/// Both genomes of the file have the same cells, so that their genes can stand side by side.
#[test]
fn genomes_of_a_file_are_read_one_by_one_or_together() {
    let Some(folder) = data() else { return };
    let read = |genome: &str| {
        let options = SourceOptions { genome: Some(genome.to_owned()), ..SourceOptions::default() };
        let source = source::open(folder.join("10x/v2_multiple_genomes.h5"), &options).unwrap();
        (source.info().shape, totals(source.as_ref(), &ReadOptions::default()).unwrap())
    };
    let ((one, of_one), (other, of_other)) = (read("hg19_chr21"), read("another_genome"));
    let (all, of_all) = read("all");
    assert_eq!((all.cells, all.genes), (one.cells, one.genes + other.genes));
    assert_eq!(of_all.nonzero, of_one.nonzero + of_other.nonzero);
    assert_eq!(of_all.sum, of_one.sum + of_other.sum);
}

/// The list of genes lies there twice, packed and unpacked.
#[test]
fn a_folder_with_a_list_twice_says_which_was_read() {
    let Some(folder) = data() else { return };
    let source = source::open(folder.join("mtx/msti_breast_v3"), &SourceOptions::default()).unwrap();
    let notes = source.info().notes.join("; ");
    assert!(notes.contains("features.tsv and features.tsv.gz say the same"), "{notes}");
    assert_eq!(source.gene_ids().unwrap().len(), 36_601);
    assert!(source.gene_ids().unwrap().get(0).unwrap().starts_with("ENSG"));
    assert_eq!(source.var().unwrap().columns().len(), 2);
    assert_eq!(source.obs().unwrap().rows(), 2172);
}

#[test]
fn auto_takes_the_matrix_that_holds_counts() {
    let Some(folder) = data() else { return };
    for (name, matrix) in [
        ("cellxgene_valid.h5ad", "raw/X"),
        ("pbmc3k_raw.h5ad", "X"),
        ("anndata_v0.7.0.h5ad", "raw/X"),
        ("layers_csr_csc_dense.h5ad", "layers/counts"),
    ] {
        let source = source::open(folder.join("h5ad").join(name), &SourceOptions::default());
        match source {
            Ok(source) => {
                eprintln!("{name}: {} ({})", source.info().matrix, source.info().why);
                assert_eq!(source.info().matrix, matrix, "{name}");
            }
            Err(error) => panic!("{name}: {error}"),
        }
    }
}
