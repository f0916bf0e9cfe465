use arrow_schema::DataType;
use std::fmt;

/// How the source held a text column. The values are the same; pandas gives them back in another dtype.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StringKind {
    /// NumPy object array of `str` (h5ad `string-array`).
    #[default]
    Object,
    /// pandas' masked `string` dtype, missing is `pandas.NA` (h5ad `nullable-string-array`).
    Masked,
    /// pandas' `str` dtype, missing is NaN (h5ad `nullable-string-array` with `na-value` NaN).
    MaskedNan,
    /// Fixed-length bytes in the source, which pandas reads as objects.
    Fixed,
}

impl StringKind {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Object, "object"),
        (Self::Masked, "string"),
        (Self::MaskedNan, "str"),
        (Self::Fixed, "fixed"),
    ];

    /// The name in `metadata.celltile`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("object", |(_, name)| name)
    }

    /// The kind of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, n)| *n == name).map(|(kind, _)| *kind)
    }
}

/// The dtype of a column, or of the categories of one, in the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// `int8`.
    Int8,
    /// `int16`.
    Int16,
    /// `int32`.
    Int32,
    /// `int64`.
    Int64,
    /// `uint8`.
    UInt8,
    /// `uint16`.
    UInt16,
    /// `uint32`.
    UInt32,
    /// `uint64`.
    UInt64,
    /// `float16`.
    Float16,
    /// `float32`.
    Float32,
    /// `float64`.
    Float64,
    /// `bool`.
    Bool,
    /// Text, or values of several types (NumPy `object`).
    Text(StringKind),
}

impl Dtype {
    const NUMBERS: [(Self, &'static str, DataType); 12] = [
        (Self::Int8, "int8", DataType::Int8),
        (Self::Int16, "int16", DataType::Int16),
        (Self::Int32, "int32", DataType::Int32),
        (Self::Int64, "int64", DataType::Int64),
        (Self::UInt8, "uint8", DataType::UInt8),
        (Self::UInt16, "uint16", DataType::UInt16),
        (Self::UInt32, "uint32", DataType::UInt32),
        (Self::UInt64, "uint64", DataType::UInt64),
        (Self::Float16, "float16", DataType::Float16),
        (Self::Float32, "float32", DataType::Float32),
        (Self::Float64, "float64", DataType::Float64),
        (Self::Bool, "bool", DataType::Boolean),
    ];

    /// NumPy's name, or [`StringKind::name`] for text.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Text(kind) => kind.name(),
            _ => Self::NUMBERS.iter().find(|(d, _, _)| *d == self).map_or("object", |(_, name, _)| name),
        }
    }

    /// The dtype of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NUMBERS
            .iter()
            .find(|(_, n, _)| *n == name)
            .map(|(dtype, _, _)| *dtype)
            .or_else(|| StringKind::from_name(name).map(Self::Text))
    }

    /// The dtype that NumPy has for an Arrow type, where it has one.
    #[must_use]
    pub fn from_arrow(data_type: &DataType) -> Option<Self> {
        match data_type {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Some(Self::Text(StringKind::Object)),
            _ => Self::NUMBERS.iter().find(|(_, _, t)| t == data_type).map(|(dtype, _, _)| *dtype),
        }
    }

    /// The Arrow type of a whole column of this dtype.
    #[must_use]
    pub fn to_arrow(self) -> DataType {
        Self::NUMBERS.iter().find(|(d, _, _)| *d == self).map_or(DataType::LargeUtf8, |(_, _, t)| t.clone())
    }

    /// Whether it is one of the eight integer dtypes.
    #[must_use]
    pub fn is_integer(self) -> bool {
        self.to_arrow().is_integer()
    }

    /// Whether it is one of the three float dtypes.
    #[must_use]
    pub fn is_float(self) -> bool {
        self.to_arrow().is_floating()
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
