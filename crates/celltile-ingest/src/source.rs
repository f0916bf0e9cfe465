//! Where cells come from: one trait, one module a kind of file.

mod features;
mod h5ad;
mod joined;
mod loom;
mod mtx;
mod names;
mod not_carried;
mod pick;
mod prefixed;
mod remote;
mod sniff;
mod table;
mod tenx;
mod tiles;

use std::fmt::Debug;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use celltile::storage::RemoteOptions;
use celltile::table::Table;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::Result;
use crate::frame::{ColumnChoice, Datetimes};
use crate::hdf5::StringColumn;
use crate::matrix::{CellBlocks, ReadOptions, Shape};

pub use h5ad::H5adSource;
pub use loom::LoomSource;
pub use mtx::MtxSource;
pub use not_carried::NotCarried;
pub use table::TextTable;
pub use tenx::TenxSource;
pub use tiles::TilesSource;
pub(crate) use tiles::gene_ids;

/// What there is to know about a source before its cells are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceInfo {
    /// The file, as the caller named it.
    pub file: String,
    /// Bytes in it.
    pub bytes: u64,
    /// The kind of file: `h5ad`, `h5mu`, `10x v2`, `10x v3`, `10x mtx`, `mtx`, `loom`, `csv`, `tsv`, `deltacells`.
    pub format: &'static str,
    /// The matrix that is read: a path in the file.
    pub matrix: String,
    /// Why it was chosen, where there was a choice.
    pub why: String,
    /// How it is stored: `csr`, `csc`, `dense`, `coordinate` or `text`. All but `csr` have to be sorted by cell first.
    pub encoding: &'static str,
    /// NumPy's name of the type of its values.
    pub dtype: String,
    /// Cells and genes; genes that are dropped are not counted.
    pub shape: Shape,
    /// Entries stored, explicit zeros included; `None` for a dense matrix.
    pub stored: Option<u64>,
    /// What the reader left out, in words: feature types and how many of each.
    pub dropped: Vec<String>,
    /// What people should know of how the input was understood, a sentence each.
    pub notes: Vec<String>,
    /// Options that change what is read, by name: they belong into the dataset's metadata.
    pub options: Map<String, Value>,
}

/// How to open a source. What is serialised is what other processes need to open it in the same way.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceOptions {
    /// The matrix to read.
    pub matrix: MatrixChoice,
    /// The modality to read of an h5mu file with several.
    pub modality: Option<String>,
    /// The genome to read of a 10x file with several; `all` reads one after the other.
    pub genome: Option<String>,
    /// Feature types to keep of a 10x file; `Gene Expression` if `None`. `all` keeps every one.
    pub feature_types: Option<Vec<String>>,
    /// Where the cells of a table of text are; also of a Matrix Market file whose lists leave it open.
    pub cells: Option<CellAxis>,
    /// Whether the number of entries that a Matrix Market file declares need not be the number that it has.
    pub mtx_trust_lines: bool,
    /// Whether a Matrix Market file without values (`pattern`) is read as counts of 1.
    pub mtx_pattern: bool,
    /// Put before every cell's name; `{source}` in it stands for what the input is called, as in
    /// the column `source`: by itself, the end of its path.
    pub obs_names_prefix: Option<String>,
    /// Columns of obs to carry.
    pub obs: ColumnChoice,
    /// Columns of var to carry.
    pub var: ColumnChoice,
    /// Whether to open the file although another process holds its lock.
    pub ignore_lock: bool,
    /// Memory, rounding and the flag to stop, also for looking at samples.
    #[serde(skip)]
    pub read: ReadOptions,
    /// How inputs at URLs are asked for.
    #[serde(skip)]
    pub remote: RemoteOptions,
    /// Kinds of inputs that other crates read; asked first, in order.
    #[serde(skip)]
    pub openers: Vec<Arc<dyn Opener>>,
}

/// Recognises and opens inputs of one kind; for kinds that other crates read.
pub trait Opener: Debug + Send + Sync {
    /// The input, if what is at `path` (a path or a URL) is of this kind by its content.
    ///
    /// # Errors
    ///
    /// What is wrong with an input of this kind.
    fn open(&self, path: &Path, options: &SourceOptions) -> Result<Option<Box<dyn Source>>>;
}

/// Where the cells of a table are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CellAxis {
    /// A row a cell.
    Rows,
    /// A column a cell.
    Columns,
}

