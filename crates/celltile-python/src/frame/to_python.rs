use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrowPrimitiveType, BooleanArray, LargeStringArray};
use celltile::table::{Categorical, CategoryValue, Codes, Dtype, Numeric, Table, Text, Values};
use numpy::{Element, IntoPyArray};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::error::Result;

/// `rows`, `index` (a column, whose name may be none) and `columns`.
pub(crate) fn to_python<'py>(py: Python<'py>, table: &Table) -> Result<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("rows", table.rows())?;
    let index = table.index().map(|index| column(py, index.name(), index.values())).transpose()?;
    out.set_item("index", index)?;
    let columns = table.columns().iter().map(|c| column(py, Some(c.name()), c.values()));
    out.set_item("columns", columns.collect::<Result<Vec<_>>>()?)?;
    Ok(out)
}

fn column<'py>(py: Python<'py>, name: Option<&str>, values: &Values) -> Result<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("name", name)?;
    match values {
        Values::Category(values) => category(&out, values)?,
        Values::Numeric(values) => numeric(&out, values)?,
        Values::Bool { values, nullable } => bools(&out, values, *nullable)?,
        Values::Text(values) => text(&out, values)?,
    }
    Ok(out)
}

fn category(out: &Bound<'_, PyDict>, values: &Categorical) -> Result<()> {
    let py = out.py();
    out.set_item("kind", "category")?;
    match values.codes() {
        Codes::Int8(codes) => out.set_item("codes", codes.to_vec().into_pyarray(py))?,
        Codes::Int16(codes) => out.set_item("codes", codes.to_vec().into_pyarray(py))?,
        Codes::Int32(codes) => out.set_item("codes", codes.to_vec().into_pyarray(py))?,
    }
    let categories = PyList::empty(py);
    for value in values.categories().iter() {
        match value {
            CategoryValue::Text(value) => categories.append(value)?,
            CategoryValue::Int(value) => categories.append(value)?,
            CategoryValue::Float(value) => categories.append(value)?,
            CategoryValue::Bool(value) => categories.append(value)?,
        }
    }
    out.set_item("categories", categories)?;
    out.set_item("dtype", values.categories().dtype().name())?;
    out.set_item("ordered", values.ordered())?;
    Ok(())
}

fn numeric(out: &Bound<'_, PyDict>, values: &Numeric) -> Result<()> {
    let array = values.array().as_ref();
    out.set_item("kind", "numeric")?;
    out.set_item("dtype", values.dtype().name())?;
    out.set_item("nullable", values.nullable())?;
    match values.dtype() {
        Dtype::Int8 => numbers::<Int8Type>(out, array),
        Dtype::Int16 => numbers::<Int16Type>(out, array),
        Dtype::Int32 => numbers::<Int32Type>(out, array),
        Dtype::Int64 => numbers::<Int64Type>(out, array),
        Dtype::UInt8 => numbers::<UInt8Type>(out, array),
        Dtype::UInt16 => numbers::<UInt16Type>(out, array),
        Dtype::UInt32 => numbers::<UInt32Type>(out, array),
        Dtype::UInt64 => numbers::<UInt64Type>(out, array),
        Dtype::Float16 => numbers::<Float16Type>(out, array),
        Dtype::Float32 => numbers::<Float32Type>(out, array),
        Dtype::Float64 | Dtype::Bool | Dtype::Text(_) => numbers::<Float64Type>(out, array),
    }
}

fn numbers<T: ArrowPrimitiveType<Native: Element>>(out: &Bound<'_, PyDict>, array: &dyn Array) -> Result<()> {
    let array = array.as_primitive::<T>();
    out.set_item("values", array.values().to_vec().into_pyarray(out.py()))?;
    mask(out, array)
}

fn bools(out: &Bound<'_, PyDict>, values: &BooleanArray, nullable: bool) -> Result<()> {
    out.set_item("kind", "bool")?;
    out.set_item("dtype", "bool")?;
    out.set_item("nullable", nullable)?;
    let all: Vec<bool> = values.values().iter().collect();
    out.set_item("values", all.into_pyarray(out.py()))?;
    mask(out, values)
}

fn mask(out: &Bound<'_, PyDict>, array: &dyn Array) -> Result<()> {
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    let mask = nulls.map(|nulls| nulls.iter().map(|there| !there).collect::<Vec<_>>().into_pyarray(out.py()));
    Ok(out.set_item("mask", mask)?)
}

fn text(out: &Bound<'_, PyDict>, values: &Text) -> Result<()> {
    // What was a categorical one comes back as such where that is possible.
    let unfolded = values
        .unfold()
        .map_err(|source| celltile::Error::Table { path: "obs".to_owned(), source: Box::new(source) })?;
    if let Some(values) = unfolded {
        return category(out, &values);
    }
    out.set_item("kind", "string")?;
    out.set_item("dtype", values.kind().name())?;
    out.set_item("values", texts(out.py(), values.values())?)?;
    Ok(())
}

fn texts<'py>(py: Python<'py>, values: &LargeStringArray) -> Result<Bound<'py, PyList>> {
    Ok(PyList::new(py, values.iter())?)
}
