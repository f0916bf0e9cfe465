//! A column of obs or var, or an index, in pieces: as it is kept, and as AnnData writes it.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StringArray};
use arrow_schema::DataType;
use celltile::obs::ObsColumn;
use celltile::table::{Categories, CategoryValue, Codes, Dtype, StringKind, Values};
use zarrs::array::{ArrayBytes, ArrayBytesOffsets};

use crate::error::{Result, ZarrError};

/// What kind of values a series has.
#[derive(Debug, Clone)]
pub(crate) enum SeriesKind {
    /// Codes, the vocabulary beside them.
    Category { categories: Categories, ordered: bool },
    /// Numbers; `masked` means that missing ones are in a mask beside them.
    Number { masked: bool },
    /// Booleans.
    Bool { masked: bool },
    /// Text; with a mask where it is some.
    Text { mask: Option<StringKind> },
    /// The row numbers as text: the index of a frame that has none.
    RowNumbers,
}

/// One array of those that a series is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SeriesPart {
    /// The values, or the codes of categories.
    Values,
    /// Which values are missing.
    Mask,
    /// The vocabulary.
    Categories,
}

/// A column in pieces of consecutive rows.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) kind: SeriesKind,
    pieces: Vec<ArrayRef>,
    /// First row of each piece, and one past the last.
    starts: Vec<u64>,
}

impl Series {
    pub(crate) fn row_numbers(rows: u64) -> Self {
        Self { kind: SeriesKind::RowNumbers, pieces: Vec::new(), starts: vec![rows] }
    }

    pub(crate) fn from_values(values: &Values) -> Self {
        let missing = values.missing() > 0;
        let kind = match values {
            Values::Category(values) => {
                SeriesKind::Category { categories: values.categories().clone(), ordered: values.ordered() }
            }
            Values::Numeric(values) => {
                SeriesKind::Number { masked: values.dtype().is_integer() && (values.nullable() || missing) }
            }
            Values::Bool { nullable, .. } => SeriesKind::Bool { masked: *nullable || missing },
            Values::Text(values) => SeriesKind::Text { mask: text_mask(values.kind(), missing) },
        };
        Self::new(kind, vec![values.to_array()])
    }

    pub(crate) fn from_obs(column: &ObsColumn) -> Self {
        let (field, meta) = (column.field(), column.meta());
        let missing = column.tiles().iter().any(|tile| tile.null_count() > 0);
        let kind = match (&field.categories, &field.arrow_type) {
            (Some(categories), _) => {
                let dtype = meta.categories.unwrap_or_else(|| categories.dtype());
                let categories = categories.clone().with_dtype(dtype).unwrap_or_else(|_| categories.clone());
                SeriesKind::Category { categories, ordered: meta.ordered }
            }
            (None, DataType::Boolean) => SeriesKind::Bool { masked: meta.nullable || missing },
            (None, DataType::Utf8) => {
                SeriesKind::Text { mask: text_mask(meta.string.unwrap_or_default(), missing) }
            }
            (None, data_type) => {
                SeriesKind::Number { masked: data_type.is_integer() && (meta.nullable || missing) }
            }
        };
        Self::new(kind, column.tiles().to_vec())
    }

    pub(crate) fn shared(self) -> SharedSeries {
        Arc::new(self)
    }

    fn new(kind: SeriesKind, pieces: Vec<ArrayRef>) -> Self {
        let mut starts = vec![0_u64];
        for piece in &pieces {
            starts.push(starts.last().copied().unwrap_or_default().saturating_add(piece.len() as u64));
        }
        Self { kind, pieces, starts }
    }

