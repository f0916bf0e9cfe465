//! What the commands that make datasets share: inputs, how they are joined, how tiles are written, memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use celltile::obs::ObsWriteOptions;
use celltile::storage::{LocalStorage, RemoteOptions, Storage, is_url, open_storage};
use celltile::{ChunkCut, Compression, Dataset, EncodeOptions, Preset, WriterOptions};
use celltile_ingest::convert::{ConvertOptions, GeneOrderFrom, Progress as Told, Stage};
use celltile_ingest::plan::{DuplicateGenes, InputName, Join, Joining, find_inputs};
use celltile_ingest::source::SourceOptions;
use clap::{Args, ValueEnum};

use super::{Reading, Threads};
use crate::failure::Failure;
use crate::interrupt;
use crate::ui::Stages;

/// The inputs.
#[derive(Debug, Clone, Args)]
pub(crate) struct Inputs {
    /// Files, folders or URLs; patterns in quotes ('runs/*.h5ad') are understood too.
    #[arg(value_name = "INPUT", required_unless_present = "inputs_from")]
    inputs: Vec<PathBuf>,
    /// A text file of inputs: one a line, and after a tab what it is to be called.
    #[arg(long, value_name = "FILE")]
    inputs_from: Vec<PathBuf>,
}

impl Inputs {
    /// All of them, with what they are called.
    pub(crate) fn find(&self) -> Result<Vec<InputName>, Failure> {
        find_inputs(&self.inputs, &self.inputs_from).map_err(Failure::of_ingest)
    }
}

/// What to do where the output is not empty.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Existing {
    /// Replace a dataset that is there already, or begin anew what was begun; a manifest goes first.
    #[arg(long, conflicts_with = "resume")]
    overwrite: bool,
    /// Go on with what was stopped or killed; begin it if there is nothing, and leave it alone if it is finished.
    #[arg(long)]
    resume: bool,
}

impl Existing {
    /// Sets the options that say so.
    pub(crate) fn tell(self, options: &mut ConvertOptions) {
        options.writer.overwrite = self.overwrite;
        options.resume = self.resume;
    }
}

