//! Shuffled cells, and cells that are put together from genes.

use std::collections::BTreeSet;

use celltile_ingest::convert::ConvertOptions;
use celltile_ingest::plan::Joining;

use crate::memory::{Input, Inputs, cells, column, files, names, open, options, reference, tight};

fn shuffled(seed: u64) -> ConvertOptions {
    ConvertOptions { joining: Joining { shuffle: Some(seed), ..Joining::default() }, ..options() }
}

fn inputs(sizes: &[usize]) -> Vec<Input> {
    sizes.iter().zip(1..).map(|(&n, seed)| Input::random(seed, n, names("g", 50))).collect()
}

#[test]
fn test_shuffled_cells_are_all_there_with_their_obs() {
    let list = inputs(&[35, 0, 1, 64]);
    let all = reference(&list);
    let numbers: Vec<String> =
        list.iter().flat_map(|input| (0..input.cells.len()).map(|n| n.to_string())).collect();
    let (storage, _) = Inputs::new(list).converted(&shuffled(7));
    let dataset = open(&storage);
    let places: Vec<usize> =
        column(&dataset, "source_cell").iter().map(|cell| cell.parse().unwrap()).collect();
    assert_eq!(places.iter().collect::<BTreeSet<_>>().len(), 100);
    assert!(!places.is_sorted());
    let expected: Vec<_> = places.iter().map(|&place| all[place].clone()).collect();
    assert_eq!(cells(&dataset), expected);
    let expected: Vec<_> = places.iter().map(|&place| numbers[place].clone()).collect();
    assert_eq!(column(&dataset, "number"), expected);
    let source = |place: &usize| {
        if *place < 35 {
            "in0"
        } else if *place < 36 {
            "in2"
        } else {
            "in3"
        }
    };
    assert_eq!(column(&dataset, "source"), places.iter().map(source).collect::<Vec<_>>());
}

#[test]
fn test_memory_and_threads_change_no_byte() {
    let list = inputs(&[350, 1, 270]);
    for options in [options(), shuffled(3)] {
        let (whole, _) = Inputs::new(list.clone()).converted(&options);
        for threads in [1, 3] {
            let mut tight = tight(options.clone());
            tight.writer.threads = threads;
            let (parts, _) = Inputs::new(list.clone()).converted(&tight);
            assert!(files(&whole) == files(&parts));
        }
        // Cells that come by genes are put aside, too.
        let by_genes = |input: &Input| Input { encoding: "csc", ..input.clone() };
        let (parts, summary) = Inputs::new(list.iter().map(by_genes)).converted(&tight(options.clone()));
        assert_eq!(summary.cells_read_twice, 0);
        assert_eq!(cells(&open(&whole)), cells(&open(&parts)));
    }
}

#[test]
fn test_seeds_give_other_orders_and_one_seed_the_same() {
    let list = inputs(&[60]);
    let order = |seed| column(&open(&Inputs::new(list.clone()).converted(&shuffled(seed)).0), "source_cell");
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
}

#[test]
fn test_one_shuffled_input_keeps_its_columns() {
    let (storage, _) = Inputs::new(inputs(&[30])).converted(&shuffled(1));
    let dataset = open(&storage);
    let numbers = column(&dataset, "number");
    assert_eq!(numbers, column(&dataset, "source_cell"));
    let names: Vec<String> = numbers.iter().map(|n| format!("cell{n}")).collect();
    assert_eq!(column(&dataset, "_index"), names);
}

#[test]
fn test_no_cells_at_all() {
    for options in [options(), shuffled(1)] {
        for sizes in [&[0][..], &[0, 0]] {
            let (storage, summary) = Inputs::new(inputs(sizes)).converted(&options);
            assert_eq!((summary.cells, open(&storage).n_cells()), (0, 0));
        }
    }
}
