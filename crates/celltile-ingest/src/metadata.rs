//! What a dataset's `metadata` says of its source.

use serde_json::{Map, Value};

use crate::hdf5::Element;
use crate::source::NotCarried;

/// What a dataset remembers of the matrix that it was made from (`metadata.celltile.source`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Origin {
    /// The type of the counts.
    pub(crate) element: Option<Element>,
    /// What the source had and the dataset does not carry.
    pub(crate) not_carried: Vec<NotCarried>,
    /// The column of obs that says which input a cell is from.
    pub(crate) source_column: Option<String>,
}

impl Origin {
    /// Reads it from a manifest's `metadata`. What is not there, or not understood, is unknown.
    pub(crate) fn of(metadata: &Map<String, Value>) -> Self {
        let ours = metadata.get("celltile");
        let column = ours.and_then(|ours| ours.get("conversion")?.get("source_column")?.as_str());
        let source_column = column.map(str::to_owned);
        let Some(source) = ours.and_then(|ours| ours.get("source")) else {
            return Self { source_column, ..Self::default() };
        };
        let not_carried = source.get("not_carried").and_then(Value::as_array);
        Self {
            element: source.get("dtype").and_then(Value::as_str).and_then(Element::from_name),
            not_carried: not_carried.into_iter().flatten().filter_map(part).collect(),
            source_column,
        }
    }
}

fn part(value: &Value) -> Option<NotCarried> {
    let text = |key| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let shape = value.get("shape").and_then(Value::as_array).into_iter().flatten();
    Some(NotCarried {
        path: text("path")?,
        shape: shape.filter_map(Value::as_u64).collect(),
        what: text("what").unwrap_or_default(),
    })
}
