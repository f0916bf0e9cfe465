//! The `pandas` key of a Parquet file's metadata, as pyarrow writes and reads it.

use serde_json::{Value, json};

use crate::table::{Dtype, StringKind, Table, Values};

/// The metadata key.
pub(super) const KEY: &str = "pandas";

/// The name of the column that holds the index: its own, or `__index_level_0__` where it has none or a column has that
/// name.
pub(super) fn index_field(table: &Table) -> Option<String> {
    let index = table.index()?;
    let taken = |name: &str| table.column(name).is_some();
    match index.name() {
        Some(name) if !taken(name) => Some(name.to_owned()),
        _ => (0_u64..).map(|level| format!("__index_level_{level}__")).find(|name| !taken(name)),
    }
}

/// The metadata of a table.
pub(super) fn describe(table: &Table) -> String {
    let mut columns: Vec<Value> =
        table.columns().iter().map(|c| column(Some(c.name()), c.name(), c.values())).collect();
    let index_columns = match (table.index(), index_field(table)) {
        (Some(index), Some(field)) => {
            columns.push(column(index.name(), &field, index.values()));
            json!([field])
        }
        _ => json!([{"kind": "range", "name": null, "start": 0, "stop": table.rows(), "step": 1}]),
    };
    json!({
        "index_columns": index_columns,
        "column_indexes": [{
            "name": null,
            "field_name": null,
            "pandas_type": "unicode",
            "numpy_type": "object",
            "metadata": {"encoding": "UTF-8"},
        }],
        "columns": columns,
        "attributes": {},
        "creator": {"library": "celltile", "version": env!("CARGO_PKG_VERSION")},
        "pandas_version": "2.2.0",
    })
    .to_string()
}

fn column(name: Option<&str>, field: &str, values: &Values) -> Value {
    let (pandas_type, numpy_type, metadata) = match values {
        Values::Category(values) => {
            let codes = values.codes().to_array();
            let width = Dtype::from_arrow(arrow_array::Array::data_type(&codes)).map_or("int32", Dtype::name);
            let metadata = json!({"num_categories": values.categories().len(), "ordered": values.ordered()});
            ("categorical", width.to_owned(), metadata)
        }
        Values::Numeric(values) => {
            let dtype = values.dtype().name();
            (dtype, if values.nullable() { masked(dtype) } else { dtype.to_owned() }, Value::Null)
        }
        Values::Bool { nullable, .. } => {
            ("bool", (if *nullable { "boolean" } else { "bool" }).to_owned(), Value::Null)
        }
        Values::Text(values) => {
            let numpy_type = match values.kind() {
                StringKind::Object | StringKind::Fixed => "object",
                StringKind::Masked => "string",
                StringKind::MaskedNan => "str",
            };
            ("unicode", numpy_type.to_owned(), Value::Null)
        }
    };
    json!({
        "name": name,
        "field_name": field,
        "pandas_type": pandas_type,
        "numpy_type": numpy_type,
        "metadata": metadata,
    })
}

/// pandas' name of a masked dtype: `Int64` for `int64`, `UInt8` for `uint8`.
fn masked(dtype: &str) -> String {
    match dtype.strip_prefix("uint") {
        Some(bits) => format!("UInt{bits}"),
        None => {
            dtype.chars().enumerate().map(|(i, c)| if i == 0 { c.to_ascii_uppercase() } else { c }).collect()
        }
    }
}

/// What a file's metadata says, as far as it can be understood.
#[derive(Debug, Default)]
pub(super) struct Pandas {
    /// The field that holds the index, and the index's name.
    pub(super) index: Option<(String, Option<String>)>,
    /// Field name and NumPy type.
    numpy_types: Vec<(String, String)>,
}

impl Pandas {
    pub(super) fn parse(text: &str) -> Self {
        let Ok(root) = serde_json::from_str::<Value>(text) else { return Self::default() };
        let list = |key: &str| root.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        let columns = list("columns");
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let field_of = |column: &Value| text(column, "field_name").or_else(|| text(column, "name"));
        let index = match list("index_columns").as_slice() {
            [Value::String(field)] => {
                let column = columns.iter().find(|column| field_of(column).as_ref() == Some(field));
                let name = column.and_then(|column| text(column, "name"));
                // Old writers repeat the generated name.
                let name = name.filter(|name| !(name == field && is_generated(name)));
                Some((field.clone(), name))
            }
            // A range, or several levels, which stay columns.
            _ => None,
        };
        let numpy_types = columns
            .iter()
            .filter_map(|column| Some((field_of(column)?, text(column, "numpy_type")?)))
            .collect();
        Self { index, numpy_types }
    }

    fn numpy_type(&self, field: &str) -> &str {
        self.numpy_types.iter().find(|(name, _)| name == field).map_or("", |(_, numpy_type)| numpy_type)
    }

    /// Whether a number or boolean is of a masked dtype.
    pub(super) fn nullable(&self, field: &str) -> bool {
        let numpy_type = self.numpy_type(field);
        numpy_type == "boolean" || numpy_type.starts_with(|c: char| c.is_ascii_uppercase())
    }

    pub(super) fn string_kind(&self, field: &str) -> StringKind {
        match self.numpy_type(field) {
            "str" => StringKind::MaskedNan,
            other if other.starts_with("string") => StringKind::Masked,
            _ => StringKind::Object,
        }
    }
}

fn is_generated(name: &str) -> bool {
    let level = name.strip_prefix("__index_level_").and_then(|rest| rest.strip_suffix("__"));
    level.is_some_and(|level| !level.is_empty() && level.bytes().all(|b| b.is_ascii_digit()))
}
