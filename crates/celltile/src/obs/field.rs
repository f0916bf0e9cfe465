use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, Int32Type};
use arrow_schema::{DataType, Field};

use crate::table::{Categories, Kind};

/// A column of `obs/schema.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct ObsField {
    /// The column's name; any text.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// The Arrow type of its values in the shards: of its codes, for a category.
    pub arrow_type: DataType,
    /// The vocabulary of a category column, for all cells.
    pub categories: Option<Categories>,
}

/// The Arrow types that a column can have, by the names that `schema.json` gives them (Arrow's own).
const TYPES: [(&str, DataType); 13] = [
    ("int8", DataType::Int8),
    ("int16", DataType::Int16),
    ("int32", DataType::Int32),
    ("int64", DataType::Int64),
    ("uint8", DataType::UInt8),
    ("uint16", DataType::UInt16),
    ("uint32", DataType::UInt32),
    ("uint64", DataType::UInt64),
    ("halffloat", DataType::Float16),
    ("float", DataType::Float32),
    ("double", DataType::Float64),
    ("bool", DataType::Boolean),
    ("string", DataType::Utf8),
];

impl ObsField {
    /// The name of the Arrow type.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        TYPES.iter().find(|(_, data_type)| *data_type == self.arrow_type).map_or("null", |(name, _)| name)
    }

    /// The Arrow type of that name. `float32` and the like are understood too.
    #[must_use]
    pub fn type_from_name(name: &str) -> Option<DataType> {
        let name = match name {
            "float16" => "halffloat",
            "float32" => "float",
            "float64" => "double",
            "boolean" => "bool",
            "utf8" | "large_string" => "string",
            name => name,
        };
        TYPES.iter().find(|(n, _)| *n == name).map(|(_, data_type)| data_type.clone())
    }

    /// The Arrow types that a kind can have.
    #[must_use]
    pub fn type_allowed(kind: Kind, data_type: &DataType) -> bool {
        match kind {
            Kind::Category => matches!(data_type, DataType::Int8 | DataType::Int16 | DataType::Int32),
            Kind::Numeric => data_type.is_integer() || data_type.is_floating(),
            Kind::Bool => *data_type == DataType::Boolean,
            Kind::String => *data_type == DataType::Utf8,
        }
    }

    /// How many of some values of the column are missing: nulls, or codes of -1.
    #[must_use]
    pub fn missing(&self, values: &dyn Array) -> u64 {
        fn negative<T: Copy + Default + PartialOrd>(codes: &[T]) -> usize {
            codes.iter().filter(|&&code| code < T::default()).count()
        }
        let codes = match (self.kind, values.data_type()) {
            (Kind::Category, DataType::Int8) => negative(values.as_primitive::<Int8Type>().values()),
            (Kind::Category, DataType::Int16) => negative(values.as_primitive::<Int16Type>().values()),
            (Kind::Category, DataType::Int32) => negative(values.as_primitive::<Int32Type>().values()),
            _ => values.null_count(),
        };
        u64::try_from(codes).unwrap_or(u64::MAX)
    }

    /// The column's Arrow field in shards and cache. Codes are never null: -1 stands for missing.
    #[must_use]
    pub fn arrow_field(&self) -> Field {
        Field::new(&self.name, self.arrow_type.clone(), self.kind != Kind::Category)
    }
}
