//! A dataset -> the files of other tools.

mod file;
mod frame;
mod h5ad;
mod mtx;
mod order;

pub(crate) use file::H5adFile;
pub use h5ad::{H5adOptions, export_h5ad};
pub use mtx::{MtxOptions, export_mtx};

use crate::source::NotCarried;

/// What an export wrote, and what it could not.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ExportSummary {
    /// Number of cells.
    pub cells: u64,
    /// Number of genes.
    pub genes: u64,
    /// Number of nonzeros.
    pub nonzeros: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// NumPy's name of the counts' dtype.
    pub dtype: &'static str,
    /// Whether the genes are back in the order of the source; otherwise they are in the dataset's.
    pub source_order: bool,
    /// What the dataset's source had and the dataset does not carry, as its `metadata` lists it.
    pub not_carried: Vec<NotCarried>,
}
