use std::io::{self, Write};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_schema::DataType;

use super::{Obs, ObsColumn};
use crate::table::Categories;

/// Writes columns as CSV (RFC 4180, lines end in LF): a line of names, then a line a cell.
///
/// Categories are written as their values. What is missing is empty; an empty text is `""`. Booleans are `True` and
/// `False`, floats the shortest text that reads back as the same number.
///
/// # Errors
/// What `out` reports.
pub fn write_csv(obs: &Obs, out: &mut impl Write) -> io::Result<()> {
    let columns = obs.columns();
    let mut line = String::new();
    for (at, column) in columns.iter().enumerate() {
        begin(&mut line, at);
        push_text(&mut line, &column.field().name);
    }
    end(&mut line, out)?;
    // All columns have the same tiles.
    let tiles = columns.first().map_or(0, |column| column.tiles().len());
    for tile in 0..tiles {
        let values: Vec<_> = columns.iter().filter_map(|column| Values::of(column, tile)).collect();
        let rows = values.iter().map(Values::len).min().unwrap_or(0);
        for row in 0..rows {
            for (at, values) in values.iter().enumerate() {
                begin(&mut line, at);
                values.push(row, &mut line);
            }
            end(&mut line, out)?;
        }
    }
    Ok(())
}

fn begin(line: &mut String, at: usize) {
    if at > 0 {
        line.push(',');
    }
}

fn end(line: &mut String, out: &mut impl Write) -> io::Result<()> {
    line.push('\n');
    out.write_all(line.as_bytes())?;
    line.clear();
    Ok(())
}

/// A tile's values of a column.
enum Values<'a> {
    Category(&'a ArrayRef, &'a Categories),
    Plain(&'a ArrayRef),
}

impl<'a> Values<'a> {
    fn of(column: &'a ObsColumn, tile: usize) -> Option<Self> {
        let array = column.tiles().get(tile)?;
        Some(match &column.field().categories {
            Some(categories) => Self::Category(array, categories),
            None => Self::Plain(array),
        })
    }

    fn len(&self) -> usize {
        match self {
            Self::Category(array, _) | Self::Plain(array) => array.len(),
        }
    }

    fn push(&self, row: usize, line: &mut String) {
        match self {
            Self::Category(array, categories) => {
                let value = code(array.as_ref(), row).and_then(|code| categories.get(code));
                if let Some(value) = value {
                    push_text(line, &value.to_string());
                }
            }
            Self::Plain(array) if array.is_null(row) => {}
            Self::Plain(array) => push_value(array.as_ref(), row, line),
        }
    }
}

/// The code of a row, if it has one.
fn code(codes: &dyn Array, row: usize) -> Option<usize> {
    fn of<T: ArrowPrimitiveType>(codes: &dyn Array, row: usize) -> Option<usize>
    where
        usize: TryFrom<T::Native>,
    {
        let values: &PrimitiveArray<T> = codes.as_primitive();
        values.values().get(row).and_then(|&code| usize::try_from(code).ok())
    }
    match codes.data_type() {
        DataType::Int8 => of::<Int8Type>(codes, row),
        DataType::Int16 => of::<Int16Type>(codes, row),
        DataType::Int32 => of::<Int32Type>(codes, row),
        _ => None,
    }
}

/// A value that is there.
fn push_value(array: &dyn Array, row: usize, line: &mut String) {
    use std::fmt::Write;
    macro_rules! number {
        ($arrow:ty, $form:literal) => {
            if let Some(value) = array.as_primitive::<$arrow>().values().get(row) {
                // Writing to a string cannot fail.
                let _ = write!(line, $form, value);
            }
        };
    }
    match array.data_type() {
        DataType::Boolean => line.push_str(if array.as_boolean().value(row) { "True" } else { "False" }),
        DataType::Utf8 => push_text(line, array.as_string::<i32>().value(row)),
        DataType::Int8 => number!(Int8Type, "{}"),
        DataType::Int16 => number!(Int16Type, "{}"),
        DataType::Int32 => number!(Int32Type, "{}"),
        DataType::Int64 => number!(Int64Type, "{}"),
        DataType::UInt8 => number!(UInt8Type, "{}"),
        DataType::UInt16 => number!(UInt16Type, "{}"),
        DataType::UInt32 => number!(UInt32Type, "{}"),
        DataType::UInt64 => number!(UInt64Type, "{}"),
        // With a point or exponent always, so that readers take them for floats.
        DataType::Float16 => {
            if let Some(value) = array.as_primitive::<Float16Type>().values().get(row) {
                let _ = write!(line, "{:?}", value.to_f32());
            }
        }
        DataType::Float32 => number!(Float32Type, "{:?}"),
        DataType::Float64 => number!(Float64Type, "{:?}"),
        _ => {}
    }
}

/// Text, quoted where it must be, and where it is empty: nothing at all stands for missing.
fn push_text(line: &mut String, text: &str) {
    if text.is_empty() || text.contains(['"', ',', '\n', '\r']) {
        line.push('"');
        line.push_str(&text.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(text);
    }
}
