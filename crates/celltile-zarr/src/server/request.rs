//! Paths and ranges of requests, which anybody may have written.

use std::ops::Range;

/// The key of a URL's path; `None` if it is no path that a key could have.
pub(super) fn key_of(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.strip_prefix('/')?.as_bytes().iter();
    while let Some(&byte) = rest.next() {
        match byte {
            b'%' => {
                let digit = |byte: Option<&u8>| {
                    char::from(*byte?).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
                };
                bytes.push(digit(rest.next())? << 4 | digit(rest.next())?);
            }
            byte => bytes.push(byte),
        }
    }
    let key = String::from_utf8(bytes).ok()?;
    let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    (key.split('/').all(plain) && !key.contains(['\\', '\0'])).then_some(key)
}

/// What a `Range` header asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Span {
    /// Everything: it is of another unit than bytes, which the standard says to ignore.
    All,
    /// These bytes.
    Part(Range<usize>),
    /// Nothing that can be given: not one range, or none inside the value.
    Refused,
}

pub(super) fn span_of(header: &[u8], size: usize) -> Span {
    let Ok(header) = std::str::from_utf8(header) else { return Span::Refused };
    let Some((unit, range)) = header.split_once('=') else { return Span::Refused };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Span::All;
    }
    let Some((start, end)) = range.trim().split_once('-') else { return Span::Refused };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // Numbers past the largest are past every value's end.
    let number = |text: &str| text.parse::<usize>().unwrap_or(usize::MAX);
    let range = match (start, end) {
        ("", suffix) if digits(suffix) => size.saturating_sub(number(suffix))..size,
        (start, "") if digits(start) => number(start)..size,
        (start, end) if digits(start) && digits(end) && number(start) <= number(end) => {
            number(start)..number(end).saturating_add(1).min(size)
        }
        _ => return Span::Refused,
    };
    if range.start < range.end { Span::Part(range) } else { Span::Refused }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_paths_are_no_keys() {
        for path in [
            "/../etc/passwd",
            "/a/../b",
            "/%2e%2e/x",
            "/a//b",
            "//etc/passwd",
            "/a\\b",
            "/%00",
            "/%",
            "/%4",
            "/%zz",
            "/%ff",
            "/a/.",
            "/",
            "",
            "a",
            "/%2fetc",
            "/..%2f..",
            "/a%5cb",
            "/%2e",
        ] {
            assert_eq!(key_of(path), None, "{path}");
        }
        assert_eq!(key_of("/obs/cell%20type/zarr.json").as_deref(), Some("obs/cell type/zarr.json"));
        assert_eq!(key_of("/obs/a%2fb/c/0").as_deref(), Some("obs/a/b/c/0"));
    }

    #[test]
    fn ranges_are_cut_or_refused() {
        for (header, part) in [
            ("bytes=0-0", 0..1),
            ("bytes=2-", 2..10),
            ("bytes=-3", 7..10),
            ("bytes=-99", 0..10),
            ("bytes=8-99999999999999999999999999", 8..10),
            ("BYTES = 1-2", 1..3),
        ] {
            assert_eq!(span_of(header.as_bytes(), 10), Span::Part(part), "{header}");
        }
        for header in [
            "bytes=10-",
            "bytes=3-2",
            "bytes=-0",
            "bytes=-",
            "bytes=",
            "bytes",
            "bytes=0-1,3-4",
            "bytes=a-b",
            "bytes=+1-2",
            "bytes=0x1-2",
            "bytes=99999999999999999999-",
            "bytes=1-2-3",
            "",
        ] {
            assert_eq!(span_of(header.as_bytes(), 10), Span::Refused, "{header}");
        }
        assert_eq!(span_of(b"\xff", 10), Span::Refused);
        assert_eq!(span_of(b"items=0-1", 10), Span::All);
        assert_eq!(span_of(b"bytes=0-", 0), Span::Refused);
    }
}
