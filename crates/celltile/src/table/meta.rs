use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Dtype, FoldOrder, Folded, StringKind, Table, TableError, Text, Values};

/// What a table has beyond names, kinds, Arrow types and categories: the JSON under `metadata.celltile.obs` and
/// `metadata.celltile.var`.
///
/// ```json
/// {"index": {"column": "_index", "name": null},
///  "columns": {"age": {"nullable": true},
///              "stage": {"ordered": true, "categories": "int8"},
///              "note": {"string": "str"}},
///  "missing": {"age": 12}}
/// ```
///
/// Only what differs from the default is written. Readers do without it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableMeta {
    /// Which column holds the index; none for a plain range.
    pub index: Option<IndexMeta>,
    /// Facts by column name, the index's column among them.
    pub columns: BTreeMap<String, ColumnMeta>,
    /// Missing values of the columns that have any, if they were counted.
    pub missing: Option<BTreeMap<String, u64>>,
}

/// Which column holds the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexMeta {
    /// The column's name in the files.
    pub column: String,
    /// The index's own name, which may be none.
    pub name: Option<String>,
}

/// What a column has beyond its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ColumnMeta {
    /// The source's dtype is a masked one (pandas `Int64`, `Float32`, `boolean`).
    pub nullable: bool,
    /// pandas' `ordered`.
    pub ordered: bool,
    /// Dtype of the category values, where it is not what the values suggest.
    pub categories: Option<Dtype>,
    /// Kind of string, where it is not NumPy's object.
    pub string: Option<StringKind>,
    /// A text column that was a categorical one.
    pub folded: Option<Folded>,
}

impl TableMeta {
    pub(super) fn of(table: &Table) -> Self {
        let mut columns: BTreeMap<_, _> = table
            .columns()
            .iter()
            .map(|column| (column.name().to_owned(), ColumnMeta::of(column.values())))
            .filter(|(_, meta)| *meta != ColumnMeta::default())
            .collect();
        let index = table.index().zip(table.index_column_name()).map(|(index, column)| {
            let meta = ColumnMeta::of(index.values());
            if meta != ColumnMeta::default() {
                columns.insert(column.clone(), meta);
            }
            IndexMeta { column, name: index.name().map(str::to_owned) }
        });
        Self { index, columns, missing: None }
    }

    /// The facts of a column; the default where nothing is known.
    #[must_use]
    pub fn column(&self, name: &str) -> ColumnMeta {
        self.columns.get(name).copied().unwrap_or_default()
    }

    /// How many values of a column are missing, if they were counted.
    #[must_use]
    pub fn missing(&self, name: &str) -> Option<u64> {
        self.missing.as_ref().map(|missing| missing.get(name).copied().unwrap_or(0))
    }

    /// The JSON form.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let columns: Map<_, _> =
            self.columns.iter().map(|(name, meta)| (name.clone(), meta.to_json())).collect();
        let index = self.index.as_ref().map(|index| json!({"column": index.column, "name": index.name}));
        let mut text = json!({"index": index, "columns": columns});
        if let (Some(missing), Some(map)) = (&self.missing, text.as_object_mut()) {
            map.insert("missing".to_owned(), json!(missing));
        }
        text
    }

    /// Reads the JSON form. Keys that this version does not know are left alone.
    ///
    /// # Errors
    /// [`TableError::Meta`] if a known key has a value of another type.
    pub fn from_json(value: &Value) -> Result<Self, TableError> {
        let bad = |message: String| TableError::Meta { message };
        let root = value.as_object().ok_or_else(|| bad("not a JSON object".to_owned()))?;
        let index = match root.get("index") {
            None | Some(Value::Null) => None,
            Some(index) => {
                let column = index.get("column").and_then(Value::as_str);
                let column = column.ok_or_else(|| bad("index.column is not text".to_owned()))?.to_owned();
                let name = match index.get("name") {
                    None | Some(Value::Null) => None,
                    Some(Value::String(name)) => Some(name.clone()),
                    Some(other) => return Err(bad(format!("index.name is {other}, not text or null"))),
                };
                Some(IndexMeta { column, name })
            }
        };
        let columns = match root.get("columns") {
            None => BTreeMap::new(),
            Some(columns) => columns
                .as_object()
                .ok_or_else(|| bad("columns is not a JSON object".to_owned()))?
                .iter()
                .map(|(name, meta)| {
                    let meta = ColumnMeta::from_json(meta)
                        .ok_or_else(|| bad(format!("column {name:?} has {meta}")))?;
                    Ok((name.clone(), meta))
                })
                .collect::<Result<_, TableError>>()?,
        };
        let missing = match root.get("missing") {
            None => None,
            Some(missing) => {
                let missing =
                    missing.as_object().ok_or_else(|| bad("missing is not a JSON object".to_owned()))?;
                let count = |(name, count): (&String, &Value)| {
                    let count = count.as_u64().ok_or_else(|| bad(format!("missing.{name:?} is {count}")))?;
                    Ok((name.clone(), count))
                };
                Some(missing.iter().map(count).collect::<Result<_, TableError>>()?)
            }
        };
        Ok(Self { index, columns, missing })
    }
}

