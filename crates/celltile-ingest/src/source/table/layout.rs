use std::collections::HashSet;

use super::fields::Fields;
use crate::error::{Error, Result};
use crate::hdf5::StringColumn;
use crate::matrix::{ReadOptions, Rounding};
use crate::text::{Lines, Number, TextFile, number};

/// What separates fields, and the names of rows and columns.
#[derive(Debug, Clone)]
pub(in crate::source) struct Layout {
    pub(in crate::source) delimiter: u8,
    /// Lines before the first row.
    pub(super) header_lines: u64,
    pub(super) rows: StringColumn,
    pub(super) columns: StringColumn,
    pub(super) notes: Vec<String>,
}

/// What may separate fields, in the order of trust.
const DELIMITERS: [u8; 3] = [b'\t', b',', b';'];

/// The delimiter of a first line: the one that cuts it into most fields, if any does.
pub(in crate::source) fn delimiter(line: &[u8]) -> Option<u8> {
    let fields = |delimiter: &u8| Fields::new(line, *delimiter).flatten().count();
    let most = DELIMITERS.iter().map(fields).max()?;
    DELIMITERS.into_iter().find(|delimiter| most > 1 && fields(delimiter) == most)
}

impl Layout {
    pub(super) fn read(file: &TextFile, options: &ReadOptions) -> Result<Self> {
        let mut lines = Lines::open(file, options)?;
        let fault = |number: u64, offset: u64, what: String| Error::Damaged {
            file: file.name().to_owned(),
            at: format!("line {number} (byte {offset})"),
            what,
        };
        let mut header = None;
        let mut notes = Vec::new();
        let mut comments = 0_u64;
        while let Some(line) = lines.next_line()? {
            if line.0.is_empty() {
                continue;
            }
            if line.0.starts_with(b"#") && delimiter(&line.0).is_none() {
                comments += 1;
                continue;
            }
            header = Some(line);
            break;
        }
        let Some((header, number, offset)) = header else {
            return Err(fault(1, 0, "empty; expected a table".into()));
        };
        if comments > 0 {
            notes.push(format!("{comments} lines of comments before the table were passed over"));
        }
        let text = header.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&header);
        let delimiter = delimiter(text).ok_or_else(|| Error::NotRecognised {
            file: file.name().to_owned(),
            found: format!(
                "text whose first line, {:?}, is one field",
                String::from_utf8_lossy(text).chars().take(60).collect::<String>()
            ),
            expected: "a table with tabs, commas or semicolons between its fields, or a Matrix Market file"
                .into(),
        })?;
        let names = names(text, delimiter).map_err(|what| fault(number, offset, what.to_owned()))?;
        let mut rows = StringColumn::default();
        let mut fields = None;
        let mut bytes = header.len() as u64;
        while let Some((line, number, offset)) = lines.next_line()? {
            if line.is_empty() {
                continue;
            }
            let mut of_line = Fields::new(&line, delimiter);
            let Some(Some(name)) = of_line.next() else {
                return Err(fault(number, offset, "a quote that is not closed on its line".into()));
            };
            if fields.is_none() {
                fields = Some(of_line.count() as u64);
            }
            bytes = bytes.saturating_add(name.len() as u64);
            if bytes > options.memory {
                return Err(fault(
                    number,
                    offset,
                    format!("{bytes} bytes of names; more memory lets there be more"),
                ));
            }
            let name = std::str::from_utf8(&name).map_err(|_| fault(number, offset, "not UTF-8".into()))?;
            rows.push(name);
        }
        // R leaves the corner out.
        let corner = match fields {
            Some(fields) if fields == names.len() as u64 => false,
            Some(fields) if fields.checked_add(1) != Some(names.len() as u64) => {
                let what = format!("{} fields; its first row has {}", names.len(), fields.saturating_add(1));
                return Err(fault(number, offset, what));
            }
            _ => true,
        };
        let columns: StringColumn = names.iter().skip(usize::from(corner)).map(String::as_str).collect();
        if u32::try_from(rows.len()).is_err() || u32::try_from(columns.len()).is_err() {
            return Err(fault(number, offset, format!("{} rows and {} columns", rows.len(), columns.len())));
        }
        for (names, what, fix) in [
            (&rows, "the first field of every line", "the first field of a line names its row"),
            (&columns, "every field of the first line", "the first line names the columns"),
        ] {
            if let Some(repeated) = counts_for_names(names) {
                let what =
                    format!("{what} is a number, and {repeated:?} is there more than once: {fix}; add names");
                return Err(fault(number, offset, what));
            }
        }
        Ok(Self { delimiter, header_lines: number, rows, columns, notes })
    }

    /// The question where the cells are, with what was seen.
    pub(super) fn question(&self, file: &TextFile) -> String {
        let few = |names: &StringColumn| {
            let shown: Vec<&str> = names.iter().take(3).collect();
            let more = if names.len() > shown.len() { ", ..." } else { "" };
            format!("{}{more}", shown.join(", "))
        };
        let between = match self.delimiter {
            b'\t' => "tabs",
            b',' => "commas",
            _ => "semicolons",
        };
        format!(
            "{}: a table of {} rows ({}) and {} columns ({}), {between} between its fields: say whether the cells are its \
             rows or its columns with --cells rows or --cells columns",
            file.name(),
            self.rows.len(),
            few(&self.rows),
            self.columns.len(),
            few(&self.columns)
        )
    }
}

/// A number that is there more than once, if the names are all numbers: then they are counts of a table without names, which would be
/// lost.
fn counts_for_names(names: &StringColumn) -> Option<String> {
    let is_number = |name: &str| !matches!(number(name.trim().as_bytes(), Rounding::Refuse), Number::None);
    if !names.iter().all(is_number) {
        return None;
    }
    let mut seen = HashSet::new();
    names.iter().find(|name| !seen.insert(*name)).map(str::to_owned)
}

fn names(line: &[u8], delimiter: u8) -> Result<Vec<String>, &'static str> {
    Fields::new(line, delimiter)
        .map(|field| {
            let field = field.ok_or("a quote that is not closed on its line")?;
            String::from_utf8(field.into_owned()).map_err(|_| "not UTF-8")
        })
        .collect()
}
