use super::Dtype;

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
