//! Section D: 10x files, Matrix Market, and other tables of counts.

use celltile_ingest::source::{self, SourceOptions};

use crate::support::{inputs, rows};

#[test]
fn d_folders_of_every_age_and_packing_give_the_same_bytes() {
    rows(&["mtx_"]);
}

#[test]
fn d_which_way_a_matrix_lies_is_known_from_its_lists_or_asked_for() {
    rows(&["axis_"]);
}

#[test]
fn d1_molecule_info_is_recognised_and_the_file_wanted_named() {
    rows(&["d1_"]);
}

#[test]
fn d2_genomes_are_chosen_joined_or_listed() {
    rows(&["d2_"]);
}

#[test]
fn d4_content_decides_not_the_name() {
    rows(&["d4_"]);
}

#[test]
fn d5_other_features_than_genes_are_left_out_and_counted() {
    rows(&["d5_"]);
}

#[test]
fn d7_a_list_of_genes_with_one_column() {
    rows(&["d7_"]);
}

#[test]
fn d8_a_list_of_genes_without_types() {
    rows(&["d8_"]);
}

#[test]
fn d10_another_number_of_entries_than_declared_is_told_with_its_place() {
    rows(&["d10_"]);
}

#[test]
fn d12_more_than_31_bits_of_entries_take_no_memory() {
    rows(&["d12_"]);
}

#[test]
fn d14_kinds_and_lines_that_hold_no_counts() {
    rows(&["d14_"]);
}

#[test]
fn d16_one_name_many_times() {
    rows(&["d16_"]);
}

#[test]
fn tables_of_text_are_read_once_it_is_said_where_the_cells_are() {
    rows(&["csv_"]);
}

#[test]
fn loom_files_with_layers_and_attributes() {
    rows(&["loom_"]);
}

#[test]
fn h5mu_modalities_are_chosen_or_listed() {
    rows(&["h5mu_"]);
}

/// Lists that would go with any matrix of that size.
#[test]
fn d_a_list_that_does_not_bear_the_name_of_its_matrix_is_told() {
    let Some(folder) = inputs() else { return };
    let scratch = tempfile::tempdir().unwrap();
    for (from, to) in [
        ("matrix.mtx", "sample.mtx"),
        ("barcodes.tsv", "barcodes.tsv"),
        ("features.tsv", "sample_features.tsv"),
        ("matrix.mtx", "own/matrix.mtx"),
        ("barcodes.tsv", "own/barcodes.tsv"),
        ("features.tsv", "own/features.tsv"),
    ] {
        std::fs::create_dir_all(scratch.path().join("own")).unwrap();
        std::fs::copy(folder.join("mtx_v3").join(from), scratch.path().join(to)).unwrap();
    }
    let notes = |name: &str| {
        let source = source::open(scratch.path().join(name), &SourceOptions::default()).unwrap();
        source.info().notes.join("; ")
    };
    let told = "its list of cells is barcodes.tsv, whose name does not say that it belongs to sample";
    assert_eq!(notes("sample.mtx"), told);
    assert_eq!(notes("own/matrix.mtx"), "");
}
