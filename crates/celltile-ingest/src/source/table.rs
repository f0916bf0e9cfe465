//! Tables of counts as text: CSV and TSV.

mod fields;
mod layout;

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use celltile::table::{Index, Table};
use rayon::prelude::*;
use serde_json::json;

use self::fields::Fields;
use self::layout::Layout;
pub(super) use self::layout::delimiter;
use super::features::text;
use super::mtx::fraction_note;
use super::names::{NamedBlocks, name_error};
use super::{CellAxis, MatrixChoice, NotCarried, Source, SourceInfo, SourceOptions};
use crate::error::{Error, Result, ValueError, ValueFault};
use crate::frame::ColumnChoice;
use crate::hdf5::StringColumn;
use crate::matrix::scatter::{Piece, Scatter, Scattered};
use crate::matrix::{CellBlocks, ReadOptions, Rounding, Shape};
use crate::text::{Batch, Lines, Number, TextFile, number};

/// Text that one thread reads at a time.
const PART: usize = 1 << 18;

/// A table of counts: a line of names, then a line a cell or a gene, its name first.
#[derive(Debug)]
pub struct TextTable {
    info: SourceInfo,
    file: TextFile,
    layout: Layout,
    cells_are_rows: bool,
    cells: StringColumn,
    genes: StringColumn,
    obs_choice: ColumnChoice,
    var_choice: ColumnChoice,
    /// The counts by cell, once they were read.
    kept: Mutex<Option<(Rounding, Arc<Scattered>)>>,
}

impl TextTable {
    /// Opens a table: goes once through its lines for their names.
    ///
    /// # Errors
    ///
    /// [`Error::Options`] if it was not said where the cells are; what is wrong with the file.
    pub fn open(path: impl AsRef<Path>, options: &SourceOptions) -> Result<Self> {
        Self::of(TextFile::open(path.as_ref())?, options)
    }

    pub(super) fn of(file: TextFile, options: &SourceOptions) -> Result<Self> {
        if let MatrixChoice::Path(path) = &options.matrix {
            let what = format!("{}: a table of text is one matrix; {path:?} cannot be chosen", file.name());
            return Err(Error::Options(what));
        }
        let layout = Layout::read(&file, &options.read)?;
        let Some(axis) = options.cells else {
            return Err(Error::Options(layout.question(&file)));
        };
        let (rows, columns) = (layout.rows.len() as u64, layout.columns.len() as u64);
        let cells_are_rows = axis == CellAxis::Rows;
        let (cells, genes) = if cells_are_rows {
            (layout.rows.clone(), layout.columns.clone())
        } else {
            (layout.columns.clone(), layout.rows.clone())
        };
        let shape = if cells_are_rows {
            Shape { cells: rows, genes: columns }
        } else {
            Shape { cells: columns, genes: rows }
        };
        if shape.genes == 0 {
            return Err(Error::Unsupported {
                file: file.name().to_owned(),
                at: if cells_are_rows { "line of names" } else { "lines" }.into(),
                what: "no genes; a dataset has at least one".into(),
            });
        }
        let mut recorded = options.recorded();
        recorded.insert("cells".into(), json!(if cells_are_rows { "rows" } else { "columns" }));
        let info = SourceInfo {
            file: file.name().to_owned(),
            bytes: file.size(),
            format: if layout.delimiter == b'\t' { "tsv" } else { "csv" },
            matrix: "table".into(),
            why: if cells_are_rows { "a row a cell".into() } else { "a column a cell".into() },
            encoding: "text",
            dtype: "int64".into(),
            shape,
            stored: None,
            dropped: Vec::new(),
            notes: layout.notes.clone(),
            options: recorded,
        };
        let (obs_choice, var_choice) = (options.obs.clone(), options.var.clone());
        let kept = Mutex::default();
        Ok(Self { info, file, layout, cells_are_rows, cells, genes, obs_choice, var_choice, kept })
    }

    fn scattered(&self, options: &ReadOptions) -> Result<Arc<Scattered>> {
        let mut kept = self.kept.lock().map_err(|_| Error::Cancelled)?;
        if let Some((rounding, scattered)) = kept.as_ref()
            && *rounding == options.rounding
        {
            return Ok(Arc::clone(scattered));
        }
        let scattered = self.read(options)?;
        *kept = Some((options.rounding, Arc::clone(&scattered)));
        Ok(scattered)
    }

    fn read(&self, options: &ReadOptions) -> Result<Arc<Scattered>> {
        let Shape { cells, genes } = self.info.shape;
        // A field and what separates it: two characters, and most hold a zero.
        let expected = cells.saturating_mul(genes).min(self.file.most_text() / 2) / 4;
        let at = ("table", self.file.name());
        let mut scatter = Scatter::new((at.1, at.0), 0..cells, genes, expected, options);
        let mut lines = Lines::open(&self.file, options)?;
        for _ in 0..self.layout.header_lines {
            lines.next_line()?;
        }
        let mut batch = Batch::default();
        let mut row = 0_u64;
        while lines.next_batch(&mut batch)? {
            let parts = batch.parts(PART);
            let rows: Vec<u64> = parts
                .iter()
                .map(|text| {
                    let first = row;
                    row += self::fields::filled_lines(text);
                    first
                })
                .collect();
            let at_once = rayon::current_num_threads().max(1) * 4;
            for (group, (texts, rows)) in parts.chunks(at_once).zip(rows.chunks(at_once)).enumerate() {
                let read: Vec<(Piece, Option<(usize, Fault)>)> = texts
                    .par_iter()
                    .zip(rows)
                    .map(|(text, &row)| {
                        let mut piece = scatter.piece();
                        let fault = self.lines(text, row, options.rounding, &mut piece);
                        (piece, fault)
                    })
                    .collect();
                for (at, (piece, fault)) in read.iter().enumerate() {
                    if let Some((place, fault)) = fault {
                        let (line, byte) = batch.place(&parts, group * at_once + at, *place);
                        return Err(self.error(fault, line, byte));
                    }
                    scatter.push(piece)?;
                }
            }
        }
        if row != self.layout.rows.len() as u64 {
            return Err(Error::Damaged {
                file: self.file.name().to_owned(),
                at: "table".into(),
                what: format!("changed while it was read: {row} rows, {} before", self.layout.rows.len()),
            });
        }
        Ok(scatter.finish())
    }

