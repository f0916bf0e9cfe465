//! What a loader is asked for.

use std::sync::Arc;

use celltile::obs::Cache;

use crate::error::is_damage;

/// How cells are mixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shuffle {
    /// Whole tiles are drawn at random into the buffer, and cells from the buffer.
    Tiles,
    /// Groups of tile chunks are drawn at random over the whole dataset into the buffer, and cells from the buffer.
    #[default]
    Chunks,
    /// Every order of the cells is as likely as any other. Each cell costs its tile chunk, once a buffer: good with one
    /// cell a tile chunk.
    Cells,
    /// The dataset's order.
    None,
}

/// How many cells are mixed at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffer {
    /// So many cells.
    Cells(u64),
    /// As many cells of the dataset's mean size as have so many bytes decoded.
    Bytes(u64),
}

/// What happens where the cells of an epoch cannot be dealt evenly to ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Uneven {
    /// A few cells, fewer than there are ranks, are left out of the epoch.
    Drop,
    /// A few cells, fewer than there are ranks, are delivered twice.
    #[default]
    Pad,
}

/// What happens where data is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnDamage {
    /// The epoch ends with an error that names the tile.
    #[default]
    Fail,
    /// The cells concerned are missing from their batches, and counted.
    Skip,
}

impl OnDamage {
    /// Whether an error is passed over.
    pub(crate) fn skips(self, error: &celltile::Error) -> bool {
        self == Self::Skip && is_damage(error)
    }
}

/// What is done to counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transform {
    /// Nothing.
    #[default]
    Counts,
    /// `ln(1 + count * 10,000 / total)`, with the cell's total over all genes.
    Log1pCp10k,
}

/// Cells drawn by weight instead of each once.
#[derive(Debug, Clone)]
pub struct Weighting {
    /// One a cell of the dataset: finite, at least 0, one of the selected cells' above 0. Cells of weight 0 are never drawn.
    pub weights: Arc<[f64]>,
    /// Whether a cell can be drawn again.
    pub replacement: bool,
    /// Draws an epoch: by default as many as there are selected cells (with a weight above 0, without replacement).
    pub draws: Option<u64>,
}

/// Which of the parallel readers of an epoch this loader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat {
    /// Number of this process among those that train together.
    pub rank: u64,
    /// How many these are.
    pub world: u64,
    /// Number of this worker process of the rank.
    pub worker: u64,
    /// How many workers a rank has. Their batches are taken in turn, beginning with worker 0.
    pub workers: u64,
}

impl Default for Seat {
    fn default() -> Self {
        Self { rank: 0, world: 1, worker: 0, workers: 1 }
    }
}

/// What a loader delivers and how.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoaderOptions {
    /// Cells a batch, 4,096 by default.
    pub batch_size: u64,
    /// How cells are mixed.
    pub shuffle: Shuffle,
    /// How many cells are mixed at a time, 16,384 by default; at least a batch.
    pub buffer: Buffer,
    /// Tile chunks that are drawn together with [`Shuffle::Chunks`], 1 by default. Neighbours of one tile.
    pub group: u64,
    /// Whether a last batch of fewer cells is left out.
    pub drop_last: bool,
    /// Everything random is a function of this and the epoch.
    pub seed: u64,
    /// Where cells cannot be dealt evenly to ranks.
    pub uneven: Uneven,
    /// The cells to deliver, in any order, each once; all by default.
    pub cells: Option<Arc<[u64]>>,
    /// Cells drawn by weight; [`shuffle`](Self::shuffle) is of no account then.
    pub weighting: Option<Weighting>,
    /// The genes to deliver, in the order of the result's columns; all by default.
    pub genes: Option<Arc<[u64]>>,
    /// Columns of the obs table to deliver.
    pub columns: Vec<String>,
    /// Where obs columns are kept; what the environment names by default.
    pub cache: Option<Cache>,
    /// Whether each cell's sum of counts over all genes is delivered.
    pub totals: bool,
    /// What is done to counts.
    pub transform: Transform,
    /// Whether counts above 2^24 may be rounded to `f32`; always so with a transform.
    pub round_counts: bool,
    /// Where data is damaged.
    pub on_damage: OnDamage,
    /// Bytes of decoded cells that are kept ready; by default three times the buffer's. At least the buffer.
    pub memory: Option<u64>,
    /// Threads that decode; the machine's by default. The order does not depend on it.
    pub threads: usize,
    /// Which of the parallel readers this is.
    pub seat: Seat,
}

impl Default for LoaderOptions {
    fn default() -> Self {
        Self {
            batch_size: 4096,
            shuffle: Shuffle::default(),
            buffer: Buffer::Cells(16_384),
            group: 1,
            drop_last: false,
            seed: 0,
            uneven: Uneven::default(),
            cells: None,
            weighting: None,
            genes: None,
            columns: Vec::new(),
            cache: None,
            totals: false,
            transform: Transform::default(),
            round_counts: false,
            on_damage: OnDamage::default(),
            memory: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            seat: Seat::default(),
        }
    }
}

/// Weights that make every class as likely as any other: one over the size of a cell's class. `codes` are the classes of
/// all cells, negative where there is none: such cells have weight 0. Only `cells` are counted, if given.
#[must_use]
pub fn balanced_weights(codes: &[i64], cells: Option<&[u64]>) -> Vec<f64> {
    let mut sizes = std::collections::HashMap::<i64, u32>::new();
    let mut count = |code: i64| {
        let size = sizes.entry(code).or_default();
        *size = size.saturating_add(1);
    };
    match cells {
        None => codes.iter().copied().for_each(&mut count),
        Some(cells) => cells
            .iter()
            .filter_map(|&cell| codes.get(usize::try_from(cell).ok()?).copied())
            .for_each(&mut count),
    }
    let weight = |code: &i64| match sizes.get(code) {
        Some(&size) if *code >= 0 => 1.0 / f64::from(size),
        _ => 0.0,
    };
    codes.iter().map(weight).collect()
}
