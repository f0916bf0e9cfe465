//! Numbers for people.

use std::time::Duration;

/// With thousands apart: `36,601`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three significant digits, or all of the whole part: `0.0712`, `2.31`, `31,415`.
pub(crate) fn decimal(x: f64) -> String {
    if !x.is_finite() {
        return "-".to_owned();
    }
    let magnitude = x.abs();
    if magnitude >= 1000.0 {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
        let whole = magnitude.round() as u64;
        return if x < 0.0 { format!("-{}", count(whole)) } else { count(whole) };
    }
    let digits = match magnitude {
        m if m >= 100.0 => 0,
        m if m >= 10.0 => 1,
        m if m >= 1.0 || m == 0.0 => 2,
        m if m >= 0.1 => 3,
        _ => 4,
    };
    format!("{x:.digits$}")
}

/// A share as a percentage: `5.48 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", decimal(share * 100.0))
}

/// In decimal units, as file sizes are given: `28.1 MB`.
pub(crate) fn bytes(n: u64) -> String {
    let mut value = n as f64;
    let mut unit = "bytes";
    for next in ["kB", "MB", "GB", "TB", "PB"] {
        if value < 1000.0 {
            break;
        }
        value /= 1000.0;
        unit = next;
    }
    if unit == "bytes" { format!("{n} bytes") } else { format!("{} {unit}", decimal(value)) }
}

/// `0.42 s`, `12.3 s`, `3 min 20 s`, `2 h 5 min`.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{} s", decimal(time.as_secs_f64())),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_numbers() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0.0, 0.07123, 0.5, 2.314, 31.41, 314.6, 31_415.9].map(decimal),
            ["0.00", "0.0712", "0.500", "2.31", "31.4", "315", "31,416"]
        );
        assert_eq!(decimal(f64::NAN), "-");
        assert_eq!([12, 28_100_000, u64::MAX].map(bytes), ["12 bytes", "28.1 MB", "18,447 PB"]);
        assert_eq!(
            [1, 200, 7500].map(|s| duration(Duration::from_secs(s))),
            ["1.00 s", "3 min 20 s", "2 h 5 min"]
        );
    }
}
