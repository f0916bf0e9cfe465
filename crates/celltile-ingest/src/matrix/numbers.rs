use crate::error::ValueFault;
use crate::hdf5::{NumberKind, NumberType};

/// Stands where a stored value is no count or a stored position is out of range: no valid one is as large.
pub(crate) const BAD: u32 = u32::MAX;

/// What to do with fractional values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rounding {
    /// Refuse them.
    #[default]
    Refuse,
    /// To the nearest integer, halves away from zero.
    Nearest,
    /// Down.
    Floor,
}

/// A number as it is stored.
trait Stored: Copy {
    /// As a count; [`BAD`] if it is none.
    fn count(self) -> u32;
    /// As a position below `limit`; [`BAD`] if it is none.
    fn position(self, limit: u32) -> u32;
    /// As an offset; negative if it is none.
    fn offset(self) -> i64;
}

macro_rules! stored_integer {
    ($($kind:ty),*) => {$(
        impl Stored for $kind {
            #[inline]
            fn count(self) -> u32 {
                match u32::try_from(self) {
                    Ok(value) if value <= i32::MAX.cast_unsigned() => value,
                    _ => BAD,
                }
            }
            #[inline]
            fn position(self, limit: u32) -> u32 {
                match u32::try_from(self) {
                    Ok(value) if value < limit => value,
                    _ => BAD,
                }
            }
            #[inline]
            fn offset(self) -> i64 {
                i64::try_from(self).unwrap_or(-1)
            }
        }
    )*};
}

stored_integer!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! stored_float {
    ($($kind:ty),*) => {$(
        impl Stored for $kind {
            #[inline]
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_precision_loss,
                clippy::cast_lossless,
                reason = "the cast saturates, and its result is compared with the value"
            )]
            fn count(self) -> u32 {
                // Not-a-number becomes 0 and is not equal to it; minus zero is. Without branches, and by way of a signed
                // integer, since processors convert eight of those at a time.
                let value = self as i32;
                let exact = value as $kind == self;
                if exact & (value >= 0) & (self < 2_147_483_648.0) { value.cast_unsigned() } else { BAD }
            }
            fn position(self, _limit: u32) -> u32 {
                BAD
            }
            fn offset(self) -> i64 {
                -1
            }
        }
    )*};
}

stored_float!(f32, f64);

/// Calls `$each` with the type that a number type names; half precision goes through single.
macro_rules! with_number {
    ($number:expr, $each:ident, $bytes:expr, $($rest:expr),*) => {
        match ($number.kind, $number.size, $number.big_endian) {
            (NumberKind::Signed, 1, _) => $each::<1, i8>($bytes, i8::from_le_bytes, $($rest),*),
            (NumberKind::Signed, 2, false) => $each::<2, i16>($bytes, i16::from_le_bytes, $($rest),*),
            (NumberKind::Signed, 2, true) => $each::<2, i16>($bytes, i16::from_be_bytes, $($rest),*),
            (NumberKind::Signed, 4, false) => $each::<4, i32>($bytes, i32::from_le_bytes, $($rest),*),
            (NumberKind::Signed, 4, true) => $each::<4, i32>($bytes, i32::from_be_bytes, $($rest),*),
            (NumberKind::Signed, _, false) => $each::<8, i64>($bytes, i64::from_le_bytes, $($rest),*),
            (NumberKind::Signed, _, true) => $each::<8, i64>($bytes, i64::from_be_bytes, $($rest),*),
            (NumberKind::Unsigned, 1, _) => $each::<1, u8>($bytes, u8::from_le_bytes, $($rest),*),
            (NumberKind::Unsigned, 2, false) => $each::<2, u16>($bytes, u16::from_le_bytes, $($rest),*),
            (NumberKind::Unsigned, 2, true) => $each::<2, u16>($bytes, u16::from_be_bytes, $($rest),*),
            (NumberKind::Unsigned, 4, false) => $each::<4, u32>($bytes, u32::from_le_bytes, $($rest),*),
            (NumberKind::Unsigned, 4, true) => $each::<4, u32>($bytes, u32::from_be_bytes, $($rest),*),
            (NumberKind::Unsigned, _, false) => $each::<8, u64>($bytes, u64::from_le_bytes, $($rest),*),
            (NumberKind::Unsigned, _, true) => $each::<8, u64>($bytes, u64::from_be_bytes, $($rest),*),
            (NumberKind::Float, 2, false) => {
                $each::<2, f32>($bytes, |bytes| half(u16::from_le_bytes(bytes)), $($rest),*)
            }
            (NumberKind::Float, 2, true) => {
                $each::<2, f32>($bytes, |bytes| half(u16::from_be_bytes(bytes)), $($rest),*)
            }
            (NumberKind::Float, 4, false) => $each::<4, f32>($bytes, f32::from_le_bytes, $($rest),*),
            (NumberKind::Float, 4, true) => $each::<4, f32>($bytes, f32::from_be_bytes, $($rest),*),
            (NumberKind::Float, _, false) => $each::<8, f64>($bytes, f64::from_le_bytes, $($rest),*),
            (NumberKind::Float, _, true) => $each::<8, f64>($bytes, f64::from_be_bytes, $($rest),*),
        }
    };
}

