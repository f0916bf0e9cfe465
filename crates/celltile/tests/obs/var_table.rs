use bytes::Bytes;
use celltile::genes::var_table::{from_parquet, to_parquet};
use celltile::table::{Categories, Column, Index, Table, Text};
use proptest::prelude::*;

use crate::tables::{category, every_kind, few};

fn round_trip(table: &Table) -> Table {
    from_parquet(&Bytes::from(to_parquet(table).unwrap()), "var.parquet").unwrap()
}

#[test]
fn test_every_kind_comes_back() {
    for rows in [1, 23, 600] {
        let (rows, index, columns) = every_kind(rows).into_parts();
        // Parquet has no place for the kind of string of categories.
        let columns = columns.into_iter().filter(|column| column.name() != "cat_masked").collect();
        let table = Table::new(rows, index, columns).unwrap();
        assert_eq!(round_trip(&table), table);
    }
}

#[test]
fn test_index_names_come_back() {
    let column = || Column::new("name", ["x", "y"].map(Some).into_iter().collect::<Text>());
    for name in [None, Some(""), Some("name"), Some("gene"), Some("__index_level_0__")] {
        let values = ["a", "a"].map(Some).into_iter().collect::<Text>();
        let index = Index::new(name.map(str::to_owned), values);
        let table = Table::new(2, Some(index), vec![column()]).unwrap();
        if name != Some("__index_level_0__") {
            assert_eq!(round_trip(&table), table, "{name:?}");
        }
    }
    let range = Table::new(2, None, vec![column()]).unwrap();
    assert_eq!(round_trip(&range), range);
    let none = Table::new(0, None, Vec::new()).unwrap();
    assert_eq!(round_trip(&none), none);
}

#[test]
fn test_damaged_files_never_panic() {
    let whole = to_parquet(&few(9)).unwrap();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    for at in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x81;
        let _ = from_parquet(&Bytes::from(bytes), "var.parquet");
        assert!(from_parquet(&Bytes::from(whole[..at].to_vec()), "var.parquet").is_err());
    }
    std::panic::set_hook(hook);
}

#[test]
fn test_vocabularies_at_the_edge_of_a_code_width_come_back() {
    for n in [127, 128, 129, 32_767, 32_768, 32_769] {
        let names = Categories::from_text((0..n).map(|i| format!("{i}"))).unwrap();
        let column = Column::new("c", category([0, n - 1, -1], names, false));
        let table = Table::new(3, None, vec![column]).unwrap();
        assert_eq!(round_trip(&table), table, "{n}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn categories_come_back_in_their_order(
        (n, codes) in (0_i64..300).prop_flat_map(|n| (Just(n), proptest::collection::vec(-1..n.max(0), 0..100))),
        ordered: bool,
    ) {
        let names = Categories::from_text((0..n).rev().map(|i| format!("c{i}"))).unwrap();
        let rows = codes.len();
        let table = Table::new(rows, None, vec![Column::new("c", category(codes, names, ordered))]).unwrap();
        let back = round_trip(&table);
        // Without rows there are no pages to hold the categories.
        if rows > 0 {
            prop_assert_eq!(back, table);
        }
    }
}