    /// The Zarr data type of one of its arrays.
    pub(crate) fn data_type(&self, part: SeriesPart) -> &'static str {
        match (&self.kind, part) {
            (_, SeriesPart::Mask) | (SeriesKind::Bool { .. }, _) => "bool",
            (SeriesKind::Category { categories, .. }, SeriesPart::Categories) => category_type(categories),
            (SeriesKind::Category { categories, .. }, _) => {
                Dtype::from_arrow(&Codes::type_for(categories.len())).map_or("int32", Dtype::name)
            }
            (SeriesKind::Number { .. }, _) => {
                let dtype = self.pieces.first().and_then(|piece| Dtype::from_arrow(piece.data_type()));
                dtype.map_or("float64", Dtype::name)
            }
            (SeriesKind::Text { .. } | SeriesKind::RowNumbers, _) => "string",
        }
    }

    /// Number of elements of one of its arrays.
    pub(crate) fn len(&self, part: SeriesPart) -> u64 {
        match (&self.kind, part) {
            (SeriesKind::Category { categories, .. }, SeriesPart::Categories) => categories.len() as u64,
            _ => self.starts.last().copied().unwrap_or_default(),
        }
    }

    /// Some elements of one of its arrays.
    pub(crate) fn elements(
        &self,
        node: &str,
        part: SeriesPart,
        rows: Range<u64>,
    ) -> Result<ArrayBytes<'static>> {
        let mut out = Elements::new(self.data_type(part) == "string");
        match (&self.kind, part) {
            (SeriesKind::Category { categories, .. }, SeriesPart::Categories) => {
                let take = usize::try_from(rows.end.saturating_sub(rows.start)).unwrap_or(usize::MAX);
                let skip = usize::try_from(rows.start).unwrap_or(usize::MAX);
                let data_type = category_type(categories);
                for value in categories.iter().skip(skip).take(take) {
                    out.push_category(data_type, value).ok_or_else(|| {
                        ZarrError::metadata(node, format!("category {value} does not fit {data_type}"))
                    })?;
                }
            }
            (SeriesKind::RowNumbers, _) => rows.for_each(|row| out.push_text(&row.to_string())),
            _ => {
                for piece in self.slices(rows) {
                    let pushed = match part {
                        SeriesPart::Mask => {
                            out.bytes.extend((0..piece.len()).map(|row| u8::from(piece.is_null(row))));
                            Some(())
                        }
                        _ => out.push_array(&piece),
                    };
                    pushed.ok_or_else(|| {
                        ZarrError::metadata(node, format!("a column of Arrow type {}", piece.data_type()))
                    })?;
                }
            }
        }
        out.finish(node)
    }

    /// The pieces of some rows.
    fn slices(&self, rows: Range<u64>) -> impl Iterator<Item = ArrayRef> + '_ {
        let first = self.starts.partition_point(|&start| start <= rows.start).saturating_sub(1);
        let pieces = self.pieces.iter().zip(&self.starts).skip(first);
        pieces.take_while(move |(_, start)| **start < rows.end).filter_map(move |(piece, start)| {
            let from = usize::try_from(rows.start.saturating_sub(*start)).ok()?;
            let to = usize::try_from(rows.end.saturating_sub(*start)).ok()?.min(piece.len());
            (from < to).then(|| piece.slice(from, to - from))
        })
    }
}

/// How AnnData holds text: plain objects have no mask, so a missing value needs one.
fn text_mask(kind: StringKind, missing: bool) -> Option<StringKind> {
    match kind {
        StringKind::Masked | StringKind::MaskedNan => Some(kind),
        StringKind::Object | StringKind::Fixed => missing.then_some(StringKind::MaskedNan),
    }
}

/// The Zarr data type of a vocabulary. One of several types becomes text, as no array can hold it.
fn category_type(categories: &Categories) -> &'static str {
    let all = |is: fn(&CategoryValue<'_>) -> bool| categories.iter().all(|value| is(&value));
    match categories.dtype() {
        Dtype::Text(_) => "string",
        Dtype::Bool if all(|value| matches!(value, CategoryValue::Bool(_))) => "bool",
        dtype if dtype.is_integer() && all(|value| matches!(value, CategoryValue::Int(_))) => dtype.name(),
        dtype if dtype.is_float() && all(|value| matches!(value, CategoryValue::Float(_))) => dtype.name(),
        _ => "string",
    }
}

/// Elements as zarrs takes them.
#[derive(Debug)]
pub(crate) struct Elements {
    bytes: Vec<u8>,
    /// Ends of texts, if they are texts.
    ends: Option<Vec<usize>>,
}

impl Elements {
    pub(crate) fn new(text: bool) -> Self {
        Self { bytes: Vec::new(), ends: text.then(|| vec![0]) }
    }

    pub(crate) fn push_text(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
        if let Some(ends) = &mut self.ends {
            ends.push(self.bytes.len());
        }
    }

