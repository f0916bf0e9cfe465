//! What a table's columns mean for a union, in a few rows: the unions of tables that do not fit into memory together
//! are made of these.

use std::sync::Arc;

use arrow_array::{Array, BooleanArray, UInt64Array};

use super::cast::{inexact_as_float, past_int64};
use crate::table::{
    Categorical, Categories, CategoryValue, Codes, Column, Dtype, Index, Numeric, StringKind, Table,
    TableError, Text, Values,
};

/// Rows of a sketch of a table that has rows: a value that no float holds, and one that int64 does not.
const ROWS: usize = 2;

/// A table of two rows at most that joins others' as the table does that it was made of; equal for tables that
/// differ in no way that counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Sketch {
    table: Table,
    /// For columns of large numbers, where their rows were.
    rows: Vec<(String, [usize; ROWS])>,
}

impl Sketch {
    /// Of a table. A column of text is only known to be one: where another table holds categories, it has to be
    /// named in `spelled`, so that its values become categories too.
    ///
    /// # Errors
    /// [`TableError::Arrow`] if a kernel fails.
    pub fn of(table: &Table, spelled: &[&str]) -> Result<Self, TableError> {
        let mut rows = Vec::new();
        let index = match table.index() {
            None => None,
            Some(index) => {
                let (values, _) = sketch(index.values(), false)?;
                Some(Index::new(index.name().map(str::to_owned), values))
            }
        };
        let mut columns = Vec::with_capacity(table.columns().len());
        for column in table.columns() {
            let (values, at) = sketch(column.values(), spelled.contains(&column.name()))?;
            rows.extend(at.map(|at| (column.name().to_owned(), at)));
            columns.push(Column::new(column.name(), values));
        }
        let table = Table::new(table.rows().min(ROWS), index, columns)?;
        Ok(Self { table, rows })
    }

    /// Of one column; nothing if the table does not have it.
    #[must_use]
    pub fn only(&self, column: &str) -> Option<Self> {
        let only = self.table.column(column)?.clone();
        let table = Table::new(self.table.rows(), None, vec![only]).ok()?;
        Some(Self { table, rows: self.rows.clone() })
    }

    /// The few rows.
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The row of the whole table that a row of a column stands for.
    #[must_use]
    pub fn row(&self, column: &str, row: usize) -> usize {
        let rows = self.rows.iter().find(|(name, _)| name == column);
        rows.and_then(|(_, rows)| rows.get(row)).copied().unwrap_or(row)
    }
}

type Sketched = (Values, Option<[usize; ROWS]>);

fn sketch(values: &Values, spelled: bool) -> Result<Sketched, TableError> {
    let rows = values.len().min(ROWS);
    if rows == 0 {
        return Ok((values.clone(), None));
    }
    let missing = values.missing() == values.len();
    let plain = match values {
        Values::Category(values) => {
            let code = if missing { -1 } else { 0 };
            let codes = Codes::collect(std::iter::repeat_n(code, rows), values.categories().len())?;
            Categorical::new(codes, values.categories().clone(), values.ordered())?.into()
        }
        Values::Bool { nullable, .. } => {
            let value = (!missing).then_some(false);
            Values::bools(std::iter::repeat_n(value, rows).collect::<BooleanArray>(), *nullable)
        }
        Values::Text(text) if spelled && !missing => return Ok((spell(text, rows)?, None)),
        Values::Text(text) => {
            let value = (!missing).then_some("");
            Text::new(std::iter::repeat_n(value, rows).collect(), text.kind()).into()
        }
        Values::Numeric(numbers) => return numeric(numbers, rows, missing),
    };
    Ok((plain, None))
}

/// The distinct values of a text column, as categories that no row has.
fn spell(text: &Text, rows: usize) -> Result<Values, TableError> {
    let mut seen = std::collections::HashSet::new();
    let distinct: Vec<_> = text.values().iter().flatten().filter(|value| seen.insert(*value)).collect();
    let object = Dtype::Text(StringKind::Object);
    let categories = Categories::from_values(distinct.into_iter().map(CategoryValue::Text), Some(object))?;
    let codes = Codes::collect(std::iter::repeat_n(0, rows), categories.len())?;
    Ok(Categorical::new(codes, categories, false)?.into())
}

fn numeric(numbers: &Numeric, rows: usize, missing: bool) -> Result<Sketched, TableError> {
    let array = numbers.array();
    let large = if missing { None } else { inexact_as_float(array) };
    let first = match large {
        Some(first) => first,
        // No number that counts: any stands for all.
        None => {
            let dtype = array.data_type();
            let array = if missing {
                arrow_array::new_null_array(dtype, rows)
            } else {
                let zero = Arc::new(arrow_array::Int8Array::from(vec![0; rows])) as arrow_array::ArrayRef;
                super::cast::cast(&zero, numbers.dtype())
                    .map_err(|fault| TableError::NotPlanned { message: fault.value })?
            };
            return Ok((Numeric::new(array, numbers.nullable())?.into(), None));
        }
    };
    let at = [first, past_int64(array).unwrap_or(first)];
    let take: UInt64Array = at.iter().take(rows).map(|&row| u64::try_from(row).ok()).collect();
    let array = arrow_select::take::take(array.as_ref(), &take, None)?;
    debug_assert_eq!(array.len(), rows);
    Ok((Numeric::new(array, numbers.nullable())?.into(), Some(at)))
}
