use hdf5_reader::{ByteOrder, Datatype, ReferenceType, StringPadding, StringSize};

/// How integers or floats are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberKind {
    /// Two's complement.
    Signed,
    /// Unsigned integer.
    Unsigned,
    /// IEEE 754.
    Float,
}

/// A number as stored: kind, width in bytes, byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberType {
    /// Integer or float.
    pub kind: NumberKind,
    /// Bytes: 1, 2, 4 or 8; 2, 4 or 8 for floats.
    pub size: usize,
    /// Most significant byte first.
    pub big_endian: bool,
}

impl NumberType {
    /// The name NumPy gives the type, byte order left out.
    pub fn numpy_name(self) -> String {
        let kind = match self.kind {
            NumberKind::Signed => "int",
            NumberKind::Unsigned => "uint",
            NumberKind::Float => "float",
        };
        format!("{kind}{}", self.size * 8)
    }
}

/// How a fixed-length string fills its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Padding {
    /// Ends at the first zero byte, or at the end of the slot.
    Null,
    /// Filled up with spaces.
    Space,
}

/// A member of a compound type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// First byte of the member within an element.
    pub offset: usize,
    /// Its type.
    pub dtype: Dtype,
}

/// The type of an element, as far as single-cell files use them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dtype {
    /// Integers and floats.
    Number(NumberType),
    /// An enum of one byte whose members are FALSE = 0 and TRUE = 1.
    Bool,
    /// Any other enum: how its values are stored, and their names.
    Enum(NumberType, Vec<(Vec<u8>, String)>),
    /// Strings of a fixed number of bytes.
    FixedString {
        /// Bytes a slot.
        size: usize,
        /// What follows a shorter string.
        padding: Padding,
    },
    /// Strings in the global heap.
    VarString,
    /// A record: bytes an element, and its members.
    Compound(usize, Vec<Field>),
    /// The address of an object.
    Reference,
    /// Bytes whose meaning a tag names: h5py keeps NumPy's dates so.
    Opaque {
        /// Bytes an element.
        size: usize,
        /// What they are, as whoever wrote them says.
        tag: String,
    },
    /// Anything else, named for messages.
    Other(String),
}

impl Dtype {
    pub(crate) fn from_parsed(dtype: &Datatype) -> Self {
        match dtype {
            Datatype::FixedPoint { size, signed, byte_order } if matches!(size, 1 | 2 | 4 | 8) => {
                let kind = if *signed { NumberKind::Signed } else { NumberKind::Unsigned };
                Self::Number(NumberType { kind, size: usize::from(*size), big_endian: is_big(*byte_order) })
            }
            Datatype::FloatingPoint { size, byte_order } if matches!(size, 2 | 4 | 8) => {
                Self::Number(NumberType {
                    kind: NumberKind::Float,
                    size: usize::from(*size),
                    big_endian: is_big(*byte_order),
                })
            }
            Datatype::Enum { base, members } => match Self::from_parsed(base) {
                Self::Number(number) if number.kind != NumberKind::Float => {
                    let is = |name: &str, value: u8| {
                        members.iter().any(|member| {
                            member.name.eq_ignore_ascii_case(name) && member.value.as_slice() == [value]
                        })
                    };
                    if number.size == 1 && members.len() == 2 && is("FALSE", 0) && is("TRUE", 1) {
                        Self::Bool
                    } else {
                        let members =
                            members.iter().map(|member| (member.value.clone(), member.name.clone()));
                        Self::Enum(number, members.collect())
                    }
                }
                _ => Self::Other("enum of something that is no integer".into()),
            },
            Datatype::String { size: StringSize::Fixed(size), padding, .. } => Self::FixedString {
                size: usize::try_from(*size).unwrap_or(usize::MAX),
                padding: match padding {
                    StringPadding::SpacePad => Padding::Space,
                    StringPadding::NullTerminate | StringPadding::NullPad => Padding::Null,
                },
            },
            Datatype::String { size: StringSize::Variable, .. } => Self::VarString,
            Datatype::VarLen { base, kind: hdf5_reader::VarLenKind::String, .. }
                if base.is_vlen_string_base() =>
            {
                Self::VarString
            }
            Datatype::Compound { size, fields } => Self::Compound(
                usize::try_from(*size).unwrap_or(usize::MAX),
                fields
                    .iter()
                    .map(|field| Field {
                        name: field.name.clone(),
                        offset: usize::try_from(field.byte_offset).unwrap_or(usize::MAX),
                        dtype: Self::from_parsed(&field.datatype),
                    })
                    .collect(),
            ),
            Datatype::Reference { ref_type: ReferenceType::Object, size: 8 } => Self::Reference,
            Datatype::FixedPoint { size, .. } => Self::Other(format!("integer of {size} bytes")),
            Datatype::FloatingPoint { size, .. } => Self::Other(format!("float of {size} bytes")),
            Datatype::Array { .. } => Self::Other("array type".into()),
            Datatype::VarLen { .. } => Self::Other("variable-length array type".into()),
            Datatype::Opaque { size, tag } => Self::Opaque {
                size: usize::try_from(*size).unwrap_or(usize::MAX),
                tag: tag.trim_end_matches('\0').to_owned(),
            },
            Datatype::Reference { .. } => Self::Other("reference type".into()),
            Datatype::Bitfield { .. } => Self::Other("bit field".into()),
        }
    }

