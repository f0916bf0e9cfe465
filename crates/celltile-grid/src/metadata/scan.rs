//! JSON (RFC 8259), value by value, from one end of a text to the other.

use std::borrow::Cow;

use crate::GridError;

/// How deep arrays and objects may lie in one another where they are skipped: one bit each.
const MAX_DEPTH: u32 = u128::BITS;

/// A scalar, or the start of an array or object.
#[derive(Debug)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Number(Number<'a>),
    String(Cow<'a, str>),
    /// Its elements follow: see [`Scanner::element`].
    Array,
    /// Its members follow: see [`Scanner::key`].
    Object,
}

/// A number as it is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number<'a> {
    pub(super) text: &'a str,
    /// Its value, if it is written as an integer (no sign, point or exponent) below 2^64.
    pub(super) integer: Option<u64>,
}

impl Value<'_> {
    /// What was found, for an error: the text of a scalar, in so far as it is short.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Null => "null".into(),
            Self::Bool(value) => value.to_string(),
            Self::Number(number) => shorten(number.text),
            Self::String(text) => format!("\"{}\"", shorten(text)),
            Self::Array => "an array".into(),
            Self::Object => "an object".into(),
        }
    }
}

/// The first characters of a text that may be of any length.
pub(super) fn shorten(text: &str) -> String {
    const MAX: usize = 40;
    match text.char_indices().nth(MAX) {
        None => text.escape_debug().to_string(),
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default().escape_debug()),
    }
}

