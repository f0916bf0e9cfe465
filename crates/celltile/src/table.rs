//! The common form of obs and var: named columns of the four kinds, an index, and what pandas needs to get its
//! frame back.
//!
//! A [`Table`] is made from a source's data frame (h5ad, Zarr, text) or read back from obs shards and
//! `var.parquet`. Values are Arrow arrays; facts that Arrow does not hold (masked or plain dtype, `ordered`, the
//! dtype of category values, the kind of string, the index's name) sit beside them, and
//! [`TableMeta`] is their JSON form under `metadata.celltile`.

mod categorical;
mod categories;
mod codes;
mod column;
mod dtype;
mod error;
mod folded;
mod index;
mod kind;
mod meta;
mod numeric;
mod rows;
mod text;
pub mod unify;
mod values;

use std::collections::HashSet;

pub use categorical::Categorical;
pub use categories::{Categories, CategoryValue};
pub use codes::Codes;
pub use column::Column;
pub use dtype::{Dtype, StringKind};
pub use error::TableError;
pub use folded::{FoldOrder, Folded};
pub use index::Index;
pub use kind::Kind;
pub use meta::{ColumnMeta, IndexMeta, TableMeta};
pub use numeric::Numeric;
pub use text::Text;
pub use values::Values;

/// What the column of an index without a name is called where it needs one.
pub const UNNAMED_INDEX: &str = "_index";

/// A data frame: columns with names that differ, all of one length, and usually an index.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    rows: usize,
    index: Option<Index>,
    columns: Vec<Column>,
}

impl Table {
    /// A table of `rows` rows. No index means a plain range (pandas' `RangeIndex`).
    ///
    /// # Errors
    /// [`TableError::Length`] if an index or a column has another number of rows,
    /// [`TableError::DuplicateColumn`] if two columns share a name.
    pub fn new(rows: usize, index: Option<Index>, columns: Vec<Column>) -> Result<Self, TableError> {
        let mut seen = HashSet::with_capacity(columns.len());
        for column in &columns {
            if !seen.insert(column.name()) {
                return Err(TableError::DuplicateColumn { column: column.name().to_owned() });
            }
            check_length(column.name(), column.values().len(), rows)?;
        }
        if let Some(index) = &index {
            check_length(index.name().unwrap_or(UNNAMED_INDEX), index.values().len(), rows)?;
        }
        Ok(Self { rows, index, columns })
    }

    /// A table without rows, index and columns.
    #[must_use]
    pub fn empty() -> Self {
        Self { rows: 0, index: None, columns: Vec::new() }
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The index, if it is more than a range.
    #[must_use]
    pub fn index(&self) -> Option<&Index> {
        self.index.as_ref()
    }

    /// The columns, in order, the index not among them.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The column of that name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name() == name)
    }

    /// Number, index and columns, taken apart.
    #[must_use]
    pub fn into_parts(self) -> (usize, Option<Index>, Vec<Column>) {
        (self.rows, self.index, self.columns)
    }

    /// Rows `offset..offset + len`, sharing memory with this table.
    ///
    /// # Errors
    /// [`TableError::Rows`] if the range leaves the table.
    pub fn slice(&self, offset: usize, len: usize) -> Result<Self, TableError> {
        if offset.checked_add(len).is_none_or(|end| end > self.rows) {
            return Err(TableError::Rows { row: offset.saturating_add(len), rows: self.rows });
        }
        Ok(Self {
            rows: len,
            index: self.index.as_ref().map(|index| index.with_values(index.values().slice(offset, len))),
            columns: self.columns.iter().map(|c| c.with_values(c.values().slice(offset, len))).collect(),
        })
    }

    /// The rows named, in that order, repeats allowed.
    ///
    /// # Errors
    /// [`TableError::Rows`] if a row is not in the table.
    pub fn take(&self, rows: &[u64]) -> Result<Self, TableError> {
        for &row in rows {
            if usize::try_from(row).map_or(true, |row| row >= self.rows) {
                return Err(TableError::Rows {
                    row: usize::try_from(row).unwrap_or(usize::MAX),
                    rows: self.rows,
                });
            }
        }
        let index = match &self.index {
            Some(index) => Some(index.with_values(index.values().take(rows)?)),
            None => None,
        };
        let columns = self
            .columns
            .iter()
            .map(|c| Ok(c.with_values(c.values().take(rows)?)))
            .collect::<Result<_, TableError>>()?;
        Ok(Self { rows: rows.len(), index, columns })
    }

