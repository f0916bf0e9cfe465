//! obs and var as AnnData's data frames.

use std::sync::Arc;

use arrow_array::{ArrayRef, LargeStringArray};
use celltile::obs::Obs;
use celltile::table::{Categories, StringKind, Table, Text, UNNAMED_INDEX, Values};
use serde_json::{Map, Value, json};

use super::encoded;
use super::series::{Series, SeriesKind, SeriesPart, SharedSeries};
use crate::error::{Result, ZarrError};

/// A data frame: its columns, the index among them.
#[derive(Debug)]
pub(super) struct Frame {
    index: String,
    columns: Vec<(String, SharedSeries)>,
}

impl Frame {
    /// A frame of no columns whose index are the row numbers.
    pub(super) fn of_rows(rows: u64) -> Self {
        let index = UNNAMED_INDEX.to_owned();
        Self { columns: vec![(index.clone(), Series::row_numbers(rows).shared())], index }
    }

    /// A frame of no columns with that index.
    pub(super) fn from_names(names: &[String]) -> Self {
        let names: LargeStringArray = names.iter().map(Some).collect();
        let series = Series::from_values(&Text::new(names, StringKind::Object).into());
        Self { index: UNNAMED_INDEX.to_owned(), columns: vec![(UNNAMED_INDEX.to_owned(), series.shared())] }
    }

    pub(super) fn from_table(table: &Table) -> Result<Self> {
        let mut columns = Vec::new();
        let index =
            table.index_column_name().unwrap_or_else(|| free_name(table.columns().iter().map(|c| c.name())));
        match table.index() {
            Some(found) => columns.push((index.clone(), index_text(found.values())?.shared())),
            None => columns.push((index.clone(), Series::row_numbers(table.rows() as u64).shared())),
        }
        for column in table.columns() {
            columns.push((column.name().to_owned(), Series::from_values(column.values()).shared()));
        }
        Ok(Self { index, columns })
    }

    pub(super) fn from_obs(obs: &Obs, names: Option<&str>) -> Result<Self> {
        let mut columns = Vec::new();
        let mut index = None;
        for column in obs.columns() {
            let name = column.field().name.clone();
            if names == Some(name.as_str()) {
                let series = Series::from_obs(column);
                let series = match series.kind {
                    SeriesKind::Text { .. } => series,
                    _ => index_text(&column.values()?)?,
                };
                index = Some(name.clone());
                columns.push((name, series.shared()));
            } else {
                columns.push((name, Series::from_obs(column).shared()));
            }
        }
        let index = match index {
            Some(index) => index,
            None => {
                let name = free_name(columns.iter().map(|(name, _)| name.as_str()));
                columns.insert(0, (name.clone(), Series::row_numbers(obs.rows()).shared()));
                name
            }
        };
        Ok(Self { index, columns })
    }

    /// The name of the index.
    pub(super) fn index(&self) -> &str {
        &self.index
    }

    /// Columns and index, by name.
    pub(super) fn columns(&self) -> impl Iterator<Item = (&str, &SharedSeries)> {
        self.columns.iter().map(|(name, series)| (name.as_str(), series))
    }
}

/// `_index`, with a number behind it while a column has that name.
fn free_name<'a>(taken: impl Iterator<Item = &'a str>) -> String {
    let taken: Vec<&str> = taken.collect();
    let numbered = (1_u64..).map(|n| format!("{UNNAMED_INDEX}_{n}"));
    std::iter::once(UNNAMED_INDEX.to_owned())
        .chain(numbered)
        .find(|name| !taken.contains(&name.as_str()))
        .unwrap_or_default()
}

/// An index as text, which is all that AnnData takes.
fn index_text(values: &Values) -> Result<Series> {
    let fault = |error: celltile::table::TableError| ZarrError::metadata("index", error.to_string());
    let array: ArrayRef = match values {
        Values::Text(_) => return Ok(Series::from_values(values)),
        Values::Category(values) => {
            let text = |code: i32| {
                usize::try_from(code)
                    .ok()
                    .and_then(|code| values.categories().get(code))
                    .map(|value| value.to_string())
            };
            Arc::new(values.codes().iter().map(text).collect::<LargeStringArray>())
        }
        Values::Numeric(_) | Values::Bool { .. } => {
            let (distinct, rows) =
                Categories::from_array_dedup(&values.to_array(), StringKind::Object).map_err(fault)?;
            let text = |&code: &usize| distinct.get(code).map(|value| value.to_string());
            Arc::new(rows.iter().map(text).collect::<LargeStringArray>())
        }
    };
    Ok(Series::from_values(&Text::from_array(&array, StringKind::Object).map_err(fault)?.into()))
}

/// A group's attributes, and the arrays in it by name.
type Layout = (Map<String, Value>, Vec<(&'static str, SeriesPart)>);

/// How AnnData writes a column: one array, or a group of some.
pub(super) fn layout(series: &Series) -> Option<Layout> {
    let masked = vec![("values", SeriesPart::Values), ("mask", SeriesPart::Mask)];
    match &series.kind {
        SeriesKind::Category { ordered, .. } => {
            let mut attributes = encoded("categorical", "0.2.0");
            attributes.insert("ordered".to_owned(), json!(ordered));
            let parts = vec![("categories", SeriesPart::Categories), ("codes", SeriesPart::Values)];
            Some((attributes, parts))
        }
        SeriesKind::Number { masked: true } => Some((encoded("nullable-integer", "0.1.0"), masked)),
        SeriesKind::Bool { masked: true } => Some((encoded("nullable-boolean", "0.1.0"), masked)),
        SeriesKind::Text { mask: Some(kind) } => {
            let mut attributes = encoded("nullable-string-array", "0.1.0");
            let missing = if *kind == StringKind::Masked { "NA" } else { "NaN" };
            attributes.insert("na-value".to_owned(), json!(missing));
            Some((attributes, masked))
        }
        SeriesKind::Number { .. }
        | SeriesKind::Bool { .. }
        | SeriesKind::Text { .. }
        | SeriesKind::RowNumbers => None,
    }
}
