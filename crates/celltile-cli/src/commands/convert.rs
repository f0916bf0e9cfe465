//! `celltile convert`: what other tools write -> a dataset.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;

use celltile::storage::{LocalStorage, RemoteOptions, Storage, is_url, open_storage};
use celltile::{ChunkCut, Compression, Dataset, EncodeOptions, Preset, WriterOptions};
use celltile_ingest::convert::{
    ConvertOptions, GeneOrderFrom, Progress as Told, Stage, Summary, convert, convert_file,
};
use celltile_ingest::plan::Plan;
use celltile_ingest::source::{Source, SourceOptions};

use crate::args::{self, Reading, Threads};
use crate::failure::Failure;
use crate::interrupt;
use crate::ui::{self, ProgressMode, Stages, Table};

/// Convert an h5ad or 10x h5 file to a dataset
///
/// What kind of file the input is, its content says. Every value is checked: what is not a count is an error that names file,
/// matrix, cell, gene and value. Genes are stored by falling total; where they stood is kept.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file.
    input: PathBuf,
    /// The folder or URL (s3://, gs://, az://) to write the dataset to.
    #[arg(short, long, value_name = "DATASET")]
    output: PathBuf,
    /// Replace a dataset that is there already; its manifest goes first.
    #[arg(long)]
    overwrite: bool,

    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    encoding: Encoding,

    /// Take over the gene order of this dataset instead.
    #[arg(long, value_name = "DATASET")]
    gene_order_from: Option<PathBuf>,
    /// Memory to hold cells in, whatever the size of the input.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = args::bytes)]
    memory: u64,
    #[command(flatten)]
    threads: Threads,
}

/// How tiles are written.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Encoding")]
struct Encoding {
    /// How hard to try: small, balanced or fast.
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
}

pub(crate) fn run(args: &Args, progress: ProgressMode) -> Result<(), Failure> {
    let summary = execute(args, None, progress)?;
    let mut out = BufWriter::new(io::stdout().lock());
    as_table(&summary).write(&mut out)?;
    out.flush()?;
    Ok(())
}

/// The conversion itself, without what is said of it; of the input that is named, unless a source is given.
pub(crate) fn execute(
    args: &Args,
    given: Option<Box<dyn Source>>,
    progress: ProgressMode,
) -> Result<Summary, Failure> {
    let stages = Stages::new(progress);
    let told: Told = {
        let stages = stages.clone();
        Arc::new(move |stage, done, total| {
            let name = if stage == Stage::Count { "count" } else { "encode" };
            stages.at(name, "cells", done, total);
        })
    };
    let (source, mut options) = args.options()?;
    options.progress = Some(told);
    let storage: Arc<dyn Storage> = match args.output.to_str() {
        Some(url) if is_url(url) => open_storage(url, &RemoteOptions::default())?,
        _ => Arc::new(LocalStorage::new(&args.output)),
    };
    let result = match given {
        Some(given) => Plan::look(given).and_then(|plan| convert(&plan, storage, &options)),
        None => convert_file(&args.input, storage, &source, &options),
    };
    stages.end();
    result.map_err(Failure::of_ingest)
}

impl Args {
    fn options(&self) -> Result<(SourceOptions, ConvertOptions), Failure> {
        let read = self.reading.read(interrupt::cooperate());
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
        writer.threads = self.threads.get();
        writer.overwrite = self.overwrite;
        let options = ConvertOptions {
            writer,
            memory: self.memory,
            read: read.clone(),
            duplicates: self.reading.duplicates(),
            gene_order_from,
            ..ConvertOptions::default()
        };
        Ok((self.reading.source(read), options))
    }
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

fn as_table(summary: &Summary) -> Table {
    let mut table = Table::new(0..0);
    let mut line = |name: &str, text: String| table.row([name.to_owned(), text]);
    line("input", format!("{} ({}, {})", summary.input, summary.format, ui::bytes(summary.input_bytes)));
    let why = if summary.why.is_empty() { String::new() } else { format!(": {}", summary.why) };
    line("matrix", format!("{} ({}){why}", summary.matrix, summary.dtype));
    line("cells", ui::count(summary.cells));
    line("genes", ui::count(summary.genes));
    line("nonzeros", ui::count(summary.nonzeros));
    line("sum of counts", ui::count(summary.sum));
    let (a_cell, a_nonzero) = (ui::decimal(summary.bytes_a_cell()), ui::decimal(summary.bytes_a_nonzero()));
    let size = ui::bytes(summary.tile_bytes);
    let tiles = ui::count(summary.tiles);
    line("tiles", format!("{tiles} of {size} together: {a_cell} bytes a cell, {a_nonzero} a nonzero"));
    line("ratio", format!("{} times smaller than the input", ui::decimal(summary.ratio_to_input())));
    for (count, what) in [
        (summary.unsorted_cells, "cells had their genes out of order"),
        (summary.zeros_dropped, "stored zeros dropped"),
        (summary.repeated_summed, "repeated entries added up"),
    ] {
        if count > 0 {
            line("note", format!("{} {what}", ui::count(count)));
        }
    }
    for dropped in &summary.features_dropped {
        line("left out", dropped.clone());
    }
    for part in &summary.not_carried {
        line("not carried", super::not_carried(part));
    }
    let rate = ui::decimal(summary.cells_a_second());
    line("time", format!("{}, {rate} cells/s", ui::duration(summary.time)));
    table
}
