//! Tables to AnnData data frames (encoding `dataframe` 0.2.0).

use arrow_array::cast::AsArray;
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{Array, types};
use arrow_schema::DataType;
use celltile::table::{Categorical, CategoryValue, Dtype, Index, Numeric, StringKind, Table, Text, Values};

use crate::error::{Error, Result};
use crate::hdf5::{Attr, Element, Writer};

/// The name of an index that has none.
const UNNAMED: &str = "_index";

/// Writes a table as the group at `path`. A table without an index, and cells or genes without a table, are numbered.
pub(super) fn write_frame(writer: &Writer, path: &str, table: &Table) -> Result<()> {
    let numbered;
    let index = match table.index() {
        Some(index) => index,
        None => {
            numbered = Index::new(None, (0..table.rows()).map(|row| Some(row.to_string())).collect::<Text>());
            &numbered
        }
    };
    let index_name = index_name(table, index);
    let columns: Vec<&str> = table.columns().iter().map(celltile::table::Column::name).collect();
    writer.group(
        path,
        &[
            ("_index", Attr::Text(&index_name)),
            ("column-order", Attr::Texts(&columns)),
            ("encoding-type", Attr::Text("dataframe")),
            ("encoding-version", Attr::Text("0.2.0")),
        ],
    )?;
    let mut folders = Folders::new(path, &columns);
    if !columns.contains(&index_name.as_str()) {
        folders.open(writer, &index_name)?;
        write_values(writer, &format!("{path}/{index_name}"), index.values())?;
    }
    for column in table.columns() {
        folders.open(writer, column.name())?;
        write_values(writer, &format!("{path}/{}", column.name()), column.values())?;
    }
    Ok(())
}

/// The name of the index's array. A column of that name serves as both where the values are the same; otherwise the
/// index takes a name of its own.
fn index_name(table: &Table, index: &Index) -> String {
    let base = index.name().unwrap_or(UNNAMED);
    match table.column(base) {
        Some(column) if column.values() != index.values() => {
            table.index_column_name().unwrap_or_else(|| UNNAMED.to_owned())
        }
        _ => base.to_owned(),
    }
}

/// The groups that names with slashes stand for: HDF5 nests them.
struct Folders<'a> {
    path: &'a str,
    columns: &'a [&'a str],
    made: Vec<String>,
}

impl<'a> Folders<'a> {
    const fn new(path: &'a str, columns: &'a [&'a str]) -> Self {
        Self { path, columns, made: Vec::new() }
    }

    /// Makes the groups that a name passes through.
    fn open(&mut self, writer: &Writer, name: &str) -> Result<()> {
        let refuse = |why: &str| Error::Unsupported {
            file: writer.target().display().to_string(),
            at: format!("{} column {name:?}", self.path.trim_start_matches('/')),
            what: format!("no name that HDF5 can hold: {why}; leave the column out"),
        };
        if name.split('/').any(|part| matches!(part, "" | ".")) || name.contains('\0') {
            return Err(refuse("an empty part, a part \".\" or a zero byte"));
        }
        let parents = name.match_indices('/').filter_map(|(at, _)| name.get(..at));
        for parent in parents.map(str::to_owned).collect::<Vec<_>>() {
            if self.columns.contains(&parent.as_str()) {
                return Err(refuse(&format!("column {parent:?} stands where its group would be")));
            }
            if !self.made.contains(&parent) {
                writer.group(&format!("{}/{parent}", self.path), &[])?;
                self.made.push(parent);
            }
        }
        Ok(())
    }
}

const fn encoding<'a>(kind: &'a str, version: &'a str) -> [(&'a str, Attr<'a>); 2] {
    [("encoding-type", Attr::Text(kind)), ("encoding-version", Attr::Text(version))]
}

