//! Columns under each other.

use std::io::{self, Write};
use std::ops::Range;

/// Rows of text: some columns of words, aligned left, on either side of columns of numbers, aligned right.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    numbers: Range<usize>,
}

impl Table {
    /// A table in which these columns are numbers.
    pub(crate) fn new(numbers: Range<usize>) -> Self {
        Self { rows: Vec::new(), numbers }
    }

    pub(crate) fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(|cell| shown(&cell.into())).collect());
    }

    pub(crate) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|text| text.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (text, &width)) in row.iter().zip(&widths).enumerate() {
                if column > 0 {
                    line.push_str("  ");
                }
                if self.numbers.contains(&column) {
                    line.push_str(&format!("{text:>width$}"));
                } else {
                    line.push_str(&format!("{text:<width$}"));
                }
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Characters of a cell that are shown: a name in a file may have any length.
const LONGEST: usize = 1000;

/// A text as a terminal may have it: on one line, without control characters, and cut where it would fill the screen.
fn shown(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let mut shown: String = text.chars().take(LONGEST).map(plain).collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_columns_are_aligned() {
        let mut table = Table::new(1..2);
        table.row(["name", "size"]);
        table.row(["a", "1,000"]);
        table.row(["longer", "7"]);
        let mut out = Vec::new();
        table.write(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "name     size\na       1,000\nlonger      7\n");
    }

    #[test]
    fn test_any_text_of_a_file_can_be_shown() {
        let mut table = Table::new(0..0);
        table.row(["x".repeat(100_000), "a\x1b[2J\nb".to_owned()]);
        let mut out = Vec::new();
        table.write(&mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert_eq!(out, format!("{}…  a [2J b\n", "x".repeat(1000)));
    }
}
