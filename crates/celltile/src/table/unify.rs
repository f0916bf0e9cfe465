//! One schema for the tables of several inputs.
//!
//! The rules, by what the inputs hold under one column name:
//!
//! - categories: the union of the lists, the first input's order first, then first appearance. The result is ordered
//!   only if every input is, none disagrees with the union's order and one of them has the whole union;
//! - categories of text and text: categories;
//! - numbers of different dtypes: the narrowest that holds both; integers and floats, or signed and uint64, become
//!   float64 or int64 only if every value stays exact;
//! - a column that is all missing takes the others' type; one that an input does not have is all missing there, and
//!   integers and booleans become masked by that;
//! - anything else is an error that names the column and the inputs. Values of different types never merge: 1 is
//!   not "1".
//!
//! Columns come in the first input's order, then those that later inputs add.

mod cast;
mod json;
mod merge;
mod sketch;
mod target;

use std::collections::HashSet;

use self::merge::Source;
pub use self::sketch::Sketch;
use self::target::Target;
use super::{Column, Index, Table, TableError, UNNAMED_INDEX, Values};

/// The common schema of several tables, and how each of them becomes like it.
#[derive(Debug, Clone)]
pub struct Union {
    inputs: usize,
    index: Option<(Option<String>, Target)>,
    columns: Vec<(String, Target)>,
}

impl Union {
    /// The common schema of the inputs' tables, each with the name that errors give it.
    ///
    /// # Errors
    /// [`TableError::Unify`] and [`TableError::Inexact`] for the first column that cannot be one.
    pub fn of(inputs: &[(&str, &Table)]) -> Result<Self, TableError> {
        let mut seen = HashSet::new();
        let mut columns = Vec::new();
        for column in inputs.iter().flat_map(|(_, table)| table.columns()) {
            if !seen.insert(column.name()) {
                continue;
            }
            let sources: Vec<_> = inputs
                .iter()
                .map(|(input, table)| Source {
                    input,
                    values: table.column(column.name()).map(Column::values),
                })
                .collect();
            columns.push((column.name().to_owned(), merge::target(column.name(), &sources)?));
        }
        Ok(Self { inputs: inputs.len(), index: index(inputs)?, columns })
    }

    /// The common schema of tables of which there are only sketches.
    ///
    /// # Errors
    /// As [`of`](Self::of), with the rows of the whole tables.
    pub fn of_sketches(inputs: &[(&str, &Sketch)]) -> Result<Self, TableError> {
        let tables: Vec<_> = inputs.iter().map(|(name, sketch)| (*name, sketch.table())).collect();
        Self::of(&tables).map_err(|mut error| {
            if let TableError::Inexact { column, input, row, .. } = &mut error
                && let Some((_, sketch)) = inputs.iter().find(|(name, _)| *name == &**input)
            {
                *row = sketch.row(column, *row);
            }
            error
        })
    }

    /// Columns that hold categories in some of the inputs and text in others: the text of these has to be spelled out in
    /// sketches.
    #[must_use]
    pub fn mixed_columns(inputs: &[&Table]) -> Vec<String> {
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        for column in inputs.iter().flat_map(|table| table.columns()).filter(|c| seen.insert(c.name())) {
            let has = |kind| {
                let values = inputs.iter().filter_map(|table| table.column(column.name()));
                values.map(Column::values).any(|values| values.kind() == kind)
            };
            if has(super::Kind::Category) && has(super::Kind::String) {
                found.push(column.name().to_owned());
            }
        }
        found
    }

    /// The table of input number `input` in the common schema.
    ///
    /// # Errors
    /// [`TableError::NotPlanned`] if it is not the table that the union was made for.
    pub fn conform(&self, input: usize, table: &Table) -> Result<Table, TableError> {
        if input >= self.inputs {
            return Err(TableError::NotPlanned { message: format!("input {input} of {}", self.inputs) });
        }
        self.conform_any(table)
    }

