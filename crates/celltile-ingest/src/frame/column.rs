use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, BooleanArray, LargeStringArray, PrimitiveArray};
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow_schema::DataType;
use celltile::table::{Categorical, Categories, Codes, Numeric, StringKind, Text, Values};

use super::datetime::{Datetimes, Moments};
use crate::hdf5::{AttributeValue, Dtype, NumberKind, NumberType, StringColumn};
use crate::tree::{Array as Stored, Group, Node};

/// The values of a column: a dataset, or a group with an encoding.
pub(super) fn values(parent: &Group, node: Node, datetimes: Datetimes) -> Result<Values, String> {
    let text = |error: crate::error::Error| error.to_string();
    let group = match node {
        Node::Dataset(dataset) => {
            let encoding = Node::Dataset(dataset.clone()).string_attribute("encoding-type").map_err(text)?;
            if let Some(moments) = Moments::of(dataset.dtype(), encoding.as_deref()) {
                return moments.read(&dataset, datetimes);
            }
            return match dataset.attribute("categories").map_err(text)? {
                Some(reference) => referred_categories(parent, &dataset, reference.value()),
                None => plain(&dataset),
            };
        }
        Node::Group(group) => group,
    };
    let encoding = group.string_attribute("encoding-type").map_err(text)?.unwrap_or_default();
    match encoding.as_str() {
        "categorical" => category_group(&group),
        "nullable-integer" | "nullable-boolean" => masked(&group),
        "nullable-string-array" => {
            let kind = match group.string_attribute("na-value").map_err(text)?.as_deref() {
                Some("NaN" | "nan") => StringKind::MaskedNan,
                _ => StringKind::Masked,
            };
            masked_text(&group, kind)
        }
        // Without an encoding: by what is there.
        "" => {
            let members = group.members().map_err(text)?;
            let has = |name: &str| members.iter().any(|(member, _)| member == name);
            if has("codes") && has("categories") {
                category_group(&group)
            } else if has("values") && has("mask") {
                let values = group.dataset("values").map_err(text)?;
                match values.dtype() {
                    Dtype::FixedString { .. } | Dtype::VarString => masked_text(&group, StringKind::Masked),
                    _ => masked(&group),
                }
            } else {
                Err("a group without an encoding".into())
            }
        }
        other => {
            Err(format!("encoding {other:?}; a dataset holds categories, numbers, booleans and strings"))
        }
    }
}

fn category_group(group: &Group) -> Result<Values, String> {
    let text = |error: crate::error::Error| error.to_string();
    let codes = plain(&group.dataset("codes").map_err(text)?)?;
    let node = group.find("categories").map_err(text)?.ok_or("a categorical without categories")?;
    let list = values(group, node, Datetimes::Refuse)?;
    let ordered =
        group.attribute("ordered").map_err(text)?.and_then(|ordered| ordered.boolean()).unwrap_or(false);
    coded(&codes, &list, ordered)
}

/// Codes whose `categories` attribute refers to an array of the frame's `__categories`.
fn referred_categories(parent: &Group, codes: &Stored, reference: &AttributeValue) -> Result<Values, String> {
    let text = |error: crate::error::Error| error.to_string();
    let found = match reference {
        AttributeValue::References(addresses) => {
            let [address] = addresses.as_slice() else {
                return Err("a categories attribute that is not one reference".into());
            };
            let group = parent.group("__categories").map_err(text)?;
            group.child_at(*address).map_err(text)?.map(|(_, node)| node)
        }
        // Zarr has no references: a path below the frame.
        AttributeValue::Strings(paths) => match paths.as_slice() {
            [path] if path.starts_with("__categories/") => parent.find(path).map_err(text)?,
            _ => return Err("a categories attribute that is no path into __categories".into()),
        },
        _ => return Err("a categories attribute that is no reference".into()),
    };
    let Some(Node::Dataset(list)) = found else {
        return Err("its categories attribute refers to nothing in __categories".into());
    };
    let ordered =
        list.attribute("ordered").map_err(text)?.and_then(|ordered| ordered.boolean()).unwrap_or(false);
    coded(&plain(codes)?, &plain(&list)?, ordered)
}

