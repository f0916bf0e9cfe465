//! Matrix Market files, alone or in the folders that 10x and others write.

mod entries;
mod folder;
mod header;

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use celltile::table::{Index, Table};
use serde_json::json;

use self::entries::Grid;
pub(super) use self::entries::fraction_note;
pub(super) use self::folder::{Found, beside, matrix_of};
use self::header::Header;
pub(super) use self::header::is_matrix_market;
use super::features::{Features, numbered, text};
use super::names::{NamedBlocks, name_error};
use super::{CellAxis, MatrixChoice, NotCarried, Source, SourceInfo, SourceOptions};
use crate::error::{Error, Result};
use crate::frame::ColumnChoice;
use crate::hdf5::StringColumn;
use crate::matrix::scatter::Scattered;
use crate::matrix::{CellBlocks, ReadOptions, Rounding, Shape};
use crate::text::{TextFile, read_list};

/// A Matrix Market file with the names of its cells and genes.
#[derive(Debug)]
pub struct MtxSource {
    info: SourceInfo,
    file: TextFile,
    header: Header,
    grid: Grid,
    trust_lines: bool,
    barcodes: Option<StringColumn>,
    features: Features,
    obs_choice: ColumnChoice,
    var_choice: ColumnChoice,
    /// The entries by cell, once they were read.
    kept: Mutex<Option<(Rounding, Arc<Scattered>)>>,
}

impl MtxSource {
    /// Opens a Matrix Market file, or the folder that it is in: the lists of names beside it say which way it lies.
    ///
    /// # Errors
    ///
    /// [`Error::Length`] if the lists do not fit the matrix, [`Error::Options`] if they leave open which way it lies,
    /// [`Error::Unsupported`] for kinds of matrices that hold no counts, and what is wrong with the files.
    pub fn open(path: impl AsRef<Path>, options: &SourceOptions) -> Result<Self> {
        Self::of(folder::find(path.as_ref(), options)?, options)
    }

