use std::cmp::Ordering;
use std::collections::HashMap;

use arrow_array::LargeStringArray;

use super::{Categorical, Categories, CategoryValue, Codes, Dtype, TableError};

/// What a text column was before its vocabulary grew past `max_categories`: a categorical one.
///
/// The format stores such columns as strings, without their list of categories. Where the list can be had
/// from the values, it comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Folded {
    /// Dtype of the category values.
    pub dtype: Dtype,
    /// pandas' `ordered`.
    pub ordered: bool,
    /// How the list of categories follows from the values.
    pub order: FoldOrder,
}

/// How a lost list of categories follows from a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoldOrder {
    /// The values that occur, sorted: what pandas makes by default.
    Sorted,
    /// The values that occur, in order of first appearance.
    Appearance,
    /// It does not: the list was in another order, or had values that do not occur.
    Lost,
}

impl FoldOrder {
    /// The name in `metadata.celltile`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sorted => "sorted",
            Self::Appearance => "appearance",
            Self::Lost => "lost",
        }
    }

    /// The order of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Sorted, Self::Appearance, Self::Lost].into_iter().find(|order| order.name() == name)
    }
}

impl Folded {
    /// The categorical column that text was folded from; nothing if its list of categories is lost.
    pub(super) fn unfold(&self, text: &LargeStringArray) -> Result<Option<Categorical>, TableError> {
        if self.order == FoldOrder::Lost {
            return Ok(None);
        }
        let mut positions: HashMap<&str, usize> = HashMap::new();
        let mut values = Vec::new();
        for text in text.iter().flatten() {
            if !positions.contains_key(text) {
                positions.insert(text, values.len());
                values.push((text, self.value(text)?));
            }
        }
        if self.order == FoldOrder::Sorted {
            values.sort_by(|(_, a), (_, b)| compare(a, b));
            positions = values.iter().enumerate().map(|(position, (text, _))| (*text, position)).collect();
        }
        let categories = Categories::from_values(values.iter().map(|(_, value)| *value), Some(self.dtype))?;
        let code = |text: Option<&str>| {
            text.and_then(|text| positions.get(text)).and_then(|&code| i64::try_from(code).ok()).unwrap_or(-1)
        };
        let codes = Codes::collect(text.iter().map(code), categories.len())?;
        Ok(Some(Categorical::new(codes, categories, self.ordered)?))
    }

    /// A category from its text.
    fn value<'a>(&self, text: &'a str) -> Result<CategoryValue<'a>, TableError> {
        let value = match (self.dtype, text) {
            (Dtype::Text(_), text) => Some(CategoryValue::Text(text)),
            (Dtype::Bool, "True") => Some(CategoryValue::Bool(true)),
            (Dtype::Bool, "False") => Some(CategoryValue::Bool(false)),
            (dtype, text) if dtype.is_integer() => text.parse().ok().map(CategoryValue::Int),
            (dtype, text) if dtype.is_float() => text.parse().ok().map(CategoryValue::Float),
            _ => None,
        };
        let dtype = self.dtype;
        value.ok_or_else(|| TableError::Meta { message: format!("{text:?} is no category of dtype {dtype}") })
    }
}

fn compare(a: &CategoryValue<'_>, b: &CategoryValue<'_>) -> Ordering {
    match (a, b) {
        (CategoryValue::Text(a), CategoryValue::Text(b)) => a.cmp(b),
        (CategoryValue::Int(a), CategoryValue::Int(b)) => a.cmp(b),
        (CategoryValue::Float(a), CategoryValue::Float(b)) => a.total_cmp(b),
        (CategoryValue::Bool(a), CategoryValue::Bool(b)) => a.cmp(b),
        // One dtype, one type: this does not happen.
        _ => Ordering::Equal,
    }
}