fn write_values(writer: &Writer, path: &str, values: &Values) -> Result<()> {
    match values {
        Values::Category(values) => write_category(writer, path, values),
        Values::Numeric(values) => write_numeric(writer, path, values),
        Values::Bool { values, nullable } => {
            let bytes: Vec<u8> = values.iter().map(|value| u8::from(value.unwrap_or_default())).collect();
            if *nullable {
                return write_masked(writer, path, "nullable-boolean", Element::Bool, &bytes, values);
            }
            writer.array(path, Element::Bool, &bytes, &encoding("array", "0.2.0"))
        }
        // A categorical column of too many categories comes back as one, where its list follows from the values.
        Values::Text(values) => match values.unfold()? {
            Some(values) => write_category(writer, path, &values),
            None => write_text(writer, path, values),
        },
    }
}

fn write_category(writer: &Writer, path: &str, values: &Categorical) -> Result<()> {
    let codes = values.codes().to_array();
    let (element, bytes) = match codes.data_type() {
        DataType::Int8 => (Element::Int8, plain::<types::Int8Type>(&codes)),
        DataType::Int16 => (Element::Int16, plain::<types::Int16Type>(&codes)),
        _ => (Element::Int32, plain::<types::Int32Type>(&codes)),
    };
    let [kind, version] = encoding("categorical", "0.2.0");
    writer.group(path, &[kind, version, ("ordered", Attr::Bool(values.ordered()))])?;
    writer.array(&format!("{path}/codes"), element, &bytes, &encoding("array", "0.2.0"))?;

    let path = format!("{path}/categories");
    let categories = values.categories();
    let dtype = categories.dtype();
    let Some(element) = element_of(dtype) else {
        let texts = categories.iter().map(|value| match value {
            CategoryValue::Text(text) => Ok(text),
            other => Err(Error::Unsupported {
                file: writer.target().display().to_string(),
                at: path.trim_start_matches('/').to_owned(),
                what: format!("{} among text categories, which an h5ad file cannot hold", other.to_json()),
            }),
        });
        let texts = texts.collect::<Result<Vec<_>>>()?;
        let kind = match dtype {
            Dtype::Text(kind) => kind,
            _ => StringKind::Object,
        };
        return write_strings(writer, &path, &texts, kind, None);
    };
    let bytes: Vec<u8> = categories.iter().flat_map(|value| number_bytes(value, element)).collect();
    writer.array(&path, element, &bytes, &encoding("array", "0.2.0"))
}

fn write_numeric(writer: &Writer, path: &str, values: &Numeric) -> Result<()> {
    let array = values.array();
    let (element, bytes) = match values.dtype() {
        Dtype::Int8 => (Element::Int8, plain::<types::Int8Type>(array)),
        Dtype::Int16 => (Element::Int16, plain::<types::Int16Type>(array)),
        Dtype::Int32 => (Element::Int32, plain::<types::Int32Type>(array)),
        Dtype::Int64 => (Element::Int64, plain::<types::Int64Type>(array)),
        Dtype::UInt8 => (Element::UInt8, plain::<types::UInt8Type>(array)),
        Dtype::UInt16 => (Element::UInt16, plain::<types::UInt16Type>(array)),
        Dtype::UInt32 => (Element::UInt32, plain::<types::UInt32Type>(array)),
        Dtype::UInt64 => (Element::UInt64, plain::<types::UInt64Type>(array)),
        // AnnData has no masked floats: what is missing is NaN.
        Dtype::Float16 => (Element::Float16, floats::<types::Float16Type>(array, half::f16::NAN)),
        Dtype::Float32 => (Element::Float32, floats::<types::Float32Type>(array, f32::NAN)),
        _ => (Element::Float64, floats::<types::Float64Type>(array, f64::NAN)),
    };
    if values.nullable() && values.dtype().is_integer() {
        return write_masked(writer, path, "nullable-integer", element, &bytes, array.as_ref());
    }
    writer.array(path, element, &bytes, &encoding("array", "0.2.0"))
}

fn write_text(writer: &Writer, path: &str, values: &Text) -> Result<()> {
    let array = values.values();
    let texts: Vec<&str> = array.iter().map(Option::unwrap_or_default).collect();
    let mask = (array.null_count() > 0).then_some(array as &dyn Array);
    write_strings(writer, path, &texts, values.kind(), mask)
}