/// Reads a JSON text. The caller drives: it asks for a value, and if that is an array or object for its parts.
#[derive(Debug)]
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Where the scanner is, to come back to with [`at`](Self::at).
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// A scanner of the same text at a position that [`position`](Self::position) gave.
    pub(super) fn at(&self, position: usize) -> Self {
        Self { text: self.text, at: position }
    }

    /// The next value: all of it if it is a scalar.
    pub(super) fn value(&mut self) -> Result<Value<'a>, GridError> {
        self.skip_space();
        match self.peek() {
            Some(b'-' | b'0'..=b'9') => self.number().map(Value::Number),
            Some(b'"') => self.string().map(Value::String),
            Some(b'[') => {
                self.at += 1;
                Ok(Value::Array)
            }
            Some(b'{') => {
                self.at += 1;
                Ok(Value::Object)
            }
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            _ => Err(self.error("a value is expected")),
        }
    }

    /// Whether an array has another element, which then comes next.
    pub(super) fn element(&mut self, first: bool) -> Result<bool, GridError> {
        self.another(first, b']', "`,` or `]` is expected")
    }

    /// The key of an object's next member, the value of which then comes next.
    pub(super) fn key(&mut self, first: bool) -> Result<Option<Cow<'a, str>>, GridError> {
        if !self.another(first, b'}', "`,` or `}` is expected")? {
            return Ok(None);
        }
        self.skip_space();
        if self.peek() != Some(b'"') {
            return Err(self.error("a key is expected"));
        }
        let key = self.string()?;
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(self.error("`:` is expected"));
        }
        self.at += 1;
        Ok(Some(key))
    }

    /// Passes over the next value, whatever it is.
    pub(super) fn skip_value(&mut self) -> Result<(), GridError> {
        // One bit for each array or object around the current value: set for an object.
        let (mut objects, mut depth) = (0_u128, 0_u32);
        loop {
            let mut first = false;
            let value = self.value()?;
            if matches!(value, Value::Array | Value::Object) {
                if depth == MAX_DEPTH {
                    return Err(self.error("arrays and objects lie more than 128 deep in one another"));
                }
                objects = (objects << 1) | u128::from(matches!(value, Value::Object));
                depth += 1;
                first = true;
            }
            // Leave all that end here; then either another value follows, or this was all.
            loop {
                if depth == 0 {
                    return Ok(());
                }
                let more = if objects & 1 == 1 { self.key(first)?.is_some() } else { self.element(first)? };
                if more {
                    break;
                }
                first = false;
                objects >>= 1;
                depth -= 1;
            }
        }
    }

    /// Nothing but white space may be left.
    pub(super) fn finish(&mut self) -> Result<(), GridError> {
        self.skip_space();
        if self.at < self.text.len() { Err(self.error("the text goes on after the value")) } else { Ok(()) }
    }

    fn another(&mut self, first: bool, end: u8, expected: &'static str) -> Result<bool, GridError> {
        self.skip_space();
        match self.peek() {
            Some(byte) if byte == end => {
                self.at += 1;
                Ok(false)
            }
            Some(b',') if !first => {
                self.at += 1;
                Ok(true)
            }
            Some(_) if first => Ok(true),
            _ => Err(self.error(expected)),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &'static str, value: Value<'a>) -> Result<Value<'a>, GridError> {
        if self.text.as_bytes().get(self.at..).is_some_and(|rest| rest.starts_with(word.as_bytes())) {
            self.at += word.len();
            return Ok(value);
        }
        Err(self.error("a value is expected"))
    }

    fn number(&mut self) -> Result<Number<'a>, GridError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let negative = self.at > start;
        let leading_zero = self.peek() == Some(b'0');
        let digits = self.at;
        let mut integer = self.digits()?;
        if leading_zero && self.at > digits + 1 {
            self.at = digits;
            return Err(self.error("a number starts with 0 and goes on"));
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
            integer = None;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
            integer = None;
        }
        let text = self.text.get(start..self.at).unwrap_or_default();
        Ok(Number { text, integer: integer.filter(|_| !negative) })
    }

    /// One or more digits, and their value if it is below 2^64.
    fn digits(&mut self) -> Result<Option<u64>, GridError> {
        let start = self.at;
        let mut value = Some(0_u64);
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            value = value
                .and_then(|value| value.checked_mul(10))
                .and_then(|value| value.checked_add(u64::from(digit - b'0')));
            self.at += 1;
        }
        if self.at == start { Err(self.error("a digit is expected")) } else { Ok(value) }
    }

    fn string(&mut self) -> Result<Cow<'a, str>, GridError> {
        self.at += 1;
        let mut start = self.at;
        let mut unescaped = String::new();
        loop {
            match self.peek() {
                Some(b'"') => {
                    let last = self.text.get(start..self.at).unwrap_or_default();
                    self.at += 1;
                    if unescaped.is_empty() {
                        return Ok(Cow::Borrowed(last));
                    }
                    unescaped.push_str(last);
                    return Ok(Cow::Owned(unescaped));
                }
                Some(b'\\') => {
                    unescaped.push_str(self.text.get(start..self.at).unwrap_or_default());
                    self.at += 1;
                    unescaped.push(self.escape()?);
                    start = self.at;
                }
                Some(0..=0x1f) => return Err(self.error("a control character in a string")),
                Some(_) => self.at += 1,
                None => return Err(self.error("a string does not end")),
            }
        }
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Result<char, GridError> {
        let simple = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode_escape();
            }
            _ => return Err(self.error("an unknown escape")),
        };
        self.at += 1;
        Ok(simple)
    }

    /// Four hexadecimal digits, or twice those as a surrogate pair.
    fn unicode_escape(&mut self) -> Result<char, GridError> {
        let mut code = self.hex4()?;
        if (0xd800..0xdc00).contains(&code) {
            if !self.text.as_bytes().get(self.at..).is_some_and(|rest| rest.starts_with(b"\\u")) {
                return Err(self.error("half of a surrogate pair"));
            }
            self.at += 2;
            let low = self.hex4()?;
            if !(0xdc00..0xe000).contains(&low) {
                return Err(self.error("half of a surrogate pair"));
            }
            code = 0x1_0000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        }
        char::from_u32(code).ok_or_else(|| self.error("half of a surrogate pair"))
    }

    fn hex4(&mut self) -> Result<u32, GridError> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let digit = digit.ok_or_else(|| self.error("a hexadecimal digit is expected"))?;
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }

    fn error(&self, message: &'static str) -> GridError {
        let before = self.text.as_bytes().get(..self.at).unwrap_or_default();
        let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        GridError::Json { line, column: self.at - line_start + 1, message }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Scanner;

    fn is_json(text: &str) -> bool {
        let mut scanner = Scanner::new(text);
        scanner.skip_value().and_then(|()| scanner.finish()).is_ok()
    }

    /// Whether serde_json takes the text, too. It builds the document, since passing over one it checks less.
    fn serde_takes(text: &str) -> bool {
        serde_json::from_str::<serde_json::Value>(text).is_ok()
    }

    proptest! {
        #[test]
        fn test_scanner_takes_what_serde_json_takes(
            text in r#"([\[\]{},: "]|"[ab]?"|"a":|"\\(n|u00e9|ud83d\\ude00|ud83d|q)"|true|null|nul|-?[0-9]{1,2}|0|1\.5|1\.|2e-3|-){0,12}"#
        ) {
            prop_assert_eq!(is_json(&text), serde_takes(&text), "{}", text);
        }

        #[test]
        fn test_scanner_takes_whole_documents_and_no_part_of_one(seed in any::<u64>(), cut in any::<prop::sample::Index>()) {
            let document = serde_json::json!({
                "name": "rectilinear", "n": seed, "é\n\u{1f600}": [[], {}, [seed, [1, [2.5, {"a": null}]]], true, -1],
            });
            let text = serde_json::to_string_pretty(&document).unwrap();
            prop_assert!(is_json(&text));
            let end = cut.index(text.len());
            prop_assert!(!text.is_char_boundary(end) || !is_json(&text[..end]));
        }
    }

    #[test]
    fn test_depth_is_bounded() {
        for depth in [127, 128, 129, 1_000_000] {
            let text = "[".repeat(depth) + &"]".repeat(depth);
            assert_eq!(is_json(&text), depth <= 128, "{depth} deep");
        }
        assert!(!is_json(&r#"{"a":"#.repeat(1_000_000)));
    }

    #[test]
    fn test_error_names_line_and_column() {
        let error = Scanner::new("[1,\n  2,\n  03]").skip_value().unwrap_err();
        assert_eq!(error.to_string(), "JSON, line 3, column 3: a number starts with 0 and goes on");
    }
}
