use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, UInt64Array};

use super::{Categorical, Codes, Kind, Numeric, TableError, Text};

/// The values of a column, by kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Codes and categories.
    Category(Categorical),
    /// Integers or floats.
    Numeric(Numeric),
    /// Booleans; missing ones are nulls.
    Bool {
        /// The values.
        values: BooleanArray,
        /// Whether the source's dtype is the masked one (pandas `boolean`).
        nullable: bool,
    },
    /// Text.
    Text(Text),
}

impl Values {
    /// A bool column. One with nulls is always taken as masked.
    #[must_use]
    pub fn bools(values: BooleanArray, nullable: bool) -> Self {
        let nullable = nullable || values.null_count() > 0;
        Self::Bool { values, nullable }
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Category(_) => Kind::Category,
            Self::Numeric(_) => Kind::Numeric,
            Self::Bool { .. } => Kind::Bool,
            Self::Text(_) => Kind::String,
        }
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Category(values) => values.codes().len(),
            Self::Numeric(values) => values.array().len(),
            Self::Bool { values, .. } => values.len(),
            Self::Text(values) => values.values().len(),
        }
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of missing values.
    #[must_use]
    pub fn missing(&self) -> usize {
        match self {
            Self::Category(values) => values.codes().iter().filter(|&code| code < 0).count(),
            Self::Numeric(values) => values.array().null_count(),
            Self::Bool { values, .. } => values.null_count(),
            Self::Text(values) => values.values().null_count(),
        }
    }

    /// The values as an Arrow array; codes for categories.
    #[must_use]
    pub fn to_array(&self) -> ArrayRef {
        match self {
            Self::Category(values) => values.codes().to_array(),
            Self::Numeric(values) => Arc::clone(values.array()),
            Self::Bool { values, .. } => Arc::new(values.clone()),
            Self::Text(values) => Arc::new(values.values().clone()),
        }
    }

    /// Rows `offset..offset + len`, cut to what is there, sharing memory.
    #[must_use]
    pub fn slice(&self, offset: usize, len: usize) -> Self {
        let offset = offset.min(self.len());
        let len = len.min(self.len() - offset);
        match self {
            Self::Category(values) => Self::Category(values.with_codes(values.codes().slice(offset, len))),
            Self::Numeric(values) => Self::Numeric(values.with_array(values.array().slice(offset, len))),
            Self::Bool { values, nullable } => {
                Self::Bool { values: values.slice(offset, len), nullable: *nullable }
            }
            Self::Text(values) => Self::Text(values.with_values(values.values().slice(offset, len))),
        }
    }

    /// The rows named, in that order.
    ///
    /// # Errors
    /// [`TableError::Arrow`] if a row is not there.
    pub fn take(&self, rows: &[u64]) -> Result<Self, TableError> {
        let array = self.to_array();
        let rows = UInt64Array::from(rows.to_vec());
        let options = arrow_select::take::TakeOptions { check_bounds: true };
        self.with_array(arrow_select::take::take(array.as_ref(), &rows, Some(options))?)
    }

    /// The same column with other rows: an array of this column's own type, codes for categories.
    pub(crate) fn with_array(&self, array: ArrayRef) -> Result<Self, TableError> {
        Ok(match self {
            Self::Category(values) => Self::Category(values.with_codes(Codes::from_array(array.as_ref())?)),
            Self::Numeric(values) => Self::Numeric(values.with_array(array)),
            Self::Bool { nullable, .. } => {
                Self::Bool { values: array.as_boolean().clone(), nullable: *nullable }
            }
            Self::Text(values) => Self::Text(values.with_values(array.as_string::<i64>().clone())),
        })
    }
}

impl From<Categorical> for Values {
    fn from(values: Categorical) -> Self {
        Self::Category(values)
    }
}

impl From<Numeric> for Values {
    fn from(values: Numeric) -> Self {
        Self::Numeric(values)
    }
}

impl From<Text> for Values {
    fn from(values: Text) -> Self {
        Self::Text(values)
    }
}
