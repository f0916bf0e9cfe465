use std::ops::Range;

use celltile::table::{Column, Index, Table, Values};

use super::features::{numbered, text};
use super::names::{NamedBlocks, name_error};
use super::{MatrixChoice, NotCarried, Source, SourceInfo, SourceOptions};
use crate::error::{BadColumn, Error, Result};
use crate::frame::{ColumnChoice, display_strings, plain};
use crate::hdf5::{Dtype, File, StringColumn};
use crate::matrix::{CellBlocks, GeneRows, Matrix, ReadOptions, Shape};
use crate::tree::{Group, Node};

/// Names that attributes with the names of genes go by.
const GENES: [&str; 5] = ["Gene", "var_names", "gene_names", "GeneName", "gene"];
/// Names that attributes with the identifiers of genes go by.
const GENE_IDS: [&str; 4] = ["Accession", "gene_ids", "GeneID", "EnsemblID"];
/// Names that attributes with the names of cells go by.
const CELLS: [&str; 5] = ["CellID", "obs_names", "cell_names", "cell_id", "barcode"];

/// A loom file: a matrix of genes by cells, layers of the same shape, attributes of both.
#[derive(Debug)]
pub struct LoomSource {
    info: SourceInfo,
    matrix: Matrix,
    genes: Attributes,
    cells: Attributes,
    gene_names: StringColumn,
    gene_ids: Option<StringColumn>,
    obs_choice: ColumnChoice,
    var_choice: ColumnChoice,
    not_carried: Vec<NotCarried>,
}

/// Attributes of the cells or of the genes.
#[derive(Debug)]
struct Attributes {
    group: Option<Group>,
    rows: u64,
    /// The one that holds the names.
    index: Option<String>,
    columns: Vec<String>,
}

impl LoomSource {
    /// Whether an HDF5 file is a loom file.
    pub(super) fn is_one(file: &File) -> Result<bool> {
        let root = Group::of_file(file)?;
        let matrix = matches!(root.find("matrix")?, Some(Node::Dataset(matrix)) if matrix.shape().len() == 2);
        let attributes =
            |name: &str| -> Result<bool> { Ok(matches!(root.find(name)?, Some(Node::Group(_)))) };
        Ok(matrix && (attributes("row_attrs")? || attributes("col_attrs")?))
    }

    /// Opens a file.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] for a matrix that is not there, [`Error::Length`] where attributes do not fit it.
    pub fn open(file: &File, options: &SourceOptions) -> Result<Self> {
        let root = Group::of_file(file)?;
        let mut there = vec!["matrix".to_owned()];
        if let Some(Node::Group(layers)) = root.find("layers")? {
            there.extend(layers.members()?.into_iter().map(|(name, _)| format!("layers/{name}")));
        }
        let (path, why) = match &options.matrix {
            MatrixChoice::Auto if there.len() > 1 => ("matrix".to_owned(), "the main matrix".to_owned()),
            MatrixChoice::Auto => ("matrix".to_owned(), String::new()),
            MatrixChoice::Path(path) => (path.trim_matches('/').to_owned(), "asked for".to_owned()),
        };
        let main = root.dataset("matrix")?;
        let &[n_genes, n_cells] = main.shape() else {
            return Err(main.damaged(format!("shape {:?}; expected genes by cells", main.shape())));
        };
        let shape = Shape { cells: n_cells, genes: n_genes };
        let values = match root.find(&path)? {
            Some(Node::Dataset(values)) if there.contains(&path) => values,
            _ => {
                let hint = format!("; available: {}", there.join(", "));
                return Err(Error::Missing { file: file.name().to_owned(), at: path, hint });
            }
        };
        if shape.genes == 0 {
            return Err(values.unsupported("no genes; a dataset has at least one"));
        }
        let matrix = Matrix::GeneRows(GeneRows::new(values, shape)?);
        let mut not_carried = Vec::new();
        let genes = Attributes::open(&root, "row_attrs", n_genes, &GENES, &mut not_carried)?;
        let cells = Attributes::open(&root, "col_attrs", n_cells, &CELLS, &mut not_carried)?;
        let mut notes = Vec::new();
        let gene_names = genes.names()?.unwrap_or_else(|| {
            notes.push(
                "no attribute of the genes holds names: their positions, from 0, are their names".into(),
            );
            let numbers: Vec<String> = (0..n_genes.min(1 << 24)).map(|gene| gene.to_string()).collect();
            numbers.iter().map(String::as_str).collect()
        });
        if cells.index.is_none() {
            notes.push(
                "no attribute of the cells holds names: their positions, from 0, are their names".into(),
            );
        }
        if gene_names.len() as u64 != n_genes {
            return Err(Error::Unsupported {
                file: file.name().to_owned(),
                at: "row_attrs".into(),
                what: format!("{n_genes} genes without names"),
            });
        }
        let gene_ids = match GENE_IDS.iter().find(|name| genes.columns.iter().any(|column| column == *name)) {
            Some(name) => genes.strings(name)?,
            None => None,
        };
        for other in there.iter().filter(|other| **other != path) {
            not_carried.push(NotCarried {
                path: other.clone(),
                shape: vec![n_genes, n_cells],
                what: "matrix of genes by cells".into(),
            });
        }
        for name in ["row_graphs", "col_graphs"] {
            if let Some(Node::Group(graphs)) = root.find(name)? {
                for (graph, _) in graphs.members()? {
                    let (path, what) = (format!("{name}/{graph}"), "graph".into());
                    not_carried.push(NotCarried { path, shape: Vec::new(), what });
                }
            }
        }
        let info = SourceInfo {
            file: file.name().to_owned(),
            bytes: file.size(),
            format: "loom",
            encoding: matrix.encoding(),
            dtype: matrix.dtype().to_string(),
            shape,
            stored: None,
            why,
            dropped: Vec::new(),
            notes,
            options: options.recorded(),
            matrix: path,
        };
        let (obs_choice, var_choice) = (options.obs.clone(), options.var.clone());
        Ok(Self { info, matrix, genes, cells, gene_names, gene_ids, obs_choice, var_choice, not_carried })
    }
}

