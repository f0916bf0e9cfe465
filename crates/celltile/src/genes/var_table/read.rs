use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, LargeStringArray, UInt64Array, new_empty_array};
use arrow_schema::{DataType, Field, FieldRef, Schema};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};

use parquet::errors::ParquetError;

use super::extra::Extra;
use super::pandas::Pandas;
use super::{extra, pandas};
use crate::contain::contained;
use crate::error::{Error, Result};
use crate::table::unify::Union;
use crate::table::{
    Categorical, Categories, Codes, Column, Index, Kind, Numeric, StringKind, Table, TableError, Text, Values,
};

/// Rows decoded at a time, far more than there are genes: what memory is taken for does not follow a number in a footer.
const BATCH: usize = 1 << 20;

/// Reads a gene table, our own or one that pandas wrote. `path` names it in errors.
///
/// # Errors
/// [`Error::File`] if it is no Parquet file, or damaged; [`Error::Table`] for a column that is neither category,
/// number, boolean nor text.
pub fn from_parquet(bytes: &Bytes, path: &str) -> Result<Table> {
    contained(path, "Parquet", || read(bytes, path))
}

fn read(bytes: &Bytes, path: &str) -> Result<Table> {
    let fault = |e: &dyn ToString| Error::File {
        path: path.to_owned(),
        what: "Parquet".to_owned(),
        found: e.to_string(),
        expected: "a gene table".to_owned(),
    };
    let table_fault = |e| Error::Table { path: path.to_owned(), source: Box::new(e) };
    let metadata = load(bytes).map_err(|e| fault(&e))?;
    let notes = Notes::of(&metadata);
    let groups = metadata.metadata().num_row_groups();
    if groups == 0 {
        let arrays: Vec<_> =
            metadata.schema().fields().iter().map(|f| new_empty_array(f.data_type())).collect();
        let rows = usize::try_from(metadata.metadata().file_metadata().num_rows()).unwrap_or(0);
        return notes.table(metadata.schema(), &arrays, rows).map_err(table_fault);
    }
    // Group by group, since a batch over several would mix their dictionaries and lose the categories' order.
    let tables = (0..groups)
        .map(|group| {
            let (arrays, rows) = read_group(bytes, &metadata, group).map_err(|e| fault(&e))?;
            notes.table(metadata.schema(), &arrays, rows).map_err(table_fault)
        })
        .collect::<Result<Vec<_>>>()?;
    let names: Vec<_> = (0..groups).map(|group| format!("row group {group}")).collect();
    let inputs: Vec<_> = names.iter().map(String::as_str).zip(&tables).collect();
    match tables.as_slice() {
        [one] => Ok(one.clone()),
        many => Union::of(&inputs)
            .and_then(|union| union.concat(&many.iter().collect::<Vec<_>>()))
            .map_err(table_fault),
    }
}

/// The footer, with dictionaries read as ones of 32-bit keys: the reader refuses a dictionary of 128 values with 8-bit
/// keys, though they can number it.
fn load(bytes: &Bytes) -> std::result::Result<ArrowReaderMetadata, ParquetError> {
    let found = ArrowReaderMetadata::load(bytes, ArrowReaderOptions::new())?;
    let wide = |field: &FieldRef| match field.data_type() {
        DataType::Dictionary(keys, values) if **keys != DataType::Int32 => {
            let ordered = field.dict_is_ordered().unwrap_or(false);
            let data_type = DataType::Dictionary(Box::new(DataType::Int32), values.clone());
            let field = field.as_ref().clone().with_data_type(data_type);
            Arc::new(field.with_dict_is_ordered(ordered))
        }
        _ => Arc::clone(field),
    };
    let fields: Vec<FieldRef> = found.schema().fields().iter().map(wide).collect();
    let schema = Arc::new(Schema::new_with_metadata(fields, found.schema().metadata().clone()));
    if schema == *found.schema() {
        return Ok(found);
    }
    ArrowReaderMetadata::try_new(Arc::clone(found.metadata()), ArrowReaderOptions::new().with_schema(schema))
}

/// The columns of a row group, each in one piece with its dictionary page whole, and the number of rows.
fn read_group(
    bytes: &Bytes,
    metadata: &ArrowReaderMetadata,
    group: usize,
) -> std::result::Result<(Vec<ArrayRef>, usize), ParquetError> {
    let rows = metadata.metadata().row_groups().get(group).map_or(0, |group| group.num_rows());
    let rows = usize::try_from(rows).unwrap_or(0);
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(bytes.clone(), metadata.clone())
        .with_row_groups(vec![group])
        .with_batch_size(rows.clamp(1, BATCH))
        .build()?;
    let mut pieces: Vec<Vec<ArrayRef>> = vec![Vec::new(); metadata.schema().fields().len()];
    let mut found = 0;
    for batch in reader {
        let batch = batch?;
        found += batch.num_rows();
        pieces.iter_mut().zip(batch.columns()).for_each(|(pieces, array)| pieces.push(Arc::clone(array)));
    }
    let arrays = pieces
        .iter()
        .zip(metadata.schema().fields())
        .map(|(pieces, field)| join(pieces, field))
        .collect::<std::result::Result<_, _>>()?;
    Ok((arrays, found))
}

/// What a file's metadata says beyond the schema.
struct Notes {
    pandas: Pandas,
    extra: Extra,
}

