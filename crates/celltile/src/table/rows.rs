//! Rows of a table as bytes, for tables that do not fit into memory; and tables of one kind put together.

use std::io::Cursor;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{Field, Schema};

use super::{Column, Table, TableError, Values};

impl Table {
    /// The values of all rows, without names and categories: an Arrow stream.
    ///
    /// # Errors
    /// [`TableError::Arrow`] if a kernel fails.
    pub fn rows_to_bytes(&self) -> Result<Vec<u8>, TableError> {
        let arrays: Vec<_> = self.values().map(Values::to_array).collect();
        let field = |(at, array): (usize, &arrow_array::ArrayRef)| {
            Field::new(at.to_string(), array.data_type().clone(), true)
        };
        let schema = Arc::new(Schema::new(arrays.iter().enumerate().map(field).collect::<Vec<_>>()));
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(self.rows()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), arrays, &options)?;
        let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
        writer.write(&batch)?;
        Ok(writer.into_inner()?)
    }

    /// A table like this one, of rows that came from [`rows_to_bytes`](Self::rows_to_bytes) of another one like it.
    ///
    /// # Errors
    /// [`TableError::Arrow`] if they are none, [`TableError::Length`] if they have other columns.
    pub fn of_bytes(&self, bytes: &[u8]) -> Result<Self, TableError> {
        let mut reader = StreamReader::try_new(Cursor::new(bytes), None)?;
        let batch = reader.next().ok_or_else(|| TableError::Arrow { message: "no rows".to_owned() })??;
        let expected = self.values().count();
        if batch.num_columns() != expected {
            return Err(TableError::Length {
                column: "columns".into(),
                found: batch.num_columns(),
                expected,
            });
        }
        self.with_arrays(batch.num_rows(), batch.columns().iter().cloned())
    }

    /// The rows of tables that are all like the first, one after the other.
    ///
    /// # Errors
    /// [`TableError::Arrow`] if they are not alike.
    pub fn concat(tables: &[&Self]) -> Result<Self, TableError> {
        let Some(first) = tables.first() else { return Ok(Self::empty()) };
        let columns: Vec<Vec<_>> =
            tables.iter().map(|table| table.values().map(Values::to_array).collect()).collect();
        let arrays = (0..first.values().count())
            .map(|at| {
                let parts: Vec<_> = columns.iter().filter_map(|c| c.get(at)).map(AsRef::as_ref).collect();
                Ok(arrow_select::concat::concat(&parts)?)
            })
            .collect::<Result<Vec<_>, TableError>>()?;
        first.with_arrays(tables.iter().map(|table| table.rows()).sum(), arrays.into_iter())
    }

    /// Index and columns.
    fn values(&self) -> impl Iterator<Item = &Values> {
        self.index().map(super::Index::values).into_iter().chain(self.columns().iter().map(Column::values))
    }

    fn with_arrays(
        &self,
        rows: usize,
        mut arrays: impl Iterator<Item = arrow_array::ArrayRef>,
    ) -> Result<Self, TableError> {
        let missing = || TableError::Arrow { message: "a column is missing".to_owned() };
        let mut next = |values: &Values| {
            let array = arrays.next().ok_or_else(missing)?;
            let own = values.slice(0, 0).to_array();
            if array.data_type() != own.data_type() {
                let message = format!("{} where {} was expected", array.data_type(), own.data_type());
                return Err(TableError::Arrow { message });
            }
            values.with_array(array)
        };
        let index = match self.index() {
            None => None,
            Some(index) => Some(super::Index::new(index.name().map(str::to_owned), next(index.values())?)),
        };
        let columns = self
            .columns()
            .iter()
            .map(|column| Ok(Column::new(column.name(), next(column.values())?)))
            .collect::<Result<Vec<_>, TableError>>()?;
        Self::new(rows, index, columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Categorical, Categories, Codes, Index, Numeric, Text};

    #[test]
    fn test_rows_come_back_and_join() {
        let codes = Codes::collect([0, -1, 1], 2).unwrap();
        let kinds = Categorical::new(codes, Categories::from_text(["a", "b"]).unwrap(), true).unwrap();
        let numbers = arrow_array::Int64Array::from(vec![Some(1), None, Some(i64::MAX)]);
        let names = [Some("x"), Some(""), Some("z")].into_iter().collect::<Text>();
        let columns = vec![
            Column::new("kind", kinds),
            Column::new("number", Numeric::new(Arc::new(numbers), true).unwrap()),
            Column::new("flag", Values::bools(vec![Some(true), None, Some(false)].into(), true)),
        ];
        let table = Table::new(3, Some(Index::new(None, names)), columns).unwrap();
        let like = table.slice(0, 0).unwrap();
        assert_eq!(like.of_bytes(&table.rows_to_bytes().unwrap()).unwrap(), table);
        let parts = [table.slice(0, 1).unwrap(), like.clone(), table.slice(1, 2).unwrap()];
        assert_eq!(Table::concat(&parts.iter().collect::<Vec<_>>()).unwrap(), table);
        assert!(like.of_bytes(b"no stream").is_err());
        assert!(Table::empty().of_bytes(&table.rows_to_bytes().unwrap()).is_err());
    }
}
