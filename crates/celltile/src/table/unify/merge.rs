//! What the columns of one name become.

use std::collections::HashMap;

use super::cast::{self, exact_float};
use super::target::Target;
use crate::table::{Categories, CategoryValue, Dtype, StringKind, TableError, Values};

/// What an input has under a column's name.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) input: &'a str,
    pub(super) values: Option<&'a Values>,
}

/// The common form of a column.
pub(super) fn target(column: &str, sources: &[Source<'_>]) -> Result<Target, TableError> {
    let everywhere = sources.iter().all(|source| source.values.is_some());
    let deciding: Vec<_> = sources.iter().filter(|source| source.values.is_some_and(decides)).collect();
    // Where all inputs are all missing, the first one's type is as good as any.
    let deciding = if deciding.is_empty() {
        sources.iter().filter(|source| source.values.is_some()).take(1).collect()
    } else {
        deciding
    };
    let whole = everywhere && deciding.len() == sources.len();
    let mut parts = deciding.iter().filter_map(|source| Some((*source, source.values?)));
    let Some((first, first_values)) = parts.next() else {
        return Err(TableError::NotPlanned { message: format!("no input has column {column:?}") });
    };
    let mut sum = first_values.kind_for_union();
    for (source, values) in parts {
        let next = values.kind_for_union();
        sum = sum.with(next).ok_or_else(|| TableError::Unify {
            column: column.into(),
            first: first.input.into(),
            first_kind: describe(first_values).into(),
            second: source.input.into(),
            second_kind: describe(values).into(),
            advice: "convert one of them, or leave the column out".into(),
        })?;
    }
    match sum {
        Sum::Category => categories(column, sources, whole),
        Sum::Bool => Ok(Target::Bool { nullable: nullable(&deciding) || !whole }),
        Sum::Text(kind) => Ok(Target::Text { kind }),
        Sum::Numeric(dtype) => {
            check_exact(column, &deciding, dtype)?;
            // A float column says missing by NaN; integers must become masked to say it.
            let nullable = nullable(&deciding) || (!whole && dtype.is_integer());
            Ok(Target::Numeric { dtype, nullable })
        }
    }
}

/// Whether values say what their column is: not if all are missing, where a type is an accident of the writer.
fn decides(values: &Values) -> bool {
    match values {
        Values::Category(values) if !values.categories().is_empty() => true,
        // Masked and integer dtypes are chosen, also for columns without values.
        Values::Numeric(values) if values.nullable() || values.dtype().is_integer() => true,
        Values::Bool { .. } => true,
        values => values.missing() < values.len(),
    }
}

fn nullable(sources: &[&Source<'_>]) -> bool {
    sources.iter().any(|source| match source.values {
        Some(Values::Numeric(values)) => values.nullable(),
        Some(Values::Bool { nullable, .. }) => *nullable,
        _ => false,
    })
}

/// The kind of a column, with what matters for joining it with another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sum {
    Category,
    Numeric(Dtype),
    Bool,
    Text(StringKind),
}

impl Values {
    fn kind_for_union(&self) -> Sum {
        match self {
            Self::Category(_) => Sum::Category,
            Self::Numeric(values) => Sum::Numeric(values.dtype()),
            Self::Bool { .. } => Sum::Bool,
            Self::Text(values) => Sum::Text(values.kind()),
        }
    }
}

impl Sum {
    /// The kind that holds both.
    fn with(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Category, Self::Category | Self::Text(_)) | (Self::Text(_), Self::Category) => {
                Some(Self::Category)
            }
            (Self::Bool, Self::Bool) => Some(Self::Bool),
            (Self::Text(a), Self::Text(b)) => Some(Self::Text(join_strings(a, b))),
            (Self::Numeric(a), Self::Numeric(b)) => Some(Self::Numeric(join_numbers(a, b))),
            _ => None,
        }
    }
}

fn join_strings(a: StringKind, b: StringKind) -> StringKind {
    use StringKind::{Fixed, Masked, Object};
    match (a, b) {
        _ if a == b => a,
        (Object | Fixed, Object | Fixed) => Object,
        _ => Masked,
    }
}

/// The narrowest dtype that holds the values of both, or is the best that there is: int64 beside uint64 and float64
/// beside integers are checked value by value.
fn join_numbers(a: Dtype, b: Dtype) -> Dtype {
    if a == b {
        return a;
    }
    match (integer(a), integer(b)) {
        (Some((signed_a, bits_a)), Some((signed_b, bits_b))) => {
            if signed_a == signed_b {
                return if bits_a >= bits_b { a } else { b };
            }
            let (signed, unsigned) = if signed_a { (bits_a, bits_b) } else { (bits_b, bits_a) };
            match signed.max(unsigned.saturating_mul(2)) {
                16 => Dtype::Int16,
                32 => Dtype::Int32,
                _ => Dtype::Int64,
            }
        }
        (None, None) => match (a, b) {
            (Dtype::Float64, _) | (_, Dtype::Float64) => Dtype::Float64,
            _ => Dtype::Float32,
        },
        _ => Dtype::Float64,
    }
}

/// Whether an integer dtype is signed, and its bits.
fn integer(dtype: Dtype) -> Option<(bool, u32)> {
    match dtype {
        Dtype::Int8 => Some((true, 8)),
        Dtype::Int16 => Some((true, 16)),
        Dtype::Int32 => Some((true, 32)),
        Dtype::Int64 => Some((true, 64)),
        Dtype::UInt8 => Some((false, 8)),
        Dtype::UInt16 => Some((false, 16)),
        Dtype::UInt32 => Some((false, 32)),
        Dtype::UInt64 => Some((false, 64)),
        _ => None,
    }
}