/// How several inputs become one dataset.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Joining")]
pub(crate) struct JoiningArgs {
    /// The genes of the dataset, where those of the inputs differ.
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    join: JoinArg,
    /// The column of var that tells genes apart [default: identifiers where all inputs have them apart from names, as 10x files do; else names].
    #[arg(long, value_name = "COLUMN")]
    var_key: Option<String>,
    /// What to do with genes that an input has twice, where genes have to be matched.
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    duplicate_genes: DuplicateGenesArg,
    /// The column of obs that says which input a cell is from; none if empty [default: source, with several inputs].
    #[arg(long, value_name = "NAME")]
    source_column: Option<String>,
    /// Put all cells of all inputs into a random order; each cell's number before is kept in the column source_cell of obs.
    #[arg(long)]
    shuffle: bool,
    /// The seed of the random order.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "shuffle")]
    seed: u64,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum JoinArg {
    /// All inputs must have the same.
    #[default]
    Exact,
    /// Those that all inputs have.
    Inner,
    /// Those that any input has.
    Outer,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum DuplicateGenesArg {
    /// It is an error.
    #[default]
    Error,
    /// Add their counts up.
    Sum,
    /// Call them NAME, NAME-1, NAME-2, ...
    Suffix,
}

impl JoiningArgs {
    fn get(&self) -> Joining {
        Joining {
            join: match self.join {
                JoinArg::Exact => Join::Exact,
                JoinArg::Inner => Join::Inner,
                JoinArg::Outer => Join::Outer,
            },
            var_key: self.var_key.clone(),
            duplicate_genes: match self.duplicate_genes {
                DuplicateGenesArg::Error => DuplicateGenes::Error,
                DuplicateGenesArg::Sum => DuplicateGenes::Sum,
                DuplicateGenesArg::Suffix => DuplicateGenes::Suffix,
            },
            source_column: self.source_column.clone(),
            continued_source: None,
            shuffle: self.shuffle.then_some(self.seed),
        }
    }
}

/// What a stage may use.
#[derive(Debug, Clone, Args)]
pub(crate) struct Effort {
    /// Memory to hold cells in, whatever the size of the inputs.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = super::bytes)]
    pub(crate) memory: u64,
    #[command(flatten)]
    pub(crate) threads: Threads,
}

/// All that says how a dataset is made of its inputs.
#[derive(Debug, Clone, Args)]
pub(crate) struct Conversion {
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    joining: JoiningArgs,
    #[command(flatten)]
    encoding: Encoding,
    /// Take over the gene order of this dataset instead.
    #[arg(long, value_name = "DATASET")]
    gene_order_from: Option<PathBuf>,
    #[command(flatten)]
    effort: Effort,
}

impl Conversion {
    pub(crate) fn options(&self) -> Result<(SourceOptions, ConvertOptions), Failure> {
        let mut read = self.reading.read(interrupt::cooperate());
        // For the look at the candidates; the conversion itself takes its share.
        read.memory = self.effort.memory / 2;
        let gene_order_from = match &self.gene_order_from {
            Some(path) => {
                let dataset = Dataset::open(path)?;
                Some(
                    GeneOrderFrom::dataset(&dataset, &path.display().to_string())
                        .map_err(Failure::of_ingest)?,
                )
            }
            None => None,
        };
        let mut writer = self.encoding.writer();
        writer.threads = self.effort.threads.get();
        let options = ConvertOptions {
            writer,
            memory: self.effort.memory,
            spill: self.reading.spill(),
            read: read.clone(),
            duplicates: self.reading.duplicates(),
            joining: self.joining.get(),
            gene_order_from,
            obs: ObsWriteOptions {
                tiles_per_file: self.encoding.tiles_per_shard,
                max_categories: self.encoding.max_categories,
                ..ObsWriteOptions::default()
            },
            ..ConvertOptions::default()
        };
        Ok((self.reading.source(read), options))
    }
}

/// The place that an argument names, a folder or a URL.
pub(crate) fn place(path: &Path) -> Result<Arc<dyn Storage>, Failure> {
    match path.to_str() {
        Some(url) if is_url(url) => Ok(open_storage(url, &RemoteOptions::default())?),
        _ => Ok(Arc::new(LocalStorage::new(path))),
    }
}

/// Shows how far the stages of a conversion are.
pub(crate) fn told(stages: &Stages) -> Told {
    let stages = stages.clone();
    Arc::new(move |stage, done, total| {
        let (name, unit) = match stage {
            Stage::Check => ("check", "inputs"),
            Stage::Count => ("count", "cells"),
            Stage::Scatter => ("scatter", "cells"),
            Stage::Finish => ("finish", "cells"),
            _ => ("encode", "cells"),
        };
        stages.at(name, unit, done, total);
    })
}

/// How tiles are written.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Encoding")]
pub(crate) struct Encoding {
    /// How hard to try: small, balanced or fast; or training, the fastest to decode.
    #[arg(long, default_value_t = Preset::default(), value_name = "PRESET", conflicts_with = "level")]
    preset: Preset,
    /// A plain zstd level instead of a preset, 1 to 22.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=22))]
    level: Option<i32>,
    /// Cells of every tile but the last.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    tile_size: u64,
    /// Nonzeros of a tile chunk, about [default: 131072].
    #[arg(long, value_name = "N", group = "cut", value_parser = clap::value_parser!(u64).range(1..))]
    chunk_nnz: Option<u64>,
    /// Cells of a tile chunk instead; 1 gives the fastest access to single cells.
    #[arg(long, value_name = "N", group = "cut", value_parser = clap::value_parser!(u64).range(1..))]
    chunk_cells: Option<u64>,
    /// Tile chunks of a tile instead.
    #[arg(long, value_name = "N", group = "cut", value_parser = clap::value_parser!(u32).range(1..))]
    chunks: Option<u32>,
    /// Tiles whose cells share a file of the cell table, in every file but the last; small numbers let cells be appended in place more often.
    #[arg(long, value_name = "N", default_value_t = ObsWriteOptions::default().tiles_per_file, value_parser = clap::value_parser!(u64).range(1..))]
    tiles_per_shard: u64,
    /// Category columns with more categories are stored as strings.
    #[arg(long, value_name = "N", default_value_t = ObsWriteOptions::default().max_categories)]
    max_categories: usize,
}

impl Encoding {
    fn writer(&self) -> WriterOptions {
        let compression = self.level.map_or(Compression::Preset(self.preset), Compression::Level);
        let cut = match (self.chunk_nnz, self.chunk_cells, self.chunks) {
            (Some(n), _, _) => ChunkCut::Nonzeros(n),
            (_, Some(n), _) => ChunkCut::Cells(n),
            (_, _, Some(n)) => ChunkCut::Count(n),
            _ => ChunkCut::default(),
        };
        let mut writer = WriterOptions::default();
        writer.tile_size = self.tile_size;
        writer.encode = EncodeOptions { compression, cut };
        writer
    }
}