fn coded(codes: &Values, list: &Values, ordered: bool) -> Result<Values, String> {
    let categories = categories(list)?;
    let codes = integers(codes).ok_or("codes that are no integers")?;
    let codes = Codes::collect(codes, categories.len()).map_err(|error| error.to_string())?;
    Categorical::new(codes, categories, ordered).map(Values::Category).map_err(|error| error.to_string())
}

/// A list of values as categories.
pub(super) fn categories(list: &Values) -> Result<Categories, String> {
    let kind = match list {
        Values::Text(text) => text.kind(),
        _ => StringKind::Object,
    };
    Categories::from_array(list.to_array().as_ref(), kind).map_err(|error| error.to_string())
}

/// Integer values as codes; those past 64 bits signed become one that no list has.
pub(super) fn integers(values: &Values) -> Option<Box<dyn Iterator<Item = i64>>> {
    fn all<T: ArrowPrimitiveType>(array: &ArrayRef) -> Box<dyn Iterator<Item = i64>>
    where
        T::Native: TryInto<i64>,
    {
        let values = array.as_primitive::<T>().values().clone();
        Box::new((0..values.len()).map(move |at| {
            values.get(at).copied().and_then(|value| value.try_into().ok()).unwrap_or(i64::MIN)
        }))
    }
    let Values::Numeric(numeric) = values else { return None };
    let array = numeric.array();
    Some(match array.data_type() {
        DataType::Int8 => all::<Int8Type>(array),
        DataType::Int16 => all::<Int16Type>(array),
        DataType::Int32 => all::<Int32Type>(array),
        DataType::Int64 => all::<Int64Type>(array),
        DataType::UInt8 => all::<UInt8Type>(array),
        DataType::UInt16 => all::<UInt16Type>(array),
        DataType::UInt32 => all::<UInt32Type>(array),
        DataType::UInt64 => all::<UInt64Type>(array),
        _ => return None,
    })
}

/// `values` and `mask` (true: missing) of integers, floats or booleans.
fn masked(group: &Group) -> Result<Values, String> {
    let text = |error: crate::error::Error| error.to_string();
    let values = plain(&group.dataset("values").map_err(text)?)?;
    let valid = mask(group, values.len())?;
    match values {
        Values::Numeric(numeric) => {
            let data = numeric.array().to_data().into_builder().nulls(valid).build();
            let array = arrow_array::make_array(data.map_err(|error| error.to_string())?);
            Numeric::new(array, true).map(Values::Numeric).map_err(|error| error.to_string())
        }
        Values::Bool { values, .. } => {
            Ok(Values::bools(BooleanArray::new(values.values().clone(), valid), true))
        }
        _ => Err("masked values that are neither numbers nor booleans".into()),
    }
}

fn masked_text(group: &Group, kind: StringKind) -> Result<Values, String> {
    let text = |error: crate::error::Error| error.to_string();
    let strings = group.dataset("values").and_then(|values| values.strings()).map_err(text)?;
    let valid = mask(group, strings.len())?;
    let array: LargeStringArray = strings
        .iter()
        .enumerate()
        .map(|(at, text)| valid.as_ref().is_none_or(|valid| valid.is_valid(at)).then_some(text))
        .collect();
    Ok(Values::Text(Text::new(array, kind)))
}

fn mask(group: &Group, len: usize) -> Result<Option<NullBuffer>, String> {
    let text = |error: crate::error::Error| error.to_string();
    let missing = match group.find("mask").map_err(text)? {
        // Older writers left the mask out where nothing was missing.
        None => return Ok(None),
        Some(Node::Dataset(mask)) => match plain(&mask)? {
            Values::Bool { values, .. } => values.values().clone(),
            other => {
                let codes = integers(&other).ok_or("a mask that is not of booleans")?;
                codes.map(|value| value != 0).collect::<BooleanBuffer>()
            }
        },
        Some(Node::Group(_)) => return Err("a mask that is a group".into()),
    };
    if missing.len() != len {
        return Err(format!("{} mask values for {len} values", missing.len()));
    }
    Ok(Some(NullBuffer::new(!&missing)))
}

