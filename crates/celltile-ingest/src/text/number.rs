use crate::error::ValueFault;
use crate::matrix::Rounding;
use crate::matrix::numbers::{BAD, count_of, fault_of};

/// What a text says as a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    /// A count.
    Count(u32),
    /// A number that is no count.
    Bad(ValueFault),
    /// No number.
    None,
}

/// Reads a number as text: an integer, or a float in decimal or with an exponent. Whole numbers are exact whatever their
/// length.
pub(crate) fn number(text: &[u8], rounding: Rounding) -> Number {
    let (digits, rest) = digits(text);
    if let Some(value) = digits {
        // A fraction of zeros only, as in 3.0.
        let fraction = match rest {
            [] => true,
            [b'.', zeros @ ..] => zeros.iter().all(|&byte| byte == b'0'),
            _ => false,
        };
        if fraction {
            return match u32::try_from(value) {
                Ok(count) if count <= i32::MAX.unsigned_abs() => Number::Count(count),
                _ => Number::Bad(ValueFault::TooLarge),
            };
        }
    }
    let Some(value) = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok()) else {
        return Number::None;
    };
    match count_of(value, rounding) {
        BAD => Number::Bad(fault_of(value)),
        count => Number::Count(count),
    }
}

/// The number that a text starts with, no more than 2^64 - 1, and what follows it.
pub(crate) fn digits(text: &[u8]) -> (Option<u64>, &[u8]) {
    let mut rest = text;
    let mut value = 0_u64;
    while let [byte @ b'0'..=b'9', after @ ..] = rest {
        value = value.saturating_mul(10).saturating_add(u64::from(byte - b'0'));
        rest = after;
    }
    if rest.len() == text.len() { (None, text) } else { (Some(value), rest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_numbers_of_every_form() {
        let read = |text: &str| number(text.as_bytes(), Rounding::Refuse);
        for (text, count) in [
            ("0", 0),
            ("007", 7),
            ("3.000", 3),
            ("3.", 3),
            ("1e3", 1000),
            ("-0.0", 0),
            ("+5", 5),
            ("25E-1", BAD),
        ] {
            let expected =
                if count == BAD { Number::Bad(ValueFault::Fractional) } else { Number::Count(count) };
            assert_eq!(read(text), expected, "{text}");
        }
        assert_eq!(read("2147483647"), Number::Count(2_147_483_647));
        for text in ["2147483648", "99999999999999999999999", "1e300", "2147483648.0"] {
            assert_eq!(read(text), Number::Bad(ValueFault::TooLarge), "{text}");
        }
        assert_eq!(read("-1"), Number::Bad(ValueFault::Negative));
        assert_eq!(read("nan"), Number::Bad(ValueFault::NotANumber));
        assert_eq!(read("-inf"), Number::Bad(ValueFault::Infinite));
        for text in ["", "x", "1x", "0x10", "1,5", "1 2", "\u{663}", "--1", "1e", "NA"] {
            assert_eq!(read(text), Number::None, "{text}");
        }
        assert_eq!(number(b"2.5", Rounding::Nearest), Number::Count(3));
        assert_eq!(number(b"2.5", Rounding::Floor), Number::Count(2));
        assert_eq!(number(b"-0.5", Rounding::Nearest), Number::Bad(ValueFault::Negative));
    }
}
