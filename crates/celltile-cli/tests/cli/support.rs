//! Running the command, and something to run it on.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use arrow_array::{Float64Array, Int64Array};
use celltile::genes::VarNames;
use celltile::obs::{ObsWriteOptions, write_obs};
use celltile::storage::{LocalStorage, Storage};
use celltile::table::{Categorical, Categories, Codes, Column, Index, Numeric, Table, Text, Values};
use celltile::{ChunkCut, Csr, DatasetWriter, WriterOptions};
use celltile_ingest::simulate::{SimulateOptions, Simulation};
use tempfile::TempDir;

/// What a run printed and how it ended.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    fn of(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Fails unless it exited with 0 and printed no error.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "stdout: {}\nstderr: {}", self.out, self.err);
        assert!(!self.err.contains("error:"), "{}", self.err);
        self
    }

    /// Fails unless it exited with this code, and one line of standard error says so.
    #[track_caller]
    pub(crate) fn fails(self, code: i32, message: &str) -> Self {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.out, self.err);
        assert!(self.err.contains(message), "expected '{message}' in: {}", self.err);
        self
    }
}

/// The command with these arguments, not yet started.
pub(crate) fn command<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_celltile"));
    command.args(args).stdin(Stdio::null());
    command
}

/// Runs the command with these arguments.
pub(crate) fn run<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Run {
    Run::of(&command(args).output().unwrap())
}

/// Runs a command that was made by [`command`].
pub(crate) fn finish(mut command: Command) -> Run {
    Run::of(&command.output().unwrap())
}

/// Runs the command with these words, `{}` standing for the path.
pub(crate) fn run_on(path: &Path, words: &str) -> Run {
    run(words.split_whitespace().map(|word| if word == "{}" { path.as_os_str() } else { OsStr::new(word) }))
}

/// Cells of a few genes, always the same.
pub(crate) fn simulation(cells: u64) -> Simulation {
    let mut options = SimulateOptions::new(cells);
    (options.genes, options.nonzeros) = (2000, 100.0);
    Simulation::new(options).unwrap()
}

/// A dataset of 250 cells in three tiles, and the cells.
pub(crate) fn dataset() -> (TempDir, PathBuf, Csr) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("cells");
    let simulation = simulation(250);
    let cells = simulation.cells(0..250).unwrap();
    let mut options = WriterOptions::default();
    options.tile_size = 100;
    options.encode.cut = ChunkCut::Cells(16);
    let mut writer = DatasetWriter::create_at(&path, 2000, &options).unwrap();
    let names = simulation.genes().into_iter().map(|gene| gene.name).collect();
    writer.set_var_names(&VarNames::new(names).unwrap()).unwrap();
    writer.push(cells.view().unwrap()).unwrap();
    writer.finish().unwrap();
    (folder, path, cells)
}

/// A table of cells with every kind of column, missing values, and names that need quotes.
pub(crate) fn cell_table(cells: usize) -> Table {
    let each = || 0..cells;
    let missing = |i: usize| i % 4 == 3;
    let some = |i: usize| (!missing(i)).then_some(i);
    let categories = Categories::from_text(["T cell", "B, \"naive\"", "unused"]).unwrap();
    let codes = each().map(|i| if missing(i) { -1 } else { i64::try_from(i % 2).unwrap() });
    let codes = Codes::collect(codes, 3).unwrap();
    let numbers = each().map(|i| some(i).map(|i| i as i64 - 1)).collect::<Int64Array>();
    let floats = each().map(|i| some(i).map(|i| i as f64 / 4.0)).collect::<Float64Array>();
    let texts =
        each().map(|i| some(i).map(|i| if i % 3 == 0 { String::new() } else { format!("line\n{i}") }));
    let columns = vec![
        Column::new("cell type", Categorical::new(codes, categories, true).unwrap()),
        Column::new("count", Numeric::new(Arc::new(numbers), true).unwrap()),
        Column::new("a,b", Numeric::new(Arc::new(floats), false).unwrap()),
        Column::new("flag", Values::bools(each().map(|i| Some(i % 2 == 0)).collect(), false)),
        Column::new("note", texts.collect::<Text>()),
    ];
    let names = each().map(|i| Some(format!("CELL-{i}"))).collect::<Text>();
    Table::new(cells, Some(Index::new(None, names)), columns).unwrap()
}

/// A dataset of 250 cells in three tiles with the table of [`cell_table`].
pub(crate) fn dataset_with_obs() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("cells");
    let mut options = WriterOptions::default();
    options.tile_size = 100;
    options.encode.cut = ChunkCut::Cells(16);
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(&path));
    let mut writer = DatasetWriter::create(Arc::clone(&storage), 2000, &options).unwrap();
    writer.push(simulation(250).cells(0..250).unwrap().view().unwrap()).unwrap();
    let obs = write_obs(storage, &cell_table(250), None, 100, ObsWriteOptions::default()).unwrap();
    writer.set_obs_table(&obs).unwrap();
    writer.finish().unwrap();
    (folder, path)
}

/// An h5ad file of simulated cells, the same as [`simulation`]'s, in a folder.
pub(crate) fn simulated(folder: &Path, cells: u64) -> PathBuf {
    let path = folder.join("cells.h5ad");
    run_on(&path, &format!("simulate -o {{}} --cells {cells} --genes 2000 --nonzeros 100 --overwrite")).ok();
    path
}

/// Runs `convert INPUT -o OUT` and more words.
pub(crate) fn convert(input: &Path, out: &Path, words: &str) -> Run {
    let args = ["convert".as_ref(), input.as_os_str(), "-o".as_ref(), out.as_os_str()];
    run(args.into_iter().chain(words.split_whitespace().map(OsStr::new)))
}

/// What `info --json` says.
pub(crate) fn info(dataset: &Path) -> serde_json::Value {
    serde_json::from_str(&run_on(dataset, "info {} --json").ok().out).unwrap()
}

/// All files below a folder with their content, by relative path.
pub(crate) fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.strip_prefix(folder).unwrap().to_owned(), std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// The folder of real files, if there is one; says so otherwise.
pub(crate) fn real_data() -> Option<PathBuf> {
    let folder = std::env::var_os("CELLTILE_TEST_DATA").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("skipped: CELLTILE_TEST_DATA is not set");
    }
    folder
}

/// A Python with anndata, if there is one; says so otherwise.
pub(crate) fn python() -> Option<PathBuf> {
    let python = std::env::var_os("CELLTILE_TEST_PYTHON").map(PathBuf::from);
    if python.is_none() {
        eprintln!("skipped: CELLTILE_TEST_PYTHON is not set");
    }
    python
}

/// The Pythons with anndata that there are: the tests' own, and a newer one.
pub(crate) fn interop_pythons() -> Vec<PathBuf> {
    let newer = std::env::var_os("CELLTILE_INTEROP_PYTHON").map(PathBuf::from);
    if newer.is_none() {
        eprintln!("skipped in part: CELLTILE_INTEROP_PYTHON is not set");
    }
    python().into_iter().chain(newer).collect()
}
