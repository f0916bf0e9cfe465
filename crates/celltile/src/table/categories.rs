use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrowPrimitiveType, LargeStringArray};
use arrow_schema::DataType;

use super::{Dtype, Kind, StringKind, TableError};

/// One category. Values of different types differ: 1, 1.0, true and "1" are four categories.
#[derive(Debug, Clone, Copy)]
pub enum CategoryValue<'a> {
    /// Text.
    Text(&'a str),
    /// An integer from int64's smallest to uint64's largest.
    Int(i128),
    /// A finite float.
    Float(f64),
    /// A boolean.
    Bool(bool),
}

impl CategoryValue<'_> {
    /// The value as it stands in `schema.json`.
    #[must_use]
    pub fn to_json(self) -> serde_json::Value {
        match self {
            Self::Text(text) => text.into(),
            Self::Int(int) => i64::try_from(int)
                .map(serde_json::Value::from)
                .or_else(|_| u64::try_from(int).map(serde_json::Value::from))
                .unwrap_or(serde_json::Value::Null),
            Self::Float(float) => float.into(),
            Self::Bool(bool) => bool.into(),
        }
    }

    /// A value from JSON: numbers with a point or exponent are floats.
    #[must_use]
    pub fn from_json(value: &serde_json::Value) -> Option<CategoryValue<'_>> {
        match value {
            serde_json::Value::String(text) => Some(CategoryValue::Text(text)),
            serde_json::Value::Bool(bool) => Some(CategoryValue::Bool(*bool)),
            serde_json::Value::Number(number) => number
                .as_i64()
                .map(|int| CategoryValue::Int(int.into()))
                .or_else(|| number.as_u64().map(|int| CategoryValue::Int(int.into())))
                .or_else(|| number.as_f64().filter(|float| float.is_finite()).map(CategoryValue::Float)),
            _ => None,
        }
    }
}

impl PartialEq for CategoryValue<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a == b,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            _ => false,
        }
    }
}

// Floats in categories are finite, so equality is total.
impl Eq for CategoryValue<'_> {}

impl Hash for CategoryValue<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Self::Text(text) => text.hash(state),
            Self::Int(int) => int.hash(state),
            // -0.0 == 0.0, and adding 0.0 makes both the same bits.
            Self::Float(float) => (float + 0.0).to_bits().hash(state),
            Self::Bool(bool) => bool.hash(state),
        }
    }
}

impl fmt::Display for CategoryValue<'_> {
    /// Text as it is; floats always with a point or exponent, so that 1 and 1.0 stay apart.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Int(int) => write!(f, "{int}"),
            Self::Float(float) => write!(f, "{float:?}"),
            Self::Bool(true) => f.write_str("True"),
            Self::Bool(false) => f.write_str("False"),
        }
    }
}

/// The vocabulary of a category column: finite values, none missing, none twice, in an order that counts.
#[derive(Debug, Clone)]
pub struct Categories {
    values: Store,
    dtype: Dtype,
}

#[derive(Debug, Clone)]
enum Store {
    Text(LargeStringArray),
    Ints(Vec<i128>),
    Floats(Vec<f64>),
    Bools(Vec<bool>),
    Mixed(Vec<Owned>),
}

#[derive(Debug, Clone)]
enum Owned {
    Text(Box<str>),
    Other(CategoryValue<'static>),
}

impl Categories {
    /// Categories from an Arrow array of strings, integers, floats or booleans. `dtype` is the array's own, but
    /// for the kind of string, which the array does not tell.
    ///
    /// # Errors
    /// [`TableError::MissingCategory`], [`TableError::NonFiniteCategory`], [`TableError::DuplicateCategory`],
    /// [`TableError::ArrowType`].
    pub fn from_array(array: &dyn Array, kind: StringKind) -> Result<Self, TableError> {
        let categories = Self::from_array_unchecked(array, kind)?;
        categories.check_unique()?;
        Ok(categories)
    }

    /// The same from a list in which values may be repeated (foreign dictionaries): each is kept once, and the
    /// second value says which category each position of the list has become.
    ///
    /// # Errors
    /// As [`Categories::from_array`], repeats apart.
    pub fn from_array_dedup(array: &dyn Array, kind: StringKind) -> Result<(Self, Vec<usize>), TableError> {
        let categories = Self::from_array_unchecked(array, kind)?;
        let mut first: HashMap<CategoryValue<'_>, usize> = HashMap::with_capacity(categories.len());
        let mut kept = Vec::new();
        let mut map = Vec::with_capacity(categories.len());
        for (position, value) in categories.iter().enumerate() {
            let new = *first.entry(value).or_insert_with(|| {
                kept.push(position);
                kept.len() - 1
            });
            map.push(new);
        }
        if kept.len() == categories.len() {
            return Ok((categories, map));
        }
        let dtype = categories.dtype;
        let kept: Vec<_> = kept.into_iter().filter_map(|position| categories.get(position)).collect();
        Ok((Self::from_values(kept, Some(dtype))?, map))
    }