    pub(super) fn of(found: Found, options: &SourceOptions) -> Result<Self> {
        let Found { matrix: file, barcodes, features, mut notes } = found;
        if let MatrixChoice::Path(path) = &options.matrix {
            let what =
                format!("{}: a Matrix Market file is one matrix; {path:?} cannot be chosen", file.name());
            return Err(Error::Options(what));
        }
        let header = Header::read(&file, options)?;
        let mut bytes = file.size();
        let mut list = |file: &Option<TextFile>, most: usize| -> Result<Option<Vec<StringColumn>>> {
            let Some(file) = file else { return Ok(None) };
            bytes = bytes.saturating_add(file.size());
            read_list(file, most, &options.read).map(Some)
        };
        let cell_lists = list(&barcodes, 1)?;
        let gene_lists = list(&features, 3)?;
        let cell_names = cell_lists.map(|lists| lists.into_iter().next().unwrap_or_default());
        let lists = Lists {
            barcodes: barcodes.as_ref().map(TextFile::name),
            features: features.as_ref().map(TextFile::name),
            cells: cell_names.as_ref().map(StringColumn::len),
            genes: gene_lists.as_ref().map(|lists| lists.first().map_or(0, StringColumn::len)),
        };
        let axis = lists.axis(&file, &header, options.cells)?;
        let shape = match axis {
            CellAxis::Rows => Shape { cells: header.rows, genes: header.columns },
            CellAxis::Columns => Shape { cells: header.columns, genes: header.rows },
        };
        if shape.genes == 0 {
            return Err(Error::Unsupported {
                file: file.name().to_owned(),
                at: "line of sizes".into(),
                what: "no genes; a dataset has at least one".into(),
            });
        }
        let numbers = || -> Result<Vec<StringColumn>> {
            let mut names = StringColumn::default();
            // Memory for names nobody wrote down: no more than the file could have entries for.
            if shape.genes > file.most_text().max(1 << 24) {
                return Err(Error::Unsupported {
                    file: file.name().to_owned(),
                    at: "line of sizes".into(),
                    what: format!("{} genes without names", shape.genes),
                });
            }
            (0..shape.genes).for_each(|gene| names.push(&gene.to_string()));
            Ok(vec![names])
        };
        if gene_lists.is_none() {
            notes.push("there is no list of genes: their positions, from 0, are their names".into());
        }
        if cell_names.is_none() {
            notes.push("there is no list of cells: their positions, from 0, are their names".into());
        }
        let named = gene_lists.is_some() && cell_names.is_some();
        let mut columns = gene_lists.map_or_else(numbers, Ok)?.into_iter();
        let at = features.as_ref().map_or(file.name(), TextFile::name).to_owned();
        let first = columns.next().unwrap_or_default();
        // One column is identifier and name in one.
        let (names, mut more) = match columns.next() {
            Some(names) => (names, vec![("gene_ids".to_owned(), first)]),
            None => (first, Vec::new()),
        };
        more.extend(columns.next().map(|types| ("feature_types".to_owned(), types)));
        let features = Features::new(&at, "list of genes", names, &more, options)?;
        let mut recorded = options.recorded();
        recorded.extend(features.options.clone());
        if options.cells.is_some() {
            recorded.insert("cells".into(), json!(if axis == CellAxis::Rows { "rows" } else { "columns" }));
        }
        for (given, name) in [
            (options.mtx_trust_lines, "mtx_trust_lines"),
            (options.mtx_pattern && header.pattern, "mtx_pattern"),
        ] {
            if given {
                recorded.insert(name.into(), json!(true));
            }
        }
        if file.packing() == crate::text::Packing::Plain
            && header.entries > 0
            && !file.ends_with_line_end()?
        {
            notes.push("its last line has no line end: make sure that the file was not cut off there".into());
        }
        let name = Path::new(file.name()).file_name().map(|name| name.to_string_lossy().into_owned());
        let info = SourceInfo {
            file: file.name().to_owned(),
            bytes,
            format: if named { "10x mtx" } else { "mtx" },
            matrix: name.unwrap_or_default(),
            why: match axis {
                CellAxis::Rows => "a row a cell".into(),
                CellAxis::Columns => "a column a cell".into(),
            },
            encoding: "coordinate",
            dtype: if header.real { "float64" } else { "int64" }.into(),
            shape: Shape { genes: features.names.len() as u64, ..shape },
            stored: Some(header.entries),
            dropped: features.dropped.clone(),
            notes,
            options: recorded,
        };
        let grid = Grid {
            rows: header.rows,
            columns: header.columns,
            cells_are_rows: axis == CellAxis::Rows,
            pattern: header.pattern,
        };
        Ok(Self {
            info,
            file,
            header,
            grid,
            trust_lines: options.mtx_trust_lines,
            barcodes: cell_names,
            features,
            obs_choice: options.obs.clone(),
            var_choice: options.var.clone(),
            kept: Mutex::default(),
        })
    }

    fn scattered(&self, options: &ReadOptions) -> Result<Arc<Scattered>> {
        let Ok(mut kept) = self.kept.lock() else {
            return entries::read(&self.file, &self.header, self.grid, self.trust_lines, options);
        };
        if let Some((rounding, scattered)) = kept.as_ref()
            && *rounding == options.rounding
        {
            return Ok(Arc::clone(scattered));
        }
        let scattered = entries::read(&self.file, &self.header, self.grid, self.trust_lines, options)?;
        *kept = Some((options.rounding, Arc::clone(&scattered)));
        Ok(scattered)
    }
}

/// The lists beside a matrix, and how long they are.
struct Lists<'a> {
    barcodes: Option<&'a str>,
    features: Option<&'a str>,
    cells: Option<usize>,
    genes: Option<usize>,
}

