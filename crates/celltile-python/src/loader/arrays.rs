//! Batches as NumPy arrays that share the batch's memory, which goes back to the loader with the last of them.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType};
use arrow_schema::DataType;
use celltile_loader::{Batch, Element};
use numpy::IntoPyArray;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::error::{Failure, Result};
use crate::shared::share;

pub(super) fn of_batch<C>(py: Python<'_>, batch: Batch<C>) -> Result<Bound<'_, PyTuple>>
where
    C: Element + numpy::Element,
{
    let batch = Box::new(batch);
    let cells: Vec<i64> = batch.cells().iter().map(|&cell| i64::try_from(cell).unwrap_or(i64::MAX)).collect();
    let totals = batch.totals().map(|totals| totals.to_vec().into_pyarray(py));
    let obs: Vec<Py<PyAny>> =
        batch.obs().iter().map(|column| of_column(py, column)).collect::<Result<_>>()?;
    let lost = batch.lost();
    let (indptr, genes, counts) = share(py, batch, Batch::arrays_mut)?;
    Ok((indptr, genes, counts, cells.into_pyarray(py), totals, PyList::new(py, obs)?, lost)
        .into_pyobject(py)?)
}

/// Values of a column: NaN for missing numbers and booleans, None for missing texts.
fn of_column(py: Python<'_>, column: &ArrayRef) -> Result<Py<PyAny>> {
    let column = column.as_ref();
    match column.data_type() {
        DataType::Int8 => numbers::<Int8Type>(py, column),
        DataType::Int16 => numbers::<Int16Type>(py, column),
        DataType::Int32 => numbers::<Int32Type>(py, column),
        DataType::Int64 => numbers::<Int64Type>(py, column),
        DataType::UInt8 => numbers::<UInt8Type>(py, column),
        DataType::UInt16 => numbers::<UInt16Type>(py, column),
        DataType::UInt32 => numbers::<UInt32Type>(py, column),
        DataType::UInt64 => numbers::<UInt64Type>(py, column),
        DataType::Float16 => {
            let values = column.as_primitive::<Float16Type>().iter();
            let values: Vec<f32> = values.map(|value| value.map_or(f32::NAN, |v| v.to_f32())).collect();
            Ok(values.into_pyarray(py).into_py_any(py)?)
        }
        DataType::Float32 => {
            let values = column.as_primitive::<Float32Type>().iter();
            let values: Vec<f32> = values.map(|value| value.unwrap_or(f32::NAN)).collect();
            Ok(values.into_pyarray(py).into_py_any(py)?)
        }
        DataType::Float64 => {
            let values = column.as_primitive::<Float64Type>().iter();
            let values: Vec<f64> = values.map(|value| value.unwrap_or(f64::NAN)).collect();
            Ok(values.into_pyarray(py).into_py_any(py)?)
        }
        DataType::Boolean => {
            let values = column.as_boolean();
            if values.null_count() == 0 {
                let values: Vec<bool> = values.iter().map(|value| value == Some(true)).collect();
                return Ok(values.into_pyarray(py).into_py_any(py)?);
            }
            let values = values.iter().map(|value| value.map_or(f64::NAN, |v| f64::from(u8::from(v))));
            Ok(values.collect::<Vec<f64>>().into_pyarray(py).into_py_any(py)?)
        }
        DataType::Utf8 => {
            let values: Vec<Option<&str>> = column.as_string::<i32>().iter().collect();
            Ok(values.into_py_any(py)?)
        }
        other => Err(Failure::Argument(format!("an obs column of type {other}, which no schema has"))),
    }
}

fn numbers<T>(py: Python<'_>, column: &dyn Array) -> Result<Py<PyAny>>
where
    T: ArrowPrimitiveType,
    T::Native: numpy::Element + num_like::ToDouble,
{
    use num_like::ToDouble;
    let values = column.as_primitive::<T>();
    if values.null_count() == 0 {
        return Ok(values.values().to_vec().into_pyarray(py).into_py_any(py)?);
    }
    let values: Vec<f64> = values.iter().map(|value| value.map_or(f64::NAN, T::Native::to_double)).collect();
    Ok(values.into_pyarray(py).into_py_any(py)?)
}

/// Integers as the nearest double.
mod num_like {
    pub(super) trait ToDouble {
        fn to_double(self) -> f64;
    }

    macro_rules! to_double {
        ($($type:ty),*) => {$(
            impl ToDouble for $type {
                #[allow(clippy::cast_precision_loss, clippy::cast_lossless, reason = "missing values need NaN")]
                fn to_double(self) -> f64 {
                    self as f64
                }
            }
        )*};
    }

    to_double!(i8, i16, i32, i64, u8, u16, u32, u64);
}
