//! The gene table of several inputs.

use celltile::table::unify::Union;
use celltile::table::{Column, Table, TableError};

use crate::error::Result;

/// Where a gene's row of the joined table is from: the part, and the row in it.
pub(super) type Place = (usize, u64);

/// The table, made of the first input's and the rows of genes that later ones add. A column stays if every input has it, and
/// has the same value for every gene that it shares with one before.
#[derive(Debug, Default)]
pub(super) struct JoinedVar {
    /// The first input's table, then rows that others add, each with its input.
    parts: Vec<(String, Table)>,
    /// Columns that are left out, and why.
    dropped: Vec<(String, String)>,
}

impl JoinedVar {
    /// Starts with the first input's table.
    pub(super) fn first(name: &str, var: &Table) -> Self {
        Self { parts: vec![(name.to_owned(), var.clone())], dropped: Vec::new() }
    }

    /// A later input with the very genes of the first.
    pub(super) fn same(&mut self, name: &str, var: &Table) -> Result<()> {
        self.columns(name, var);
        if let Some((first, table)) = self.parts.first() {
            let differing = differing(&self.without(table)?, var);
            let first = first.clone();
            self.drop_differing(differing, &first, name);
        }
        Ok(())
    }

    /// A later input: the places of genes that are there already with its own row of each.
    pub(super) fn compare(&mut self, name: &str, var: &Table, shared: &[(Place, u64)]) -> Result<()> {
        self.columns(name, var);
        let mut rows = vec![(Vec::new(), Vec::new()); self.parts.len()];
        for ((part, row), own) in shared {
            if let Some((rows, own_rows)) = rows.get_mut(*part) {
                rows.push(*row);
                own_rows.push(*own);
            }
        }
        for (at, (rows, own_rows)) in rows.iter().enumerate().filter(|(_, (rows, _))| !rows.is_empty()) {
            let Some((part, table)) = self.parts.get(at) else { continue };
            let differing = differing(&self.without(table)?.take(rows)?, &var.take(own_rows)?);
            let part = part.clone();
            self.drop_differing(differing, &part, name);
        }
        Ok(())
    }

    /// Adds rows of an input; the part that they are.
    pub(super) fn add(&mut self, name: &str, var: &Table, rows: &[u64]) -> Result<usize> {
        self.parts.push((name.to_owned(), var.take(rows)?));
        Ok(self.parts.len() - 1)
    }

    /// The rows at some places, and the columns that were left out with the reason for each.
    pub(super) fn finish(mut self, places: &[Place]) -> Result<(Table, Vec<(String, String)>)> {
        if self.parts.is_empty() {
            return Ok((Table::empty(), self.dropped));
        }
        self.drop_unlike()?;
        let tables = self.parts.iter().map(|(_, table)| self.without(table)).collect::<Result<Vec<_>>>()?;
        let named: Vec<(&str, &Table)> =
            self.parts.iter().map(|(name, _)| name.as_str()).zip(&tables).collect();
        let whole = match tables.as_slice() {
            [only] => only.clone(),
            _ => Union::of(&named)?.concat(&tables.iter().collect::<Vec<_>>())?,
        };
        let mut starts = Vec::with_capacity(tables.len());
        let mut start = 0_u64;
        for table in &tables {
            starts.push(start);
            start += table.rows() as u64;
        }
        let row = |(part, row): &Place| starts.get(*part).copied().unwrap_or(u64::MAX).saturating_add(*row);
        let rows: Vec<u64> = places.iter().map(row).collect();
        Ok((whole.take(&rows)?, self.dropped))
    }

    /// Leaves out columns that not all inputs have.
    fn columns(&mut self, name: &str, var: &Table) {
        let Some((first, table)) = self.parts.first() else { return };
        let lacks = |who: &str| format!("{who} does not have it");
        let missing = table.columns().iter().filter(|column| var.column(column.name()).is_none());
        let more = var.columns().iter().filter(|column| table.column(column.name()).is_none());
        let found: Vec<(String, String)> = missing
            .map(|column| (column.name().to_owned(), lacks(name)))
            .chain(more.map(|column| (column.name().to_owned(), lacks(first))))
            .collect();
        for (column, why) in found {
            self.drop_column(&column, why);
        }
    }

    fn drop_differing(&mut self, columns: Vec<String>, one: &str, other: &str) {
        for column in columns {
            self.drop_column(&column, format!("{one} and {other} differ in it for genes that both have"));
        }
    }

    /// Leaves out columns whose parts cannot be one column.
    fn drop_unlike(&mut self) -> Result<()> {
        let names: Vec<String> = match self.parts.as_slice() {
            [_] | [] => return Ok(()),
            [(_, first), ..] => self.without(first)?.columns().iter().map(|c| c.name().to_owned()).collect(),
        };
        for name in names {
            let only = |(part, table): &(String, Table)| -> Result<(String, Table), TableError> {
                let columns = table.column(&name).into_iter().cloned().collect();
                Ok((part.clone(), Table::new(table.rows(), None, columns)?))
            };
            let parts = self.parts.iter().map(only).collect::<Result<Vec<_>, _>>()?;
            let named: Vec<(&str, &Table)> =
                parts.iter().map(|(part, table)| (part.as_str(), table)).collect();
            if let Err(error) = Union::of(&named) {
                self.drop_column(&name, error.to_string());
            }
        }
        Ok(())
    }

    fn drop_column(&mut self, column: &str, why: String) {
        if !self.dropped.iter().any(|(name, _)| name == column) {
            self.dropped.push((column.to_owned(), why));
        }
    }

    /// A table without the columns that are left out.
    fn without(&self, table: &Table) -> Result<Table> {
        let (rows, index, columns) = table.clone().into_parts();
        let left_out = |column: &Column| self.dropped.iter().any(|(name, _)| name == column.name());
        Ok(Table::new(rows, index, columns.into_iter().filter(|column| !left_out(column)).collect())?)
    }
}

/// Columns of `a` whose values are others in `b`.
fn differing(a: &Table, b: &Table) -> Vec<String> {
    let differ = |column: &&Column| b.column(column.name()).is_some_and(|other| !alike(column, other));
    a.columns().iter().filter(differ).map(|column| column.name().to_owned()).collect()
}

/// Whether two columns of one name say the same: by their values, whatever their codes and the width of their numbers.
fn alike(a: &Column, b: &Column) -> bool {
    a.values() == b.values() || unified(a, b).is_ok_and(|(a, b)| a.columns() == b.columns())
}

fn unified(a: &Column, b: &Column) -> Result<(Table, Table), TableError> {
    let a = Table::new(a.values().len(), None, vec![a.clone()])?;
    let b = Table::new(b.values().len(), None, vec![b.clone()])?;
    let union = Union::of(&[("one", &a), ("another", &b)])?;
    Ok((union.conform(0, &a)?, union.conform(1, &b)?))
}
