//! The columns of the cell table.

use celltile::Dataset;
use celltile::obs::{Cache, ObsReader};
use celltile::table::{Categories, CategoryValue};
use serde_json::{Value, json};

use super::short;
use crate::failure::Failure;
use crate::ui::{self, Table};

/// Categories that the table names.
const SHOWN: usize = 4;

/// What the schema and the manifest say of the cell table, and how many values of each column are missing.
pub(super) struct Columns {
    reader: ObsReader,
    /// As many as the schema has columns; none where nobody has counted and counting is too dear.
    missing: Vec<Option<u64>>,
}

impl Columns {
    /// Nothing if the dataset has no cell table.
    pub(super) fn of(dataset: &Dataset) -> Result<Option<Self>, Failure> {
        let Some(reader) = dataset.obs_reader()? else { return Ok(None) };
        let mut missing = Vec::new();
        for field in reader.schema().fields() {
            missing.push(match reader.meta().missing(&field.name) {
                Some(counted) => Some(counted),
                // Another writer's dataset: all values would have to be fetched.
                None if dataset.storage().is_remote() => None,
                None => {
                    let obs = reader.columns(&[&field.name], &Cache::memory())?;
                    let tiles = obs.columns().iter().flat_map(|column| column.tiles());
                    Some(tiles.fold(0, |sum, tile| sum + field.missing(tile.as_ref())))
                }
            });
        }
        Ok(Some(Self { reader, missing }))
    }

    pub(super) fn as_json(&self) -> Value {
        let fields = self.reader.schema().fields().iter().zip(&self.missing);
        let columns = fields.map(|(field, missing)| {
            let categories = field
                .categories
                .as_ref()
                .map(|list| list.iter().map(CategoryValue::to_json).collect::<Vec<_>>());
            json!({
                "name": field.name,
                "kind": field.kind.name(),
                "arrow_type": field.type_name(),
                "n_categories": categories.as_ref().map(Vec::len),
                "categories": categories,
                "ordered": self.reader.meta().column(&field.name).ordered,
                "missing": missing,
            })
        });
        json!({
            "fingerprint": self.reader.fingerprint(),
            "index": self.reader.index_column(),
            "columns": columns.collect::<Vec<_>>(),
        })
    }

    pub(super) fn as_table(&self) -> Table {
        let mut table = Table::new(3..4);
        table.row(["obs column", "kind", "stored as", "missing", "categories"]);
        for (field, missing) in self.reader.schema().fields().iter().zip(&self.missing) {
            let mut notes = field.categories.as_ref().map(named).unwrap_or_default();
            if self.reader.meta().column(&field.name).ordered {
                notes.push_str(" (ordered)");
            }
            if self.reader.index_column() == Some(&field.name) {
                notes = "(the cell names)".to_owned();
            }
            table.row([
                short(&Value::String(field.name.clone())),
                field.kind.name().to_owned(),
                field.type_name().to_owned(),
                missing.map_or_else(|| "?".to_owned(), ui::count),
                notes,
            ]);
        }
        table
    }
}

/// How many categories, and the first of them.
fn named(categories: &Categories) -> String {
    let first = categories.iter().take(SHOWN).map(|value| short(&value.to_json())).collect::<Vec<_>>();
    let more = if categories.len() > SHOWN { ", ..." } else { "" };
    let colon = if categories.is_empty() { "" } else { ": " };
    format!("{}{colon}{}{more}", ui::count(categories.len() as u64), first.join(", "))
}
