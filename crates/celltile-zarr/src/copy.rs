//! Rectangles copied between arrays in C order.

use std::ops::Range;

/// Copies a rectangle of `shape` elements of `size` bytes each from one array in C order to another.
///
/// Returns `None`, having copied part of it or nothing, if the rectangle is not inside both.
pub(crate) fn copy_rectangle(
    size: usize,
    shape: &[usize],
    (from, from_shape, from_origin): (&[u8], &[usize], &[usize]),
    (to, to_shape, to_origin): (&mut [u8], &[usize], &[usize]),
) -> Option<()> {
    if shape.contains(&0) {
        return Some(());
    }
    let inside = |origin: &[usize], outer: &[usize]| {
        origin.len() == shape.len()
            && outer.len() == shape.len()
            && origin
                .iter()
                .zip(shape)
                .zip(outer)
                .all(|((o, s), n)| o.checked_add(*s).is_some_and(|end| end <= *n))
    };
    if !inside(from_origin, from_shape) || !inside(to_origin, to_shape) {
        return None;
    }
    // Trailing axes that are whole in both are one run of bytes.
    let whole = (0..shape.len())
        .rev()
        .take_while(|&axis| shape.get(axis) == from_shape.get(axis) && shape.get(axis) == to_shape.get(axis))
        .count();
    let outer = shape.len().saturating_sub(whole + 1);
    let run: usize = shape.get(outer..)?.iter().product::<usize>() * size;
    let (from_strides, to_strides) = (strides(from_shape, size), strides(to_shape, size));
    let mut index = vec![0; outer];
    loop {
        let start = |origin: &[usize], strides: &[usize]| -> usize {
            let base: usize = origin.iter().zip(strides).map(|(o, s)| o * s).sum();
            base + index.iter().zip(strides).map(|(i, s)| i * s).sum::<usize>()
        };
        let (a, b) = (start(from_origin, &from_strides), start(to_origin, &to_strides));
        to.get_mut(b..b.checked_add(run)?)?.copy_from_slice(from.get(a..a.checked_add(run)?)?);
        if !next(&mut index, shape) {
            return Some(());
        }
    }
}

/// The next index in C order over the leading axes of a shape; false after the last.
pub(crate) fn next(index: &mut [usize], shape: &[usize]) -> bool {
    for (i, n) in index.iter_mut().zip(shape).rev() {
        *i += 1;
        if *i < *n {
            return true;
        }
        *i = 0;
    }
    false
}

fn strides(shape: &[usize], size: usize) -> Vec<usize> {
    let mut strides = vec![size; shape.len()];
    let mut stride = size;
    for (slot, n) in strides.iter_mut().zip(shape).rev() {
        *slot = stride;
        stride *= n;
    }
    strides
}

/// Index ranges as sizes in memory, if they fit.
pub(crate) fn to_usize(values: &[u64]) -> Option<Vec<usize>> {
    values.iter().map(|&value| usize::try_from(value).ok()).collect()
}

/// The lengths of ranges.
pub(crate) fn lengths(region: &[Range<u64>]) -> Vec<u64> {
    region.iter().map(|range| range.end.saturating_sub(range.start)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rectangle_lands_where_it_should() {
        let from: Vec<u8> = (0..24).collect();
        let mut to = [0_u8; 12];
        let copied = copy_rectangle(1, &[2, 2], (&from, &[4, 6], &[1, 3]), (&mut to, &[3, 4], &[1, 1]));
        assert_eq!(copied, Some(()));
        assert_eq!(to, [0, 0, 0, 0, 0, 9, 10, 0, 0, 15, 16, 0]);
    }

    #[test]
    fn whole_rows_zero_dimensions_and_rectangles_outside() {
        let from: Vec<u8> = (0..12).collect();
        let mut to = [0_u8; 12];
        assert_eq!(
            copy_rectangle(1, &[2, 4], (&from, &[3, 4], &[1, 0]), (&mut to, &[3, 4], &[0, 0])),
            Some(())
        );
        assert_eq!(to, [4, 5, 6, 7, 8, 9, 10, 11, 0, 0, 0, 0]);
        let mut scalar = [0_u8; 2];
        assert_eq!(copy_rectangle(2, &[], (&[1, 2], &[], &[]), (&mut scalar, &[], &[])), Some(()));
        assert_eq!(scalar, [1, 2]);
        assert_eq!(copy_rectangle(1, &[2], (&from, &[12], &[11]), (&mut to, &[12], &[0])), None);
    }
}
