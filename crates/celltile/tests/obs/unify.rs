use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float32Array, Float64Array, Int8Array, Int32Array, Int64Array, LargeStringArray,
    UInt8Array, UInt32Array, UInt64Array,
};
use celltile::table::unify::{Sketch, Union};
use celltile::table::{
    Categories, CategoryValue, Column, Dtype, Index, Numeric, StringKind, Table, TableError, Text, Values,
};

use crate::tables::{category, every_kind, numeric};

fn one(values: Values) -> Table {
    Table::new(values.len(), None, vec![Column::new("c", values)]).unwrap()
}

fn unify(parts: &[Values]) -> Result<Values, TableError> {
    let tables: Vec<_> = parts.iter().cloned().map(one).collect();
    let names: Vec<_> = (0..tables.len()).map(|i| format!("file {i}")).collect();
    let inputs: Vec<_> = names.iter().map(String::as_str).zip(&tables).collect();
    let union = Union::of(&inputs);
    // Sketches join as the tables do, to the same error too.
    let mixed = Union::mixed_columns(&tables.iter().collect::<Vec<_>>());
    let mixed: Vec<_> = mixed.iter().map(String::as_str).collect();
    let sketches: Vec<_> = tables.iter().map(|table| Sketch::of(table, &mixed).unwrap()).collect();
    let sketches: Vec<_> = names.iter().map(String::as_str).zip(&sketches).collect();
    match (&union, Union::of_sketches(&sketches)) {
        (Ok(union), Ok(sketched)) => assert_eq!(union.to_json(), sketched.to_json()),
        (Err(error), Err(sketched)) => assert_eq!(error, &sketched),
        other => panic!("{other:?}"),
    }
    // And so do unions that went through JSON.
    let union = Union::from_json(&union?.to_json()).unwrap();
    let table = union.concat(&tables.iter().collect::<Vec<_>>())?;
    Ok(table.column("c").unwrap().values().clone())
}

fn text(list: &[&str]) -> Categories {
    Categories::from_text(list).unwrap()
}

fn ints(list: &[i128], dtype: Dtype) -> Categories {
    Categories::from_values(list.iter().map(|&i| CategoryValue::Int(i)), Some(dtype)).unwrap()
}

fn object(list: &[Option<&str>]) -> Values {
    list.iter().copied().collect::<Text>().into()
}

#[test]
fn test_categories_keep_the_first_order_then_appearance() {
    let parts =
        [category([1, -1, 0], text(&["z", "a"]), false), category([2, 0], text(&["b", "a", "y"]), false)];
    let expected = category([1, -1, 0, 3, 2], text(&["z", "a", "b", "y"]), false);
    assert_eq!(unify(&parts).unwrap(), expected);
}

#[test]
fn test_ordered_stays_only_where_an_input_has_the_whole_order() {
    let ordered = |parts: &[(&[&str], bool)]| {
        let parts: Vec<_> = parts.iter().map(|(list, ordered)| category([0], text(list), *ordered)).collect();
        match unify(&parts).unwrap() {
            Values::Category(values) => values.ordered(),
            other => panic!("{other:?}"),
        }
    };
    assert!(ordered(&[(&["lo", "hi"], true), (&["lo", "hi"], true)]));
    assert!(ordered(&[(&["lo", "mid"], true), (&["lo", "mid", "hi"], true), (&["mid"], true)]));
    assert!(!ordered(&[(&["lo", "hi"], true), (&["lo", "hi"], false)]));
    assert!(!ordered(&[(&["lo", "hi"], true), (&["lo", "mid", "hi"], true)]), "hi < mid would be made up");
    assert!(!ordered(&[(&["a"], true), (&["b"], true)]));
}

#[test]
fn test_text_joins_categories() {
    let parts = [category([0, -1], text(&["z", "a"]), false), object(&[Some("q"), None, Some("a")])];
    assert_eq!(unify(&parts).unwrap(), category([0, -1, 2, -1, 1], text(&["z", "a", "q"]), false));
    let parts = [object(&[Some("q"), None]), category([0], text(&["z"]), true)];
    assert_eq!(unify(&parts).unwrap(), category([0, -1, 1], text(&["q", "z"]), false));
}

