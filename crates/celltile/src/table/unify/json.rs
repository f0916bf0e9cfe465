//! The JSON form of a union, for processes that share one.

use serde_json::{Value, json};

use super::Union;
use super::target::Target;
use crate::table::{Categories, CategoryValue, Dtype};

pub(super) fn of(union: &Union) -> Value {
    let index = union.index.as_ref().map(|(name, target)| json!({"name": name, "as": target_json(target)}));
    let columns = union.columns.iter().map(|(name, target)| json!({"name": name, "as": target_json(target)}));
    json!({"inputs": union.inputs, "index": index, "columns": columns.collect::<Vec<_>>()})
}

pub(super) fn union(value: &Value) -> Option<Union> {
    let index = match value.get("index")? {
        Value::Null => None,
        index => {
            let name = match index.get("name")? {
                Value::Null => None,
                name => Some(name.as_str()?.to_owned()),
            };
            Some((name, target(index.get("as")?)?))
        }
    };
    let columns = value.get("columns")?.as_array()?;
    let column =
        |column: &Value| Some((column.get("name")?.as_str()?.to_owned(), target(column.get("as")?)?));
    Some(Union {
        inputs: usize::try_from(value.get("inputs")?.as_u64()?).ok()?,
        index,
        columns: columns.iter().map(column).collect::<Option<_>>()?,
    })
}

fn target_json(target: &Target) -> Value {
    match target {
        Target::Category { categories, ordered } => {
            let values = categories.iter().map(CategoryValue::to_json).collect::<Vec<_>>();
            json!({"kind": "category", "dtype": categories.dtype().name(), "ordered": ordered, "categories": values})
        }
        Target::Numeric { dtype, nullable } => {
            json!({"kind": "numeric", "dtype": dtype.name(), "nullable": nullable})
        }
        Target::Bool { nullable } => json!({"kind": "bool", "nullable": nullable}),
        Target::Text { kind } => json!({"kind": "string", "dtype": Dtype::Text(*kind).name()}),
    }
}

fn target(value: &Value) -> Option<Target> {
    let flag = |key: &str| value.get(key)?.as_bool();
    let dtype = || Dtype::from_name(value.get("dtype")?.as_str()?);
    match value.get("kind")?.as_str()? {
        "category" => {
            let values = value.get("categories")?.as_array()?;
            let values = values.iter().map(CategoryValue::from_json).collect::<Option<Vec<_>>>()?;
            let categories = Categories::from_values(values, Some(dtype()?)).ok()?;
            Some(Target::Category { categories, ordered: flag("ordered")? })
        }
        "numeric" => Some(Target::Numeric { dtype: dtype()?, nullable: flag("nullable")? }),
        "bool" => Some(Target::Bool { nullable: flag("nullable")? }),
        "string" => match dtype()? {
            Dtype::Text(kind) => Some(Target::Text { kind }),
            _ => None,
        },
        _ => None,
    }
}