/// A dataset of one axis, or a scalar, of numbers, booleans or strings.
pub(crate) fn plain(dataset: &Stored) -> Result<Values, String> {
    if dataset.shape().len() > 1 {
        return Err(format!("shape {:?}; expected one axis", dataset.shape()));
    }
    let text = |error: crate::error::Error| error.to_string();
    match dataset.dtype() {
        Dtype::FixedString { .. } | Dtype::VarString => {
            let kind = match dataset.dtype() {
                Dtype::VarString => StringKind::Object,
                _ => StringKind::Fixed,
            };
            let strings = dataset.strings().map_err(text)?;
            let array: LargeStringArray = strings.iter().map(Some).collect();
            Ok(Values::Text(Text::new(array, kind)))
        }
        dtype => from_bytes(dataset, dtype, &dataset.read_all().map_err(text)?),
    }
}

/// Elements of a type, as stored, one after the other. `dataset` is where strings are looked up.
pub(super) fn from_bytes(dataset: &Stored, dtype: &Dtype, bytes: &[u8]) -> Result<Values, String> {
    match dtype {
        Dtype::Bool => {
            if let Some(at) = bytes.iter().position(|&byte| byte > 1) {
                return Err(format!("value {at} is neither FALSE nor TRUE"));
            }
            let values: BooleanBuffer = bytes.iter().map(|&byte| byte != 0).collect();
            Ok(Values::bools(BooleanArray::new(values, None), false))
        }
        Dtype::Number(number) => Numeric::new(numbers(*number, bytes), false)
            .map(Values::Numeric)
            .map_err(|error| error.to_string()),
        Dtype::FixedString { size, padding } => {
            let mut strings = StringColumn::default();
            for (at, slot) in bytes.chunks_exact((*size).max(1)).enumerate() {
                let text = crate::hdf5::fixed_string(slot, *padding);
                strings.push(text.map_err(|_| format!("string {at} is not UTF-8"))?);
            }
            let array: LargeStringArray = strings.iter().map(Some).collect();
            Ok(Values::Text(Text::new(array, StringKind::Fixed)))
        }
        Dtype::VarString => {
            let mut strings = StringColumn::default();
            let found = dataset.heap_strings(bytes, |text| strings.push(text));
            found.map_err(|error| error.to_string())?;
            let array: LargeStringArray = strings.iter().map(Some).collect();
            Ok(Values::Text(Text::new(array, StringKind::Object)))
        }
        Dtype::Enum(number, members) => enumerated(*number, members, bytes),
        Dtype::Compound(..) | Dtype::Reference | Dtype::Opaque { .. } | Dtype::Other(_) => {
            Err(format!("{dtype} values; a dataset holds categories, numbers, booleans and strings"))
        }
    }
}

/// An enum other than a boolean: its names are categories.
fn enumerated(number: NumberType, members: &[(Vec<u8>, String)], bytes: &[u8]) -> Result<Values, String> {
    let categories =
        Categories::from_text(members.iter().map(|(_, name)| name)).map_err(|error| error.to_string())?;
    let codes: Option<Vec<i64>> = bytes
        .chunks_exact(number.size)
        .map(|value| {
            let at = members.iter().position(|(member, _)| member == value)?;
            i64::try_from(at).ok()
        })
        .collect();
    let codes = codes.ok_or("a value that its enum does not have")?;
    let codes = Codes::collect(codes, categories.len()).map_err(|error| error.to_string())?;
    Categorical::new(codes, categories, false).map(Values::Category).map_err(|error| error.to_string())
}