    /// Bytes an element takes in the file; `None` where that is not known.
    pub fn size(&self) -> Option<usize> {
        match self {
            Self::Number(number) | Self::Enum(number, _) => Some(number.size),
            Self::Bool => Some(1),
            Self::FixedString { size, .. } | Self::Compound(size, _) | Self::Opaque { size, .. } => {
                Some(*size)
            }
            Self::VarString => Some(16),
            Self::Reference => Some(8),
            Self::Other(_) => None,
        }
    }
}

impl std::fmt::Display for Dtype {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => f.write_str(&number.numpy_name()),
            Self::Bool => f.write_str("bool"),
            Self::Enum(..) => f.write_str("enum"),
            Self::FixedString { size, .. } => write!(f, "string of {size} bytes"),
            Self::VarString => f.write_str("string"),
            Self::Compound(..) => f.write_str("compound"),
            Self::Reference => f.write_str("object reference"),
            Self::Opaque { tag, .. } => write!(f, "opaque type {tag:?}"),
            Self::Other(name) => f.write_str(name),
        }
    }
}

/// In which way the numbers of a type, given as the bytes of its message, are not what its class and size say; nothing if
/// they are. The parser leaves these fields out, and bits that stand elsewhere would be read as other numbers.
pub(super) fn oddity(message: &[u8]) -> Option<String> {
    let &[head, flags, sign, _, s0, s1, s2, s3, ref fields @ ..] = message else { return None };
    let bits = u64::from(u32::from_le_bytes([s0, s1, s2, s3])) * 8;
    match (head & 15, fields) {
        (0, &[o0, o1, p0, p1, ..]) => {
            let (offset, precision) = (u16::from_le_bytes([o0, o1]), u16::from_le_bytes([p0, p1]));
            (offset != 0 || u64::from(precision) != bits)
                .then(|| format!("integer of {precision} of {bits} bits, from bit {offset} on"))
        }
        (1, fields) => {
            // Place of the sign; then offset, precision, place and size of exponent and mantissa, bias.
            let ieee: (u8, [u8; 12]) = match bits {
                16 => (15, [0, 0, 16, 0, 10, 5, 0, 10, 15, 0, 0, 0]),
                32 => (31, [0, 0, 32, 0, 23, 8, 0, 23, 127, 0, 0, 0]),
                64 => (63, [0, 0, 64, 0, 52, 11, 0, 52, 255, 3, 0, 0]),
                _ => return Some(format!("float of {bits} bits")),
            };
            // Bit 6 is the VAX's order of bytes; bits 4 and 5 say that the mantissa's first bit is implied.
            let same = flags & 0x70 == 0x20 && sign == ieee.0 && fields.starts_with(&ieee.1);
            (!same).then(|| format!("float of {bits} bits that is not of IEEE 754"))
        }
        // An enum: its integers' type comes first.
        (8, base) => oddity(base),
        _ => None,
    }
}

fn is_big(order: ByteOrder) -> bool {
    matches!(order, ByteOrder::BigEndian)
}