    /// The name that the index's column has in files: the index's own, [`UNNAMED_INDEX`] if it has none, with
    /// `_1`, `_2`, ... behind it while a column has that name already.
    #[must_use]
    pub fn index_column_name(&self) -> Option<String> {
        let index = self.index.as_ref()?;
        let base = index.name().unwrap_or(UNNAMED_INDEX);
        let taken = |name: &str| self.columns.iter().any(|column| column.name() == name);
        if !taken(base) {
            return Some(base.to_owned());
        }
        (1_u64..).map(|n| format!("{base}_{n}")).find(|name| !taken(name))
    }

    /// What has to be kept beside the values for an exact round trip.
    #[must_use]
    pub fn meta(&self) -> TableMeta {
        TableMeta::of(self)
    }
}

fn check_length(column: &str, found: usize, expected: usize) -> Result<(), TableError> {
    if found == expected {
        return Ok(());
    }
    Err(TableError::Length { column: column.to_owned(), found, expected })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{BooleanArray, Float32Array, Int8Array};
    use std::sync::Arc;

    fn table() -> Table {
        let codes = Codes::collect([0, -1, 1], 3).unwrap();
        let categories = Categories::from_text(["z", "a", "m"]).unwrap();
        let columns = vec![
            Column::new("stage", Categorical::new(codes, categories, true).unwrap()),
            Column::new("_index", Numeric::new(Arc::new(Int8Array::from(vec![1, 2, 3])), false).unwrap()),
            Column::new("ok", Values::bools(BooleanArray::from(vec![Some(true), None, Some(false)]), false)),
        ];
        let names = [Some("c"), Some("c"), Some("d")].into_iter().collect::<Text>();
        Table::new(3, Some(Index::new(None, names)), columns).unwrap()
    }

    #[test]
    fn index_column_name_avoids_columns() {
        assert_eq!(table().index_column_name().as_deref(), Some("_index_1"));
    }

    #[test]
    fn slice_and_take_keep_facts() {
        let table = table();
        assert_eq!(table.slice(1, 2).unwrap(), table.take(&[1, 2]).unwrap());
        assert_eq!(table.take(&[3]), Err(TableError::Rows { row: 3, rows: 3 }));
        assert!(table.slice(2, 2).is_err());
    }

    #[test]
    fn meta_survives_json() {
        let meta = table().meta();
        let text = meta.to_json().to_string();
        assert_eq!(
            text,
            r#"{"index":{"column":"_index_1","name":null},"columns":{"ok":{"nullable":true},"stage":{"ordered":true}}}"#
        );
        assert_eq!(TableMeta::from_json(&serde_json::from_str(&text).unwrap()).unwrap(), meta);
    }

    #[test]
    fn nan_is_missing_in_plain_floats_only() {
        let array = Arc::new(Float32Array::from(vec![1.0, f32::NAN]));
        assert_eq!(Numeric::new(array.clone(), false).unwrap().array().null_count(), 1);
        assert_eq!(Numeric::new(array, true).unwrap().array().null_count(), 0);
    }

    #[test]
    fn categories_of_different_types_stay_apart() {
        let values = [
            CategoryValue::Int(1),
            CategoryValue::Text("1"),
            CategoryValue::Float(1.0),
            CategoryValue::Bool(true),
        ];
        let mixed = Categories::from_values(values, None).unwrap();
        assert_eq!(mixed.len(), 4);
        assert!(
            Categories::from_values([CategoryValue::Float(0.0), CategoryValue::Float(-0.0)], None).is_err()
        );
        assert!(Categories::from_values([CategoryValue::Float(f64::INFINITY)], None).is_err());
        assert!(Categories::from_text(["a", "b", "a"]).is_err());
    }

    #[test]
    fn repeated_dictionary_values_are_merged() {
        let array = arrow_array::StringArray::from(vec!["a", "b", "a"]);
        let (categories, map) = Categories::from_array_dedup(&array, StringKind::Object).unwrap();
        assert_eq!((categories.len(), map), (2, vec![0, 1, 0]));
    }

    #[test]
    fn code_width_follows_the_vocabulary() {
        for (n, width) in [(127, 1), (128, 1), (129, 2), (32_768, 2), (32_769, 4)] {
            let last = i64::try_from(n).unwrap() - 1;
            let codes = Codes::collect([-1, last], n).unwrap();
            assert_eq!(codes.to_array().data_type().primitive_width(), Some(width));
            assert_eq!(i64::from(codes.get(1)), last);
            assert!(Codes::collect([last + 1], n).is_err());
            assert!(Codes::collect([-2], n).is_err());
        }
    }
}
