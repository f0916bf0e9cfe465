//! Section B: values.

use std::sync::Arc;

use celltile::storage::MemoryStorage;
use serde_json::Value;

use crate::support::{inputs, rows, run};

#[test]
fn b1_whole_floats_are_counts() {
    rows(&["b1_"]);
}

#[test]
fn b2_fractions_are_refused_with_their_share_or_rounded_when_asked() {
    rows(&["b2_", "b_fraction"]);
}

#[test]
fn b3_negative_values_are_refused() {
    rows(&["b_negative"]);
}

#[test]
fn b4_not_a_number_and_infinities_are_refused_and_minus_zero_is_zero() {
    rows(&["b4_", "b_nan", "b_inf", "b_large"]);
}

#[test]
fn b7_counts_at_the_edge_of_16_bits() {
    rows(&["b7_"]);
}

/// 65535 and more as exceptions: as many as a tile may have, and one more.
#[test]
fn b7_too_many_large_counts_in_a_tile_are_refused_with_advice() {
    let Some(folder) = inputs() else { return };
    let convert = |name: &str| {
        let output = Arc::new(MemoryStorage::new());
        run(&folder.join(name), &Value::Null, 1 << 30, &output).map(|(summary, _)| summary.nonzeros)
    };
    assert_eq!(convert("exceptions_1024.h5ad").unwrap(), 1024);
    let said = convert("exceptions_1025.h5ad").unwrap_err().to_string();
    assert!(said.contains("1025") && said.contains("1024"), "{said}");
}

#[test]
fn b8_the_matrix_that_holds_counts_is_taken_and_named() {
    rows(&["b8_"]);
}

#[test]
fn b9_the_genes_of_raw_go_with_its_matrix() {
    rows(&["b8_raw"]);
}

#[test]
fn b_the_first_fault_in_cell_order_is_told_however_it_is_stored() {
    rows(&["b_first"]);
}
