use std::collections::HashMap;

use arrow_array::{BooleanArray, LargeStringArray, new_null_array};

use super::cast;
use crate::table::{
    Categorical, Categories, CategoryValue, Codes, Dtype, Numeric, StringKind, TableError, Text, Values,
};

/// What a column becomes.
#[derive(Debug, Clone)]
pub(super) enum Target {
    /// Codes into a common vocabulary.
    Category {
        /// The union.
        categories: Categories,
        ordered: bool,
        /// What each input's codes become; empty for inputs that hold something else.
        maps: Vec<Vec<i64>>,
    },
    /// Numbers of one dtype.
    Numeric { dtype: Dtype, nullable: bool },
    /// Booleans.
    Bool { nullable: bool },
    /// Text.
    Text { kind: StringKind },
}

impl Target {
    /// An input's values in the common form; without values, all missing.
    pub(super) fn conform(
        &self,
        input: usize,
        values: Option<&Values>,
        rows: usize,
    ) -> Result<Values, TableError> {
        // A column that is all missing may be of any type: its rows are missing in the common type.
        let values = values.filter(|values| values.missing() < values.len());
        match (self, values) {
            (Self::Category { categories, ordered, maps }, values) => {
                let codes = match values {
                    None => Codes::collect(std::iter::repeat_n(-1, rows), categories.len())?,
                    Some(Values::Category(own)) => {
                        let map = maps.get(input).map_or(&[][..], Vec::as_slice);
                        let new = |code: i32| match usize::try_from(code) {
                            Err(_) => -1,
                            // A code that the map does not have is refused by `collect`.
                            Ok(code) => map.get(code).copied().unwrap_or(i64::MAX),
                        };
                        Codes::collect(own.codes().iter().map(new), categories.len())?
                    }
                    Some(Values::Text(text)) => from_text(text.values(), categories)?,
                    Some(other) => return Err(not_planned(other)),
                };
                Ok(Categorical::new(codes, categories.clone(), *ordered)?.into())
            }
            (Self::Numeric { dtype, nullable }, None) => {
                Ok(Numeric::new(new_null_array(&dtype.to_arrow(), rows), *nullable)?.into())
            }
            (Self::Numeric { dtype, nullable }, Some(Values::Numeric(own))) => {
                let array = cast::cast(own.array(), *dtype)
                    .map_err(|fault| TableError::NotPlanned { message: format!("value {}", fault.value) })?;
                Ok(Numeric::new(array, *nullable)?.into())
            }
            (Self::Bool { nullable }, None) => Ok(Values::bools(BooleanArray::new_null(rows), *nullable)),
            (Self::Bool { nullable }, Some(Values::Bool { values, .. })) => {
                Ok(Values::bools(values.clone(), *nullable))
            }
            (Self::Text { kind }, None) => Ok(Text::new(LargeStringArray::new_null(rows), *kind).into()),
            (Self::Text { kind }, Some(Values::Text(own))) => {
                Ok(Text::new(own.values().clone(), *kind).into())
            }
            (_, Some(other)) => Err(not_planned(other)),
        }
    }
}

fn from_text(text: &LargeStringArray, categories: &Categories) -> Result<Codes, TableError> {
    let codes: HashMap<_, i64> = categories.iter().zip(0..).collect();
    let code = |value: Option<&str>| match value {
        None => -1,
        Some(value) => codes.get(&CategoryValue::Text(value)).copied().unwrap_or(i64::MAX),
    };
    Codes::collect(text.iter().map(code), categories.len())
}

fn not_planned(values: &Values) -> TableError {
    TableError::NotPlanned { message: format!("its kind is {}", values.kind()) }
}
