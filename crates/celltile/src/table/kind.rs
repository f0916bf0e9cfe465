use std::fmt;

/// The four kinds of obs columns (specification, "Obs").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Integer codes into a list of categories; -1 is missing.
    Category,
    /// Integers or floats; missing values are nulls.
    Numeric,
    /// Booleans; missing values are nulls.
    Bool,
    /// Text; missing values are nulls.
    String,
}

impl Kind {
    /// The name in `schema.json`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Category => "category",
            Self::Numeric => "numeric",
            Self::Bool => "bool",
            Self::String => "string",
        }
    }

    /// The kind of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Category, Self::Numeric, Self::Bool, Self::String].into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
