//! Exact casts between numeric types.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};

use crate::table::Dtype;

/// A value that the wanted dtype does not hold.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Inexact {
    pub(super) row: usize,
    pub(super) value: String,
}

/// A number of any numeric dtype.
#[derive(Debug, Clone, Copy)]
enum Number {
    Int(i128),
    Float(f64),
}

/// The array in another dtype, every value the same number.
pub(super) fn cast(array: &ArrayRef, dtype: Dtype) -> Result<ArrayRef, Inexact> {
    if *array.data_type() == dtype.to_arrow() {
        return Ok(Arc::clone(array));
    }
    match dtype {
        Dtype::Int8 => collect::<Int8Type>(array, int),
        Dtype::Int16 => collect::<Int16Type>(array, int),
        Dtype::Int32 => collect::<Int32Type>(array, int),
        Dtype::Int64 => collect::<Int64Type>(array, int),
        Dtype::UInt8 => collect::<UInt8Type>(array, int),
        Dtype::UInt16 => collect::<UInt16Type>(array, int),
        Dtype::UInt32 => collect::<UInt32Type>(array, int),
        Dtype::UInt64 => collect::<UInt64Type>(array, int),
        Dtype::Float16 => collect::<Float16Type>(array, |n| {
            float(n).map(half::f16::from_f64).filter(|f| float(n).is_some_and(|n| same(f.to_f64(), n)))
        }),
        Dtype::Float32 => collect::<Float32Type>(array, |n| {
            float(n).map(single).filter(|f| float(n).is_some_and(|n| same(f64::from(*f), n)))
        }),
        _ => collect::<Float64Type>(array, float),
    }
}

fn collect<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    convert: impl Fn(Number) -> Option<T::Native>,
) -> Result<ArrayRef, Inexact> {
    let mut out: Vec<Option<T::Native>> = Vec::with_capacity(array.len());
    for (row, number) in numbers(array).into_iter().enumerate() {
        let Some(number) = number else {
            out.push(None);
            continue;
        };
        match convert(number) {
            Some(value) => out.push(Some(value)),
            None => return Err(Inexact { row, value: shown(number) }),
        }
    }
    Ok(Arc::new(PrimitiveArray::<T>::from_iter(out)))
}

/// The first row of an array of integers that no float64 equals.
pub(super) fn inexact_as_float(array: &ArrayRef) -> Option<usize> {
    // Only 64 bits are too many.
    if !matches!(Dtype::from_arrow(array.data_type()), Some(Dtype::Int64 | Dtype::UInt64)) {
        return None;
    }
    let inexact = |number: &Option<Number>| number.is_some_and(|number| float(number).is_none());
    // What int64 does not hold counts too.
    numbers(array).iter().position(inexact).or_else(|| past_int64(array))
}

/// The first row of an array of integers that int64 does not hold.
pub(super) fn past_int64(array: &ArrayRef) -> Option<usize> {
    if Dtype::from_arrow(array.data_type()) != Some(Dtype::UInt64) {
        return None;
    }
    let past = |number: &Option<Number>| number.is_some_and(|number| int::<i64>(number).is_none());
    numbers(array).iter().position(past)
}

fn numbers(array: &ArrayRef) -> Vec<Option<Number>> {
    fn ints<T: ArrowPrimitiveType<Native: Into<i128>>>(array: &ArrayRef) -> Vec<Option<Number>> {
        array.as_primitive::<T>().iter().map(|v| v.map(|v| Number::Int(v.into()))).collect()
    }
    fn floats<T: ArrowPrimitiveType<Native: Into<f64>>>(array: &ArrayRef) -> Vec<Option<Number>> {
        array.as_primitive::<T>().iter().map(|v| v.map(|v| Number::Float(v.into()))).collect()
    }
    match Dtype::from_arrow(array.data_type()) {
        Some(Dtype::Int8) => ints::<Int8Type>(array),
        Some(Dtype::Int16) => ints::<Int16Type>(array),
        Some(Dtype::Int32) => ints::<Int32Type>(array),
        Some(Dtype::Int64) => ints::<Int64Type>(array),
        Some(Dtype::UInt8) => ints::<UInt8Type>(array),
        Some(Dtype::UInt16) => ints::<UInt16Type>(array),
        Some(Dtype::UInt32) => ints::<UInt32Type>(array),
        Some(Dtype::UInt64) => ints::<UInt64Type>(array),
        Some(Dtype::Float16) => floats::<Float16Type>(array),
        Some(Dtype::Float32) => floats::<Float32Type>(array),
        Some(Dtype::Float64) => floats::<Float64Type>(array),
        _ => Vec::new(),
    }
}

fn int<T: TryFrom<i128>>(number: Number) -> Option<T> {
    match number {
        Number::Int(int) => T::try_from(int).ok(),
        Number::Float(_) => None,
    }
}

fn float(number: Number) -> Option<f64> {
    match number {
        Number::Float(float) => Some(float),
        Number::Int(int) => exact_float(int),
    }
}

/// The float that equals an integer, if there is one.
pub(super) fn exact_float(int: i128) -> Option<f64> {
    let magnitude = int.unsigned_abs();
    let digits = (u128::BITS - magnitude.leading_zeros()).saturating_sub(magnitude.trailing_zeros());
    #[allow(clippy::cast_precision_loss, reason = "at most 53 binary digits: it is exact")]
    (magnitude == 0 || digits <= f64::MANTISSA_DIGITS).then_some(int as f64)
}

#[allow(clippy::cast_possible_truncation, reason = "the caller compares the result with what went in")]
fn single(float: f64) -> f32 {
    float as f32
}

fn same(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan())
}

fn shown(number: Number) -> String {
    match number {
        Number::Int(int) => int.to_string(),
        Number::Float(float) => float.to_string(),
    }
}
