//! Datasets and more cells to a new dataset: a conversion whose genes, tile size and column of inputs are a dataset's.

use std::sync::Arc;

use celltile::storage::Storage;
use celltile::{Dataset, OpenOptions};

use super::options::ConvertOptions;
use super::order::GeneOrderFrom;
use super::summary::Summary;
use super::{apart, convert_files};
use crate::error::Result;
use crate::metadata::Origin;
use crate::plan::InputName;
use crate::source::SourceOptions;

/// Converts a dataset and what is appended to it, in this order, to a new dataset in `storage`. Genes and tile size are the
/// dataset's, and its full tiles are taken over as they are. Its column of inputs goes on, if it has one.
///
/// # Errors
///
/// What is wrong with the dataset; as [`convert_files`].
pub fn append(
    dataset: &InputName,
    inputs: &[InputName],
    storage: Arc<dyn Storage>,
    source_options: &SourceOptions,
    options: &ConvertOptions,
) -> Result<Summary> {
    let mut all = vec![dataset.clone()];
    all.extend_from_slice(inputs);
    let first = check_and_open(&all, storage.as_ref(), source_options, options)?;
    let column = source_column(&first);
    made_like(&first, &all, column, storage, source_options, options)
}

/// Converts datasets to one in `storage`. Genes and tile size are those of the first; tiles of all that have the same, in the
/// same order, are taken over as they are where they come to lie on whole tiles. A column of inputs that one of them has goes
/// on.
///
/// # Errors
///
/// As [`append`], of every dataset.
pub fn merge(
    datasets: &[InputName],
    storage: Arc<dyn Storage>,
    source_options: &SourceOptions,
    options: &ConvertOptions,
) -> Result<Summary> {
    let first = check_and_open(datasets, storage.as_ref(), source_options, options)?;
    let mut column = source_column(&first);
    for other in datasets.iter().skip(1) {
        let other = open(other, source_options)?;
        column = column.or_else(|| source_column(&other));
    }
    made_like(&first, datasets, column, storage, source_options, options)
}

fn open(dataset: &InputName, source_options: &SourceOptions) -> Result<Dataset> {
    let mut open = OpenOptions::default();
    open.remote = source_options.remote.clone();
    Ok(Dataset::open_with(&dataset.path, &open)?)
}

/// Opens the first input, once it is known that the output is none of them.
fn check_and_open(
    inputs: &[InputName],
    storage: &dyn Storage,
    source_options: &SourceOptions,
    options: &ConvertOptions,
) -> Result<Dataset> {
    apart::check(storage, inputs.iter().map(|input| input.path.as_str()), options)?;
    let first = inputs.first().ok_or_else(|| crate::Error::Options("no dataset is named".into()))?;
    open(first, source_options)
}

/// The column of obs that says which input a cell is from, if the dataset has one.
fn source_column(dataset: &Dataset) -> Option<String> {
    let column = Origin::of(&dataset.manifest().metadata()).source_column?;
    let reader = dataset.obs_reader().ok()??;
    reader.schema().fields().iter().any(|field| field.name == column).then_some(column)
}

fn made_like(
    first: &Dataset,
    inputs: &[InputName],
    column: Option<String>,
    storage: Arc<dyn Storage>,
    source_options: &SourceOptions,
    options: &ConvertOptions,
) -> Result<Summary> {
    let mut options = options.clone();
    options.writer.tile_size = first.manifest().tile_size;
    options.copy_tiles = true;
    // One that is asked for by another name is added beside.
    let joining = &mut options.joining;
    if joining.source_column.is_none() || joining.source_column == column {
        joining.continued_source = column;
    }
    if options.gene_order_from.is_none() {
        options.gene_order_from = Some(GeneOrderFrom::dataset(first, &first.storage().locate(""))?);
    }
    convert_files(inputs, storage, source_options, &options)
}
