use std::sync::Arc;

use rayon::prelude::*;

use super::header::Header;
use crate::error::{Error, Result, ValueError, ValueFault};
use crate::matrix::scatter::{Piece, Scatter, Scattered};
use crate::matrix::{ReadOptions, Rounding};
use crate::text::{Batch, Lines, Number, TextFile, digits, number};

/// Text that one thread reads at a time.
const PART: usize = 1 << 18;

/// How lines of entries are understood.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    pub(super) rows: u64,
    pub(super) columns: u64,
    pub(super) cells_are_rows: bool,
    pub(super) pattern: bool,
}

/// What a part of the text held: its entries, how many, and the first fault with the place of its line.
type Part = (Piece, u64, Option<(usize, Fault)>);

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq)]
enum Fault {
    /// Not three numbers, or a position that is not in the matrix.
    Line(String),
    /// A value that is no count.
    Value { cell: u64, gene: u64, kind: ValueFault, text: String },
}

/// Reads all entries and sorts them by cell, in bounded memory.
pub(super) fn read(
    file: &TextFile,
    header: &Header,
    grid: Grid,
    trust_lines: bool,
    options: &ReadOptions,
) -> Result<Arc<Scattered>> {
    let (cells, genes) =
        if grid.cells_are_rows { (grid.rows, grid.columns) } else { (grid.columns, grid.rows) };
    // A line has at least four characters; what is declared is only a hint.
    let expected = header.entries.min(file.most_text() / 4);
    let mut scatter = Scatter::new((file.name(), "its entries"), 0..cells, genes, expected, options);
    let mut lines = Lines::open(file, options)?;
    for _ in 0..header.lines {
        lines.next_line()?;
    }
    let mut batch = Batch::default();
    let mut found = 0_u64;
    while lines.next_batch(&mut batch)? {
        let parts = batch.parts(PART);
        for (first, group) in parts.chunks(rayon::current_num_threads().max(1) * 4).enumerate() {
            let first = first * rayon::current_num_threads().max(1) * 4;
            let read: Vec<Part> = group
                .par_iter()
                .map(|text| {
                    let mut piece = scatter.piece();
                    let (entries, fault) = entries(text, grid, options.rounding, &mut piece);
                    (piece, entries, fault)
                })
                .collect();
            for (at, (piece, entries, fault)) in read.iter().enumerate() {
                let after = found.saturating_add(*entries);
                if after > header.entries && !trust_lines {
                    let extra = header.entries - found;
                    let text = parts.get(first + at).copied().unwrap_or_default();
                    let (line, byte) = batch.place(&parts, first + at, nth_entry(text, extra));
                    return Err(Error::Damaged {
                        file: file.name().to_owned(),
                        at: format!("line {line} (byte {byte})"),
                        what: format!(
                            "more than the {} entries that are declared; --mtx-trust-lines takes all lines",
                            header.entries
                        ),
                    });
                }
                found = after;
                if let Some((place, fault)) = fault {
                    let (line, byte) = batch.place(&parts, first + at, *place);
                    return Err(fault.clone().error(file, line, byte));
                }
                scatter.push(piece)?;
            }
        }
    }
    if found != header.entries && !trust_lines {
        return Err(Error::Damaged {
            file: file.name().to_owned(),
            at: format!("end (byte {} of its text)", lines.offset()),
            what: format!(
                "{} entries are declared, {found} are there: cut off, or counted wrongly; --mtx-trust-lines takes those \
                 that are there",
                header.entries
            ),
        });
    }
    Ok(scatter.finish())
}

impl Fault {
    fn error(self, file: &TextFile, line: u64, byte: u64) -> Error {
        let (file, at) = (file.name().to_owned(), format!("line {line} (byte {byte})"));
        match self {
            Self::Line(what) => Error::Damaged { file, at, what },
            Self::Value { cell, gene, kind, text } => Box::new(ValueError {
                file,
                matrix: at,
                cell,
                cell_name: None,
                gene,
                gene_name: None,
                kind,
                value: text,
                note: fraction_note(kind).to_owned(),
            })
            .into(),
        }
    }
}

