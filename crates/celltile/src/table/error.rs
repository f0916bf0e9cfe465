use super::Kind;

/// What can be wrong with a table or its columns.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// Two columns of one name.
    #[error("two columns are named {column:?}")]
    DuplicateColumn {
        /// The name.
        column: String,
    },
    /// A column is longer or shorter than its table.
    #[error("column {column:?} has {found} rows, the table has {expected}")]
    Length {
        /// The column.
        column: String,
        /// Its rows.
        found: usize,
        /// The table's.
        expected: usize,
    },
    /// A row outside the table was asked for.
    #[error("row {row} is outside a table of {rows} rows")]
    Rows {
        /// The row, or the end of the range.
        row: usize,
        /// Rows of the table.
        rows: usize,
    },
    /// A code that names no category.
    #[error("code {code} of row {row} is outside the {categories} categories (-1 means missing)")]
    Code {
        /// The code.
        code: i64,
        /// Its row.
        row: usize,
        /// Number of categories.
        categories: usize,
    },
    /// Two equal categories.
    #[error("category {value} is listed twice, at {first} and {second}")]
    DuplicateCategory {
        /// The value as JSON.
        value: String,
        /// Its first position.
        first: usize,
        /// Its second.
        second: usize,
    },
    /// A category that is NaN or infinite: JSON has no such number.
    #[error("category {position} is {value}: category values must be finite")]
    NonFiniteCategory {
        /// The value.
        value: f64,
        /// Its position.
        position: usize,
    },
    /// A category that is missing.
    #[error("category {position} is missing: the code -1 stands for missing values")]
    MissingCategory {
        /// Its position.
        position: usize,
    },
    /// More categories than an int32 code can name.
    #[error("{found} categories are more than int32 codes can name")]
    TooManyCategories {
        /// How many.
        found: usize,
    },
    /// An Arrow type that a column of this kind cannot have.
    #[error("the Arrow type {found} cannot hold a column of kind {kind}")]
    ArrowType {
        /// The type.
        found: String,
        /// The kind.
        kind: Kind,
    },
    /// An Arrow kernel failed.
    #[error("Arrow: {message}")]
    Arrow {
        /// What it said.
        message: String,
    },
    /// `metadata.celltile.obs` or `.var` does not have the form this version writes.
    #[error("table metadata: {message}")]
    Meta {
        /// What is wrong.
        message: String,
    },
    /// Columns of several inputs that cannot become one.
    #[error("column {column:?}: {first_kind} in {first}, but {second_kind} in {second}; {advice}")]
    Unify {
        /// The column.
        column: Box<str>,
        /// An input.
        first: Box<str>,
        /// What the column is there.
        first_kind: Box<str>,
        /// Another input.
        second: Box<str>,
        /// What the column is there.
        second_kind: Box<str>,
        /// What would help.
        advice: Box<str>,
    },
    /// A value that the common type of several inputs cannot hold exactly.
    #[error("column {column:?}: value {value} of row {row} in {input} is not exact as {dtype}; {advice}")]
    Inexact {
        /// The column.
        column: Box<str>,
        /// The input.
        input: Box<str>,
        /// Row in that input.
        row: usize,
        /// The value.
        value: Box<str>,
        /// The common type.
        dtype: Box<str>,
        /// What would help.
        advice: Box<str>,
    },
    /// A column's error.
    #[error("column {column:?}: {source}")]
    Column {
        /// The column.
        column: String,
        /// What is wrong with it.
        source: Box<TableError>,
    },
    /// Tables were joined that [`unify`](super::unify) had not seen.
    #[error("the table is not one that the plan was made for: {message}")]
    NotPlanned {
        /// What differs.
        message: String,
    },
}

impl TableError {
    /// The same error with the column it is about.
    #[must_use]
    pub fn in_column(self, column: &str) -> Self {
        Self::Column { column: column.to_owned(), source: Box::new(self) }
    }
}

impl From<arrow_schema::ArrowError> for TableError {
    fn from(error: arrow_schema::ArrowError) -> Self {
        Self::Arrow { message: error.to_string() }
    }
}