/// Which matrix of a file to read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MatrixChoice {
    /// The first of `raw/X`, `layers/counts` and `X` that holds counts, on a sample.
    #[default]
    Auto,
    /// The one at this path: `X`, `raw/X`, `layers/NAME`.
    Path(String),
}

/// Cells of one input, with their genes and what is known of both.
pub trait Source: Send + Sync {
    /// What there is to know without reading the cells.
    fn info(&self) -> &SourceInfo;

    /// Names of the genes, in the source's order.
    fn gene_names(&self) -> &StringColumn;

    /// Identifiers of the genes, in the source's order, where the kind of input keeps them apart from names (10x).
    fn gene_ids(&self) -> Option<&StringColumn> {
        None
    }

    /// The column of obs that says which input a cell is from, of a dataset that was made of several.
    fn source_column(&self) -> Option<&str> {
        None
    }

    /// The gene table, in the source's order.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Columns`] with every column that a dataset cannot hold, or what is wrong with the file.
    fn var(&self) -> Result<Table>;

    /// The cell table.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Columns`] with every column that a dataset cannot hold, or what is wrong with the file.
    fn obs(&self) -> Result<Table>;

    /// Metadata of its own that a dataset of this input alone carries on.
    fn metadata(&self) -> Map<String, Value> {
        Map::new()
    }

    /// What the file holds that a dataset does not.
    fn not_carried(&self) -> &[NotCarried];

    /// Whether cells are put together from genes when they are read like this: then to read some of them is to go through all.
    fn by_gene(&self, options: &ReadOptions) -> bool;

    /// The cells of a range, in blocks. May be called again: each call reads the file once more.
    ///
    /// # Errors
    ///
    /// Whatever is wrong with the matrix as a whole.
    fn cells(&self, range: Range<u64>, options: &ReadOptions) -> Result<Box<dyn CellBlocks + '_>>;

    /// The name of a cell, for messages.
    fn cell_name(&self, cell: u64) -> Option<String>;
}

/// Opens a file as what its content says it is.
///
/// # Errors
///
/// [`crate::Error::NotRecognised`] for a file of another kind, with advice where the kind is known; what the opening of
/// that kind says.
pub fn open(path: impl AsRef<Path>, options: &SourceOptions) -> Result<Box<dyn Source>> {
    let path = path.as_ref();
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    open_as(path, &name, options)
}

/// Opens an input that is called `name` where there are several.
pub(crate) fn open_as(
    path: impl AsRef<Path>,
    name: &str,
    options: &SourceOptions,
) -> Result<Box<dyn Source>> {
    let source = open_one(path.as_ref(), options)?;
    Ok(match options.obs_names_prefix.as_deref() {
        None | Some("") => source,
        Some(prefix) => Box::new(prefixed::Prefixed::new(source, prefix.replace("{source}", name))),
    })
}

fn open_one(path: &Path, options: &SourceOptions) -> Result<Box<dyn Source>> {
    for opener in &options.openers {
        if let Some(source) = opener.open(path, options)? {
            return Ok(source);
        }
    }
    sniff::open(path, options)
}

impl SourceOptions {
    /// The options for any kind of input that change what is read, by name, for [`SourceInfo::options`].
    pub fn recorded(&self) -> Map<String, Value> {
        let mut recorded = Map::new();
        if self.obs.mixed_as_text {
            recorded.insert("obs_mixed".into(), json!("string"));
        }
        match self.obs.datetimes {
            Datetimes::Refuse => None,
            Datetimes::IsoString => recorded.insert("obs_datetime".into(), json!("iso-string")),
            Datetimes::Nanoseconds => recorded.insert("obs_datetime".into(), json!("int64-ns")),
        };
        if !self.obs.as_category.is_empty() {
            recorded.insert("obs_as_category".into(), json!(self.obs.as_category));
        }
        if let Some(columns) = &self.obs.columns {
            recorded.insert("obs_columns".into(), json!(columns));
        }
        if !self.obs.exclude.is_empty() {
            recorded.insert("obs_exclude".into(), json!(self.obs.exclude));
        }
        if !self.var.exclude.is_empty() {
            recorded.insert("var_exclude".into(), json!(self.var.exclude));
        }
        if let Some(prefix) = &self.obs_names_prefix {
            recorded.insert("obs_names_prefix".into(), json!(prefix));
        }
        recorded
    }
}
