use std::borrow::Cow;

/// The fields of a line, as RFC 4180 has them; `None` for a quote that is not closed.
pub(super) struct Fields<'a> {
    rest: Option<&'a [u8]>,
    delimiter: u8,
}

impl<'a> Fields<'a> {
    /// Of a line without its end.
    pub(super) fn new(line: &'a [u8], delimiter: u8) -> Self {
        Self { rest: Some(line), delimiter }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Option<Cow<'a, [u8]>>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest?;
        if let [b'"', inner @ ..] = rest {
            return Some(self.quoted(inner));
        }
        let end = rest.iter().position(|&byte| byte == self.delimiter);
        let (field, after) = rest.split_at(end.unwrap_or(rest.len()));
        self.rest = after.split_first().map(|(_, after)| after);
        Some(Some(Cow::Borrowed(field)))
    }
}

impl<'a> Fields<'a> {
    fn quoted(&mut self, inner: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let mut field = Vec::new();
        let mut rest = inner;
        loop {
            let Some(quote) = rest.iter().position(|&byte| byte == b'"') else {
                self.rest = None;
                return None;
            };
            let (part, after) = rest.split_at(quote);
            field.extend_from_slice(part);
            match after.get(1..).unwrap_or(&[]) {
                [b'"', after @ ..] => {
                    field.push(b'"');
                    rest = after;
                }
                [] => {
                    self.rest = None;
                    return Some(Cow::Owned(field));
                }
                [byte, after @ ..] if *byte == self.delimiter => {
                    self.rest = Some(after);
                    return Some(Cow::Owned(field));
                }
                _ => {
                    self.rest = None;
                    return None;
                }
            }
        }
    }
}

/// A line without its end.
pub(super) fn content(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Lines that are not empty.
pub(super) fn filled_lines(text: &[u8]) -> u64 {
    text.split_inclusive(|&byte| byte == b'\n').filter(|line| !content(line).is_empty()).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_fields_and_quotes() {
        let fields = |line: &'static str| -> Vec<Option<String>> {
            let text = |field: Cow<'_, [u8]>| String::from_utf8(field.into_owned()).unwrap();
            Fields::new(line.as_bytes(), b',').map(|field| field.map(text)).collect()
        };
        let some = |texts: &[&str]| texts.iter().map(|text| Some((*text).to_owned())).collect::<Vec<_>>();
        assert_eq!(fields("a,,b"), some(&["a", "", "b"]));
        assert_eq!(fields(""), some(&[""]));
        assert_eq!(fields("a,"), some(&["a", ""]));
        assert_eq!(fields("\"a,b\",\"c\"\"d\",\"\""), some(&["a,b", "c\"d", ""]));
        assert_eq!(fields("\"a"), [None]);
        assert_eq!(fields("\"a\"b,c"), [None]);
        assert_eq!(filled_lines(b"a\n\n\r\nb"), 2);
    }
}