    fn from_array_unchecked(array: &dyn Array, kind: StringKind) -> Result<Self, TableError> {
        if let Some(position) = (0..array.len()).find(|&i| array.is_null(i)) {
            return Err(TableError::MissingCategory { position });
        }
        fn ints<T: ArrowPrimitiveType<Native: Into<i128>>>(array: &dyn Array) -> Store {
            Store::Ints(array.as_primitive::<T>().values().iter().map(|&v| v.into()).collect())
        }
        fn floats<T: ArrowPrimitiveType<Native: Into<f64>>>(array: &dyn Array) -> Store {
            Store::Floats(array.as_primitive::<T>().values().iter().map(|&v| v.into()).collect())
        }
        let dtype = Dtype::from_arrow(array.data_type()).ok_or_else(|| TableError::ArrowType {
            found: array.data_type().to_string(),
            kind: Kind::Category,
        })?;
        let values = match array.data_type() {
            DataType::LargeUtf8 => Store::Text(array.as_string::<i64>().clone()),
            DataType::Utf8 => Store::Text(array.as_string::<i32>().iter().collect()),
            DataType::Utf8View => Store::Text(array.as_string_view().iter().collect()),
            DataType::Boolean => Store::Bools(array.as_boolean().values().iter().collect()),
            DataType::Int8 => ints::<Int8Type>(array),
            DataType::Int16 => ints::<Int16Type>(array),
            DataType::Int32 => ints::<Int32Type>(array),
            DataType::Int64 => ints::<Int64Type>(array),
            DataType::UInt8 => ints::<UInt8Type>(array),
            DataType::UInt16 => ints::<UInt16Type>(array),
            DataType::UInt32 => ints::<UInt32Type>(array),
            DataType::UInt64 => ints::<UInt64Type>(array),
            DataType::Float16 => floats::<Float16Type>(array),
            DataType::Float32 => floats::<Float32Type>(array),
            DataType::Float64 => floats::<Float64Type>(array),
            other => {
                return Err(TableError::ArrowType { found: other.to_string(), kind: Kind::Category });
            }
        };
        if let Store::Floats(floats) = &values
            && let Some((position, &value)) = floats.iter().enumerate().find(|(_, v)| !v.is_finite())
        {
            return Err(TableError::NonFiniteCategory { value, position });
        }
        let dtype = if let Dtype::Text(_) = dtype { Dtype::Text(kind) } else { dtype };
        Ok(Self { values, dtype })
    }

    /// Text categories.
    ///
    /// # Errors
    /// [`TableError::DuplicateCategory`].
    pub fn from_text<S: AsRef<str>>(values: impl IntoIterator<Item = S>) -> Result<Self, TableError> {
        let array: LargeStringArray = values.into_iter().map(Some).collect();
        Self::from_array(&array, StringKind::Object)
    }

    /// Categories of any types, mixed ones too. Without `dtype` it is the narrowest of object, bool, int64,
    /// uint64, float64 that fits; a given one must.
    ///
    /// # Errors
    /// As [`Categories::from_array`]; [`TableError::Meta`] if the values are not of `dtype`.
    pub fn from_values<'a>(
        values: impl IntoIterator<Item = CategoryValue<'a>>,
        dtype: Option<Dtype>,
    ) -> Result<Self, TableError> {
        let values: Vec<_> = values.into_iter().collect();
        for (position, value) in values.iter().enumerate() {
            if let CategoryValue::Float(value) = *value
                && !value.is_finite()
            {
                return Err(TableError::NonFiniteCategory { value, position });
            }
        }
        let object = Dtype::Text(StringKind::Object);
        let (store, own) = if let Some(texts) =
            all(&values, |v| if let CategoryValue::Text(t) = v { Some(t) } else { None })
        {
            let dtype = dtype.unwrap_or(object);
            (Store::Text(texts.into_iter().map(Some).collect()), dtype)
        } else if let Some(ints) =
            all(&values, |v| if let CategoryValue::Int(i) = v { Some(i) } else { None })
        {
            let wide =
                if ints.iter().all(|&i| i64::try_from(i).is_ok()) { Dtype::Int64 } else { Dtype::UInt64 };
            (Store::Ints(ints), dtype.unwrap_or(wide))
        } else if let Some(floats) =
            all(&values, |v| if let CategoryValue::Float(f) = v { Some(f) } else { None })
        {
            (Store::Floats(floats), dtype.unwrap_or(Dtype::Float64))
        } else if let Some(bools) =
            all(&values, |v| if let CategoryValue::Bool(b) = v { Some(b) } else { None })
        {
            (Store::Bools(bools), dtype.unwrap_or(Dtype::Bool))
        } else {
            let owned = values.into_iter().map(|value| match value {
                CategoryValue::Text(text) => Owned::Text(text.into()),
                CategoryValue::Int(int) => Owned::Other(CategoryValue::Int(int)),
                CategoryValue::Float(float) => Owned::Other(CategoryValue::Float(float)),
                CategoryValue::Bool(bool) => Owned::Other(CategoryValue::Bool(bool)),
            });
            (Store::Mixed(owned.collect()), dtype.unwrap_or(object))
        };
        let categories = Self { values: store, dtype: own };
        if !categories.fits(own) {
            return Err(TableError::Meta { message: format!("category values are not of dtype {own}") });
        }
        categories.check_unique()?;
        Ok(categories)
    }

