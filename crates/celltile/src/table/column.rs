use super::Values;

/// A named column.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    name: String,
    values: Values,
}

impl Column {
    /// A column.
    #[must_use]
    pub fn new(name: impl Into<String>, values: impl Into<Values>) -> Self {
        Self { name: name.into(), values: values.into() }
    }

    /// Its name, which may be any text, the empty one too.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its values.
    #[must_use]
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// Name and values, taken apart.
    #[must_use]
    pub fn into_parts(self) -> (String, Values) {
        (self.name, self.values)
    }

    pub(crate) fn with_values(&self, values: Values) -> Self {
        Self { name: self.name.clone(), values }
    }
}