/// A half-precision float.
fn half(bits: u16) -> f32 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    sign * match exponent {
        0 => fraction * (-24_f32).exp2(),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1024.0 + fraction) * f32::from(i16::try_from(exponent - 25).unwrap_or(0)).exp2(),
    }
}

/// Stored values as counts, [`BAD`] where one is none.
pub(crate) fn counts(bytes: &[u8], number: NumberType, rounding: Rounding, out: &mut [u32]) {
    fn plain<const N: usize, T: Stored>(bytes: &[u8], load: impl Fn([u8; N]) -> T, out: &mut [u32]) {
        for (to, from) in out.iter_mut().zip(bytes.as_chunks::<N>().0) {
            *to = load(*from).count();
        }
    }
    if number.kind == NumberKind::Float && rounding != Rounding::Refuse {
        for (to, from) in out.iter_mut().zip(bytes.chunks_exact(number.size)) {
            let value = float(from, number);
            *to = if value < 0.0 {
                BAD
            } else {
                match rounding {
                    Rounding::Floor => value.floor().count(),
                    Rounding::Nearest | Rounding::Refuse => value.round().count(),
                }
            };
        }
        return;
    }
    with_number!(number, plain, bytes, out);
}

/// A number as a count, [`BAD`] if it is none.
pub(crate) fn count_of(value: f64, rounding: Rounding) -> u32 {
    match rounding {
        Rounding::Refuse => value.count(),
        _ if value < 0.0 => BAD,
        Rounding::Floor => value.floor().count(),
        Rounding::Nearest => value.round().count(),
    }
}

/// What is wrong with a number that is no count.
pub(crate) fn fault_of(value: f64) -> ValueFault {
    if value.is_nan() {
        ValueFault::NotANumber
    } else if value.is_infinite() {
        ValueFault::Infinite
    } else if value < 0.0 {
        ValueFault::Negative
    } else if value.fract() != 0.0 {
        ValueFault::Fractional
    } else {
        ValueFault::TooLarge
    }
}

/// Stored positions, [`BAD`] where one is not below `limit`.
pub(crate) fn positions(bytes: &[u8], number: NumberType, limit: u32, out: &mut [u32]) {
    fn plain<const N: usize, T: Stored>(
        bytes: &[u8],
        load: impl Fn([u8; N]) -> T,
        limit: u32,
        out: &mut [u32],
    ) {
        for (to, from) in out.iter_mut().zip(bytes.as_chunks::<N>().0) {
            *to = load(*from).position(limit);
        }
    }
    with_number!(number, plain, bytes, limit, out);
}

/// Stored offsets, negative where one is none.
pub(crate) fn offsets(bytes: &[u8], number: NumberType, out: &mut [i64]) {
    fn plain<const N: usize, T: Stored>(bytes: &[u8], load: impl Fn([u8; N]) -> T, out: &mut [i64]) {
        for (to, from) in out.iter_mut().zip(bytes.as_chunks::<N>().0) {
            *to = load(*from).offset();
        }
    }
    with_number!(number, plain, bytes, out);
}