impl Lists<'_> {
    /// Which way the matrix lies, if there is one way only.
    fn axis(&self, file: &TextFile, header: &Header, asked: Option<CellAxis>) -> Result<CellAxis> {
        let fits = |cells: u64, genes: u64| {
            self.cells.is_none_or(|len| len as u64 == cells)
                && self.genes.is_none_or(|len| len as u64 == genes)
        };
        let columns = fits(header.columns, header.rows);
        let rows = fits(header.rows, header.columns);
        let size = format!("{} rows and {} columns", header.rows, header.columns);
        let known = self.cells.is_some() && self.genes.is_some();
        match (asked, columns, rows) {
            (Some(CellAxis::Columns), true, _) | (None, true, false) if known || asked.is_some() => {
                Ok(CellAxis::Columns)
            }
            (Some(CellAxis::Rows), _, true) | (None, false, true) if known || asked.is_some() => {
                Ok(CellAxis::Rows)
            }
            (_, false, false) | (Some(_), _, _) => {
                let line = |name: Option<&str>, len: Option<usize>, what: &str| match (name, len) {
                    (Some(name), Some(len)) => {
                        // One line too many is a line of headings, mostly.
                        let one = (header.rows + 1 == len as u64) || (header.columns + 1 == len as u64);
                        let hint = if one { ", one more: is its first line a heading?" } else { "" };
                        format!("{name} has {len} {what}{hint}")
                    }
                    _ => format!("no list of {what} was found"),
                };
                let said = match asked {
                    Some(CellAxis::Rows) => " with the cells in rows, as asked",
                    Some(CellAxis::Columns) => " with the cells in columns, as asked",
                    None => "",
                };
                Err(Error::Length {
                    file: file.name().to_owned(),
                    at: "line of sizes".into(),
                    found: format!("{size}{said}"),
                    expected: format!(
                        "{}; {}",
                        line(self.barcodes, self.cells, "cells"),
                        line(self.features, self.genes, "genes")
                    ),
                })
            }
            (None, _, _) if known => Err(Error::Options(format!(
                "{}: {size}, as many as cells and genes: nothing says which are the cells; say it with --cells rows or \
                 --cells columns",
                file.name()
            ))),
            (None, _, _) => {
                let missing = match (self.cells, self.genes) {
                    (None, None) => "barcodes.tsv and features.tsv (or genes.tsv), plain or compressed, are",
                    (None, _) => "barcodes.tsv, plain or compressed, is",
                    _ => "features.tsv or genes.tsv, plain or compressed, is",
                };
                Err(Error::Missing {
                    file: file.name().to_owned(),
                    at: "list of names beside it".into(),
                    hint: format!(
                        ": {missing} missing; --cells rows or --cells columns takes the matrix ({size}) without"
                    ),
                })
            }
        }
    }
}

impl Source for MtxSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn gene_names(&self) -> &StringColumn {
        &self.features.names
    }

    fn gene_ids(&self) -> Option<&StringColumn> {
        self.features.ids()
    }

    fn var(&self) -> Result<Table> {
        self.features.table(&self.info.file, &self.var_choice)
    }

    fn obs(&self) -> Result<Table> {
        let cells = usize::try_from(self.info.shape.cells).unwrap_or(usize::MAX);
        let names = self.barcodes.as_ref().map_or_else(|| numbered(cells), text);
        self.obs_choice.table(cells, Index::new(None, names), Vec::new(), &self.info.file, "obs")
    }

    fn not_carried(&self) -> &[NotCarried] {
        &[]
    }

    fn by_gene(&self, _: &ReadOptions) -> bool {
        true
    }

    fn cells(&self, range: Range<u64>, options: &ReadOptions) -> Result<Box<dyn CellBlocks + '_>> {
        let name = |cell| self.cell_name(cell);
        let scattered =
            self.scattered(options).map_err(|error| name_error(error, &name, &self.features.all))?;
        Ok(Box::new(NamedBlocks {
            inner: Box::new(scattered.cells(range, options)),
            cell_name: Box::new(name),
            genes: &self.features.all,
            map: self.features.map.as_deref(),
        }))
    }

    fn cell_name(&self, cell: u64) -> Option<String> {
        self.barcodes.as_ref()?.get(usize::try_from(cell).ok()?).map(str::to_owned)
    }
}
