//! `celltile obs`: columns of the cell table, for people and for other tools.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use celltile::obs::{Cache, Obs, ObsReader, write_csv};
use celltile::storage::{LocalStorage, Storage};

use crate::args::dataset::{CacheDir, Source};
use crate::failure::Failure;

/// Print columns of the cell table, or write them to a file
///
/// CSV goes to standard output: categories as their values, nothing for a missing value, "" for an empty text, True and False. With
/// -o a Parquet file (which pandas reads as the frame it was) or a CSV file is written, as its name says. The cell names come first.
///
/// Columns of a bucket are fetched once, into the cache folder, and read from there by all processes of the machine. Those of a local
/// dataset are read where they are, unless --cache-dir names a folder.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// The columns, with commas between; all if not given, the cell names alone if empty.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// One more column, whose name may have commas.
    #[arg(long, value_name = "NAME")]
    column: Vec<String>,
    /// The file to write: .parquet or .csv.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace a file that is there already.
    #[arg(long, requires = "output")]
    overwrite: bool,
    #[command(flatten)]
    cache: CacheDir,
}

/// What kind of file to write.
#[derive(Debug, Clone, Copy)]
enum Form {
    Csv,
    Parquet,
}

impl Form {
    fn of(path: &Path) -> Result<Self, Failure> {
        match path.extension().map(|extension| extension.to_ascii_lowercase()) {
            Some(extension) if extension == "parquet" => Ok(Self::Parquet),
            Some(extension) if extension == "csv" => Ok(Self::Csv),
            _ => Err(Failure::Usage(format!(
                "{}: the name says nothing of the form; expected .parquet or .csv",
                path.display()
            ))),
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let output = match &args.output {
        Some(path) => Some((Form::of(path)?, free(path, args.overwrite)?)),
        None => None,
    };
    let dataset = args.source.open(1)?;
    let Some(reader) = dataset.obs_reader()? else {
        return Err(Failure::Bad(format!("{}: the dataset has no cell table", args.source.place()).into()));
    };
    let cache = match args.cache.named() {
        Some(cache) => cache,
        None if dataset.storage().is_remote() => Cache::from_env()?,
        None => Cache::memory(),
    };
    let obs = reader.columns(&args.names(&reader), &cache)?;
    match output {
        None => {
            let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
            write_csv(&obs, &mut out)?;
            out.flush()?;
        }
        Some((form, target)) => target.write(&obs, form)?,
    }
    Ok(())
}

impl Args {
    /// The cell names, then the columns in the order in which they were asked for, each once.
    fn names(&self, reader: &ObsReader) -> Vec<String> {
        let asked: Vec<String> = match &self.columns {
            Some(names) => names.iter().filter(|name| !name.is_empty()).cloned().collect(),
            None if self.column.is_empty() => {
                reader.schema().fields().iter().map(|field| field.name.clone()).collect()
            }
            None => Vec::new(),
        };
        let mut names: Vec<String> = Vec::new();
        let index = reader.index_column().map(str::to_owned);
        for name in index.into_iter().chain(asked).chain(self.column.iter().cloned()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

/// A file that may be written.
struct Target {
    folder: PathBuf,
    name: String,
}

/// The file, if nothing is there that may not be replaced.
fn free(path: &Path, overwrite: bool) -> Result<Target, Failure> {
    let shown = path.display();
    if !overwrite && std::fs::symlink_metadata(path).is_ok() {
        return Err(Failure::Bad(format!("{shown}: is there already; --overwrite replaces it").into()));
    }
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| Failure::Usage(format!("{shown}: the file's name is not UTF-8")))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(Target { folder: folder.to_owned(), name: name.to_owned() })
}

impl Target {
    /// Writes it under a temporary name, then gives it its own.
    fn write(&self, obs: &Obs, form: Form) -> Result<(), Failure> {
        let storage = LocalStorage::new(&self.folder);
        match form {
            Form::Parquet => storage.write(&self.name, &obs.to_parquet()?)?,
            Form::Csv => {
                let mut file = BufWriter::with_capacity(1 << 16, storage.create(&self.name)?);
                let wrong = |source| celltile::Error::Io {
                    path: storage.locate(&self.name),
                    action: "write",
                    source,
                };
                write_csv(obs, &mut file).map_err(wrong)?;
                let file = file.into_inner().map_err(|error| wrong(error.into_error()))?;
                file.finish()?;
            }
        }
        Ok(())
    }
}