#[test]
fn test_one_is_not_the_text_one() {
    let error = unify(&[category([0], text(&["1"]), false), category([0], ints(&[1], Dtype::Int8), false)])
        .unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("\"c\"") && message.contains("file 0") && message.contains("file 1"),
        "{message}"
    );
    let number = numeric(Int64Array::from(vec![1]), false);
    for other in [category([0], text(&["1"]), false), object(&[Some("1")])] {
        let message = unify(&[number.clone(), other]).unwrap_err().to_string();
        assert!(message.contains("numbers (int64)"), "{message}");
    }
    assert!(unify(&[number, Values::bools(BooleanArray::from(vec![true]), false)]).is_err());
}

#[test]
fn test_category_dtypes_widen_exactly() {
    let narrow = category([0, 1], ints(&[3, 5], Dtype::Int8), false);
    let wide = category([0], ints(&[300], Dtype::Int32), false);
    let expected = category([0, 1, 2], ints(&[3, 5, 300], Dtype::Int32), false);
    assert_eq!(unify(&[narrow.clone(), wide]).unwrap(), expected);
    let floats = Categories::from_values([5.0, 0.5].map(CategoryValue::Float), None).unwrap();
    let union = Categories::from_values([3.0, 5.0, 0.5].map(CategoryValue::Float), None).unwrap();
    let expected = category([0, 1, 1, 2], union, false);
    assert_eq!(unify(&[narrow, category([0, 1], floats.clone(), false)]).unwrap(), expected);
    let large = category([0], ints(&[(1 << 53) + 1], Dtype::Int64), false);
    assert!(matches!(unify(&[large, category([0], floats, false)]), Err(TableError::Inexact { .. })));
}

#[test]
fn test_numbers_take_the_narrowest_common_dtype() {
    let cases: [(Values, Values, Values); 5] = [
        (
            numeric(Int8Array::from(vec![-1]), false),
            numeric(Int32Array::from(vec![7]), false),
            numeric(Int32Array::from(vec![-1, 7]), false),
        ),
        (
            numeric(Int8Array::from(vec![-1]), false),
            numeric(UInt32Array::from(vec![u32::MAX]), false),
            numeric(Int64Array::from(vec![-1, i64::from(u32::MAX)]), false),
        ),
        (
            numeric(UInt64Array::from(vec![7]), false),
            numeric(Int8Array::from(vec![-7]), false),
            numeric(Int64Array::from(vec![7, -7]), false),
        ),
        (
            numeric(UInt8Array::from(vec![7]), false),
            numeric(Float32Array::from(vec![Some(0.5), None]), false),
            numeric(Float64Array::from(vec![Some(7.0), Some(0.5), None]), false),
        ),
        (
            numeric(Int64Array::from(vec![Some(1), None]), true),
            numeric(Int64Array::from(vec![2]), false),
            numeric(Int64Array::from(vec![Some(1), None, Some(2)]), true),
        ),
    ];
    for (a, b, both) in cases {
        assert_eq!(unify(&[a, b]).unwrap(), both);
    }
}

#[test]
fn test_values_that_would_be_rounded_are_named() {
    let large = numeric(Int64Array::from(vec![0, (1 << 53) + 1]), false);
    let float = numeric(Float64Array::from(vec![0.5]), false);
    match unify(&[float, large]).unwrap_err() {
        TableError::Inexact { column, input, row, value, dtype, .. } => {
            assert_eq!(
                (&*column, &*input, row, &*value, &*dtype),
                ("c", "file 1", 1, "9007199254740993", "float64")
            );
        }
        other => panic!("{other}"),
    }
    let unsigned = numeric(UInt64Array::from(vec![u64::MAX]), false);
    assert!(unify(&[unsigned, numeric(Int8Array::from(vec![1]), false)]).is_err());
}

#[test]
fn test_columns_that_are_all_missing_take_the_others_type() {
    let nothing = [
        object(&[None]),
        numeric(Float64Array::from(vec![f64::NAN]), false),
        category([-1], Categories::empty(Dtype::Float64), false),
    ];
    for missing in nothing {
        let parts = [missing.clone(), category([0], text(&["a"]), false)];
        assert_eq!(unify(&parts).unwrap(), category([-1, 0], text(&["a"]), false));
        let parts = [missing.clone(), numeric(Int8Array::from(vec![1]), false)];
        assert_eq!(unify(&parts).unwrap(), numeric(Int8Array::from(vec![None, Some(1)]), true));
        let parts = [missing.clone(), Values::bools(BooleanArray::from(vec![true]), false)];
        assert_eq!(unify(&parts).unwrap(), Values::bools(BooleanArray::from(vec![None, Some(true)]), true));
        assert_eq!(unify(&[missing.clone(), missing]).unwrap().missing(), 2);
    }
}

