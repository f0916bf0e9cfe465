//! Runs a plan: cells go in, a dataset comes out.
//!
//! Two passes. The first checks every cell and adds up the counts of each gene, which decides the order of the genes; what
//! it read is kept, packed to about two bytes a nonzero, as far as the memory goes. The second hands the cells to the
//! dataset's writer: those kept from memory, the others are read once more.

mod clean;
mod encode;
mod options;
mod order;
mod packed;
mod summary;
mod survey;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use celltile::storage::Storage;

pub use clean::Duplicates;
pub use options::{ConvertOptions, Progress, Stage};
pub use order::GeneOrderFrom;
pub use summary::Summary;

use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::source::{self, SourceOptions};

/// Opens an input, looks at it and converts it to a dataset in `storage`.
///
/// # Errors
///
/// What [`source::open`], [`Plan::look`] and [`convert`] say.
pub fn convert_file(
    input: impl AsRef<Path>,
    storage: Arc<dyn Storage>,
    source_options: &SourceOptions,
    options: &ConvertOptions,
) -> Result<Summary> {
    convert(&Plan::look(source::open(input, source_options)?)?, storage, options)
}

/// Converts what a plan looked at to a dataset in `storage`. The same input and options give the same bytes, whatever
/// the number of threads and the memory.
///
/// # Errors
///
/// Whatever is wrong with a cell: of several faults the first in cell order. [`Error::Cancelled`] if asked to stop.
/// [`Error::Dataset`] if the storage refuses. There is no complete dataset then.
pub fn convert(plan: &Plan, storage: Arc<dyn Storage>, options: &ConvertOptions) -> Result<Summary> {
    let started = Instant::now();
    let threads = options.writer.threads.max(1);
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|at| format!("celltile-read-{at}"))
        .build()
        .map_err(|error| Error::Options(format!("cannot start {threads} threads: {error}")))?;
    pool.install(|| run(plan, storage, options, started))
}

fn run(
    plan: &Plan,
    storage: Arc<dyn Storage>,
    options: &ConvertOptions,
    started: Instant,
) -> Result<Summary> {
    encode::check_free(storage.as_ref(), options)?;
    let mut survey = survey::survey(plan.source(), options)?;
    let order = order::decide(plan.source(), &survey.totals, options.gene_order_from.as_ref())?;
    let written = encode::encode(plan, storage, options, &mut survey, &order)?;
    Ok(Summary::new(plan.source(), &survey, &written, started.elapsed()))
}