    /// No categories, of that dtype.
    #[must_use]
    pub fn empty(dtype: Dtype) -> Self {
        Self { values: Store::Mixed(Vec::new()), dtype }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.values {
            Store::Text(values) => values.len(),
            Store::Ints(values) => values.len(),
            Store::Floats(values) => values.len(),
            Store::Bools(values) => values.len(),
            Store::Mixed(values) => values.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The category of that code.
    #[must_use]
    pub fn get(&self, code: usize) -> Option<CategoryValue<'_>> {
        match &self.values {
            Store::Text(values) => (code < values.len()).then(|| CategoryValue::Text(values.value(code))),
            Store::Ints(values) => values.get(code).map(|&v| CategoryValue::Int(v)),
            Store::Floats(values) => values.get(code).map(|&v| CategoryValue::Float(v)),
            Store::Bools(values) => values.get(code).map(|&v| CategoryValue::Bool(v)),
            Store::Mixed(values) => values.get(code).map(|value| match value {
                Owned::Text(text) => CategoryValue::Text(text),
                Owned::Other(value) => *value,
            }),
        }
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = CategoryValue<'_>> {
        (0..self.len()).filter_map(|code| self.get(code))
    }

    /// Dtype of the values in the source.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The same values under another dtype.
    ///
    /// # Errors
    /// [`TableError::Meta`] if a value does not fit it.
    pub fn with_dtype(mut self, dtype: Dtype) -> Result<Self, TableError> {
        if !self.fits(dtype) {
            return Err(TableError::Meta { message: format!("category values are not of dtype {dtype}") });
        }
        self.dtype = dtype;
        Ok(self)
    }

    fn fits(&self, dtype: Dtype) -> bool {
        self.iter().all(|value| match (value, dtype) {
            (CategoryValue::Int(int), dtype) if dtype.is_integer() => integer_fits(int, dtype),
            (CategoryValue::Float(float), Dtype::Float16) => half::f16::from_f64(float).to_f64() == float,
            (CategoryValue::Float(float), Dtype::Float32) => f64::from(narrow(float)) == float,
            (CategoryValue::Float(_), Dtype::Float64) | (CategoryValue::Bool(_), Dtype::Bool) => true,
            (CategoryValue::Text(_), Dtype::Text(_)) => true,
            // NumPy's object dtype holds anything.
            (_, Dtype::Text(StringKind::Object)) => true,
            _ => false,
        })
    }

    fn check_unique(&self) -> Result<(), TableError> {
        let mut seen: HashMap<CategoryValue<'_>, usize> = HashMap::with_capacity(self.len());
        for (second, value) in self.iter().enumerate() {
            if let Some(&first) = seen.get(&value) {
                let value = value.to_json().to_string();
                return Err(TableError::DuplicateCategory { value, first, second });
            }
            seen.insert(value, second);
        }
        Ok(())
    }
}

impl PartialEq for Categories {
    fn eq(&self, other: &Self) -> bool {
        self.dtype == other.dtype && self.iter().eq(other.iter())
    }
}

fn all<'a, T>(values: &[CategoryValue<'a>], pick: impl Fn(CategoryValue<'a>) -> Option<T>) -> Option<Vec<T>> {
    values.iter().map(|&value| pick(value)).collect()
}

fn integer_fits(int: i128, dtype: Dtype) -> bool {
    match dtype {
        Dtype::Int8 => i8::try_from(int).is_ok(),
        Dtype::Int16 => i16::try_from(int).is_ok(),
        Dtype::Int32 => i32::try_from(int).is_ok(),
        Dtype::Int64 => i64::try_from(int).is_ok(),
        Dtype::UInt8 => u8::try_from(int).is_ok(),
        Dtype::UInt16 => u16::try_from(int).is_ok(),
        Dtype::UInt32 => u32::try_from(int).is_ok(),
        Dtype::UInt64 => u64::try_from(int).is_ok(),
        _ => false,
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the caller compares the result with what went in")]
fn narrow(float: f64) -> f32 {
    float as f32
}