#[test]
fn test_absent_columns_are_missing_there() {
    let column = |name: &str, values: Values| Column::new(name, values);
    let first = Table::new(1, None, vec![column("a", numeric(Int8Array::from(vec![1]), false))]).unwrap();
    let second = Table::new(
        2,
        None,
        vec![
            column("b", category([0, 0], text(&["x"]), true)),
            column("a", numeric(Int8Array::from(vec![2, 3]), false)),
            column("f", numeric(Float64Array::from(vec![0.5, 1.5]), false)),
        ],
    )
    .unwrap();
    let union = Union::of(&[("1", &first), ("2", &second)]).unwrap();
    let both = union.concat(&[&first, &second]).unwrap();
    let names: Vec<_> = both.columns().iter().map(Column::name).collect();
    assert_eq!(names, ["a", "b", "f"]);
    assert_eq!(both.column("a").unwrap().values(), &numeric(Int8Array::from(vec![1, 2, 3]), false));
    assert_eq!(both.column("b").unwrap().values(), &category([-1, 0, 0], text(&["x"]), false));
    let floats = Float64Array::from(vec![None, Some(0.5), Some(1.5)]);
    assert_eq!(both.column("f").unwrap().values(), &numeric(floats, false));
    assert!(union.conform(2, &first).is_err());
    assert!(union.conform(0, &one(object(&[Some("x")]))).is_err());
}

#[test]
fn test_string_kinds_join() {
    let kind = |a, b| {
        let text = |kind| Text::new(LargeStringArray::from(vec!["x"]), kind).into();
        match unify(&[text(a), text(b)]).unwrap() {
            Values::Text(text) => text.kind(),
            other => panic!("{other:?}"),
        }
    };
    use StringKind::{Fixed, Masked, MaskedNan, Object};
    assert_eq!(kind(Object, Fixed), Object);
    assert_eq!(kind(MaskedNan, MaskedNan), MaskedNan);
    assert_eq!(kind(Object, MaskedNan), Masked);
}

#[test]
fn test_indexes_join_and_lose_a_name_that_differs() {
    let table = |name: Option<&str>| {
        let names = ["x", "x"].map(Some).into_iter().collect::<Text>();
        Table::new(2, Some(Index::new(name.map(str::to_owned), names)), Vec::new()).unwrap()
    };
    let join = |a: &Table, b: &Table| Union::of(&[("1", a), ("2", b)])?.concat(&[a, b]);
    let same = join(&table(Some("barcode")), &table(Some("barcode"))).unwrap();
    assert_eq!(same.index().unwrap().name(), Some("barcode"));
    assert_eq!(same.rows(), 4);
    let differ = join(&table(Some("barcode")), &table(Some("cell"))).unwrap();
    assert_eq!(differ.index().unwrap().name(), None);
    let without = Table::new(1, None, Vec::new()).unwrap();
    let error = join(&table(None), &without).unwrap_err().to_string();
    assert!(error.contains("no index"), "{error}");
}

#[test]
fn test_a_table_cut_in_pieces_is_whole_again() {
    let table = every_kind(40);
    let parts = [table.slice(0, 13).unwrap(), table.slice(13, 0).unwrap(), table.slice(13, 27).unwrap()];
    let inputs: Vec<_> = ["a", "b", "c"].into_iter().zip(&parts).collect();
    let whole = Union::of(&inputs).unwrap().concat(&parts.iter().collect::<Vec<_>>()).unwrap();
    assert_eq!(whole, table);
}

#[test]
fn test_float_widening_is_exact() {
    let half: ArrayRef = Arc::new(Float32Array::from(vec![0.1_f32]));
    let parts =
        [Values::from(Numeric::new(half, false).unwrap()), numeric(Float64Array::from(vec![0.1]), false)];
    let expected = numeric(Float64Array::from(vec![f64::from(0.1_f32), 0.1]), false);
    assert_eq!(unify(&parts).unwrap(), expected);
}