fn check_exact(column: &str, sources: &[&Source<'_>], dtype: Dtype) -> Result<(), TableError> {
    for source in sources {
        if let Some(Values::Numeric(values)) = source.values
            && let Err(fault) = cast::cast(values.array(), dtype)
        {
            return Err(TableError::Inexact {
                column: column.into(),
                input: source.input.into(),
                row: fault.row,
                value: fault.value.into(),
                dtype: dtype.name().into(),
                advice: "convert the column in the inputs, or leave it out".into(),
            });
        }
    }
    Ok(())
}

/// The union of categories. Text columns add their values.
fn categories(column: &str, sources: &[Source<'_>], whole: bool) -> Result<Target, TableError> {
    let dtype = category_dtype(column, sources)?;
    let mut union: Vec<CategoryValue<'_>> = Vec::new();
    let mut codes: HashMap<CategoryValue<'_>, i64> = HashMap::new();
    let mut maps = vec![Vec::new(); sources.len()];
    for (source, map) in sources.iter().zip(&mut maps) {
        match source.values {
            Some(Values::Category(values)) => {
                for (position, value) in values.categories().iter().enumerate() {
                    let value = converted(column, source, position, value, dtype)?;
                    map.push(code_of(value, &mut union, &mut codes));
                }
            }
            Some(Values::Text(values)) => {
                for value in values.values().iter().flatten().map(CategoryValue::Text) {
                    code_of(value, &mut union, &mut codes);
                }
            }
            _ => {}
        }
    }
    let ordered = whole && is_ordered(sources, &maps, union.len());
    let categories = Categories::from_values(union, Some(dtype)).map_err(|e| e.in_column(column))?;
    Ok(Target::Category { categories, ordered })
}

/// The code of a category, a new one if it is new.
fn code_of<'a>(
    value: CategoryValue<'a>,
    union: &mut Vec<CategoryValue<'a>>,
    codes: &mut HashMap<CategoryValue<'a>, i64>,
) -> i64 {
    *codes.entry(value).or_insert_with(|| {
        union.push(value);
        i64::try_from(union.len()).unwrap_or(i64::MAX) - 1
    })
}

/// Ordered only if every input is, in the union's order, and one of them has the whole union: an order between
/// categories that no input compares would be made up.
fn is_ordered(sources: &[Source<'_>], maps: &[Vec<i64>], len: usize) -> bool {
    let all = sources.iter().all(|s| matches!(s.values, Some(Values::Category(values)) if values.ordered()));
    all && maps.iter().all(|map| map.is_sorted()) && maps.iter().any(|map| map.len() == len)
}

/// The dtype of the union's values.
fn category_dtype(column: &str, sources: &[Source<'_>]) -> Result<Dtype, TableError> {
    let object = Dtype::Text(StringKind::Object);
    let mut sum: Option<(&Source<'_>, Dtype)> = None;
    for source in sources {
        let dtype = match source.values {
            Some(Values::Category(values)) if !values.categories().is_empty() => values.categories().dtype(),
            Some(values @ Values::Text(_)) if decides(values) => object,
            _ => continue,
        };
        sum = match sum {
            None => Some((source, dtype)),
            Some((first, so_far)) => match join_dtypes(so_far, dtype) {
                Some(joined) => Some((first, joined)),
                None => {
                    return Err(TableError::Unify {
                        column: column.into(),
                        first: first.input.into(),
                        first_kind: format!("categories of {so_far}").into(),
                        second: source.input.into(),
                        second_kind: format!("categories of {dtype}").into(),
                        advice: "convert one of them: 1 and \"1\" are not the same".into(),
                    });
                }
            },
        };
    }
    let first = sources.iter().find_map(|source| match source.values {
        Some(Values::Category(values)) => Some(values.categories().dtype()),
        _ => None,
    });
    Ok(sum.map(|(_, dtype)| dtype).or(first).unwrap_or(object))
}

fn join_dtypes(a: Dtype, b: Dtype) -> Option<Dtype> {
    match (a, b) {
        (Dtype::Text(a), Dtype::Text(b)) => Some(Dtype::Text(join_strings(a, b))),
        (Dtype::Bool, Dtype::Bool) => Some(Dtype::Bool),
        (Dtype::Text(_) | Dtype::Bool, _) | (_, Dtype::Text(_) | Dtype::Bool) => None,
        (a, b) => Some(join_numbers(a, b)),
    }
}

/// A category as a value of the union's dtype.
fn converted<'a>(
    column: &str,
    source: &Source<'_>,
    position: usize,
    value: CategoryValue<'a>,
    dtype: Dtype,
) -> Result<CategoryValue<'a>, TableError> {
    let inexact = |int: i128| TableError::Inexact {
        column: column.into(),
        input: source.input.into(),
        row: position,
        value: int.to_string().into(),
        dtype: dtype.name().into(),
        advice: "convert the categories in the inputs, or leave the column out".into(),
    };
    match value {
        CategoryValue::Int(int) if dtype.is_float() => {
            exact_float(int).map(CategoryValue::Float).ok_or_else(|| inexact(int))
        }
        CategoryValue::Int(int) if dtype == Dtype::Int64 && i64::try_from(int).is_err() => Err(inexact(int)),
        value => Ok(value),
    }
}

fn describe(values: &Values) -> String {
    match values {
        Values::Category(values) => format!("categories of {}", values.categories().dtype()),
        Values::Numeric(values) => format!("numbers ({})", values.dtype()),
        Values::Bool { .. } => "booleans".to_owned(),
        Values::Text(_) => "text".to_owned(),
    }
}