impl Attributes {
    fn open(
        root: &Group,
        name: &str,
        rows: u64,
        names: &[&str],
        not_carried: &mut Vec<NotCarried>,
    ) -> Result<Self> {
        let Some(Node::Group(group)) = root.find(name)? else {
            return Ok(Self { group: None, rows, index: None, columns: Vec::new() });
        };
        let mut columns = Vec::new();
        for (attribute, _) in group.members()? {
            match group.child(&attribute)? {
                Some(Node::Dataset(dataset)) if dataset.shape().len() == 1 => {
                    if dataset.shape() != [rows] {
                        return Err(Error::Length {
                            file: group.file_name().to_owned(),
                            at: dataset.path().to_owned(),
                            found: format!("{} values", dataset.len_1d()?),
                            expected: format!("the matrix has {rows} of them"),
                        });
                    }
                    columns.push(attribute);
                }
                Some(Node::Dataset(dataset)) => not_carried.push(NotCarried {
                    path: dataset.path().to_owned(),
                    shape: dataset.shape().to_vec(),
                    what: dataset.dtype().to_string(),
                }),
                Some(Node::Group(inner)) => {
                    let (path, what) = (inner.path().to_owned(), "group".into());
                    not_carried.push(NotCarried { path, shape: Vec::new(), what });
                }
                None => {}
            }
        }
        let index = names.iter().find(|name| columns.iter().any(|column| column == *name));
        let index = index.map(|name| (*name).to_owned());
        Ok(Self { group: Some(group), rows, index, columns })
    }

    fn values(&self, name: &str) -> Result<Values, String> {
        let group = self.group.as_ref().ok_or("no attributes")?;
        let dataset = group.dataset(name).map_err(|error| error.to_string())?;
        plain(&dataset)
    }

    fn strings(&self, name: &str) -> Result<Option<StringColumn>> {
        let Some(group) = &self.group else { return Ok(None) };
        let dataset = group.dataset(name)?;
        match dataset.dtype() {
            Dtype::VarString | Dtype::FixedString { .. } => dataset.strings().map(Some),
            _ => {
                let values = plain(&dataset).map_err(|what| dataset.damaged(what))?;
                Ok(Some(display_strings(&values)))
            }
        }
    }

    fn names(&self) -> Result<Option<StringColumn>> {
        self.index.as_ref().map_or(Ok(None), |index| self.strings(index))
    }

    fn table(&self, file: &str, frame: &str, choice: &ColumnChoice) -> Result<Table> {
        let (mut columns, mut bad) = (Vec::new(), Vec::new());
        for name in
            self.columns.iter().filter(|name| Some(*name) != self.index.as_ref() && choice.takes(name))
        {
            match self.values(name) {
                Ok(values) => columns.push(Column::new(name.clone(), values)),
                Err(why) => bad.push(BadColumn { frame: frame.to_owned(), name: name.clone(), why }),
            }
        }
        if !bad.is_empty() {
            return Err(Error::Columns { file: file.to_owned(), columns: bad });
        }
        let rows = usize::try_from(self.rows).unwrap_or(usize::MAX);
        let names = self.names()?.map_or_else(|| numbered(rows), |names| text(&names));
        choice.table(rows, Index::new(self.index.clone(), names), columns, file, frame)
    }
}

impl Source for LoomSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn gene_names(&self) -> &StringColumn {
        &self.gene_names
    }

    fn gene_ids(&self) -> Option<&StringColumn> {
        self.gene_ids.as_ref()
    }

    fn var(&self) -> Result<Table> {
        self.genes.table(&self.info.file, "var", &self.var_choice)
    }

    fn obs(&self) -> Result<Table> {
        self.cells.table(&self.info.file, "obs", &self.obs_choice)
    }

    fn not_carried(&self) -> &[NotCarried] {
        &self.not_carried
    }

    fn by_gene(&self, options: &ReadOptions) -> bool {
        self.matrix.by_gene(options)
    }

    fn cells(&self, range: Range<u64>, options: &ReadOptions) -> Result<Box<dyn CellBlocks + '_>> {
        let name = |cell| self.cell_name(cell);
        let inner = self.matrix.cells(range, options);
        Ok(Box::new(NamedBlocks {
            inner: inner.map_err(|error| name_error(error, &name, &self.gene_names))?,
            cell_name: Box::new(name),
            genes: &self.gene_names,
            map: None,
        }))
    }

    fn cell_name(&self, cell: u64) -> Option<String> {
        let names = self.cells.names().ok()??;
        names.get(usize::try_from(cell).ok()?).map(str::to_owned)
    }
}