impl ColumnMeta {
    /// The facts of a column's values.
    #[must_use]
    pub fn of(values: &Values) -> Self {
        let mut meta = Self::default();
        match values {
            Values::Category(values) => {
                meta.ordered = values.ordered();
                let categories = values.categories();
                let plain = super::Categories::from_values(categories.iter(), None).map(|c| c.dtype());
                meta.categories = (plain != Ok(categories.dtype())).then_some(categories.dtype());
            }
            Values::Numeric(values) => meta.nullable = values.nullable(),
            Values::Bool { nullable, .. } => meta.nullable = *nullable,
            Values::Text(values) => {
                meta.string = Some(values.kind()).filter(|kind| *kind != StringKind::Object);
                meta.folded = values.folded().copied();
            }
        }
        meta
    }

    /// Gives values that were read without these facts the form they had in the source.
    ///
    /// # Errors
    /// [`TableError::Meta`] if the category dtype does not fit the values.
    pub fn apply(&self, values: Values) -> Result<Values, TableError> {
        Ok(match values {
            Values::Category(values) => {
                let categories = values.categories().clone();
                let categories = match self.categories {
                    Some(dtype) => categories.with_dtype(dtype)?,
                    None => categories,
                };
                super::Categorical::new(values.codes().clone(), categories, self.ordered)?.into()
            }
            Values::Numeric(values) => super::Numeric::new(values.array().clone(), self.nullable)?.into(),
            Values::Bool { values, .. } => Values::bools(values, self.nullable),
            Values::Text(values) => {
                let kind = self.string.unwrap_or_default();
                Text::new(values.values().clone(), kind).with_folded(self.folded).into()
            }
        })
    }

    fn to_json(self) -> Value {
        let mut map = Map::new();
        if self.nullable {
            map.insert("nullable".to_owned(), true.into());
        }
        if self.ordered {
            map.insert("ordered".to_owned(), true.into());
        }
        if let Some(dtype) = self.categories {
            map.insert("categories".to_owned(), dtype.name().into());
        }
        if let Some(kind) = self.string {
            map.insert("string".to_owned(), kind.name().into());
        }
        if let Some(folded) = self.folded {
            let folded = json!({"categories": folded.dtype.name(), "ordered": folded.ordered,
                "order": folded.order.name()});
            map.insert("was_category".to_owned(), folded);
        }
        Value::Object(map)
    }

    fn from_json(value: &Value) -> Option<Self> {
        let map = value.as_object()?;
        let flag = |map: &Map<String, Value>, key: &str| match map.get(key) {
            None => Some(false),
            Some(value) => value.as_bool(),
        };
        let name = |key: &str| map.get(key).map(|value| value.as_str().unwrap_or_default());
        let folded = match map.get("was_category") {
            None => None,
            Some(folded) => {
                let folded = folded.as_object()?;
                Some(Folded {
                    dtype: Dtype::from_name(folded.get("categories")?.as_str()?)?,
                    ordered: flag(folded, "ordered")?,
                    order: FoldOrder::from_name(folded.get("order")?.as_str()?)?,
                })
            }
        };
        Some(Self {
            nullable: flag(map, "nullable")?,
            ordered: flag(map, "ordered")?,
            categories: name("categories").map(|n| Dtype::from_name(n).ok_or(())).transpose().ok()?,
            string: name("string").map(|n| StringKind::from_name(n).ok_or(())).transpose().ok()?,
            folded,
        })
    }
}
