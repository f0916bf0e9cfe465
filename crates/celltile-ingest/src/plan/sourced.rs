use celltile::table::{Categorical, Categories, Codes, Column, Table};

use super::joining::Joining;
use crate::error::{Error, Result};
use crate::source::Source;

/// obs with the column of inputs that goes on, if one does: a dataset keeps what its own says, all cells of another input say
/// what that is called.
pub(super) fn with_source(obs: Table, source: &dyn Source, name: &str, joining: &Joining) -> Result<Table> {
    let Some(column) = &joining.continued_source else { return Ok(obs) };
    if obs.column(column).is_some() {
        if source.source_column() == Some(column) {
            return Ok(obs);
        }
        return Err(Error::Options(format!(
            "{}: obs has a column {column:?} of its own, which in the dataset says what a cell is from; --source-column \
             names another one for that",
            source.info().file
        )));
    }
    let (rows, index, mut columns) = obs.into_parts();
    let codes = Codes::collect(std::iter::repeat_n(0, rows), 1)?;
    let categories = Categories::from_text([name])?;
    columns.push(Column::new(column.clone(), Categorical::new(codes, categories, false)?));
    Ok(Table::new(rows, index, columns)?)
}
