use super::{Categories, Codes, TableError};

/// A category column: codes into a vocabulary.
#[derive(Debug, Clone, PartialEq)]
pub struct Categorical {
    codes: Codes,
    categories: Categories,
    ordered: bool,
}

impl Categorical {
    /// A category column. Categories that no cell has are kept.
    ///
    /// # Errors
    /// [`TableError::Code`] for a code that is neither -1 nor a category's.
    pub fn new(codes: Codes, categories: Categories, ordered: bool) -> Result<Self, TableError> {
        codes.check(categories.len())?;
        Ok(Self { codes, categories, ordered })
    }

    /// One code a row, -1 for missing.
    #[must_use]
    pub fn codes(&self) -> &Codes {
        &self.codes
    }

    /// The vocabulary.
    #[must_use]
    pub fn categories(&self) -> &Categories {
        &self.categories
    }

    /// pandas' `ordered`.
    #[must_use]
    pub fn ordered(&self) -> bool {
        self.ordered
    }

    /// The same vocabulary with other codes, which the caller took from this column.
    pub(crate) fn with_codes(&self, codes: Codes) -> Self {
        Self { codes, categories: self.categories.clone(), ordered: self.ordered }
    }
}
