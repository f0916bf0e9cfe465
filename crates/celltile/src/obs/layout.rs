use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::{ArrayRef, LargeStringArray, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::fault::argument;
use super::{ObsField, ObsSchema};
use crate::error::{Error, Result};
use crate::table::{
    Categorical, Categories, CategoryValue, ColumnMeta, Dtype, FoldOrder, Folded, Kind, StringKind, Table,
    TableMeta, Values,
};

/// How a table's columns become those of the shards: the index first, then the columns in order; categories of too
/// large a vocabulary as strings.
#[derive(Debug)]
pub(super) struct Layout {
    schema: ObsSchema,
    arrow: SchemaRef,
    meta: TableMeta,
    has_index: bool,
}

impl Layout {
    /// The layout of tables like this one.
    pub(super) fn of(like: &Table, max_categories: usize) -> Result<Self> {
        let mut meta = like.meta();
        let mut fields = Vec::with_capacity(like.columns().len() + 1);
        for (name, values) in named(like) {
            let field = field(&name, values, max_categories)?;
            if let (Values::Category(values), Kind::String) = (values, field.kind) {
                let folded = fold_facts(values);
                meta.columns.insert(name, ColumnMeta { folded: Some(folded), ..ColumnMeta::default() });
            }
            fields.push(field);
        }
        let schema = ObsSchema::new(fields)?;
        // Text goes in with 64-bit offsets: to Parquet it is the same.
        let arrow = schema.fields().iter().map(|field| match field.kind {
            Kind::String => Field::new(&field.name, DataType::LargeUtf8, true),
            _ => field.arrow_field(),
        });
        let arrow = Arc::new(Schema::new(arrow.collect::<Vec<_>>()));
        Ok(Self { schema, arrow, meta, has_index: like.index().is_some() })
    }

    pub(super) fn schema(&self) -> &ObsSchema {
        &self.schema
    }

    pub(super) fn arrow(&self) -> &SchemaRef {
        &self.arrow
    }

    /// The facts, with the missing values of each column.
    pub(super) fn counted(&self, missing: &[u64]) -> TableMeta {
        let names = self.schema.fields().iter().map(|field| field.name.clone());
        let some = names.zip(missing.iter().copied()).filter(|(_, count)| *count > 0);
        TableMeta { missing: Some(some.collect()), ..self.meta.clone() }
    }

    /// Columns whose values are mostly different from cell to cell, where a dictionary only costs.
    pub(super) fn unique_columns(&self) -> impl Iterator<Item = &str> {
        let index = self.meta.index.as_ref().map(|index| index.column.as_str());
        let folded = self.meta.columns.iter().filter(|(_, meta)| meta.folded.is_some());
        index.into_iter().chain(folded.map(|(name, _)| name.as_str()))
    }

    /// Rows of a table like the one that the layout was made for, as the shards hold them.
    pub(super) fn batch(&self, rows: &Table) -> Result<RecordBatch> {
        let values: Vec<_> = named(rows).collect();
        if values.len() != self.schema.fields().len() || rows.index().is_some() != self.has_index {
            return Err(argument("columns", values.len(), self.schema.fields().len()));
        }
        let arrays = values
            .iter()
            .zip(self.schema.fields())
            .map(|((name, values), field)| array(name, values, field))
            .collect::<Result<Vec<_>>>()?;
        RecordBatch::try_new(Arc::clone(&self.arrow), arrays)
            .map_err(|e| argument("rows", e.to_string(), "the first rows' types"))
    }
}

/// Index and columns with their names in files.
fn named(table: &Table) -> impl Iterator<Item = (String, &Values)> {
    let index = table.index_column_name().zip(table.index().map(|index| index.values()));
    index.into_iter().chain(table.columns().iter().map(|c| (c.name().to_owned(), c.values())))
}

fn field(name: &str, values: &Values, max_categories: usize) -> Result<ObsField> {
    let name = name.to_owned();
    let kind = values.kind();
    Ok(match values {
        Values::Category(values) => {
            let categories = values.categories();
            let found = categories.len();
            if found <= max_categories {
                let arrow_type = crate::table::Codes::type_for(found);
                ObsField { name, kind, arrow_type, categories: Some(categories.clone()) }
            } else if mixed(categories) {
                return Err(Error::Argument {
                    what: "obs column with categories of several types",
                    found: format!("{found} categories in {name:?}"),
                    expected: format!(
                        "at most {max_categories} (max_categories): as strings, 1 and \"1\" would be the same"
                    ),
                });
            } else {
                ObsField { name, kind: Kind::String, arrow_type: DataType::Utf8, categories: None }
            }
        }
        Values::Numeric(values) => {
            ObsField { name, kind, arrow_type: values.array().data_type().clone(), categories: None }
        }
        Values::Bool { .. } => ObsField { name, kind, arrow_type: DataType::Boolean, categories: None },
        Values::Text(_) => ObsField { name, kind, arrow_type: DataType::Utf8, categories: None },
    })
}

fn mixed(categories: &Categories) -> bool {
    let mut types = categories.iter().map(|value| std::mem::discriminant(&value));
    types.next().is_some_and(|first| types.any(|other| other != first))
}

fn array(name: &str, values: &Values, field: &ObsField) -> Result<ArrayRef> {
    match (values, field.kind) {
        (Values::Category(values), Kind::String) => Ok(Arc::new(folded(values))),
        (Values::Category(values), Kind::Category) => {
            let categories = values.categories();
            let same = field.categories.as_ref().is_some_and(|own| own == categories);
            if !same {
                let found = format!("another list of {} for {name:?}", categories.len());
                return Err(argument("categories", found, "the first rows' list"));
            }
            Ok(values.codes().to_array())
        }
        (values, kind) if values.kind() == kind => Ok(values.to_array()),
        (values, kind) => Err(argument("kind", format!("{} in {name:?}", values.kind()), kind)),
    }
}

/// The categories' text, cell by cell.
fn folded(values: &Categorical) -> LargeStringArray {
    let categories = values.categories();
    let text = |code: i32| usize::try_from(code).ok().and_then(|code| categories.get(code));
    values
        .codes()
        .iter()
        .map(|code| match text(code) {
            Some(CategoryValue::Text(text)) => Some(text.to_owned()),
            other => other.map(|value| value.to_string()),
        })
        .collect()
}

fn fold_facts(values: &Categorical) -> Folded {
    let categories = values.categories();
    let mut seen = HashSet::new();
    let appearance: Vec<_> = values.codes().iter().filter(|&code| code >= 0 && seen.insert(code)).collect();
    let all_used = appearance.len() == categories.len();
    let order = if all_used && categories.iter().is_sorted_by(in_order) {
        FoldOrder::Sorted
    } else if all_used && appearance.is_sorted() {
        FoldOrder::Appearance
    } else {
        FoldOrder::Lost
    };
    let dtype = match categories.dtype() {
        Dtype::Text(StringKind::Fixed) => Dtype::Text(StringKind::Object),
        dtype => dtype,
    };
    Folded { dtype, ordered: values.ordered(), order }
}

/// Whether `a` comes before `b` among values of one type.
fn in_order(a: &CategoryValue<'_>, b: &CategoryValue<'_>) -> bool {
    match (a, b) {
        (CategoryValue::Text(a), CategoryValue::Text(b)) => a < b,
        (CategoryValue::Int(a), CategoryValue::Int(b)) => a < b,
        (CategoryValue::Float(a), CategoryValue::Float(b)) => a < b,
        (CategoryValue::Bool(a), CategoryValue::Bool(b)) => a < b,
        _ => false,
    }
}
