use std::path::PathBuf;
use std::sync::Arc;

use celltile::WriterOptions;
use celltile::obs::ObsWriteOptions;
use celltile::storage::RemoteOptions;
use celltile::table::Table;

use super::clean::Duplicates;
use super::order::GeneOrderFrom;
use crate::error::Result;
use crate::matrix::ReadOptions;
use crate::plan::Joining;
use crate::source::{Opener, Source};

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Inputs are looked at. Counted in inputs, all others in cells.
    Check,
    /// Cells are checked and the counts of each gene added up.
    Count,
    /// Cells are put aside, in an order in which they can be taken up again.
    Scatter,
    /// Cells are encoded and written.
    Encode,
    /// Obs and the rest are written.
    Finish,
}

/// Is told how many cells of all a stage has done; called often, from one thread.
pub type Progress = Arc<dyn Fn(Stage, u64, u64) + Send + Sync>;

/// How to convert.
#[derive(Clone)]
pub struct ConvertOptions {
    /// Tiles, encoding, threads, overwriting. The memory in it is cut to a share of [`ConvertOptions::memory`].
    pub writer: WriterOptions,
    /// Bytes that the conversion may hold, 1 GiB by default; the program itself and up to three encoded tiles come on
    /// top.
    pub memory: u64,
    /// Shards of obs, and how many categories a column may have.
    pub obs: ObsWriteOptions,
    /// Rounding, and the flag to stop. Its memory is set from [`ConvertOptions::memory`].
    pub read: ReadOptions,
    /// What to do where a cell holds a gene more than once.
    pub duplicates: Duplicates,
    /// How several inputs become one dataset, and in which order.
    pub joining: Joining,
    /// Whether to go on with a conversion that was begun; without it there must be none, or one to overwrite.
    pub resume: bool,
    /// A table without rows whose columns come first, as if it were that of another input.
    pub obs_like: Option<Table>,
    /// Whether tiles of datasets among the inputs are taken over as they are where they fit, whatever their encoding; only
    /// with [`ConvertOptions::gene_order_from`].
    pub copy_tiles: bool,
    /// Where cells are put aside that do not fit into memory, a folder or URL; with the output if `None`.
    pub spill: Option<PathBuf>,
    /// How outputs and spills at URLs are asked for.
    pub output_remote: RemoteOptions,
    /// How inputs at URLs are asked for when they are opened again.
    pub inputs_remote: RemoteOptions,
    /// Kinds of inputs that other crates read.
    pub openers: Vec<Arc<dyn Opener>>,
    /// A dataset whose gene order is taken over; without it genes are sorted by falling totals.
    pub gene_order_from: Option<GeneOrderFrom>,
    /// Is told how far it is.
    pub progress: Option<Progress>,
}

impl std::fmt::Debug for ConvertOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConvertOptions")
            .field("writer", &self.writer)
            .field("memory", &self.memory)
            .field("read", &self.read)
            .field("duplicates", &self.duplicates)
            .finish_non_exhaustive()
    }
}

impl Default for ConvertOptions {
    fn default() -> Self {
        Self {
            writer: WriterOptions::default(),
            memory: 1 << 30,
            obs: ObsWriteOptions::default(),
            read: ReadOptions::default(),
            duplicates: Duplicates::Refuse,
            joining: Joining::default(),
            resume: false,
            copy_tiles: false,
            obs_like: None,
            spill: None,
            output_remote: RemoteOptions::default(),
            inputs_remote: RemoteOptions::default(),
            openers: Vec::new(),
            gene_order_from: None,
            progress: None,
        }
    }
}

impl ConvertOptions {
    /// Reports progress, and fails if the caller asked to stop.
    pub(crate) fn step(&self, stage: Stage, done: u64, total: u64) -> Result<()> {
        if let Some(progress) = &self.progress {
            progress(stage, done, total);
        }
        self.read.check_cancelled()
    }

    /// How much of the memory the reader may hold: more where genes have to be turned into cells.
    pub(crate) fn reading(&self, source: &dyn Source) -> ReadOptions {
        let share = if source.info().encoding == "csr" { 4 } else { 2 };
        ReadOptions { memory: self.memory / share, ..self.read.clone() }
    }

    /// How much of the memory packed cells may take.
    pub(super) fn keeping(&self, transposed: bool) -> u64 {
        if transposed { self.memory / 4 } else { self.memory / 2 }
    }

    pub(super) fn writing(&self) -> WriterOptions {
        let memory = self.writer.memory.min(self.memory / 8);
        let mut writer = self.writer.clone();
        writer.memory = memory;
        writer
    }
}
