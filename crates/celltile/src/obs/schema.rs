use std::collections::HashSet;

use serde_json::{Value, json};

use super::ObsField;
use super::fault::file_fault as fault;
use crate::error::Result;
use crate::table::{Categories, CategoryValue, Kind};

/// What `format` must be.
const FORMAT: &str = "deltacells-obs";
/// What `version` must be.
const VERSION: u64 = 1;

/// `obs/schema.json`: the columns of the obs table.
#[derive(Debug, Clone, PartialEq)]
pub struct ObsSchema {
    fields: Vec<ObsField>,
}

impl ObsSchema {
    /// A schema of these columns.
    ///
    /// # Errors
    /// [`Error::File`](crate::Error::File) if two share a name, or one has a type that its kind cannot have.
    pub fn new(fields: Vec<ObsField>) -> Result<Self> {
        Self::check(fields, "obs/schema.json")
    }

    /// Parses a schema's text. `path` names it in errors.
    ///
    /// # Errors
    /// [`Error::File`](crate::Error::File) with the first thing that is not as the format says.
    pub fn parse(text: &[u8], path: &str) -> Result<Self> {
        let root: Value = serde_json::from_slice(text)
            .map_err(|e| fault(path, "JSON", e.to_string(), "an object with format, version and columns"))?;
        let object = root.as_object();
        let get = |key: &str| object.and_then(|o| o.get(key)).unwrap_or(&Value::Null);
        if get("format").as_str() != Some(FORMAT) {
            return Err(fault(path, "format", cut(get("format")), format!("{FORMAT:?}")));
        }
        if get("version").as_u64() != Some(VERSION) {
            return Err(fault(path, "version", cut(get("version")), VERSION));
        }
        let columns = get("columns").as_array();
        let columns = columns.ok_or_else(|| fault(path, "columns", cut(get("columns")), "a list"))?;
        let fields =
            columns.iter().enumerate().map(|(i, c)| field(c, i, path)).collect::<Result<Vec<_>>>()?;
        Self::check(fields, path)
    }

    fn check(fields: Vec<ObsField>, path: &str) -> Result<Self> {
        let mut names = HashSet::new();
        for (index, field) in fields.iter().enumerate() {
            let place = |key: &str| format!("columns[{index}].{key}");
            if !names.insert(field.name.as_str()) {
                let found = format!("{:?} a second time", field.name);
                return Err(fault(path, place("name"), found, "names that differ"));
            }
            if !ObsField::type_allowed(field.kind, &field.arrow_type) {
                let expected = format!("a type for kind {}", field.kind);
                return Err(fault(path, place("arrow_type"), field.arrow_type.to_string(), expected));
            }
            if (field.kind == Kind::Category) != field.categories.is_some() {
                let expected = if field.kind == Kind::Category { "a list" } else { "null" };
                return Err(fault(path, place("categories"), "something else", expected));
            }
        }
        Ok(Self { fields })
    }

    /// The columns, in order.
    #[must_use]
    pub fn fields(&self) -> &[ObsField] {
        &self.fields
    }

    /// Position of the column of that name.
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }

    /// The canonical text: one column a line.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = format!("{{\"format\": \"{FORMAT}\", \"version\": {VERSION}, \"columns\": [");
        for (index, field) in self.fields.iter().enumerate() {
            text.push_str(if index == 0 { "\n" } else { ",\n" });
            let categories = field
                .categories
                .as_ref()
                .map(|categories| categories.iter().map(CategoryValue::to_json).collect::<Vec<_>>());
            text.push_str(&format!(
                "{{\"name\": {}, \"kind\": \"{}\", \"arrow_type\": \"{}\", \"categories\": {}}}",
                json!(field.name),
                field.kind,
                field.type_name(),
                json!(categories),
            ));
        }
        text.push_str(if self.fields.is_empty() { "]}\n" } else { "\n]}\n" });
        text
    }
}

fn field(column: &Value, index: usize, path: &str) -> Result<ObsField> {
    let place = |key: &str| format!("columns[{index}].{key}");
    let get = |key: &str| column.get(key).unwrap_or(&Value::Null);
    let text = |key: &str| get(key).as_str().ok_or_else(|| fault(path, place(key), cut(get(key)), "text"));
    let name = text("name")?.to_owned();
    let kind = Kind::from_name(text("kind")?)
        .ok_or_else(|| fault(path, place("kind"), cut(get("kind")), "category, numeric, bool or string"))?;
    let arrow_type = ObsField::type_from_name(text("arrow_type")?).ok_or_else(|| {
        fault(path, place("arrow_type"), cut(get("arrow_type")), "an Arrow type that obs can have")
    })?;
    let categories = match get("categories") {
        Value::Null => None,
        Value::Array(list) => Some(categories(list, path, &place("categories"))?),
        other => return Err(fault(path, place("categories"), cut(other), "a list or null")),
    };
    // Writers may leave an empty list with columns that are no categories.
    let categories = categories.filter(|list| kind == Kind::Category || !list.is_empty());
    Ok(ObsField { name, kind, arrow_type, categories })
}

fn categories(list: &[Value], path: &str, place: &str) -> Result<Categories> {
    let values = list
        .iter()
        .enumerate()
        .map(|(i, value)| {
            CategoryValue::from_json(value).ok_or_else(|| {
                fault(path, format!("{place}[{i}]"), cut(value), "text, a finite number or a boolean")
            })
        })
        .collect::<Result<Vec<_>>>()?;
    Categories::from_values(values, None).map_err(|e| fault(path, place, e.to_string(), "a vocabulary"))
}

/// A value as JSON, cut to a length that a message can hold.
fn cut(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
