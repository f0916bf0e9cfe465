//! Runs a plan: cells go in, a dataset comes out.
//!
//! In stages, each of which can be run again, on any machine (`docs/decisions/conversion-stages.md`): every cell is checked
//! and the counts of each gene added up, which decides the order of the genes; cells that come in another order than they
//! are stored in are put aside; tiles are encoded; obs and the manifest are written. [`convert`] runs all of them, and keeps in memory
//! what it can, so that most inputs are read once.

mod apart;
mod append;
mod beneath;
mod cells;
mod clean;
mod copies;
mod encode;
mod finish;
mod in_place;
mod lock;
mod options;
mod order;
mod packed;
mod pass;
mod placement;
mod scatter;
mod stages;
mod summary;
mod supply;
mod tally;
mod work;

use std::path::Path;
use std::sync::Arc;

use celltile::storage::Storage;

pub use append::{append, merge};
pub use clean::Duplicates;
pub use in_place::append_in_place;
pub use options::{ConvertOptions, Progress, Stage};
pub use order::GeneOrderFrom;
use stages::can_go_on;
pub use stages::{Stages, convert};
pub use summary::{InputSummary, Summary};

use crate::error::{Error, Result};
use crate::plan::{InputName, Plan};
use crate::source::SourceOptions;

/// Looks at an input and converts it to a dataset in `storage`.
///
/// # Errors
///
/// As [`convert_files`].
pub fn convert_file(
    input: impl AsRef<Path>,
    storage: Arc<dyn Storage>,
    source_options: &SourceOptions,
    options: &ConvertOptions,
) -> Result<Summary> {
    let input = input.as_ref();
    let path = input
        .to_str()
        .ok_or_else(|| Error::Options(format!("{}: its path is not UTF-8", input.display())))?
        .to_owned();
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or(&path).to_owned();
    convert_files(&[InputName { path, name }], storage, source_options, options)
}

/// Looks at inputs and converts them to one dataset in `storage`.
///
/// # Errors
///
/// What is wrong with the inputs, all of it: the very error if there is only one, else [`Error::Unfit`]; what [`convert`]
/// says.
pub fn convert_files(
    inputs: &[InputName],
    storage: Arc<dyn Storage>,
    source_options: &SourceOptions,
    options: &ConvertOptions,
) -> Result<Summary> {
    let mut options = options.clone();
    options.inputs_remote = source_options.remote.clone();
    options.openers.clone_from(&source_options.openers);
    let paths = inputs.iter().map(|input| input.path.as_str());
    Stages::check_free(storage.as_ref(), paths, &options)?;
    let plan = Plan::look(inputs, source_options, &options)?.plan()?;
    convert(&plan, storage, &options)
}
