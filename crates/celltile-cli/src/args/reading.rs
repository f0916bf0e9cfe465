use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use celltile::storage::is_url;
use celltile_ingest::convert::Duplicates;
use celltile_ingest::frame::{ColumnChoice, Datetimes};
use celltile_ingest::matrix::{ReadOptions, Rounding};
use celltile_ingest::source::{CellAxis, MatrixChoice, Opener, SourceOptions};
use clap::{Args, ValueEnum};

/// What of an input to read, and how.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Reading")]
pub(crate) struct Reading {
    /// The matrix: X, raw/X, layers/NAME; auto takes the first of raw/X, layers/counts and X that holds counts.
    #[arg(long, value_name = "MATRIX", default_value = "auto")]
    matrix: String,
    /// The modality, in an h5mu file with several.
    #[arg(long, value_name = "NAME")]
    modality: Option<String>,
    /// The genome, in a 10x file with several; all takes the genes of each in turn.
    #[arg(long, value_name = "NAME")]
    genome: Option<String>,
    /// Feature types of a 10x file to keep, with commas between; all keeps every one [default: Gene Expression].
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    feature_types: Option<Vec<String>>,
    /// Where the cells of a table of text are; also of a Matrix Market file whose lists of names leave it open.
    #[arg(long, value_enum, value_name = "WHERE")]
    cells: Option<Axis>,
    /// Take a Matrix Market file with another number of entries than it declares.
    #[arg(long)]
    mtx_trust_lines: bool,
    /// Take a Matrix Market file without values (pattern) as counts of 1.
    #[arg(long)]
    mtx_pattern: bool,
    /// Columns of obs to keep, with commas between; all if not given, none if empty.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    obs_columns: Option<Vec<String>>,
    /// Columns of obs to leave out, with commas between.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    obs_exclude: Vec<String>,
    /// What to do with a column of obs that mixes types, as numbers and text.
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    obs_mixed: Mixed,
    /// What to do with a column of obs of dates or durations.
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    obs_datetime: Dates,
    /// Columns of obs whose integers are categories, with commas between.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    obs_as_category: Vec<String>,
    /// Put this before every cell's name; {source} in it is what the input is called, as in the column source.
    #[arg(long, value_name = "TEXT")]
    obs_names_prefix: Option<String>,
    /// Columns of var to leave out, with commas between.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    var_exclude: Vec<String>,
    /// What to do with fractional values.
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    round: Round,
    /// What to do where a cell holds a gene more than once.
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    duplicates: Repeats,
    /// Open the file although another process holds its lock.
    #[arg(long)]
    ignore_lock: bool,
    #[command(flatten)]
    spill: SpillArgs,
}

/// Where what does not fit into the memory goes.
#[derive(Debug, Clone, Args)]
pub(crate) struct SpillArgs {
    /// Folder or URL for cells that are put aside, the same for all stages of a conversion [default: with the dataset]. A folder also takes what a process sorts for itself
    /// [default: that of temporary files].
    #[arg(long, value_name = "FOLDER")]
    spill_dir: Option<PathBuf>,
}

impl SpillArgs {
    /// Where cells are put aside that the stages of a conversion hand to each other.
    pub(crate) fn of_stages(&self) -> Option<PathBuf> {
        self.spill_dir.clone()
    }

    /// Where a process puts what it sorts: files of this machine.
    pub(crate) fn of_process(&self) -> Option<PathBuf> {
        self.spill_dir.clone().filter(|place| !place.to_str().is_some_and(is_url))
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Axis {
    /// A row a cell.
    Rows,
    /// A column a cell.
    Columns,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Mixed {
    /// It is an error.
    #[default]
    Refuse,
    /// Its values become text.
    String,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Dates {
    /// It is an error.
    #[default]
    Refuse,
    /// Text in the form of ISO 8601.
    IsoString,
    /// Nanoseconds since 1970, or of the duration.
    Int64Ns,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Round {
    /// They are an error.
    #[default]
    Refuse,
    /// To the nearest whole number, halves away from zero.
    Nearest,
    /// Down.
    Floor,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Repeats {
    /// It is an error.
    #[default]
    Refuse,
    /// Add the counts up.
    Sum,
}

impl Reading {
    /// How matrices are read; `cancel` stops it.
    pub(crate) fn read(&self, cancel: Arc<AtomicBool>) -> ReadOptions {
        let rounding = match self.round {
            Round::Refuse => Rounding::Refuse,
            Round::Nearest => Rounding::Nearest,
            Round::Floor => Rounding::Floor,
        };
        ReadOptions { rounding, cancel, spill: self.spill.of_process(), ..ReadOptions::default() }
    }

    /// Where cells are put aside that the stages of a conversion hand to each other.
    pub(crate) fn spill(&self) -> Option<PathBuf> {
        self.spill.of_stages()
    }

    /// What to do where a cell holds a gene more than once.
    pub(crate) fn duplicates(&self) -> Duplicates {
        match self.duplicates {
            Repeats::Refuse => Duplicates::Refuse,
            Repeats::Sum => Duplicates::Sum,
        }
    }

    /// How inputs are opened.
    pub(crate) fn source(&self, read: ReadOptions) -> SourceOptions {
        let matrix = match self.matrix.as_str() {
            "auto" => MatrixChoice::Auto,
            path => MatrixChoice::Path(path.to_owned()),
        };
        let datetimes = match self.obs_datetime {
            Dates::Refuse => Datetimes::Refuse,
            Dates::IsoString => Datetimes::IsoString,
            Dates::Int64Ns => Datetimes::Nanoseconds,
        };
        SourceOptions {
            matrix,
            modality: self.modality.clone(),
            genome: self.genome.clone(),
            feature_types: self.feature_types.clone(),
            cells: self.cells.map(|cells| match cells {
                Axis::Rows => CellAxis::Rows,
                Axis::Columns => CellAxis::Columns,
            }),
            mtx_trust_lines: self.mtx_trust_lines,
            mtx_pattern: self.mtx_pattern,
            obs_names_prefix: self.obs_names_prefix.clone(),
            obs: ColumnChoice {
                columns: self.obs_columns.as_deref().map(without_empty),
                exclude: without_empty(&self.obs_exclude),
                mixed_as_text: matches!(self.obs_mixed, Mixed::String),
                datetimes,
                as_category: without_empty(&self.obs_as_category),
            },
            var: ColumnChoice { exclude: without_empty(&self.var_exclude), ..ColumnChoice::default() },
            ignore_lock: self.ignore_lock,
            read,
            openers: openers(),
            ..SourceOptions::default()
        }
    }
}

/// Kinds of inputs that other crates read.
pub(crate) fn openers() -> Vec<Arc<dyn Opener>> {
    vec![Arc::new(celltile_zarr::ZarrOpener)]
}

/// An empty argument is an empty list, not one empty name.
fn without_empty(names: &[String]) -> Vec<String> {
    names.iter().filter(|name| !name.is_empty()).cloned().collect()
}
