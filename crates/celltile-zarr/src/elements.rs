//! Elements of chunks in memory, and regions put together from them.

use std::borrow::Cow;
use std::sync::Arc;

use zarrs::array::{ArrayBytes, ArrayBytesOffsets};

use crate::copy::{copy_rectangle, to_usize};

/// Elements in C order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Elements {
    /// Of one size each.
    Fixed(Vec<u8>),
    /// Of any size: their bytes, and where each starts and the last one ends.
    Variable { bytes: Vec<u8>, offsets: Vec<usize> },
}

impl Elements {
    pub(crate) fn from_zarrs(elements: ArrayBytes<'_>) -> Option<Self> {
        match elements {
            ArrayBytes::Fixed(bytes) => Some(Self::Fixed(bytes.into_owned())),
            ArrayBytes::Variable(elements) => {
                let (bytes, offsets) = elements.into_parts();
                Some(Self::Variable { bytes: bytes.into_owned(), offsets: offsets.to_vec() })
            }
            ArrayBytes::Optional(_) => None,
        }
    }

    pub(crate) fn into_zarrs(self) -> Option<ArrayBytes<'static>> {
        match self {
            Self::Fixed(bytes) => Some(ArrayBytes::new_flen(bytes)),
            Self::Variable { bytes, offsets } => {
                ArrayBytes::new_vlen(bytes, ArrayBytesOffsets::new(offsets).ok()?).ok()
            }
        }
    }

    /// So many elements of that value.
    pub(crate) fn filled(fill: &[u8], count: usize, variable: bool) -> Self {
        let bytes = fill.repeat(count);
        if variable {
            Self::Variable { bytes, offsets: (0..=count).map(|at| at * fill.len()).collect() }
        } else {
            Self::Fixed(bytes)
        }
    }

    /// The bytes of elements of one size each.
    pub(crate) fn fixed(&self) -> Option<&[u8]> {
        match self {
            Self::Fixed(bytes) => Some(bytes),
            Self::Variable { .. } => None,
        }
    }

    /// The elements of any size, in order.
    pub(crate) fn slices(&self) -> Option<impl Iterator<Item = &[u8]>> {
        match self {
            Self::Fixed(_) => None,
            Self::Variable { bytes, offsets } => Some(offsets.windows(2).map(|pair| match pair {
                [start, end] => bytes.get(*start..*end).unwrap_or_default(),
                _ => &[],
            })),
        }
    }

    fn slice(&self, at: usize) -> &[u8] {
        match self {
            Self::Variable { bytes, offsets } => match offsets.get(at..at.saturating_add(2)) {
                Some([start, end]) => bytes.get(*start..*end).unwrap_or_default(),
                _ => &[],
            },
            Self::Fixed(_) => &[],
        }
    }
}

/// A rectangle of elements being put together: those that nothing is put on are the fill value.
#[derive(Debug)]
pub(crate) struct Assembly {
    shape: Vec<usize>,
    fill: Vec<u8>,
    size: Option<usize>,
    /// Elements of one size; else for each the piece it comes from and its place there, eight bytes together.
    to: Vec<u8>,
    pieces: Vec<Arc<Elements>>,
}

/// Bytes that say where an element of any size comes from.
const PLACE: usize = 8;

impl Assembly {
    /// `size` is that of one element; `None` for elements of any size.
    pub(crate) fn new(shape: &[u64], size: Option<usize>, fill: &[u8]) -> Option<Self> {
        let shape = to_usize(shape)?;
        let count = shape.iter().try_fold(1_usize, |count, &edge| count.checked_mul(edge))?;
        let to = match size {
            Some(size) => {
                count.checked_mul(size)?;
                fill.repeat(count)
            }
            None => vec![0; count.checked_mul(PLACE)?],
        };
        Some(Self { shape, fill: fill.to_vec(), size, to, pieces: Vec::new() })
    }

    /// Copies a rectangle of `extent` elements from a piece of `from_shape` elements.
    pub(crate) fn put(
        &mut self,
        piece: &Arc<Elements>,
        from_shape: &[u64],
        from_origin: &[u64],
        to_origin: &[u64],
        extent: &[u64],
    ) -> Option<()> {
        let (from_shape, from_origin) = (to_usize(from_shape)?, to_usize(from_origin)?);
        let (to_origin, extent) = (to_usize(to_origin)?, to_usize(extent)?);
        let (size, from) = match (self.size, piece.as_ref()) {
            (Some(size), Elements::Fixed(bytes)) => (size, Cow::Borrowed(bytes.as_slice())),
            (None, Elements::Variable { offsets, .. }) => {
                self.pieces.push(Arc::clone(piece));
                let number = u32::try_from(self.pieces.len()).ok()?.to_le_bytes();
                let count = u32::try_from(offsets.len().saturating_sub(1)).ok()?;
                let places: Vec<u8> =
                    (0..count).flat_map(|at| number.into_iter().chain(at.to_le_bytes())).collect();
                (PLACE, Cow::Owned(places))
            }
            _ => return None,
        };
        let to = (self.to.as_mut_slice(), &*self.shape, &*to_origin);
        copy_rectangle(size, &extent, (&from, &from_shape, &from_origin), to)
    }

    pub(crate) fn finish(self) -> Elements {
        if self.size.is_some() {
            return Elements::Fixed(self.to);
        }
        let mut bytes = Vec::new();
        let mut offsets = Vec::with_capacity(self.to.len() / PLACE + 1);
        offsets.push(0);
        for place in self.to.as_chunks::<PLACE>().0 {
            let [a, b, c, d, at @ ..] = *place;
            let number = u32::from_le_bytes([a, b, c, d]).checked_sub(1);
            let at = u32::from_le_bytes(at) as usize;
            match number.and_then(|number| self.pieces.get(number as usize)) {
                Some(piece) => bytes.extend_from_slice(piece.slice(at)),
                None => bytes.extend_from_slice(&self.fill),
            }
            offsets.push(bytes.len());
        }
        Elements::Variable { bytes, offsets }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_land_where_they_should_and_the_rest_is_the_fill_value() {
        let piece = Elements::Variable { bytes: b"abbccc".to_vec(), offsets: vec![0, 1, 3, 6, 6] };
        let mut assembly = Assembly::new(&[3, 2], None, b"-").unwrap();
        assembly.put(&Arc::new(piece), &[2, 2], &[0, 1], &[1, 0], &[2, 1]).unwrap();
        let elements = assembly.finish();
        let found: Vec<&[u8]> = elements.slices().unwrap().collect();
        assert_eq!(found, [b"-".as_slice(), b"-", b"bb", b"-", b"", b"-"]);
    }

    #[test]
    fn numbers_land_where_they_should() {
        let mut assembly = Assembly::new(&[4], Some(2), &[9, 9]).unwrap();
        let piece = Arc::new(Elements::Fixed(vec![1, 1, 2, 2, 3, 3]));
        assembly.put(&piece, &[3], &[1], &[0], &[2]).unwrap();
        assert!(assembly.put(&piece, &[3], &[2], &[0], &[2]).is_none());
        assert_eq!(assembly.finish(), Elements::Fixed(vec![2, 2, 3, 3, 9, 9, 9, 9]));
    }
}
