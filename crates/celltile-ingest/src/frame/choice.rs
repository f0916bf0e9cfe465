use std::collections::BTreeMap;

use arrow_array::Array;
use celltile::table::{
    Categorical, Categories, CategoryValue, Codes, Column, Index, Table, TableError, Values,
};

use super::column;
pub use super::datetime::Datetimes;
use crate::error::{BadColumn, Error, Result};

/// Which columns to read, and what becomes of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct ColumnChoice {
    /// These only; all if `None`.
    pub columns: Option<Vec<String>>,
    /// Not these.
    pub exclude: Vec<String>,
    /// Whether values of several types in one column become text.
    pub mixed_as_text: bool,
    /// What becomes of dates and durations.
    pub datetimes: Datetimes,
    /// Columns of integers or text that are categories.
    pub as_category: Vec<String>,
}

impl ColumnChoice {
    /// Whether a column is read.
    pub fn takes(&self, name: &str) -> bool {
        self.columns.as_ref().is_none_or(|columns| columns.iter().any(|column| column == name))
            && !self.exclude.iter().any(|column| column == name)
    }

    /// Fails if a column that is asked for is not among `there`.
    ///
    /// # Errors
    ///
    /// [`Error::Options`] with the columns that there are.
    pub fn check(&self, file: &str, frame: &str, there: &[String]) -> Result<()> {
        let asked = self.columns.iter().flatten().chain(&self.as_category);
        if let Some(missing) = asked.into_iter().find(|name| !there.contains(name)) {
            let there = there.join(", ");
            return Err(Error::Options(format!(
                "{file}: {frame} has no column {missing:?}; it has: {there}"
            )));
        }
        Ok(())
    }

    /// A column as it is carried.
    ///
    /// # Errors
    ///
    /// Why it cannot be.
    pub fn convert(&self, name: &str, values: Values) -> Result<Values, String> {
        if self.as_category.iter().any(|column| column == name) { categories(values) } else { Ok(values) }
    }

    /// A table of so many rows with the chosen ones of these columns.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if their lengths differ; otherwise as [`of_table`](Self::of_table).
    pub fn table(
        &self,
        rows: usize,
        index: Index,
        columns: Vec<Column>,
        file: &str,
        frame: &str,
    ) -> Result<Table> {
        let table = Table::new(rows, Some(index), columns).map_err(|error| damaged(&error, file, frame))?;
        self.of_table(table, file, frame)
    }

    /// The chosen columns of a table that was read whole.
    ///
    /// # Errors
    ///
    /// [`Error::Options`] for a column that is not there, [`Error::Columns`] with all that cannot be carried.
    pub fn of_table(&self, table: Table, file: &str, frame: &str) -> Result<Table> {
        let (rows, index, columns) = table.into_parts();
        let there: Vec<String> = columns.iter().map(|column| column.name().to_owned()).collect();
        self.check(file, frame, &there)?;
        let (mut kept, mut bad) = (Vec::new(), Vec::new());
        for column in columns.into_iter().filter(|column| self.takes(column.name())) {
            let (name, values) = column.into_parts();
            match self.convert(&name, values) {
                Ok(values) => kept.push(Column::new(name, values)),
                Err(why) => bad.push(BadColumn { frame: frame.to_owned(), name, why }),
            }
        }
        if !bad.is_empty() {
            return Err(Error::Columns { file: file.to_owned(), columns: bad });
        }
        Table::new(rows, index, kept).map_err(|error| damaged(&error, file, frame))
    }
}

/// A table that does not hold together.
pub(crate) fn damaged(error: &TableError, file: &str, at: &str) -> Error {
    Error::Damaged { file: file.to_owned(), at: at.to_owned(), what: error.to_string() }
}

/// Integers or text as categories, in ascending order; what is missing stays so.
fn categories(values: Values) -> Result<Values, String> {
    let fault = |error: celltile::table::TableError| error.to_string();
    match &values {
        Values::Category(_) => Ok(values),
        Values::Text(text) => {
            let mut places: BTreeMap<&str, i64> = text.values().iter().flatten().map(|v| (v, 0)).collect();
            places.values_mut().zip(0..).for_each(|(place, at)| *place = at);
            let list = Categories::from_text(places.keys()).map_err(fault)?;
            let place = |value: Option<&str>| value.and_then(|value| places.get(value).copied());
            let codes = text.values().iter().map(|value| place(value).unwrap_or(-1));
            let codes = Codes::collect(codes, list.len()).map_err(fault)?;
            Categorical::new(codes, list, false).map(Values::Category).map_err(fault)
        }
        Values::Numeric(numeric) => {
            let whole =
                column::integers(&values).ok_or("not integers; only integers and text become categories")?;
            let nulls = numeric.array().nulls().cloned();
            let known = |at: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(at));
            let whole: Vec<i64> = whole.collect();
            if let Some(wide) = whole.iter().enumerate().find(|(at, value)| known(*at) && **value == i64::MIN)
            {
                return Err(format!("value {} is past 64 bits signed", wide.0));
            }
            let mut places: BTreeMap<i64, i64> =
                whole.iter().enumerate().filter(|(at, _)| known(*at)).map(|(_, &value)| (value, 0)).collect();
            places.values_mut().zip(0..).for_each(|(place, at)| *place = at);
            let list = places.keys().map(|&value| CategoryValue::Int(value.into()));
            let list = Categories::from_values(list, Some(numeric.dtype())).map_err(fault)?;
            let codes = whole
                .iter()
                .enumerate()
                .map(|(at, value)| if known(at) { places.get(value).copied().unwrap_or(-1) } else { -1 });
            let codes = Codes::collect(codes, list.len()).map_err(fault)?;
            Categorical::new(codes, list, false).map(Values::Category).map_err(fault)
        }
        Values::Bool { .. } => Err("booleans; only integers and text become categories".into()),
    }
}
