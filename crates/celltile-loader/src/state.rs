//! Where in an epoch a loader is, as a few numbers.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A stretch of an epoch during which the cells were dealt in one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// Ranks.
    pub world: u64,
    /// Workers of each rank.
    pub workers: u64,
    /// Cells a batch.
    pub batch_size: u64,
    /// Cells of the buffer.
    pub buffer: u64,
    /// Batches that each rank was given.
    pub steps: u64,
}

impl Segment {
    /// Whether the cells are dealt in the same way.
    pub(crate) fn deals_like(&self, other: &Self) -> bool {
        Self { steps: 0, ..*self } == Self { steps: 0, ..*other }
    }
}

/// The place of one worker of many, which does not know how far the others are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaneState {
    /// Number of the worker.
    pub worker: u64,
    /// The part of the rank's cells that it delivers.
    pub lane: u64,
    /// Batches that this worker delivered of the last segment. Its `steps` are 0.
    pub steps: u64,
}

/// Where in which epoch a loader is: the same on every rank, since all take equal steps.
///
/// It holds no cells: which cells were delivered follows from these numbers, the dataset and the options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Version of this layout and of the order: 1.
    pub version: u32,
    /// Identifies the dataset and the options that decide the order.
    pub order: String,
    /// The epoch, from 0.
    pub epoch: u64,
    /// What was delivered of the epoch.
    pub segments: Vec<Segment>,
    /// The place of one worker, in the state of a worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<LaneState>,
}

/// The version written and read.
pub(crate) const VERSION: u32 = 1;

/// Most segments that a state can have: each of them is gone through when an epoch is resumed.
const MOST_SEGMENTS: usize = 10_000;

impl State {
    /// As JSON.
    ///
    /// # Errors
    /// [`Error::State`], never in practice.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|e| fault("JSON", e, "numbers and text"))
    }

    /// From JSON.
    ///
    /// # Errors
    /// [`Error::State`] if it is not a state.
    pub fn from_json(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|e| fault("JSON", e, "what state() gave"))
    }

    /// Checks a state against the loader that is to go on from it.
    pub(crate) fn check(&self, order: &str) -> Result<()> {
        if self.version != VERSION {
            return Err(fault("version", self.version, VERSION.to_string()));
        }
        if self.order != order {
            let expected = format!("{order}: the same dataset, seed, shuffle, cells, weights and the like");
            return Err(fault("order", &self.order, expected));
        }
        if self.segments.len() > MOST_SEGMENTS {
            return Err(fault("number of segments", self.segments.len(), MOST_SEGMENTS.to_string()));
        }
        for segment in &self.segments {
            let lanes = segment.world.saturating_mul(segment.workers);
            for (what, found, most) in [
                ("world", segment.world, 1 << 24),
                ("workers", segment.workers, 1 << 16),
                ("world times workers", lanes, 1 << 24),
                ("batch_size", segment.batch_size, u64::from(u32::MAX)),
                ("buffer", segment.buffer, u64::from(u32::MAX)),
            ] {
                if !(1..=most).contains(&found) {
                    return Err(fault(what, found, format!("1 to {most}")));
                }
            }
        }
        Ok(())
    }
}

#[allow(clippy::needless_pass_by_value, reason = "numbers and text alike")]
pub(crate) fn fault(what: &'static str, found: impl ToString, expected: impl Into<String>) -> Error {
    Error::State { what, found: found.to_string(), expected: expected.into() }
}