/// What lets a value through.
pub(in crate::source) fn fraction_note(kind: ValueFault) -> &'static str {
    if kind == ValueFault::Fractional {
        "; round=nearest or round=floor lets fractional values through"
    } else {
        ""
    }
}

/// The start of a line, for messages.
fn shown(line: &[u8]) -> String {
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or(&[]);
    let text = String::from_utf8_lossy(line.get(..60).unwrap_or(line));
    format!("{:?}", text.trim_end())
}

fn blanks(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'\r', after @ ..] = text {
        text = after;
    }
    text
}

fn next_line(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|&byte| byte == b'\n');
    end.and_then(|end| text.get(end + 1..)).unwrap_or(&[])
}

/// Where the entry after `count` others starts.
fn nth_entry(text: &[u8], count: u64) -> usize {
    let (mut rest, mut seen) = (text, 0);
    while !rest.is_empty() {
        if !matches!(blanks(rest), [] | [b'\n' | b'%', ..]) {
            if seen == count {
                break;
            }
            seen += 1;
        }
        rest = next_line(rest);
    }
    text.len() - rest.len()
}

/// Reads entries up to the first fault: how many there were, and where the fault's line starts.
fn entries(text: &[u8], grid: Grid, rounding: Rounding, piece: &mut Piece) -> (u64, Option<(usize, Fault)>) {
    let mut rest = text;
    let mut count = 0;
    loop {
        let line = rest;
        rest = blanks(rest);
        match rest {
            [] => return (count, None),
            [b'\n', after @ ..] => {
                rest = after;
                continue;
            }
            [b'%', ..] => {
                rest = next_line(rest);
                continue;
            }
            _ => {}
        }
        match entry(rest, grid, rounding, piece) {
            Ok(after) => rest = after,
            Err(fault) => {
                let fault = fault.unwrap_or_else(|| {
                    let wanted = if grid.pattern { "row and column" } else { "row, column and value" };
                    Fault::Line(format!("{}; expected {wanted}", shown(line)))
                });
                return (count, Some((text.len() - line.len(), fault)));
            }
        }
        count += 1;
    }
}

/// Reads an entry, and gives what follows its line.
#[inline]
fn entry<'a>(
    text: &'a [u8],
    grid: Grid,
    rounding: Rounding,
    piece: &mut Piece,
) -> Result<&'a [u8], Option<Fault>> {
    let (Some(row), after) = digits(text) else { return Err(None) };
    let after_blanks = blanks(after);
    if after_blanks.len() == after.len() {
        return Err(None);
    }
    let (Some(column), after) = digits(after_blanks) else { return Err(None) };
    for (what, place, limit) in [("row", row, grid.rows), ("column", column, grid.columns)] {
        if place == 0 {
            return Err(Some(Fault::Line(format!("{what} 0; they count from 1"))));
        }
        if place > limit {
            return Err(Some(Fault::Line(format!("{what} {place}; there are {limit} {what}s"))));
        }
    }
    let (cell, gene) = if grid.cells_are_rows { (row - 1, column - 1) } else { (column - 1, row - 1) };
    let (count, after) = if grid.pattern {
        (1, after)
    } else {
        let start = blanks(after);
        if start.len() == after.len() {
            return Err(None);
        }
        let end = start.iter().position(|&byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
        let (value, after) = start.split_at(end.unwrap_or(start.len()));
        match number(value, rounding) {
            Number::Count(count) => (count, after),
            Number::Bad(kind) => {
                let text = String::from_utf8_lossy(value).into_owned();
                return Err(Some(Fault::Value { cell, gene, kind, text }));
            }
            Number::None => return Err(None),
        }
    };
    let after = match blanks(after) {
        [] => &[],
        [b'\n', after @ ..] => after,
        _ => return Err(None),
    };
    piece.push(cell, u32::try_from(gene).unwrap_or(u32::MAX), count);
    Ok(after)
}