    fn push_category(&mut self, data_type: &str, value: CategoryValue<'_>) -> Option<()> {
        #[allow(clippy::cast_possible_truncation, reason = "the vocabulary's dtype is one of smaller floats")]
        match (data_type, value) {
            ("string", value) => self.push_text(&value.to_string()),
            ("bool", CategoryValue::Bool(value)) => self.bytes.push(u8::from(value)),
            ("float16", CategoryValue::Float(value)) => {
                self.bytes.extend(half::f16::from_f64(value).to_le_bytes());
            }
            ("float32", CategoryValue::Float(value)) => self.bytes.extend((value as f32).to_le_bytes()),
            ("float64", CategoryValue::Float(value)) => self.bytes.extend(value.to_le_bytes()),
            ("int8", CategoryValue::Int(value)) => self.bytes.extend(i8::try_from(value).ok()?.to_le_bytes()),
            ("int16", CategoryValue::Int(value)) => {
                self.bytes.extend(i16::try_from(value).ok()?.to_le_bytes());
            }
            ("int32", CategoryValue::Int(value)) => {
                self.bytes.extend(i32::try_from(value).ok()?.to_le_bytes());
            }
            ("int64", CategoryValue::Int(value)) => {
                self.bytes.extend(i64::try_from(value).ok()?.to_le_bytes());
            }
            ("uint8", CategoryValue::Int(value)) => {
                self.bytes.extend(u8::try_from(value).ok()?.to_le_bytes());
            }
            ("uint16", CategoryValue::Int(value)) => {
                self.bytes.extend(u16::try_from(value).ok()?.to_le_bytes());
            }
            ("uint32", CategoryValue::Int(value)) => {
                self.bytes.extend(u32::try_from(value).ok()?.to_le_bytes());
            }
            ("uint64", CategoryValue::Int(value)) => {
                self.bytes.extend(u64::try_from(value).ok()?.to_le_bytes());
            }
            _ => return None,
        }
        Some(())
    }

    /// Values of an Arrow array: missing floats are NaN, other missing values zero, `false` or the empty text.
    fn push_array(&mut self, array: &ArrayRef) -> Option<()> {
        match array.data_type() {
            DataType::Utf8 => {
                let texts: &StringArray = array.as_string();
                texts.iter().for_each(|text| self.push_text(text.unwrap_or_default()));
                return Some(());
            }
            DataType::LargeUtf8 => {
                array.as_string::<i64>().iter().for_each(|text| self.push_text(text.unwrap_or_default()));
                return Some(());
            }
            DataType::Boolean => {
                self.bytes.extend(array.as_boolean().iter().map(|value| u8::from(value == Some(true))));
                return Some(());
            }
            _ => {}
        }
        let width = array.data_type().primitive_width()?;
        let data = array.to_data();
        let start = data.offset().checked_mul(width)?;
        let values =
            data.buffers().first()?.as_slice().get(start..)?.get(..array.len().checked_mul(width)?)?;
        let base = self.bytes.len();
        self.bytes.extend_from_slice(values);
        if array.null_count() > 0 {
            let missing: Vec<u8> = match array.data_type() {
                DataType::Float16 => half::f16::NAN.to_le_bytes().to_vec(),
                DataType::Float32 => f32::NAN.to_le_bytes().to_vec(),
                DataType::Float64 => f64::NAN.to_le_bytes().to_vec(),
                _ => vec![0; width],
            };
            for row in (0..array.len()).filter(|&row| array.is_null(row)) {
                let at = base + row * width;
                self.bytes.get_mut(at..at + width)?.copy_from_slice(&missing);
            }
        }
        Some(())
    }

    /// Elements filled up to a chunk's declared length.
    pub(crate) fn pad<'a>(elements: ArrayBytes<'a>, edge: u64, fill: &[u8]) -> Option<ArrayBytes<'a>> {
        let edge = usize::try_from(edge).ok()?;
        match elements {
            ArrayBytes::Fixed(bytes) => {
                let missing = edge.checked_mul(fill.len())?.checked_sub(bytes.len())?;
                if missing == 0 {
                    return Some(ArrayBytes::Fixed(bytes));
                }
                let mut bytes = bytes.into_owned();
                bytes.extend(fill.repeat(missing / fill.len().max(1)));
                Some(ArrayBytes::new_flen(bytes))
            }
            ArrayBytes::Variable(texts) => {
                let (bytes, offsets) = texts.into_parts();
                let missing = edge.checked_add(1)?.checked_sub(offsets.len())?;
                let (mut bytes, mut ends) = (bytes.into_owned(), offsets.to_vec());
                for _ in 0..missing {
                    bytes.extend_from_slice(fill);
                    ends.push(bytes.len());
                }
                ArrayBytes::new_vlen(bytes, ArrayBytesOffsets::new(ends).ok()?).ok()
            }
            ArrayBytes::Optional(_) => None,
        }
    }

    pub(crate) fn finish(self, node: &str) -> Result<ArrayBytes<'static>> {
        let Some(ends) = self.ends else { return Ok(ArrayBytes::new_flen(self.bytes)) };
        let fault = |error: &dyn std::fmt::Display| ZarrError::metadata(node, error.to_string());
        let offsets = ArrayBytesOffsets::new(ends).map_err(|error| fault(&error))?;
        ArrayBytes::new_vlen(self.bytes, offsets).map_err(|error| fault(&error))
    }
}

/// A column shared between its arrays.
pub(crate) type SharedSeries = Arc<Series>;
