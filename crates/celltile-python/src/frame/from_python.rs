use std::sync::Arc;

use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, ArrowPrimitiveType, BooleanArray, LargeStringArray, PrimitiveArray};
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use celltile::table::{
    Categorical, Categories, CategoryValue, Codes, Column, Dtype, Index, Numeric, StringKind, Table,
    TableError, Text, Values,
};
use numpy::{Element, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyString};

use crate::error::{Failure, Result};

/// A table from parts as `to_python` makes them.
pub(crate) fn from_python(parts: &Bound<'_, PyDict>) -> Result<Table> {
    let rows: usize = item(parts, "rows")?.extract()?;
    let index = item(parts, "index")?;
    let index = match index.cast::<PyDict>() {
        Ok(column) => Some(Index::new(item(column, "name")?.extract()?, values(column)?)),
        Err(_) => None,
    };
    let mut columns = Vec::new();
    for column in item(parts, "columns")?.try_iter()? {
        let column = column?;
        let column = column.cast::<PyDict>().map_err(PyErr::from)?;
        let name: String = item(column, "name")?.extract()?;
        columns.push(Column::new(name, values(column)?));
    }
    Table::new(rows, index, columns).map_err(table)
}

fn values(column: &Bound<'_, PyDict>) -> Result<Values> {
    let kind: String = item(column, "kind")?.extract()?;
    match kind.as_str() {
        "category" => category(column),
        "numeric" => numeric(column),
        "bool" => {
            let values: PyReadonlyArray1<'_, bool> = array(column, "values")?;
            let values: BooleanBuffer = values.as_array().iter().copied().collect();
            Ok(Values::bools(BooleanArray::new(values, nulls(column)?), nullable(column)?))
        }
        "string" => {
            let values: Vec<Option<String>> = item(column, "values")?.extract()?;
            let values: LargeStringArray = values.into_iter().collect();
            let name: String = item(column, "dtype")?.extract()?;
            let kind =
                StringKind::from_name(&name).ok_or_else(|| unknown("dtype of a text column", &name))?;
            Ok(Text::new(values, kind).into())
        }
        other => Err(unknown("kind of a column", other)),
    }
}

/// A category as Python has it.
enum Owned {
    Text(String),
    Int(i128),
    Float(f64),
    Bool(bool),
}

fn category(column: &Bound<'_, PyDict>) -> Result<Values> {
    let mut owned = Vec::new();
    for value in item(column, "categories")?.try_iter()? {
        let value = value?;
        // A bool is an int too.
        owned.push(if value.is_instance_of::<PyBool>() {
            Owned::Bool(value.extract()?)
        } else if value.is_instance_of::<PyString>() {
            Owned::Text(value.extract()?)
        } else if value.is_instance_of::<PyFloat>() {
            Owned::Float(value.extract()?)
        } else {
            Owned::Int(value.extract()?)
        });
    }
    let categories = owned.iter().map(|value| match value {
        Owned::Text(value) => CategoryValue::Text(value),
        Owned::Int(value) => CategoryValue::Int(*value),
        Owned::Float(value) => CategoryValue::Float(*value),
        Owned::Bool(value) => CategoryValue::Bool(*value),
    });
    let name: String = item(column, "dtype")?.extract()?;
    let dtype = Dtype::from_name(&name).ok_or_else(|| unknown("dtype of categories", &name))?;
    let categories = if owned.is_empty() {
        Categories::empty(dtype)
    } else {
        Categories::from_values(categories, Some(dtype)).map_err(table)?
    };
    let codes: PyReadonlyArray1<'_, i64> = array(column, "codes")?;
    let codes = Codes::collect(codes.as_array().iter().copied(), categories.len()).map_err(table)?;
    let ordered: bool = item(column, "ordered")?.extract()?;
    Ok(Categorical::new(codes, categories, ordered).map_err(table)?.into())
}

fn numeric(column: &Bound<'_, PyDict>) -> Result<Values> {
    let name: String = item(column, "dtype")?.extract()?;
    let numbers: ArrayRef = match Dtype::from_name(&name) {
        Some(Dtype::Int8) => numbers::<Int8Type>(column)?,
        Some(Dtype::Int16) => numbers::<Int16Type>(column)?,
        Some(Dtype::Int32) => numbers::<Int32Type>(column)?,
        Some(Dtype::Int64) => numbers::<Int64Type>(column)?,
        Some(Dtype::UInt8) => numbers::<UInt8Type>(column)?,
        Some(Dtype::UInt16) => numbers::<UInt16Type>(column)?,
        Some(Dtype::UInt32) => numbers::<UInt32Type>(column)?,
        Some(Dtype::UInt64) => numbers::<UInt64Type>(column)?,
        Some(Dtype::Float16) => numbers::<Float16Type>(column)?,
        Some(Dtype::Float32) => numbers::<Float32Type>(column)?,
        Some(Dtype::Float64) => numbers::<Float64Type>(column)?,
        _ => return Err(unknown("dtype of a numeric column", &name)),
    };
    Ok(Numeric::new(numbers, nullable(column)?).map_err(table)?.into())
}

fn numbers<T: ArrowPrimitiveType<Native: Element>>(column: &Bound<'_, PyDict>) -> Result<ArrayRef> {
    let values: PyReadonlyArray1<'_, T::Native> = array(column, "values")?;
    let values: ScalarBuffer<T::Native> = values.as_array().iter().copied().collect();
    Ok(Arc::new(PrimitiveArray::<T>::new(values, nulls(column)?)))
}

/// The rows that are there, from the mask of those that are not.
fn nulls(column: &Bound<'_, PyDict>) -> Result<Option<NullBuffer>> {
    let mask = item(column, "mask")?;
    if mask.is_none() {
        return Ok(None);
    }
    let mask: PyReadonlyArray1<'_, bool> = mask.extract()?;
    let there: BooleanBuffer = mask.as_array().iter().map(|missing| !missing).collect();
    let values = item(column, "values")?.len()?;
    if there.len() != values {
        return Err(Failure::Argument(format!("mask: found {} rows, expected {values}", there.len())));
    }
    Ok(Some(NullBuffer::new(there)))
}

fn nullable(column: &Bound<'_, PyDict>) -> Result<bool> {
    Ok(item(column, "nullable")?.extract()?)
}

fn array<'py, T: Element>(column: &Bound<'py, PyDict>, key: &str) -> Result<PyReadonlyArray1<'py, T>> {
    Ok(item(column, key)?.extract()?)
}

fn item<'py>(parts: &Bound<'py, PyDict>, key: &str) -> Result<Bound<'py, PyAny>> {
    parts.get_item(key)?.ok_or_else(|| Failure::Argument(format!("a table without {key:?}")))
}

fn table(source: TableError) -> Failure {
    celltile::Error::Table { path: "table".to_owned(), source: Box::new(source) }.into()
}

fn unknown(what: &str, found: &str) -> Failure {
    Failure::Argument(format!("{what}: found {found:?}"))
}
