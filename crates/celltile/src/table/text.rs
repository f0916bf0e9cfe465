use arrow_array::cast::AsArray;
use arrow_array::{Array, LargeStringArray};
use arrow_schema::DataType;

use super::{Categorical, Folded, Kind, StringKind, TableError};

/// A column of text; missing values are nulls.
#[derive(Debug, Clone, PartialEq)]
pub struct Text {
    values: LargeStringArray,
    kind: StringKind,
    folded: Option<Folded>,
}

impl Text {
    /// A column of text.
    #[must_use]
    pub fn new(values: LargeStringArray, kind: StringKind) -> Self {
        Self { values, kind, folded: None }
    }

    /// A column of text from an Arrow array of any string type.
    ///
    /// # Errors
    /// [`TableError::ArrowType`] for another type.
    pub fn from_array(array: &dyn Array, kind: StringKind) -> Result<Self, TableError> {
        let values = match array.data_type() {
            DataType::LargeUtf8 => array.as_string::<i64>().clone(),
            DataType::Utf8 => array.as_string::<i32>().iter().collect(),
            DataType::Utf8View => array.as_string_view().iter().collect(),
            other => {
                return Err(TableError::ArrowType { found: other.to_string(), kind: Kind::String });
            }
        };
        Ok(Self::new(values, kind))
    }

    /// Says that the column was a categorical one.
    #[must_use]
    pub fn with_folded(mut self, folded: Option<Folded>) -> Self {
        self.folded = folded;
        self
    }

    /// The values.
    #[must_use]
    pub fn values(&self) -> &LargeStringArray {
        &self.values
    }

    /// How the source held them.
    #[must_use]
    pub fn kind(&self) -> StringKind {
        self.kind
    }

    /// What the column was, if it was a categorical one with too many categories.
    #[must_use]
    pub fn folded(&self) -> Option<&Folded> {
        self.folded.as_ref()
    }

    /// The category column that this one was, if its list of categories follows from the values.
    ///
    /// # Errors
    /// [`TableError::Meta`] if a value is not of the categories' dtype.
    pub fn unfold(&self) -> Result<Option<Categorical>, TableError> {
        self.folded.map_or(Ok(None), |folded| folded.unfold(&self.values))
    }

    pub(crate) fn with_values(&self, values: LargeStringArray) -> Self {
        Self { values, kind: self.kind, folded: self.folded }
    }
}

impl<S: AsRef<str>> FromIterator<Option<S>> for Text {
    fn from_iter<I: IntoIterator<Item = Option<S>>>(values: I) -> Self {
        Self::new(values.into_iter().collect(), StringKind::Object)
    }
}