fn float(bytes: &[u8], number: NumberType) -> f64 {
    fn plain<const N: usize, T: FloatValue>(bytes: &[u8], load: impl Fn([u8; N]) -> T) -> f64 {
        bytes.first_chunk::<N>().map_or(f64::NAN, |bytes| load(*bytes).float_value())
    }
    with_number!(number, plain, bytes,)
}

trait FloatValue {
    fn float_value(self) -> f64;
}

macro_rules! float_value {
    ($($kind:ty),*) => {$(impl FloatValue for $kind {
        #[allow(clippy::cast_precision_loss, clippy::cast_lossless, reason = "for messages and rounding only")]
        fn float_value(self) -> f64 {
            self as f64
        }
    })*};
}

float_value!(i8, i16, i32, i64, u8, u16, u32, u64, f32, f64);

/// What is wrong with a stored value that is no count, and the value as text.
pub(crate) fn fault(bytes: &[u8], number: NumberType) -> (ValueFault, String) {
    fn text<const N: usize, T: std::fmt::Display>(bytes: &[u8], load: impl Fn([u8; N]) -> T) -> String {
        bytes.first_chunk::<N>().map_or_else(String::new, |bytes| load(*bytes).to_string())
    }
    let value = float(bytes, number);
    let kind = if value.is_nan() {
        ValueFault::NotANumber
    } else if value.is_infinite() {
        ValueFault::Infinite
    } else if value < 0.0 {
        ValueFault::Negative
    } else if number.kind == NumberKind::Float && value.fract() != 0.0 {
        ValueFault::Fractional
    } else {
        ValueFault::TooLarge
    };
    // From here on the shortest text that names a float32 is not its value. Some hundred digits help nobody.
    let text = if number.kind == NumberKind::Float && !(1e-5..1e17).contains(&value.abs()) && value != 0.0 {
        format!("{value:e}")
    } else if number.kind == NumberKind::Float && value.abs() >= 16_777_216.0 {
        value.to_string()
    } else {
        with_number!(number, text, bytes,)
    };
    (kind, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(value: f64) -> u32 {
        let mut out = [0];
        let number = NumberType { kind: NumberKind::Float, size: 8, big_endian: true };
        counts(&value.to_be_bytes(), number, Rounding::Refuse, &mut out);
        out[0]
    }

    #[test]
    fn counts_of_floats() {
        assert_eq!(one(0.0), 0);
        assert_eq!(one(-0.0), 0);
        assert_eq!(one(16_777_217.0), 16_777_217);
        assert_eq!(one(2_147_483_647.0), i32::MAX as u32);
        for bad in [2_147_483_648.0, 4_294_967_295.0, -1.0, 0.5, f64::NAN, f64::INFINITY, -f64::INFINITY] {
            assert_eq!(one(bad), BAD, "{bad}");
        }
        let number = NumberType { kind: NumberKind::Float, size: 8, big_endian: false };
        let texts = [
            (0.25, "0.25"),
            (-1e300, "-1e300"),
            (5e-324, "5e-324"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "inf"),
        ];
        for (value, text) in texts {
            assert_eq!(fault(&value.to_le_bytes(), number).1, text);
        }
    }

    #[test]
    fn half_precision() {
        assert_eq!(half(0x3c00), 1.0);
        assert_eq!(half(0xc000), -2.0);
        assert_eq!(half(0x7bff), 65504.0);
        assert_eq!(half(0x0001), 2_f32.powi(-24));
        assert_eq!(half(0x3555), 0.333_251_95);
        assert!(half(0x7e00).is_nan() && half(0x7c00).is_infinite());
    }

    #[test]
    fn integers_of_every_width() {
        let number = |kind, size| NumberType { kind, size, big_endian: false };
        for size in [1, 2, 4, 8] {
            let mut out = [7; 2];
            let bytes: Vec<u8> = (0..2 * size).map(|at| u8::from(at == 0)).collect();
            counts(&bytes, number(NumberKind::Signed, size), Rounding::Refuse, &mut out);
            assert_eq!(out, [1, 0]);
            let minus = vec![255; size];
            counts(&minus, number(NumberKind::Signed, size), Rounding::Refuse, &mut out[..1]);
            assert_eq!(out[0], BAD);
            assert_eq!(fault(&minus, number(NumberKind::Signed, size)), (ValueFault::Negative, "-1".into()));
        }
    }
}
