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
    pub(super) fn conform(&self, values: Option<&Values>, rows: usize) -> Result<Values, TableError> {
        // A column that is all missing may be of any type: its rows are missing in the common type.
        let values = values.filter(|values| values.missing() < values.len());
        match (self, values) {
            (Self::Category { categories, ordered }, values) => {
                let codes = match values {
                    None => Codes::collect(std::iter::repeat_n(-1, rows), categories.len())?,
                    Some(Values::Category(own)) => {
                        let map = map_of(own.categories(), categories);
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

/// The code of each of an input's categories; one that is not there gets a code that there is not.
fn map_of(own: &Categories, union: &Categories) -> Vec<i64> {
    let codes: HashMap<_, i64> = union.iter().zip(0..).collect();
    let float = union.dtype().is_float();
    let value = |value| match value {
        CategoryValue::Int(int) if float => cast::exact_float(int).map_or(value, CategoryValue::Float),
        value => value,
    };
    own.iter().map(|own| codes.get(&value(own)).copied().unwrap_or(i64::MAX)).collect()
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
