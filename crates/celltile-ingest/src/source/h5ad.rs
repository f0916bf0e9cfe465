use std::ops::Range;

use celltile::table::Table;
use serde_json::json;

use super::names::{NamedBlocks, name_error};
use super::{NotCarried, Source, SourceInfo, SourceOptions, not_carried, pick};
use crate::error::{Error, Result};
use crate::frame::{ColumnChoice, Frame};
use crate::hdf5::{File, StringColumn};
use crate::matrix::{CellBlocks, Matrix, ReadOptions, Shape};
use crate::tree::Tree;

/// An h5ad file of any version of anndata, or another container of the same layout.
#[derive(Debug)]
pub struct H5adSource {
    info: SourceInfo,
    matrix: Matrix,
    obs: Frame,
    var: Frame,
    obs_choice: ColumnChoice,
    var_choice: ColumnChoice,
    genes: StringColumn,
    not_carried: Vec<NotCarried>,
}

impl H5adSource {
    /// Opens a file: lengths of all axes are compared, and the matrix is chosen. The frame of `raw` goes with its matrix.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] if there is no such matrix, naming those that there are; [`Error::Length`];
    /// [`Error::Unsupported`] if there are no genes, or no matrix holds counts.
    pub fn open(file: &File, options: &SourceOptions) -> Result<Self> {
        Self::from_tree(&Tree::of_file(file)?, options)
    }

    /// Opens a modality of an h5mu file, which is what an h5ad file would hold. `all` names all there are.
    ///
    /// # Errors
    ///
    /// As [`H5adSource::open`].
    pub fn open_modality(file: &File, name: &str, all: &str, options: &SourceOptions) -> Result<Self> {
        let mut source = Self::from_tree(&Tree::of_modality(file, name)?, options)?;
        if all == name {
            source.info.notes.push(format!("{name} is the only modality"));
        } else {
            source.info.notes.push(format!("modality {name} of {all}; the others are not carried"));
        }
        source.info.options.insert("modality".into(), json!(name));
        Ok(source)
    }

    /// Opens a container in the layout of h5ad files.
    ///
    /// # Errors
    ///
    /// As [`H5adSource::open`].
    pub fn from_tree(file: &Tree, options: &SourceOptions) -> Result<Self> {
        let obs = Frame::open(file, "obs", "obs")?;
        let shape_of = |path: &str| -> Result<Shape> {
            Ok(Shape { cells: obs.rows(), genes: Frame::open(file, var_path(path), "var")?.rows() })
        };
        let picked = pick::pick(file, &options.matrix, &options.read, &shape_of)?;
        let var = Frame::open(file, var_path(&picked.path), "var")?;
        let shape = picked.matrix.shape();
        if shape.genes == 0 {
            return Err(Error::Unsupported {
                file: file.name().to_owned(),
                at: picked.path,
                what: "no genes; a dataset has at least one".into(),
            });
        }
        let info = SourceInfo {
            file: file.name().to_owned(),
            bytes: file.size(),
            format: file.format(),
            encoding: picked.matrix.encoding(),
            dtype: picked.matrix.dtype().to_string(),
            shape,
            stored: picked.matrix.stored(),
            why: picked.why,
            dropped: Vec::new(),
            notes: Vec::new(),
            options: options.recorded(),
            matrix: picked.path,
        };
        let mut notes = Vec::new();
        if let Some(kinds) = several_types(&var) {
            notes.push(format!(
                "var says that there are features of several types ({kinds}); all are carried"
            ));
        }
        let info = SourceInfo { notes, ..info };
        let genes = var.names()?;
        let not_carried = not_carried::list(file, &info.matrix)?;
        let (obs_choice, var_choice) = (options.obs.clone(), options.var.clone());
        Ok(Self { info, matrix: picked.matrix, obs, var, obs_choice, var_choice, genes, not_carried })
    }

    /// Names of the columns of obs.
    pub fn obs_columns(&self) -> &[String] {
        self.obs.columns()
    }
}

/// The types of features, where var has a column of them that holds several.
fn several_types(var: &Frame) -> Option<String> {
    let choice = ColumnChoice { columns: Some(vec!["feature_types".into()]), ..ColumnChoice::default() };
    let table = var.table(&choice).ok()?;
    let kinds = crate::frame::display_strings(table.column("feature_types")?.values());
    let kinds: std::collections::BTreeSet<&str> = kinds.iter().collect();
    (kinds.len() > 1).then(|| kinds.into_iter().take(8).collect::<Vec<_>>().join(", "))
}

fn var_path(matrix: &str) -> &'static str {
    match matrix {
        "raw/X" => "raw/var",
        "raw.X" => "raw.var",
        _ => "var",
    }
}

impl Source for H5adSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn gene_names(&self) -> &StringColumn {
        &self.genes
    }

    fn var(&self) -> Result<Table> {
        self.var.table(&self.var_choice)
    }

    fn obs(&self) -> Result<Table> {
        self.obs.table(&self.obs_choice)
    }

    fn not_carried(&self) -> &[NotCarried] {
        &self.not_carried
    }

    fn by_gene(&self, options: &ReadOptions) -> bool {
        self.matrix.by_gene(options)
    }

    fn cells(&self, range: Range<u64>, options: &ReadOptions) -> Result<Box<dyn CellBlocks + '_>> {
        Ok(Box::new(NamedBlocks {
            inner: self
                .matrix
                .cells(range, options)
                .map_err(|error| name_error(error, &|cell| self.cell_name(cell), &self.genes))?,
            cell_name: Box::new(|cell| self.cell_name(cell)),
            genes: &self.genes,
            map: None,
        }))
    }

    fn cell_name(&self, cell: u64) -> Option<String> {
        let names = self.obs.names().ok()?;
        names.get(usize::try_from(cell).ok()?).map(str::to_owned)
    }
}
