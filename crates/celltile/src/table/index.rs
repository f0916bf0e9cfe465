use super::Values;

/// A frame's index: cell or gene names, usually text. Duplicates are allowed.
#[derive(Debug, Clone, PartialEq)]
pub struct Index {
    name: Option<String>,
    values: Values,
}

impl Index {
    /// An index; `None` is pandas' index without a name, which is not the same as an empty name.
    #[must_use]
    pub fn new(name: Option<String>, values: impl Into<Values>) -> Self {
        Self { name, values: values.into() }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Its values.
    #[must_use]
    pub fn values(&self) -> &Values {
        &self.values
    }

    pub(crate) fn with_values(&self, values: Values) -> Self {
        Self { name: self.name.clone(), values }
    }
}
