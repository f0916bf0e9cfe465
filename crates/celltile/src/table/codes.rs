use std::sync::Arc;

use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, Int8Array, Int16Array, Int32Array, PrimitiveArray};
use arrow_buffer::ScalarBuffer;
use arrow_schema::DataType;

use super::TableError;

/// Category codes, as narrow as their vocabulary allows. -1 means missing.
#[derive(Debug, Clone)]
pub enum Codes {
    /// Up to 128 categories.
    Int8(ScalarBuffer<i8>),
    /// Up to 32,768 categories.
    Int16(ScalarBuffer<i16>),
    /// More.
    Int32(ScalarBuffer<i32>),
}

impl Codes {
    /// The code type for a vocabulary of that size.
    #[must_use]
    pub fn type_for(categories: usize) -> DataType {
        if categories <= 1 << 7 {
            DataType::Int8
        } else if categories <= 1 << 15 {
            DataType::Int16
        } else {
            DataType::Int32
        }
    }

    /// Collects codes in the narrowest type for `categories` categories.
    ///
    /// # Errors
    /// [`TableError::Code`] for a code outside `-1..categories`, [`TableError::TooManyCategories`].
    pub fn collect<I>(codes: I, categories: usize) -> Result<Self, TableError>
    where
        I: IntoIterator<Item = i64>,
    {
        if i32::try_from(categories).is_err() {
            return Err(TableError::TooManyCategories { found: categories });
        }
        let codes = codes.into_iter().enumerate();
        match Self::type_for(categories) {
            DataType::Int8 => Ok(Self::Int8(narrow(codes, categories)?)),
            DataType::Int16 => Ok(Self::Int16(narrow(codes, categories)?)),
            _ => Ok(Self::Int32(narrow(codes, categories)?)),
        }
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Int8(codes) => codes.len(),
            Self::Int16(codes) => codes.len(),
            Self::Int32(codes) => codes.len(),
        }
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The code of a row; -1 also for a row that is not there.
    #[must_use]
    pub fn get(&self, row: usize) -> i32 {
        match self {
            Self::Int8(codes) => codes.get(row).map_or(-1, |&code| i32::from(code)),
            Self::Int16(codes) => codes.get(row).map_or(-1, |&code| i32::from(code)),
            Self::Int32(codes) => codes.get(row).copied().unwrap_or(-1),
        }
    }

    /// All codes.
    pub fn iter(&self) -> impl Iterator<Item = i32> + '_ {
        (0..self.len()).map(|row| self.get(row))
    }

    /// Rows `offset..offset + len`, cut to what is there, sharing memory.
    #[must_use]
    pub fn slice(&self, offset: usize, len: usize) -> Self {
        let offset = offset.min(self.len());
        let len = len.min(self.len() - offset);
        match self {
            Self::Int8(codes) => Self::Int8(codes.slice(offset, len)),
            Self::Int16(codes) => Self::Int16(codes.slice(offset, len)),
            Self::Int32(codes) => Self::Int32(codes.slice(offset, len)),
        }
    }

    /// The codes as an Arrow array without nulls, sharing memory.
    #[must_use]
    pub fn to_array(&self) -> ArrayRef {
        match self {
            Self::Int8(codes) => Arc::new(Int8Array::new(codes.clone(), None)),
            Self::Int16(codes) => Arc::new(Int16Array::new(codes.clone(), None)),
            Self::Int32(codes) => Arc::new(Int32Array::new(codes.clone(), None)),
        }
    }

    /// Codes from an Arrow array of int8, int16 or int32; nulls become -1.
    ///
    /// # Errors
    /// [`TableError::ArrowType`] for another type.
    pub fn from_array(array: &dyn Array) -> Result<Self, TableError> {
        let any = array.as_any();
        if let Some(codes) = any.downcast_ref::<Int8Array>() {
            Ok(Self::Int8(fill(codes, -1)))
        } else if let Some(codes) = any.downcast_ref::<Int16Array>() {
            Ok(Self::Int16(fill(codes, -1)))
        } else if let Some(codes) = any.downcast_ref::<Int32Array>() {
            Ok(Self::Int32(fill(codes, -1)))
        } else {
            Err(TableError::ArrowType { found: array.data_type().to_string(), kind: super::Kind::Category })
        }
    }

    /// Checks that every code is in `-1..categories`.
    ///
    /// # Errors
    /// [`TableError::Code`] for the first that is not.
    pub fn check(&self, categories: usize) -> Result<(), TableError> {
        match self {
            Self::Int8(codes) => check(codes, categories),
            Self::Int16(codes) => check(codes, categories),
            Self::Int32(codes) => check(codes, categories),
        }
    }
}

impl PartialEq for Codes {
    /// Equal codes, whatever their width.
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

fn narrow<T, I>(codes: I, categories: usize) -> Result<ScalarBuffer<T>, TableError>
where
    T: arrow_buffer::ArrowNativeType + TryFrom<i64>,
    I: Iterator<Item = (usize, i64)>,
{
    let mut out = Vec::with_capacity(codes.size_hint().0);
    for (row, code) in codes {
        let in_range = code == -1 || usize::try_from(code).is_ok_and(|code| code < categories);
        match T::try_from(code) {
            Ok(code) if in_range => out.push(code),
            _ => return Err(TableError::Code { code, row, categories }),
        }
    }
    Ok(out.into())
}

fn check<T: Copy + Into<i64>>(codes: &[T], categories: usize) -> Result<(), TableError> {
    let end = i64::try_from(categories).unwrap_or(i64::MAX);
    match codes.iter().position(|&code| !(-1..end).contains(&code.into())) {
        None => Ok(()),
        Some(row) => {
            let code = codes.get(row).map_or(0, |&code| code.into());
            Err(TableError::Code { code, row, categories })
        }
    }
}

/// The array's values with `missing` where it is null; shares memory where nothing is.
fn fill<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, missing: T::Native) -> ScalarBuffer<T::Native> {
    if array.null_count() == 0 {
        return array.values().clone();
    }
    array.iter().map(|value| value.unwrap_or(missing)).collect()
}
