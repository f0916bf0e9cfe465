//! Datasets and more cells to new datasets.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use celltile::Dataset;
use celltile::storage::{LocalStorage, Storage};
use celltile::table::Column;
use celltile::verify::{Level, VerifyOptions, verify};
use celltile_ingest::convert::{ConvertOptions, append, append_in_place, convert_files, merge};
use celltile_ingest::plan::{InputName, Join};

use crate::memory::{Input, Inputs, cells, column, names, options, reference, text};

struct Made {
    folder: tempfile::TempDir,
    inputs: Inputs,
}

impl Made {
    fn new(list: impl IntoIterator<Item = Input>) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), inputs: Inputs::new(list) }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn storage(&self, name: &str) -> Arc<dyn Storage> {
        Arc::new(LocalStorage::new(self.at(name)))
    }

    fn dataset(&self, name: &str) -> InputName {
        InputName { path: self.at(name).display().to_string(), name: name.to_owned() }
    }

    fn converted(&self, name: &str, list: &[usize], options: &ConvertOptions) {
        let list: Vec<InputName> = list.iter().map(|&at| memory(at)).collect();
        convert_files(&list, self.storage(name), &self.inputs.source(), options).unwrap();
    }

    fn appended(&self, base: &str, list: &[usize], to: &str) -> celltile_ingest::Result<()> {
        self.appended_with(base, list, to, &options())
    }

    fn appended_with(
        &self,
        base: &str,
        list: &[usize],
        to: &str,
        options: &ConvertOptions,
    ) -> celltile_ingest::Result<()> {
        let list: Vec<InputName> = list.iter().map(|&at| memory(at)).collect();
        append(&self.dataset(base), &list, self.storage(to), &self.inputs.source(), options).map(|_| ())
    }

    fn open(&self, name: &str) -> Dataset {
        Dataset::open(self.at(name)).unwrap()
    }

    fn is_sound(&self, name: &str) {
        let strict = VerifyOptions::default().level(Level::Strict);
        assert_eq!(verify(self.storage(name).as_ref(), &strict, &|_| {}).unwrap().faults, []);
    }
}

fn memory(at: usize) -> InputName {
    InputName { path: format!("memory/{at}"), name: format!("in{at}") }
}

fn some(sizes: &[usize]) -> Vec<Input> {
    sizes.iter().zip(1..).map(|(&n, seed)| Input::random(seed, n, names("g", 30))).collect()
}

#[test]
fn test_one_column_of_inputs_goes_on_through_appends_and_merges() {
    let list = some(&[15, 20, 10, 7]);
    let made = Made::new(list.clone());
    made.converted("a", &[0], &options());
    made.appended("a", &[1], "b").unwrap();
    made.appended("b", &[2, 3], "c").unwrap();
    let c = made.open("c");
    assert_eq!(cells(&c), reference(&list));
    let sources = |parts: &[(&str, usize)]| -> Vec<String> {
        parts.iter().flat_map(|(name, n)| std::iter::repeat_n((*name).to_owned(), *n)).collect()
    };
    assert_eq!(column(&c, "source"), sources(&[("a", 15), ("in1", 20), ("in2", 10), ("in3", 7)]));
    assert!(c.obs_from(&["source_1"], &celltile::obs::Cache::memory()).is_err());
    made.is_sound("c");
    // Of datasets those that have one keep theirs.
    let datasets = [made.dataset("a"), made.dataset("c")];
    merge(&datasets, made.storage("d"), &made.inputs.source(), &options()).unwrap();
    let expected = [("a", 30), ("in1", 20), ("in2", 10), ("in3", 7)];
    assert_eq!(column(&made.open("d"), "source"), sources(&expected));
    made.is_sound("d");
    // A name that is asked for gives a column beside.
    let mut other = options();
    other.joining.source_column = Some("from".into());
    made.appended_with("b", &[2], "e", &other).unwrap();
    let e = made.open("e");
    assert_eq!(column(&e, "from"), sources(&[("b", 35), ("in2", 10)]));
    assert_eq!(column(&e, "source"), sources(&[("a", 15), ("in1", 20), ("-", 10)]));
}

#[test]
fn test_a_column_of_that_name_that_means_something_else_is_not_mixed_in() {
    let mut list = some(&[15, 20, 10]);
    list[2] = list[2].clone().with_obs(Column::new("source", text((0..10).map(|_| "blood".to_owned()))));
    let made = Made::new(list);
    made.converted("a", &[0, 1], &options());
    let error = made.appended("a", &[2], "b").unwrap_err().to_string();
    assert!(error.contains("memory/2: obs has a column \"source\" of its own"), "{error}");
    let mut other = options();
    other.joining.source_column = Some("from".into());
    made.appended_with("a", &[2], "b", &other).unwrap();
}