fn numbers(number: NumberType, bytes: &[u8]) -> ArrayRef {
    macro_rules! load {
        ($arrow:ty, $size:literal, $little:expr, $big:expr) => {{
            let (values, _) = bytes.as_chunks::<$size>();
            let values: Vec<_> = if number.big_endian {
                values.iter().map(|value| $big(*value)).collect()
            } else {
                values.iter().map(|value| $little(*value)).collect()
            };
            Arc::new(PrimitiveArray::<$arrow>::new(ScalarBuffer::from(values), None)) as ArrayRef
        }};
    }
    match (number.kind, number.size) {
        (NumberKind::Signed, 1) => load!(Int8Type, 1, i8::from_le_bytes, i8::from_be_bytes),
        (NumberKind::Signed, 2) => load!(Int16Type, 2, i16::from_le_bytes, i16::from_be_bytes),
        (NumberKind::Signed, 4) => load!(Int32Type, 4, i32::from_le_bytes, i32::from_be_bytes),
        (NumberKind::Signed, _) => load!(Int64Type, 8, i64::from_le_bytes, i64::from_be_bytes),
        (NumberKind::Unsigned, 1) => load!(UInt8Type, 1, u8::from_le_bytes, u8::from_be_bytes),
        (NumberKind::Unsigned, 2) => load!(UInt16Type, 2, u16::from_le_bytes, u16::from_be_bytes),
        (NumberKind::Unsigned, 4) => load!(UInt32Type, 4, u32::from_le_bytes, u32::from_be_bytes),
        (NumberKind::Unsigned, _) => load!(UInt64Type, 8, u64::from_le_bytes, u64::from_be_bytes),
        (NumberKind::Float, 2) => load!(Float16Type, 2, half::f16::from_le_bytes, half::f16::from_be_bytes),
        (NumberKind::Float, 4) => load!(Float32Type, 4, f32::from_le_bytes, f32::from_be_bytes),
        (NumberKind::Float, _) => load!(Float64Type, 8, f64::from_le_bytes, f64::from_be_bytes),
    }
}

/// Values written out, for names; missing ones are empty.
pub(crate) fn display_strings(values: &Values) -> StringColumn {
    fn all<T: ArrowPrimitiveType>(array: &ArrayRef) -> StringColumn
    where
        T::Native: std::fmt::Display,
    {
        let mut strings = StringColumn::default();
        for value in array.as_primitive::<T>() {
            strings.push(&value.map(|value| value.to_string()).unwrap_or_default());
        }
        strings
    }
    let array = values.to_array();
    match values {
        Values::Text(text) => text.values().iter().map(Option::unwrap_or_default).collect(),
        Values::Bool { values, .. } => values
            .iter()
            .map(|value| match value {
                Some(true) => "True",
                Some(false) => "False",
                None => "",
            })
            .collect(),
        Values::Category(category) => {
            let mut strings = StringColumn::default();
            for code in category.codes().iter() {
                let value = usize::try_from(code).ok().and_then(|code| category.categories().get(code));
                let text = value.map(|value| match value.to_json() {
                    serde_json::Value::String(text) => text,
                    other => other.to_string(),
                });
                strings.push(&text.unwrap_or_default());
            }
            strings
        }
        Values::Numeric(_) => match array.data_type() {
            DataType::Int8 => all::<Int8Type>(&array),
            DataType::Int16 => all::<Int16Type>(&array),
            DataType::Int32 => all::<Int32Type>(&array),
            DataType::Int64 => all::<Int64Type>(&array),
            DataType::UInt8 => all::<UInt8Type>(&array),
            DataType::UInt16 => all::<UInt16Type>(&array),
            DataType::UInt32 => all::<UInt32Type>(&array),
            DataType::UInt64 => all::<UInt64Type>(&array),
            DataType::Float32 => all::<Float32Type>(&array),
            DataType::Float64 => all::<Float64Type>(&array),
            _ => StringColumn::default(),
        },
    }
}
