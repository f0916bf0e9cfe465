//! The `celltile` key of a file's metadata: what Parquet and pandas' own notes do not keep.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::table::{Categories, CategoryValue, Dtype, Table, Values};

/// The metadata key.
pub(super) const KEY: &str = "celltile";

/// Categories that are no text, by field name: dtype, values, `ordered`.
#[derive(Debug, Default)]
pub(super) struct Extra {
    categories: BTreeMap<String, (Categories, bool)>,
}

impl Extra {
    /// What there is to keep of a table whose index is in the field `index`.
    pub(super) fn of(table: &Table, index: Option<&str>) -> Self {
        let index = index.zip(table.index().map(|index| index.values()));
        let fields = table.columns().iter().map(|c| (c.name(), c.values())).chain(index);
        let categories = fields.filter_map(|(name, values)| match values {
            Values::Category(values) if !matches!(values.categories().dtype(), Dtype::Text(_)) => {
                Some((name.to_owned(), (values.categories().clone(), values.ordered())))
            }
            _ => None,
        });
        Self { categories: categories.collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.categories.is_empty()
    }

    pub(super) fn to_json(&self) -> String {
        let categories: serde_json::Map<_, _> = self
            .categories
            .iter()
            .map(|(name, (categories, ordered))| {
                let values: Vec<_> = categories.iter().map(CategoryValue::to_json).collect();
                let dtype = categories.dtype().name();
                (name.clone(), json!({"dtype": dtype, "ordered": ordered, "values": values}))
            })
            .collect();
        json!({"version": 1, "categories": categories}).to_string()
    }

    /// What a file holds, as far as it can be understood.
    pub(super) fn parse(text: &str) -> Self {
        let root: Value = serde_json::from_str(text).unwrap_or_default();
        let categories = root.get("categories").and_then(Value::as_object).into_iter().flatten();
        let categories = categories.filter_map(|(name, value)| {
            let dtype = Dtype::from_name(value.get("dtype")?.as_str()?)?;
            let values: Option<Vec<_>> =
                value.get("values")?.as_array()?.iter().map(CategoryValue::from_json).collect();
            let categories = Categories::from_values(values?, Some(dtype)).ok()?;
            Some((name.clone(), (categories, value.get("ordered")?.as_bool()?)))
        });
        Self { categories: categories.collect() }
    }

    /// The categories of a field, and whether they are ordered.
    pub(super) fn categories(&self, field: &str) -> Option<&(Categories, bool)> {
        self.categories.get(field)
    }
}
