//! Running the command, and something to run it on.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use celltile::genes::VarNames;
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
