use serde::{Deserialize, Serialize};

/// How several inputs become one dataset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Joining {
    /// Which genes the dataset has.
    pub join: Join,
    /// The column of var whose values are the same for the same gene. Without it the identifiers, where all inputs keep
    /// them apart from names (10x), and else the names.
    pub var_key: Option<String>,
    /// What to do with a gene that an input has twice, where genes have to be matched.
    pub duplicate_genes: DuplicateGenes,
    /// The column of obs that says which input a cell is from. Without it `source`, where there are several inputs; none if
    /// empty.
    pub source_column: Option<String>,
    /// A column of obs that says which input a cell is from, in a dataset among the inputs, and goes on for the others; no
    /// other one is added then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continued_source: Option<String>,
    /// The seed of a random order of all cells; without it they stay in order.
    pub shuffle: Option<u64>,
}

/// Which genes a dataset of several inputs has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Join {
    /// Those that all inputs have; other genes are an error.
    #[default]
    Exact,
    /// Those that all inputs have; others are left out.
    Inner,
    /// Those that any input has.
    Outer,
}

/// What to do with a gene that an input has twice, where genes have to be matched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DuplicateGenes {
    /// It is an error.
    #[default]
    Error,
    /// Their counts are added up.
    Sum,
    /// The second becomes `NAME-1`, the third `NAME-2`, and so on.
    Suffix,
}