impl Notes {
    fn of(metadata: &ArrowReaderMetadata) -> Self {
        let pairs = metadata.metadata().file_metadata().key_value_metadata();
        let get = |key: &str| {
            let pair = pairs?.iter().find(|pair| pair.key == key)?;
            pair.value.as_deref()
        };
        Self {
            pandas: get(pandas::KEY).map(Pandas::parse).unwrap_or_default(),
            extra: get(extra::KEY).map(Extra::parse).unwrap_or_default(),
        }
    }

    fn table(&self, schema: &Schema, arrays: &[ArrayRef], rows: usize) -> Result<Table, TableError> {
        let mut index = None;
        let mut columns = Vec::with_capacity(arrays.len());
        for (field, array) in schema.fields().iter().zip(arrays) {
            let values =
                values(field, array, &self.pandas, &self.extra).map_err(|e| e.in_column(field.name()))?;
            match &self.pandas.index {
                Some((name, own)) if name == field.name() => index = Some(Index::new(own.clone(), values)),
                _ => columns.push(Column::new(field.name().clone(), values)),
            }
        }
        Table::new(rows, index, columns)
    }
}

fn join(pieces: &[ArrayRef], field: &Field) -> std::result::Result<ArrayRef, arrow_schema::ArrowError> {
    match pieces {
        [] => Ok(new_empty_array(field.data_type())),
        [one] => Ok(Arc::clone(one)),
        many => arrow_select::concat::concat(&many.iter().map(AsRef::as_ref).collect::<Vec<_>>()),
    }
}

fn values(field: &Field, array: &ArrayRef, notes: &Pandas, extra: &Extra) -> Result<Values, TableError> {
    if let Some((categories, ordered)) = extra.categories(field.name()) {
        return encoded(array, categories, *ordered);
    }
    match array.data_type() {
        DataType::Dictionary(_, _) => category(field, array),
        DataType::Boolean => Ok(Values::bools(array.as_boolean().clone(), notes.nullable(field.name()))),
        // pandas writes a column of nothing but None without a type.
        DataType::Null => Ok(Text::new(LargeStringArray::new_null(array.len()), StringKind::Object).into()),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            Ok(Text::from_array(array.as_ref(), notes.string_kind(field.name()))?.into())
        }
        _ => Ok(Numeric::new(Arc::clone(array), notes.nullable(field.name()))?.into()),
    }
}

/// A dictionary column: foreign ones may list a value twice or hold nulls, and have any index width.
fn category(field: &Field, array: &ArrayRef) -> Result<Values, TableError> {
    let dictionary = array.as_any_dictionary_opt().ok_or_else(|| TableError::ArrowType {
        found: array.data_type().to_string(),
        kind: Kind::Category,
    })?;
    let list = dictionary.values();
    // The Parquet reader gives a dictionary page of no values one empty text. A list of that alone that no row uses is
    // taken for none.
    let placeholder = array.null_count() == array.len()
        && list.len() == 1
        && list.as_string_opt::<i32>().is_some_and(|list| list.value(0).is_empty());
    let present: Vec<_> = (0..list.len()).filter(|&i| list.is_valid(i) && !placeholder).collect();
    let kept = if present.len() == list.len() {
        Arc::clone(list)
    } else {
        let rows: UInt64Array = present.iter().map(|&i| u64::try_from(i).unwrap_or(u64::MAX)).collect();
        arrow_select::take::take(list.as_ref(), &rows, None)?
    };
    let (categories, map) = Categories::from_array_dedup(kept.as_ref(), StringKind::Object)?;
    let mut codes = vec![-1_i64; list.len()];
    for (position, code) in present.iter().zip(map) {
        if let Some(slot) = codes.get_mut(*position) {
            *slot = i64::try_from(code).unwrap_or(i64::MAX);
        }
    }
    let keys = if list.is_empty() { vec![0; array.len()] } else { dictionary.normalized_keys() };
    let row_codes = keys.iter().enumerate().map(|(row, &key)| match dictionary.keys().is_valid(row) {
        true => codes.get(key).copied().unwrap_or(-1),
        false => -1,
    });
    let codes = Codes::collect(row_codes, categories.len())?;
    Ok(Categorical::new(codes, categories, field.dict_is_ordered().unwrap_or(false))?.into())
}

/// Values as codes of known categories.
fn encoded(array: &ArrayRef, categories: &Categories, ordered: bool) -> Result<Values, TableError> {
    let (own, own_codes) = distinct(array)?;
    let codes: HashMap<_, i64> = categories.iter().zip(0..).collect();
    // A value that is no category is refused by `collect`.
    let map: Vec<i64> = own.iter().map(|value| codes.get(&value).copied().unwrap_or(i64::MAX)).collect();
    let row_codes = own_codes.iter().map(|code| code.and_then(|code| map.get(code).copied()).unwrap_or(-1));
    let codes = Codes::collect(row_codes, categories.len())?;
    Ok(Categorical::new(codes, categories.clone(), ordered)?.into())
}

/// The values of a plain column as categories, and each row's code.
fn distinct(array: &ArrayRef) -> Result<(Categories, Vec<Option<usize>>), TableError> {
    let rows: Vec<_> = (0..array.len()).filter(|&row| array.is_valid(row)).collect();
    let valid: UInt64Array = rows.iter().map(|&row| u64::try_from(row).unwrap_or(u64::MAX)).collect();
    let values = arrow_select::take::take(array.as_ref(), &valid, None)?;
    let (categories, map) = Categories::from_array_dedup(values.as_ref(), StringKind::Object)?;
    let mut codes = vec![None; array.len()];
    for (row, code) in rows.into_iter().zip(map) {
        if let Some(slot) = codes.get_mut(row) {
            *slot = Some(code);
        }
    }
    Ok((categories, codes))
}
