use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, UInt64Array, new_null_array,
};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::arrow_writer::{ArrowRowGroupWriterFactory, compute_leaves};
use parquet::arrow::{ARROW_SCHEMA_META_KEY, ArrowSchemaConverter, encode_arrow_schema};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;

use super::extra::Extra;
use super::{dictionary, extra, pandas};
use crate::error::{Error, Result};
use crate::keys;
use crate::table::{Categorical, CategoryValue, Codes, Dtype, Table, Values};

/// A table as a Parquet file that pandas reads back.
///
/// # Errors
/// [`Error::Table`] for a column that Parquet cannot hold: categories of several types.
pub fn to_parquet(table: &Table) -> Result<Vec<u8>> {
    place(table, keys::VAR_TABLE, false)
}

/// [`to_parquet`] with the index before the columns, where pandas has it behind them, for a table that is not var.
pub(crate) fn to_parquet_index_first(table: &Table) -> Result<Vec<u8>> {
    place(table, "table", true)
}

fn place(table: &Table, what: &str, index_first: bool) -> Result<Vec<u8>> {
    let index = pandas::index_field(table);
    let mut columns: Vec<(&str, &Values)> = table.columns().iter().map(|c| (c.name(), c.values())).collect();
    let at = if index_first { 0 } else { columns.len() };
    if let Some(index) = index.as_deref().zip(table.index().map(|index| index.values())) {
        columns.insert(at, index);
    }
    let columns = columns
        .into_iter()
        .map(|(name, values)| Prepared::of(name, values))
        .collect::<ParquetResult<Vec<_>>>();
    columns.and_then(|columns| write(table, &columns, index.as_deref())).map_err(|e| Error::Table {
        path: what.to_owned(),
        source: Box::new(crate::table::TableError::Arrow { message: e.to_string() }),
    })
}

/// A column as it goes into the file.
struct Prepared<'a> {
    field: Field,
    content: Content<'a>,
}

enum Content<'a> {
    Array(ArrayRef),
    Dictionary(&'a Categorical),
}

impl<'a> Prepared<'a> {
    fn of(name: &str, values: &'a Values) -> ParquetResult<Self> {
        if let Values::Category(values) = values
            && let Dtype::Text(_) = values.categories().dtype()
        {
            // One category less than the keys could number: some readers count one too many.
            let keys = Codes::type_for(values.categories().len() + 1);
            let data_type = DataType::Dictionary(Box::new(keys), Box::new(DataType::Utf8));
            let field = Field::new(name, data_type, true).with_dict_is_ordered(values.ordered());
            return Ok(Self { field, content: Content::Dictionary(values) });
        }
        let array: ArrayRef = match values {
            Values::Category(values) => plain_values(values)?,
            // 32-bit offsets are what pandas writes; a longer text than they can hold keeps the others.
            Values::Text(values) if i32::try_from(values.values().value_data().len()).is_ok() => {
                Arc::new(values.values().iter().collect::<StringArray>())
            }
            values => values.to_array(),
        };
        let field = Field::new(name, arrow_array::Array::data_type(&array).clone(), true);
        Ok(Self { field, content: Content::Array(array) })
    }
}

/// The values behind codes of categories that are no text, in the categories' dtype.
fn plain_values(values: &Categorical) -> ParquetResult<ArrayRef> {
    let categories = values.categories();
    let cells = || values.codes().iter().map(|code| categories.get(usize::try_from(code).ok()?));
    let mixed = || ParquetError::General("categories of several types".to_owned());
    let dtype = categories.dtype();
    let wide: ArrayRef = if categories.is_empty() {
        return Ok(new_null_array(&dtype.to_arrow(), values.codes().len()));
    } else if dtype == Dtype::Bool {
        Arc::new(
            cells()
                .map(|v| if let Some(CategoryValue::Bool(b)) = v { Some(b) } else { None })
                .collect::<BooleanArray>(),
        )
    } else if dtype.is_float() {
        Arc::new(
            cells()
                .map(|v| if let Some(CategoryValue::Float(f)) = v { Some(f) } else { None })
                .collect::<Float64Array>(),
        )
    } else if dtype == Dtype::UInt64 {
        let int = |v: Option<CategoryValue<'_>>| match v {
            Some(CategoryValue::Int(int)) => u64::try_from(int).map(Some).map_err(|_| mixed()),
            _ => Ok(None),
        };
        Arc::new(UInt64Array::from(cells().map(int).collect::<ParquetResult<Vec<_>>>()?))
    } else {
        let int = |v: Option<CategoryValue<'_>>| match v {
            Some(CategoryValue::Int(int)) => i64::try_from(int).map(Some).map_err(|_| mixed()),
            _ => Ok(None),
        };
        Arc::new(Int64Array::from(cells().map(int).collect::<ParquetResult<Vec<_>>>()?))
    };
    Ok(wide)
}

fn write(table: &Table, columns: &[Prepared<'_>], index: Option<&str>) -> ParquetResult<Vec<u8>> {
    // pyarrow takes the Arrow schema's own metadata over the file's, so pandas' notes are in both.
    let notes = pandas::describe(table);
    let fields: Vec<_> = columns.iter().map(|column| column.field.clone()).collect();
    let own = HashMap::from([(pandas::KEY.to_owned(), notes.clone())]);
    let schema = Arc::new(Schema::new_with_metadata(fields, own));
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_created_by(format!("celltile version {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(metadata(table, &schema, index, notes)))
        .build();
    let parquet_schema = ArrowSchemaConverter::new().convert(&schema)?;
    let mut file =
        SerializedFileWriter::new(Vec::new(), parquet_schema.root_schema_ptr(), Arc::new(properties))?;
    if table.rows() > 0 {
        let factory = ArrowRowGroupWriterFactory::new(&file, Arc::clone(&schema));
        let writers = factory.create_column_writers(0)?;
        let mut group = file.next_row_group()?;
        for (position, (column, mut writer)) in columns.iter().zip(writers).enumerate() {
            match &column.content {
                Content::Array(array) => {
                    for leaf in compute_leaves(&column.field, array)? {
                        writer.write(&leaf)?;
                    }
                    writer.close()?.append_to_row_group(&mut group)?;
                }
                Content::Dictionary(values) => {
                    let (bytes, close) = dictionary::column_chunk(values, parquet_schema.column(position))?;
                    group.append_column(&bytes, close)?;
                }
            }
        }
        group.close()?;
    }
    file.into_inner()
}

fn metadata(table: &Table, schema: &Schema, index: Option<&str>, notes: String) -> Vec<KeyValue> {
    let mut metadata = vec![KeyValue::new(pandas::KEY.to_owned(), notes)];
    let extra = Extra::of(table, index);
    if !extra.is_empty() {
        metadata.push(KeyValue::new(extra::KEY.to_owned(), extra.to_json()));
    }
    metadata.push(KeyValue::new(ARROW_SCHEMA_META_KEY.to_owned(), encode_arrow_schema(schema)));
    metadata
}
