use super::{Lines, TextFile};
use crate::error::{Error, Result};
use crate::hdf5::StringColumn;
use crate::matrix::ReadOptions;

/// The columns of a list with a line an entry and tabs between fields, as 10x writes names: the first `most` of them.
/// Empty lines at the end are left out. Every line has as many fields as the first, or at least `most`.
pub(crate) fn read_list(file: &TextFile, most: usize, options: &ReadOptions) -> Result<Vec<StringColumn>> {
    let mut lines = Lines::open(file, options)?;
    let mut columns: Vec<StringColumn> = Vec::new();
    let mut empty_at = None;
    let mut bytes = 0_u64;
    while let Some((line, number, _)) = lines.next_line()? {
        let fault = |what: String| Error::Damaged {
            file: file.name().to_owned(),
            at: format!("line {number}"),
            what,
        };
        if line.is_empty() {
            empty_at = empty_at.or(Some(number));
            continue;
        }
        if let Some(empty) = empty_at {
            return Err(fault(format!("comes after line {empty}, which is empty")));
        }
        // Names are held whole; what they take is bounded like everything else.
        bytes = bytes.saturating_add(line.len() as u64);
        if bytes > options.memory {
            return Err(fault(format!("{bytes} bytes of names; more memory lets there be more")));
        }
        let text = std::str::from_utf8(&line).map_err(|_| fault("not UTF-8".into()))?;
        let text = if number == 1 { text.strip_prefix('\u{feff}').unwrap_or(text) } else { text };
        let fields: Vec<&str> = text.split('\t').take(most).map(unquoted).collect();
        if columns.is_empty() {
            columns = vec![StringColumn::default(); fields.len()];
        }
        if fields.len() != columns.len() {
            return Err(fault(format!("{} fields; the first line has {}", fields.len(), columns.len())));
        }
        for (column, field) in columns.iter_mut().zip(fields) {
            column.push(field);
        }
    }
    Ok(columns)
}

/// Without the quotes that R puts around text.
fn unquoted(text: &str) -> &str {
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inner.filter(|inner| !inner.contains('"')).unwrap_or(text)
}