#[test]
fn test_tiles_that_are_taken_over_are_not_read() {
    let list = some(&[45, 20]);
    let made = Made::new(list.clone());
    made.converted("a", &[0], &options());
    // Tiles that nobody can decode, of their size and with their hash: they are not looked into.
    let before = std::fs::read(made.at("a/tiles/tile_000001.dct")).unwrap();
    let hollow = vec![0; before.len()];
    std::fs::write(made.at("a/tiles/tile_000001.dct"), hollow).unwrap();
    made.inputs.reads.store(0, Ordering::SeqCst);
    made.appended("a", &[1], "b").unwrap();
    assert_eq!(made.inputs.reads.load(Ordering::SeqCst), 1);
    std::fs::write(made.at("b/tiles/tile_000001.dct"), &before).unwrap();
    assert_eq!(cells(&made.open("b")), reference(&list));
    made.is_sound("b");
    let manifest = made.open("b").manifest().metadata();
    let source = |at: usize, key: &str| manifest["celltile"]["sources"][at][key].as_u64().unwrap();
    assert_eq!((source(0, "cells"), source(0, "sum")), (45, list[0].sum()));
    assert_eq!((source(0, "nonzeros"), source(1, "nonzeros")), (list[0].nonzeros(), list[1].nonzeros()));
    // One that is cut short is not taken over.
    std::fs::write(made.at("a/tiles/tile_000001.dct"), &before[..before.len() - 1]).unwrap();
    let error = made.appended("a", &[1], "c").unwrap_err().to_string();
    assert!(error.contains("tile_000001.dct") && error.contains("bytes; expected"), "{error}");
}

/// Genes of one name, told apart by identifiers, which the inputs list in different orders.
#[test]
fn test_datasets_join_by_identifiers_where_they_have_them() {
    let gene_names = || vec!["A".to_owned(), "B".to_owned(), "B".to_owned()];
    let input = |ids: [&str; 3], counts: [u32; 3], n: usize| {
        let cell: Vec<(u32, u32)> = (0..3).zip(counts).collect();
        let mut input = Input::of(gene_names(), vec![cell; n]);
        let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
        input = input.with_var(Column::new("gene_ids", text(ids.clone())));
        input.ids = Some(ids);
        input
    };
    let made =
        Made::new([input(["E1", "E2", "E3"], [100, 20, 3], 10), input(["E1", "E3", "E2"], [100, 3, 20], 10)]);
    let mut sharded = options();
    sharded.obs.tiles_per_file = 1;
    for (name, at) in [("a", 0), ("b", 1)] {
        made.converted(name, &[at], &sharded);
    }
    let same = |dataset: &Dataset, n: u64| {
        let csr = dataset.rows(0..n).unwrap();
        assert!(csr.counts.chunks(3).all(|cell| cell == csr.counts[..3].to_vec()), "{:?}", csr.counts);
        assert_eq!(csr.counts.len() as u64, 3 * n);
    };
    made.appended("a", &[1], "appended").unwrap();
    same(&made.open("appended"), 20);
    let datasets = [made.dataset("a"), made.dataset("b")];
    merge(&datasets, made.storage("merged"), &made.inputs.source(), &options()).unwrap();
    same(&made.open("merged"), 20);
    append_in_place(made.storage("a"), &[memory(1)], &made.inputs.source(), &options()).unwrap();
    same(&made.open("a"), 20);
}

#[test]
fn test_new_genes_are_refused_by_name_with_a_way_out() {
    let made = Made::new([
        Input::random(1, 20, names("g", 30)),
        Input::random(2, 20, names("g", 32)),
        Input::random(3, 20, names("g", 29)),
    ]);
    made.converted("a", &[0], &options());
    let with = |join| {
        let mut options = options();
        options.joining.join = join;
        options
    };
    let error = made.appended_with("a", &[1], "b", &with(Join::Outer)).unwrap_err().to_string();
    assert!(error.contains("\"g30\", \"g31\"") && error.contains("--join inner"), "{error}");
    made.appended_with("a", &[1], "b", &with(Join::Inner)).unwrap();
    assert_eq!(made.open("b").n_genes(), 30);
    let error = made.appended_with("a", &[2], "c", &with(Join::Inner)).unwrap_err().to_string();
    assert!(error.contains("\"g29\"") && error.contains("makes a new order"), "{error}");
    assert!(!Path::new(&made.at("c")).exists());
}
