use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_schema::DataType;

use super::{Dtype, Kind, TableError};

/// A column of integers or floats.
///
/// Missing values are nulls. In a plain float column NaN *is* the missing value and becomes null; in a masked
/// one (pandas `Float64`) NaN is a value of its own and stays.
#[derive(Debug, Clone)]
pub struct Numeric {
    array: ArrayRef,
    nullable: bool,
}

impl Numeric {
    /// A column of the eight integer and three float types. `nullable`: the source's dtype is a masked one
    /// (pandas `Int64` and so on). An integer column with nulls is always taken as such.
    ///
    /// # Errors
    /// [`TableError::ArrowType`] for any other type.
    pub fn new(array: ArrayRef, nullable: bool) -> Result<Self, TableError> {
        let dtype = match Dtype::from_arrow(array.data_type()) {
            Some(dtype) if dtype.is_integer() || dtype.is_float() => dtype,
            _ => {
                return Err(TableError::ArrowType {
                    found: array.data_type().to_string(),
                    kind: Kind::Numeric,
                });
            }
        };
        if dtype.is_integer() {
            let nullable = nullable || array.null_count() > 0;
            return Ok(Self { array, nullable });
        }
        let array = if nullable { array } else { nan_to_null(array) };
        Ok(Self { array, nullable })
    }

    /// The values.
    #[must_use]
    pub fn array(&self) -> &ArrayRef {
        &self.array
    }

    /// Whether the source's dtype is a masked one.
    #[must_use]
    pub fn nullable(&self) -> bool {
        self.nullable
    }

    /// The dtype.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        Dtype::from_arrow(self.array.data_type()).unwrap_or(Dtype::Float64)
    }

    pub(crate) fn with_array(&self, array: ArrayRef) -> Self {
        Self { array, nullable: self.nullable }
    }
}

impl PartialEq for Numeric {
    fn eq(&self, other: &Self) -> bool {
        self.nullable == other.nullable && self.array.as_ref() == other.array.as_ref()
    }
}

fn nan_to_null(array: ArrayRef) -> ArrayRef {
    fn convert<T: ArrowPrimitiveType>(array: &ArrayRef, is_nan: impl Fn(T::Native) -> bool) -> ArrayRef {
        let values = array.as_primitive::<T>();
        if !values.values().iter().any(|&value| is_nan(value)) {
            return Arc::clone(array);
        }
        Arc::new(values.iter().map(|value| value.filter(|&v| !is_nan(v))).collect::<PrimitiveArray<T>>())
    }
    match array.data_type() {
        DataType::Float16 => convert::<Float16Type>(&array, half::f16::is_nan),
        DataType::Float32 => convert::<Float32Type>(&array, f32::is_nan),
        DataType::Float64 => convert::<Float64Type>(&array, f64::is_nan),
        _ => array,
    }
}
