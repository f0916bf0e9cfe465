//! Section C: tables of cells and genes.

use celltile::table::Values;
use celltile_ingest::frame::{ColumnChoice, Frame};
use celltile_ingest::hdf5::{File, OpenOptions};
use celltile_ingest::tree::Tree;

use crate::support::{inputs, rows};

#[test]
fn c1_a_column_called_index_is_a_column() {
    rows(&["c1_"]);
}

#[test]
fn c3_names_with_slashes_dots_and_percents_come_back() {
    rows(&["c3_"]);
}

#[test]
fn c6_columns_of_missing_values_only() {
    rows(&["c6_"]);
}

#[test]
fn c7_dates_are_refused_by_name_or_converted_when_asked() {
    rows(&["c7_"]);
}

#[test]
fn c8_nullable_integers_and_booleans_stay_what_they_are() {
    rows(&["c8_"]);
}

#[test]
fn c9_names_and_text_as_groups_of_values_and_mask() {
    rows(&["c9_"]);
}

#[test]
fn c11_missing_codes_stay_missing_and_others_are_refused() {
    rows(&["c11_"]);
}

#[test]
fn c13_vocabularies_at_the_edges_of_code_widths() {
    rows(&["c13_"]);
}

#[test]
fn c14_a_list_of_categories_shared_by_obs_and_var_is_checked() {
    rows(&["c14_"]);
}

#[test]
fn c15_frames_of_anndata_0_6_0_7_and_0_10() {
    rows(&["c15_"]);
}

#[test]
fn c18_repeated_cell_names_are_allowed_and_can_be_prefixed() {
    rows(&["c18_"]);
}

#[test]
fn c19_repeated_gene_names_of_one_file_are_allowed() {
    rows(&["c19_"]);
}

#[test]
fn c22_unused_categories_and_their_order_stay() {
    rows(&["c22_"]);
}

#[test]
fn c23_integers_and_text_become_categories_when_asked() {
    rows(&["c23_"]);
}

#[test]
fn c24_lengths_of_all_axes_are_compared_first() {
    rows(&["c24_"]);
}

#[test]
fn c_all_columns_that_cannot_be_held_are_told_at_once() {
    rows(&["frames_bad", "frames_old"]);
}

#[test]
fn frames_of_every_encoding_are_read() {
    let Some(folder) = inputs() else { return };
    let file = File::open(folder.join("frames.h5ad"), OpenOptions::default()).unwrap();
    let frame = Frame::open(&Tree::of_file(&file).unwrap(), "obs", "obs").unwrap();
    assert_eq!(frame.index_name(), Some("index"));
    assert_eq!(frame.names().unwrap().iter().collect::<Vec<_>>(), ["c", "c", "d"]);
    let table = frame.table(&ColumnChoice::default()).unwrap();
    let names: Vec<_> = table.columns().iter().map(|column| column.name()).collect();
    assert_eq!(
        names,
        ["_index", "G1/S", "a", "flag", "big", "fixed", "whole", "maybe", "text", "stage", "level", "legacy"]
    );
    let column = |name: &str| table.column(name).unwrap().values().clone();
    let missing = |name: &str| column(name).missing();
    assert_eq!(names.map_missing(missing), [0, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 1]);
    let Values::Category(stage) = column("stage") else { panic!() };
    assert!(stage.ordered());
    assert_eq!(stage.codes().iter().collect::<Vec<_>>(), [0, -1, 1]);
    assert_eq!(stage.categories().len(), 3);
    let Values::Category(level) = column("level") else { panic!() };
    assert_eq!(level.categories().get(1).unwrap().to_json(), serde_json::json!(20));
    let Values::Category(legacy) = column("legacy") else { panic!() };
    assert_eq!(legacy.codes().iter().collect::<Vec<_>>(), [1, 0, -1]);
    let Values::Numeric(whole) = column("whole") else { panic!() };
    assert!(whole.nullable());
    assert_eq!(format!("{:?}", whole.array().data_type()), "Int64");

    let file = File::open(folder.join("frames_old.h5ad"), OpenOptions::default()).unwrap();
    let table = Frame::open(&Tree::of_file(&file).unwrap(), "obs", "obs")
        .unwrap()
        .table(&ColumnChoice::default())
        .unwrap();
    assert_eq!(table.index().unwrap().name(), Some("index"));
    let Values::Category(group) = table.column("group").unwrap().values().clone() else { panic!() };
    assert_eq!(group.codes().iter().collect::<Vec<_>>(), [0, 1, 1]);
    assert!(matches!(table.column("score").unwrap().values(), Values::Numeric(_)));
}

/// Missing values of each column.
trait MapMissing {
    fn map_missing(&self, f: impl Fn(&str) -> usize) -> Vec<usize>;
}

impl MapMissing for Vec<&str> {
    fn map_missing(&self, f: impl Fn(&str) -> usize) -> Vec<usize> {
        self.iter().map(|name| f(name)).collect()
    }
}