    /// A table in the common schema, which need not be one of those that the union was made of: what it holds must fit.
    ///
    /// # Errors
    /// [`TableError::NotPlanned`] for a column or kind that the union does not have; [`TableError::Code`] for a category
    /// that it does not have.
    pub fn conform_any(&self, table: &Table) -> Result<Table, TableError> {
        if let Some(column) =
            table.columns().iter().find(|c| !self.columns.iter().any(|(n, _)| n == c.name()))
        {
            return Err(TableError::NotPlanned { message: format!("column {:?} is new", column.name()) });
        }
        let rows = table.rows();
        let columns = self
            .columns
            .iter()
            .map(|(name, target)| {
                let values = table.column(name).map(Column::values);
                let values = target.conform(values, rows).map_err(|e| e.in_column(name))?;
                Ok(Column::new(name.clone(), values))
            })
            .collect::<Result<_, TableError>>()?;
        let index = match &self.index {
            None => None,
            Some((name, target)) => {
                let values = target.conform(table.index().map(Index::values), rows)?;
                Some(Index::new(name.clone(), values))
            }
        };
        Table::new(rows, index, columns)
    }

    /// A table without rows in the common schema.
    ///
    /// # Errors
    /// As [`conform`](Self::conform).
    pub fn empty(&self) -> Result<Table, TableError> {
        self.conform_any(&Table::new(0, None, Vec::new())?)
    }

    /// Its JSON form, for processes that share it.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        json::of(self)
    }

    /// Reads the JSON form.
    ///
    /// # Errors
    /// [`TableError::Meta`] if it is not one.
    pub fn from_json(value: &serde_json::Value) -> Result<Self, TableError> {
        json::union(value)
            .ok_or_else(|| TableError::Meta { message: "not the JSON form of a union".to_owned() })
    }

    /// The rows of all tables, in order, in the common schema.
    ///
    /// # Errors
    /// As [`conform`](Self::conform).
    pub fn concat(&self, tables: &[&Table]) -> Result<Table, TableError> {
        let parts = tables
            .iter()
            .enumerate()
            .map(|(input, table)| self.conform(input, table))
            .collect::<Result<Vec<_>, _>>()?;
        let rows = parts.iter().map(Table::rows).sum();
        let columns = self
            .columns
            .iter()
            .enumerate()
            .map(|(i, (name, _))| {
                let pieces = parts.iter().filter_map(|part| part.columns().get(i)).map(Column::values);
                let values = concat(pieces)?.ok_or_else(|| no_inputs(name))?;
                Ok(Column::new(name.clone(), values))
            })
            .collect::<Result<_, TableError>>()?;
        let index = match &self.index {
            None => None,
            Some((name, _)) => concat(parts.iter().filter_map(Table::index).map(Index::values))?
                .map(|values| Index::new(name.clone(), values)),
        };
        Table::new(rows, index, columns)
    }
}

fn no_inputs(column: &str) -> TableError {
    TableError::NotPlanned { message: format!("no input for column {column:?}") }
}

fn index(inputs: &[(&str, &Table)]) -> Result<Option<(Option<String>, Target)>, TableError> {
    let sources: Vec<_> = inputs
        .iter()
        .map(|(input, table)| Source { input, values: table.index().map(Index::values) })
        .collect();
    if sources.iter().all(|source| source.values.is_none()) {
        return Ok(None);
    }
    let mut names = inputs.iter().map(|(_, table)| table.index().and_then(Index::name));
    let first = names.next().flatten();
    let name = first.filter(|_| names.all(|name| name == first)).map(str::to_owned);
    let column = name.as_deref().unwrap_or(UNNAMED_INDEX).to_owned();
    if let (Some(with), Some(without)) = (
        sources.iter().find(|source| source.values.is_some()),
        sources.iter().find(|source| source.values.is_none()),
    ) {
        return Err(TableError::Unify {
            column: column.into(),
            first: with.input.into(),
            first_kind: "an index of names".into(),
            second: without.input.into(),
            second_kind: "no index".into(),
            advice: "give every input an index".into(),
        });
    }
    Ok(Some((name, merge::target(&column, &sources)?)))
}

/// Columns of one type, one after the other.
fn concat<'a>(pieces: impl Iterator<Item = &'a Values>) -> Result<Option<Values>, TableError> {
    let pieces: Vec<_> = pieces.collect();
    let Some(first) = pieces.first() else { return Ok(None) };
    let arrays: Vec<_> = pieces.iter().map(|piece| piece.to_array()).collect();
    let arrays: Vec<_> = arrays.iter().map(AsRef::as_ref).collect();
    Ok(Some(first.with_array(arrow_select::concat::concat(&arrays)?)?))
}
