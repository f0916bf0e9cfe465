use crate::error::{Error, Result};
use crate::source::SourceOptions;
use crate::text::{Lines, TextFile};

/// What the first lines of a Matrix Market file say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) rows: u64,
    pub(super) columns: u64,
    /// Entries that are declared; nothing is sized by it.
    pub(super) entries: u64,
    /// Values may have a fraction.
    pub(super) real: bool,
    /// There are no values.
    pub(super) pattern: bool,
    /// Lines of the header.
    pub(super) lines: u64,
}

/// Whether a text is a Matrix Market file.
pub(in crate::source) fn is_matrix_market(start: &[u8]) -> bool {
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    // Some write one percent sign instead of two.
    let Some(start) = start.strip_prefix(b"%") else { return false };
    let start = start.strip_prefix(b"%").unwrap_or(start);
    start.get(..12).is_some_and(|word| word.eq_ignore_ascii_case(b"MatrixMarket"))
}

impl Header {
    pub(super) fn read(file: &TextFile, options: &SourceOptions) -> Result<Self> {
        let mut lines = Lines::open(file, &options.read)?;
        let fault = |number: u64, offset: u64, what: String| Error::Damaged {
            file: file.name().to_owned(),
            at: format!("line {number} (byte {offset})"),
            what,
        };
        let unsupported =
            |what: String| Error::Unsupported { file: file.name().to_owned(), at: "line 1".into(), what };
        let Some((first, ..)) = lines.next_line()? else {
            return Err(fault(1, 0, "empty; expected a Matrix Market file".into()));
        };
        if !is_matrix_market(&first) {
            return Err(Error::NotRecognised {
                file: file.name().to_owned(),
                found: "its first line is not %%MatrixMarket".into(),
                expected: "a Matrix Market file".into(),
            });
        }
        let banner = String::from_utf8_lossy(&first).to_ascii_lowercase();
        let words: Vec<&str> = banner.split_whitespace().skip(1).collect();
        let &["matrix", form, field, symmetry] = words.as_slice() else {
            return Err(fault(
                1,
                0,
                format!("{banner:?}; expected %%MatrixMarket matrix coordinate integer general"),
            ));
        };
        if form != "coordinate" {
            return Err(unsupported(format!("form {form}; expected coordinate, a line an entry")));
        }
        if symmetry != "general" {
            return Err(unsupported(format!(
                "symmetry {symmetry}, which no matrix of counts has; expected general"
            )));
        }
        let (real, pattern) = match field {
            "integer" | "unsigned-integer" => (false, false),
            "real" | "double" => (true, false),
            "pattern" if options.mtx_pattern => (false, true),
            "pattern" => {
                return Err(unsupported(
                    "pattern: it has no values, only where there are some; --mtx-pattern takes each as a count of 1".into(),
                ));
            }
            other => return Err(unsupported(format!("values {other}; expected integer, real or pattern"))),
        };
        while let Some((line, number, offset)) = lines.next_line()? {
            let text = String::from_utf8_lossy(&line);
            let text = text.trim();
            if text.is_empty() || text.starts_with('%') {
                continue;
            }
            let sizes: Vec<Option<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
            let &[Some(rows), Some(columns), Some(entries)] = sizes.as_slice() else {
                let start: String = text.chars().take(60).collect();
                return Err(fault(number, offset, format!("{start:?}; expected rows, columns and entries")));
            };
            if rows > i32::MAX.unsigned_abs().into() || columns > i32::MAX.unsigned_abs().into() {
                let what = format!("{rows} rows and {columns} columns; neither may be more than 2147483647");
                return Err(fault(number, offset, what));
            }
            if u128::from(entries) > u128::from(rows) * u128::from(columns) && !options.mtx_trust_lines {
                let what = format!(
                    "{entries} entries are declared for {rows} x {columns} places; --mtx-trust-lines takes the lines that \
                     are there"
                );
                return Err(fault(number, offset, what));
            }
            return Ok(Self { rows, columns, entries, real, pattern, lines: number });
        }
        Err(fault(2, lines.offset(), "ends before the line of rows, columns and entries".into()))
    }
}
