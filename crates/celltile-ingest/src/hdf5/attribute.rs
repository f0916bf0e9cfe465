use hdf5_reader::RawAttribute;
use hdf5_reader::messages::dataspace::DataspaceType;

use super::dtype::{self, Dtype, NumberKind};
use super::file::Shared;
use super::strings::fixed_string;

/// An attribute's values, flattened.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum AttributeValue {
    /// Strings of any kind.
    Strings(Vec<String>),
    /// Integers of any width and sign.
    Integers(Vec<i128>),
    /// Floats.
    Floats(Vec<f64>),
    /// Enums of FALSE and TRUE.
    Bools(Vec<bool>),
    /// Addresses of objects.
    References(Vec<u64>),
    /// Of a type that is not read, named for messages; or bytes that are not what the type says.
    Other(String),
}

/// An attribute of a group or dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    name: String,
    shape: Vec<u64>,
    value: AttributeValue,
}

impl Attribute {
    /// Decodes an attribute. Not the parser's own decoding, which takes memory for whatever strings a few bytes refer to.
    pub(super) fn new(shared: &Shared, raw: RawAttribute) -> Self {
        let (message, dtype) = raw.into_parts();
        let shape = match message.dataspace.dataspace_type {
            DataspaceType::Scalar => Vec::new(),
            DataspaceType::Null => vec![0],
            DataspaceType::Simple => message.dataspace.dims,
        };
        let value = match dtype::oddity(&dtype) {
            Some(oddity) => AttributeValue::Other(oddity),
            None => decode(shared, &Dtype::from_parsed(&message.datatype), &shape, &message.raw_data),
        };
        Self { name: message.name, shape, value }
    }

    /// An attribute that does not come from an HDF5 file; `shape` is empty for a single value.
    pub fn with_value(name: String, shape: Vec<u64>, value: AttributeValue) -> Self {
        Self { name, shape, value }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its shape: empty for a scalar, `[0]` for an attribute without a value.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Its values.
    pub fn value(&self) -> &AttributeValue {
        &self.value
    }

    /// The value as one string, if it is exactly one.
    pub fn into_string(self) -> Option<String> {
        match self.value {
            AttributeValue::Strings(mut strings) if strings.len() == 1 => strings.pop(),
            _ => None,
        }
    }

    /// The values as strings. An empty attribute of any type counts as no strings: writers store an empty list as
    /// floats.
    pub fn strings(&self) -> Option<&[String]> {
        match &self.value {
            AttributeValue::Strings(strings) => Some(strings),
            _ if self.shape.contains(&0) => Some(&[]),
            _ => None,
        }
    }

    /// The values as integers that fit 64 bits unsigned.
    pub fn unsigned(&self) -> Option<Vec<u64>> {
        match &self.value {
            AttributeValue::Integers(values) => {
                values.iter().map(|&value| u64::try_from(value).ok()).collect()
            }
            _ => None,
        }
    }

    /// The values as integers; floats too, where all of them are whole.
    #[allow(clippy::cast_possible_truncation, reason = "whole numbers below 2^53")]
    pub fn integers(&self) -> Option<Vec<i128>> {
        let whole = |value: f64| value.fract() == 0.0 && value.abs() < 9_007_199_254_740_992.0;
        match &self.value {
            AttributeValue::Integers(values) => Some(values.clone()),
            AttributeValue::Floats(values) if values.iter().all(|&value| whole(value)) => {
                Some(values.iter().map(|&value| value as i128).collect())
            }
            _ => None,
        }
    }

    /// The value as one boolean: an enum of FALSE and TRUE, or an integer.
    pub fn boolean(&self) -> Option<bool> {
        match &self.value {
            AttributeValue::Bools(values) => match values.as_slice() {
                [value] => Some(*value),
                _ => None,
            },
            AttributeValue::Integers(values) => match values.as_slice() {
                [value] => Some(*value != 0),
                _ => None,
            },
            _ => None,
        }
    }
}

fn decode(shared: &Shared, dtype: &Dtype, shape: &[u64], raw: &[u8]) -> AttributeValue {
    let count = shape.iter().try_fold(1_u64, |product, &edge| product.checked_mul(edge));
    let Some(count) = count.and_then(|count| usize::try_from(count).ok()) else {
        return AttributeValue::Other("a shape too large".into());
    };
    if matches!(dtype, Dtype::VarString) {
        let mut strings = Vec::new();
        let whole = count.checked_mul(16) == Some(raw.len());
        return match shared.heap_strings("attribute", raw, |text| strings.push(text.to_owned())) {
            Ok(()) if whole => AttributeValue::Strings(strings),
            _ => AttributeValue::Other("strings that cannot be read".into()),
        };
    }
    let Some(size) = dtype.size().filter(|&size| size > 0) else {
        return AttributeValue::Other(dtype.to_string());
    };
    if count.checked_mul(size) != Some(raw.len()) {
        return AttributeValue::Other("fewer bytes than its shape says".into());
    }
    let elements = raw.chunks_exact(size);
    match dtype {
        Dtype::FixedString { padding, .. } => {
            match elements
                .map(|slot| fixed_string(slot, *padding).map(str::to_owned))
                .collect::<Result<_, _>>()
            {
                Ok(strings) => AttributeValue::Strings(strings),
                Err(_) => AttributeValue::Other("string that is not UTF-8".into()),
            }
        }
        Dtype::Bool => AttributeValue::Bools(raw.iter().map(|&byte| byte != 0).collect()),
        Dtype::Number(number) | Dtype::Enum(number, _) => {
            let little = |slot: &[u8]| {
                let mut bytes = [0_u8; 8];
                for (to, from) in bytes.iter_mut().zip(slot) {
                    *to = *from;
                }
                if number.big_endian
                    && let Some(used) = bytes.get_mut(..number.size)
                {
                    used.reverse();
                }
                u64::from_le_bytes(bytes)
            };
            match number.kind {
                NumberKind::Unsigned => {
                    AttributeValue::Integers(elements.map(|slot| i128::from(little(slot))).collect())
                }
                NumberKind::Signed => {
                    let shift = 64 - 8 * number.size;
                    AttributeValue::Integers(
                        elements
                            .map(|slot| i128::from((little(slot) << shift).cast_signed() >> shift))
                            .collect(),
                    )
                }
                NumberKind::Float => AttributeValue::Floats(
                    elements
                        .map(|slot| match number.size {
                            4 => f64::from(f32::from_bits(u32::try_from(little(slot)).unwrap_or(0))),
                            8 => f64::from_bits(little(slot)),
                            _ => f64::NAN,
                        })
                        .collect(),
                ),
            }
        }
        Dtype::Reference => AttributeValue::References(
            elements.map(|slot| slot.try_into().map_or(0, u64::from_le_bytes)).collect(),
        ),
        Dtype::VarString | Dtype::Compound(..) | Dtype::Opaque { .. } | Dtype::Other(_) => {
            AttributeValue::Other(dtype.to_string())
        }
    }
}
