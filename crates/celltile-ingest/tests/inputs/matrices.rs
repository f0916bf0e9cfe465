//! Section A: how a matrix is laid out.

use std::path::PathBuf;

use celltile_ingest::Error;
use celltile_ingest::matrix::{CellBlock, ReadOptions};
use celltile_ingest::source::{self, SourceOptions};

use crate::support::{inputs, rows};

#[test]
fn a1_offsets_that_wrapped_or_end_early_are_refused_with_their_row() {
    rows(&["a1_"]);
}

#[test]
fn a2_index_arrays_and_values_of_every_width_and_sign_give_the_same_bytes() {
    rows(&["a2_", "value_"]);
}

#[test]
fn a3_unsorted_genes_are_sorted_and_reported() {
    rows(&["a3_"]);
}

#[test]
fn a4_repeated_genes_are_refused_or_added_up_when_asked() {
    rows(&["a4_"]);
}

#[test]
fn a5_stored_zeros_are_dropped_and_reported() {
    rows(&["a5_"]);
}

#[test]
fn a_values_that_were_never_written_are_no_zeros() {
    rows(&["a_unwritten"]);
}

#[test]
fn a7_genes_become_cells_in_bounded_memory() {
    rows(&["a7_"]);
}

#[test]
fn a8_dense_matrices_of_every_layout() {
    rows(&["a8_"]);
}

#[test]
fn a9_without_x_the_matrices_that_there_are_are_named() {
    rows(&["a9_"]);
}

#[test]
fn a10_one_cell_one_gene_or_no_cells() {
    rows(&["a10_"]);
}

#[test]
fn a11_cells_without_counts_keep_their_place() {
    rows(&["a11_"]);
}

#[test]
fn a13_genes_past_16_bits() {
    rows(&["a13_"]);
}

/// What does not fit goes to the folder that was named, and nowhere else.
#[test]
fn a7_entries_go_to_the_spill_folder_when_memory_is_short() {
    let Some(folder) = inputs() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let count = |name: &str, memory: u64, spill: PathBuf| -> Result<u64, Error> {
        let source = source::open(folder.join(name), &SourceOptions::default())?;
        let read = ReadOptions { memory, spill: Some(spill), ..ReadOptions::default() };
        let mut blocks = source.cells(0..source.info().shape.cells, &read)?;
        let (mut block, mut nonzeros) = (CellBlock::default(), 0);
        while blocks.next_block(&mut block)? {
            nonzeros += block.genes.len() as u64;
        }
        Ok(nonzeros)
    };
    for (name, memory) in [("a7_csc.h5ad", 40_000), ("loom_large.loom", 20_000)] {
        let gone = scratch.path().join("gone");
        let all = count(name, 1 << 29, gone.clone()).unwrap();
        let said = count(name, memory, gone).unwrap_err().to_string();
        assert!(said.contains("gone") && said.contains("does not fit into memory"), "{said}");
        assert_eq!(count(name, memory, scratch.path().to_owned()).unwrap(), all);
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }
}