/// Strings, masked where their kind has a mask or something is missing.
fn write_strings(
    writer: &Writer,
    path: &str,
    texts: &[&str],
    kind: StringKind,
    mask: Option<&dyn Array>,
) -> Result<()> {
    let na_value = match (kind, mask) {
        (StringKind::Masked, _) => "NA",
        (StringKind::MaskedNan, _) | (_, Some(_)) => "NaN",
        _ => return writer.texts(path, texts, &encoding("string-array", "0.2.0")),
    };
    let [kind, version] = encoding("nullable-string-array", "0.1.0");
    writer.group(path, &[kind, version, ("na-value", Attr::Text(na_value))])?;
    writer.texts(&format!("{path}/values"), texts, &encoding("string-array", "0.2.0"))?;
    let missing: Vec<u8> =
        (0..texts.len()).map(|row| u8::from(mask.is_some_and(|mask| mask.is_null(row)))).collect();
    writer.array(&format!("{path}/mask"), Element::Bool, &missing, &encoding("array", "0.2.0"))
}

/// Values and the mask that says which are missing.
fn write_masked(
    writer: &Writer,
    path: &str,
    kind: &str,
    element: Element,
    bytes: &[u8],
    mask: &dyn Array,
) -> Result<()> {
    writer.group(path, &encoding(kind, "0.1.0"))?;
    writer.array(&format!("{path}/values"), element, bytes, &encoding("array", "0.2.0"))?;
    let missing: Vec<u8> = (0..mask.len()).map(|row| u8::from(mask.is_null(row))).collect();
    writer.array(&format!("{path}/mask"), Element::Bool, &missing, &encoding("array", "0.2.0"))
}

/// Little-endian bytes; missing values are zero.
fn plain<T: ArrowPrimitiveType>(array: &dyn Array) -> Vec<u8>
where
    T::Native: Default + arrow_array::ArrowNativeTypeOp,
{
    floats::<T>(array, T::Native::default())
}

/// Little-endian bytes; missing values become `missing`.
fn floats<T: ArrowPrimitiveType>(array: &dyn Array, missing: T::Native) -> Vec<u8> {
    use arrow_buffer::ToByteSlice;
    let values = array.as_primitive::<T>();
    if values.null_count() == 0 {
        return values.values().to_byte_slice().to_vec();
    }
    let filled: Vec<T::Native> = values.iter().map(|value| value.unwrap_or(missing)).collect();
    filled.as_slice().to_byte_slice().to_vec()
}

fn element_of(dtype: Dtype) -> Option<Element> {
    Some(match dtype {
        Dtype::Int8 => Element::Int8,
        Dtype::Int16 => Element::Int16,
        Dtype::Int32 => Element::Int32,
        Dtype::Int64 => Element::Int64,
        Dtype::UInt8 => Element::UInt8,
        Dtype::UInt16 => Element::UInt16,
        Dtype::UInt32 => Element::UInt32,
        Dtype::UInt64 => Element::UInt64,
        Dtype::Float16 => Element::Float16,
        Dtype::Float32 => Element::Float32,
        Dtype::Float64 => Element::Float64,
        Dtype::Bool => Element::Bool,
        Dtype::Text(_) => return None,
    })
}

/// The bytes of a category value that fits `element`, as the table has checked.
fn number_bytes(value: CategoryValue<'_>, element: Element) -> Vec<u8> {
    let le = match value {
        CategoryValue::Bool(value) => return vec![value.into()],
        CategoryValue::Float(value) => match element {
            Element::Float16 => return half::f16::from_f64(value).to_le_bytes().to_vec(),
            #[allow(clippy::cast_possible_truncation, reason = "the values came from a float32 list")]
            Element::Float32 => return (value as f32).to_le_bytes().to_vec(),
            _ => value.to_le_bytes(),
        },
        // Little-endian two's complement: the low bytes are the narrower integer.
        CategoryValue::Int(value) => {
            return value.to_le_bytes().get(..element.size()).unwrap_or_default().to_vec();
        }
        CategoryValue::Text(_) => return Vec::new(),
    };
    le.to_vec()
}