    /// Reads lines up to the first fault, and says where its line starts.
    fn lines(
        &self,
        text: &[u8],
        first: u64,
        rounding: Rounding,
        piece: &mut Piece,
    ) -> Option<(usize, Fault)> {
        let columns = self.layout.columns.len() as u64;
        let (mut row, mut start) = (first, 0);
        for line in text.split_inclusive(|&byte| byte == b'\n') {
            let place = start;
            start += line.len();
            let line = fields::content(line);
            if line.is_empty() {
                continue;
            }
            let mut fields = Fields::new(line, self.layout.delimiter);
            fields.next();
            let mut column = 0_u64;
            for field in fields {
                let Some(field) = field else {
                    return Some((place, Fault::Quotes));
                };
                if column < columns {
                    let (cell, gene) = if self.cells_are_rows { (row, column) } else { (column, row) };
                    match number(field.trim_ascii(), rounding) {
                        Number::Count(0) => {}
                        Number::Count(count) => {
                            piece.push(cell, u32::try_from(gene).unwrap_or(u32::MAX), count);
                        }
                        Number::Bad(kind) => {
                            let text = String::from_utf8_lossy(&field).into_owned();
                            return Some((place, Fault::Value { cell, gene, kind, text }));
                        }
                        Number::None => {
                            let text: String = String::from_utf8_lossy(&field).chars().take(40).collect();
                            return Some((place, Fault::Text { row, column, text }));
                        }
                    }
                }
                column += 1;
            }
            if column != columns {
                return Some((place, Fault::Length { row, found: column }));
            }
            row += 1;
        }
        None
    }

    fn error(&self, fault: &Fault, line: u64, byte: u64) -> Error {
        let file = self.file.name().to_owned();
        let at = format!("line {line} (byte {byte})");
        let name = |names: &StringColumn, at: u64| {
            usize::try_from(at).ok().and_then(|at| names.get(at)).unwrap_or_default().to_owned()
        };
        match fault {
            Fault::Value { cell, gene, kind, text } => Box::new(ValueError {
                file,
                matrix: at,
                cell: *cell,
                cell_name: None,
                gene: *gene,
                gene_name: None,
                kind: *kind,
                value: text.clone(),
                note: fraction_note(*kind).to_owned(),
            })
            .into(),
            Fault::Text { row, column, text } => Error::Damaged {
                file,
                at,
                what: format!(
                    "row {:?}, column {:?}: {text:?}; expected a count",
                    name(&self.layout.rows, *row),
                    name(&self.layout.columns, *column)
                ),
            },
            Fault::Length { row, found } => Error::Damaged {
                file,
                at,
                what: format!(
                    "row {:?}: {found} values; there are {} columns",
                    name(&self.layout.rows, *row),
                    self.layout.columns.len()
                ),
            },
            Fault::Quotes => {
                Error::Damaged { file, at, what: "a quote that is not closed on its line".into() }
            }
        }
    }
}

/// What is wrong with a line.
#[derive(Debug)]
enum Fault {
    Value { cell: u64, gene: u64, kind: ValueFault, text: String },
    Text { row: u64, column: u64, text: String },
    Length { row: u64, found: u64 },
    Quotes,
}

impl Source for TextTable {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn gene_names(&self) -> &StringColumn {
        &self.genes
    }

    fn var(&self) -> Result<Table> {
        names_table(&self.genes, &self.var_choice, &self.info.file, "var")
    }

    fn obs(&self) -> Result<Table> {
        names_table(&self.cells, &self.obs_choice, &self.info.file, "obs")
    }

    fn not_carried(&self) -> &[NotCarried] {
        &[]
    }

    fn by_gene(&self, _: &ReadOptions) -> bool {
        true
    }

    fn cells(&self, range: Range<u64>, options: &ReadOptions) -> Result<Box<dyn CellBlocks + '_>> {
        let name = |cell| self.cell_name(cell);
        let scattered = self.scattered(options).map_err(|error| name_error(error, &name, &self.genes))?;
        Ok(Box::new(NamedBlocks {
            inner: Box::new(scattered.cells(range, options)),
            cell_name: Box::new(name),
            genes: &self.genes,
            map: None,
        }))
    }

    fn cell_name(&self, cell: u64) -> Option<String> {
        self.cells.get(usize::try_from(cell).ok()?).map(str::to_owned)
    }
}

fn names_table(names: &StringColumn, choice: &ColumnChoice, file: &str, frame: &str) -> Result<Table> {
    choice.table(names.len(), Index::new(None, text(names)), Vec::new(), file, frame)
}
