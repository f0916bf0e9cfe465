//! `celltile append` and `celltile merge`: datasets and more cells -> a new dataset.

use std::path::PathBuf;
use std::sync::Arc;

use celltile::storage::Storage;
use celltile_ingest::Error;
use celltile_ingest::convert::{self, ConvertOptions, Summary, append_in_place};
use celltile_ingest::plan::{InputName, find_inputs};
use celltile_ingest::source::SourceOptions;

use crate::args::conversion::{Conversion, Existing, place, told};
use crate::failure::Failure;
use crate::ui::{ProgressMode, Stages};

/// Make a new dataset of a dataset and more cells
///
/// Genes and tile size are the dataset's. Its full tiles are taken over as they are: as second names of the same files, or as copies that
/// the bucket makes. The rest is encoded, and obs is written anew.
#[derive(Debug, clap::Args)]
pub(crate) struct AppendArgs {
    /// The dataset.
    dataset: PathBuf,
    /// What is appended: files, folders or URLs, other datasets too.
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// Append to the dataset where it stands. Only if no file that its manifest names has to change: the last tile and the last obs shard are full, and the inputs
    /// bring no new genes, columns or categories. Readers see the old dataset or the new one. Killed, it goes on when it is run again; with --overwrite what an append that was not
    /// finished left is dropped first.
    #[arg(long, conflicts_with_all = ["output", "resume"])]
    in_place: bool,
    #[command(flatten)]
    making: Making,
}

/// Make one dataset of several
///
/// Genes and tile size are those of the first. Tiles of datasets with the same genes, order and tile size are taken over as they are, where they come to lie on
/// whole tiles; all else is encoded again.
#[derive(Debug, clap::Args)]
pub(crate) struct MergeArgs {
    /// The datasets, in the order of their cells.
    #[arg(required = true, num_args = 2.., value_name = "DATASET")]
    datasets: Vec<PathBuf>,
    #[command(flatten)]
    making: Making,
}

/// Where the new dataset is, and how it is made.
#[derive(Debug, clap::Args)]
struct Making {
    /// The folder or URL to write the new dataset to.
    #[arg(short, long, value_name = "DATASET")]
    output: Option<PathBuf>,
    #[command(flatten)]
    existing: Existing,
    #[command(flatten)]
    conversion: Conversion,
}

pub(crate) fn append(args: &AppendArgs, progress: ProgressMode) -> Result<(), Failure> {
    if args.in_place {
        return in_place(args, progress);
    }
    let mut paths = vec![args.dataset.clone()];
    paths.extend(args.inputs.iter().cloned());
    args.making.run(&paths, progress, |inputs, storage, source, options| match inputs {
        [dataset, inputs @ ..] => convert::append(dataset, inputs, storage, source, options),
        [] => Err(Error::Options("no dataset is named".to_owned())),
    })
}

fn in_place(args: &AppendArgs, progress: ProgressMode) -> Result<(), Failure> {
    let stages = Stages::new(progress);
    let (source, mut options) = args.making.conversion.options()?;
    options.progress = Some(told(&stages));
    args.making.existing.tell(&mut options);
    let inputs = find_inputs(&args.inputs, &[]).map_err(Failure::of_ingest)?;
    let result = append_in_place(place(&args.dataset)?, &inputs, &source, &options);
    stages.end();
    super::convert::tell(&result.map_err(Failure::of_ingest)?)
}

pub(crate) fn merge(args: &MergeArgs, progress: ProgressMode) -> Result<(), Failure> {
    args.making.run(&args.datasets, progress, convert::merge)
}

impl Making {
    fn run(
        &self,
        paths: &[PathBuf],
        progress: ProgressMode,
        make: impl FnOnce(
            &[InputName],
            Arc<dyn Storage>,
            &SourceOptions,
            &ConvertOptions,
        ) -> celltile_ingest::Result<Summary>,
    ) -> Result<(), Failure> {
        let output = self.output.as_ref().ok_or_else(|| {
            Failure::Usage("--output DATASET is missing: where the new dataset is to be".to_owned())
        })?;
        let stages = Stages::new(progress);
        let (source, mut options) = self.conversion.options()?;
        options.progress = Some(told(&stages));
        self.existing.tell(&mut options);
        let inputs = find_inputs(paths, &[]).map_err(Failure::of_ingest)?;
        let result = make(&inputs, place(output)?, &source, &options);
        stages.end();
        super::convert::tell(&result.map_err(Failure::of_ingest)?)
    }
}
