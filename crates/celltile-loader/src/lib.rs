//! Shuffled minibatches from a deltacells dataset.
//!
//! A [`Loader`] hands out batches of cells in an order that is a pure function of the dataset, the seed, the epoch and the
//! [`LoaderOptions`]. No batch depends on what was delivered before it, so any place of an epoch is reached at once, from a
//! [`State`] of a few numbers, and by any number of ranks (`docs/decisions/loader-order.md`).
//!
//! The modules stand in the order in which a batch comes about: options, `order` (which cells when), `prefetch` (threads
//! that decode ahead), [`Batch`] (where decoded cells live), [`Loader`].
//!
//! ```
//! use std::sync::Arc;
//! use celltile::storage::MemoryStorage;
//! use celltile::{Csr, Dataset, DatasetWriter, WriterOptions};
//! use celltile_loader::{Loader, LoaderOptions};
//!
//! let storage = Arc::new(MemoryStorage::new());
//! let mut writer = DatasetWriter::create(storage.clone(), 3, &WriterOptions::default())?;
//! let cells = Csr { indptr: vec![0, 2, 2, 3], genes: vec![0, 2, 1], counts: vec![5, 1, 7] };
//! writer.push(cells.view()?)?;
//! writer.finish()?;
//! let dataset = Arc::new(Dataset::open_storage(storage, &Default::default())?);
//!
//! let mut options = LoaderOptions::default();
//! options.batch_size = 2;
//! let mut loader = Loader::<f32>::new(dataset, options)?;
//! let mut seen = Vec::new();
//! while let Some(batch) = loader.next_batch() {
//!     seen.extend_from_slice(batch?.cells());
//! }
//! seen.sort_unstable();
//! assert_eq!(seen, [0, 1, 2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod options;

mod order;
mod state;

mod batch;
mod prefetch;

mod loader;

mod error;
mod obs;
mod stats;

pub use batch::{Batch, Element};
pub use error::{Error, Result};
pub use loader::{Loader, Next};
pub use options::{
    Buffer, LoaderOptions, OnDamage, Seat, Shuffle, Transform, Uneven, Weighting, balanced_weights,
};
pub use state::{LaneState, Segment, State};
pub use stats::Stats;
