//! `celltile plan`, `count`, `scatter`, `encode` and `finish`: a conversion in stages that any machine can run.

use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::PathBuf;

use celltile_ingest::convert::{ConvertOptions, Stages as Conversions};
use celltile_ingest::matrix::ReadOptions;
use celltile_ingest::plan::Plan;
use celltile_ingest::source::SourceOptions;

use crate::args::conversion::{Conversion, Effort, Existing, Inputs, place, told};
use crate::args::{self, Cells as Numbers, SpillArgs};
use crate::failure::Failure;
use crate::interrupt;
use crate::ui::{self, ProgressMode, Stages};

/// Begin a conversion in stages: look at all inputs and store what is to be done
///
/// The stages that follow are count, scatter (only where its answer says so), encode and finish. Each can be run for any share of the inputs or tiles, on
/// any machine that sees inputs and output, at the same time as others and more than once.
#[derive(Debug, clap::Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    inputs: Inputs,
    /// The folder or URL (s3://, gs://, az://) to write the dataset to.
    #[arg(short, long, value_name = "DATASET")]
    output: PathBuf,
    #[command(flatten)]
    existing: Existing,
    #[command(flatten)]
    conversion: Conversion,
}

/// Check the cells of some inputs and add up the counts of each gene (a stage of a conversion that plan began)
#[derive(Debug, clap::Args)]
pub(crate) struct CountArgs {
    #[command(flatten)]
    stage: StageArgs,
    /// The inputs, by number: FIRST:END; all if not given.
    #[arg(long, value_name = "FIRST:END", default_value = ":")]
    inputs: Numbers,
}

/// Put the cells of some inputs aside, for an order that is not theirs (a stage of a conversion that plan began)
///
/// What count does is done in the same pass, for inputs that are not counted yet.
#[derive(Debug, clap::Args)]
pub(crate) struct ScatterArgs {
    #[command(flatten)]
    stage: StageArgs,
    /// The inputs, by number: FIRST:END; all if not given.
    #[arg(long, value_name = "FIRST:END", default_value = ":")]
    inputs: Numbers,
}

/// Encode some tiles (a stage of a conversion that plan began)
#[derive(Debug, clap::Args)]
pub(crate) struct EncodeArgs {
    #[command(flatten)]
    stage: StageArgs,
    /// The tiles, by number: FIRST:END; all if not given.
    #[arg(long, value_name = "FIRST:END", default_value = ":")]
    tiles: Numbers,
}

/// Write obs and the manifest, and clear away what the stages left (the last stage of a conversion that plan began)
#[derive(Debug, clap::Args)]
pub(crate) struct FinishArgs {
    #[command(flatten)]
    stage: StageArgs,
}

/// The conversion, and what a stage may use.
#[derive(Debug, clap::Args)]
struct StageArgs {
    /// The folder or URL of the dataset.
    output: PathBuf,
    #[command(flatten)]
    spill: SpillArgs,
    #[command(flatten)]
    effort: Effort,
}

pub(crate) fn plan(args: &PlanArgs, progress: ProgressMode) -> Result<(), Failure> {
    let stages = Stages::new(progress);
    let (source, mut options) = args.conversion.options()?;
    options.progress = Some(told(&stages));
    args.existing.tell(&mut options);
    let storage = place(&args.output)?;
    let looked = Plan::look(&args.inputs.find()?, &source, &options);
    stages.end();
    let plan = looked.and_then(celltile_ingest::plan::Looked::plan).map_err(Failure::of_ingest)?;
    Conversions::plan(&plan, &storage, &options).map_err(Failure::of_ingest)?;
    let stored = Conversions::open(storage, &source, &options).map_err(Failure::of_ingest)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let (inputs, cells, tiles) = (plan.inputs().len() as u64, ui::count(plan.cells()), plan.n_tiles());
    writeln!(out, "inputs {inputs}, cells {cells}, tiles {tiles}")?;
    writeln!(out, "scatter {}", if stored.needs_scatter() { "needed" } else { "not needed" })?;
    out.flush()?;
    Ok(())
}

pub(crate) fn count(args: &CountArgs, progress: ProgressMode) -> Result<(), Failure> {
    args.stage.run(progress, |stages| stages.count(inputs(args.inputs, stages)?))
}

pub(crate) fn scatter(args: &ScatterArgs, progress: ProgressMode) -> Result<(), Failure> {
    args.stage.run(progress, |stages| stages.scatter(inputs(args.inputs, stages)?))
}

pub(crate) fn encode(args: &EncodeArgs, progress: ProgressMode) -> Result<(), Failure> {
    args.stage.run(progress, |stages| stages.encode(args.tiles.range(stages.n_tiles())))
}

pub(crate) fn finish(args: &FinishArgs, progress: ProgressMode) -> Result<(), Failure> {
    super::convert::tell(&args.stage.run(progress, Conversions::finish)?)
}

fn inputs(numbers: Numbers, stages: &Conversions) -> celltile_ingest::Result<Range<usize>> {
    let range = numbers.range(stages.n_inputs() as u64);
    let number = |n: u64| {
        usize::try_from(n).map_err(|_| celltile_ingest::Error::Options(format!("there is no input {n}")))
    };
    Ok(number(range.start)?..number(range.end)?)
}

impl StageArgs {
    fn run<T>(
        &self,
        progress: ProgressMode,
        run: impl FnOnce(&Conversions) -> celltile_ingest::Result<T>,
    ) -> Result<T, Failure> {
        let stages = Stages::new(progress);
        let read = ReadOptions {
            cancel: interrupt::cooperate(),
            spill: self.spill.of_process(),
            ..ReadOptions::default()
        };
        let mut options = ConvertOptions {
            memory: self.effort.memory,
            spill: self.spill.of_stages(),
            read: read.clone(),
            progress: Some(told(&stages)),
            ..ConvertOptions::default()
        };
        options.writer.threads = self.effort.threads.get();
        // Of what the plan does not hold: kinds of inputs that other crates read.
        let source = SourceOptions { read, openers: args::openers(), ..SourceOptions::default() };
        let storage = place(&self.output)?;
        let result = Conversions::open(storage, &source, &options).and_then(|stages| run(&stages));
        stages.end();
        result.map_err(Failure::of_ingest)
    }
}
