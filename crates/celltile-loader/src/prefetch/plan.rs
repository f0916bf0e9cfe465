//! From the cells of a fill to tile chunks, and from the heads of their tiles to where everything goes.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bytes::Bytes;
use celltile::{Error as DatasetError, TileHandle};

use super::Setup;
use crate::batch::{Element, bytes};
use crate::error::{Error, Result};
use crate::order::Lane;
use crate::stats::Counters;

/// Bytes fetched at once.
const FETCH: u64 = 32 << 20;

/// All cells of a fill that one tile chunk holds.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) tile: TileHandle,
    /// The tile's first cell.
    pub(super) first_cell: u64,
    pub(super) chunk: usize,
    /// Into [`Plan::sorted`].
    pub(super) cells: Range<usize>,
    pub(super) fetched: Option<Bytes>,
    /// Bytes of the chunk's frames.
    pub(super) bytes: u64,
}

/// The cells of a fill, or of its rest, and the jobs that decode them.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Place of the first cell in the lane.
    pub(super) start: u64,
    /// In the order in which they are delivered.
    pub(super) cells: Vec<u64>,
    /// Nonzeros of each, over all genes.
    pub(super) nnz: Vec<usize>,
    /// The cells in the dataset's order, with their positions in `cells`.
    pub(super) sorted: Vec<(u64, u32)>,
    pub(super) jobs: Vec<Job>,
    /// Positions of cells that cannot be had.
    pub(super) lost: Vec<u32>,
    /// Decoded.
    bytes: u64,
}

impl Plan {
    /// The place after the last cell.
    pub(super) fn end(&self) -> u64 {
        self.start + self.cells.len() as u64
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Plans the fills of one lane.
#[derive(Debug)]
pub(super) struct Planner<'s, C: Element> {
    pub(super) setup: &'s Setup<C>,
    pub(super) lane: &'s Lane<'s>,
    /// Of the lane.
    pub(super) len: u64,
}

impl<C: Element> Planner<'_, C> {
    /// The fill that holds a place, from that place on.
    pub(super) fn plan(&self, place: u64, stop: &AtomicBool) -> Result<Plan> {
        let mut plan = Plan { start: place, ..Plan::default() };
        let places = self.lane.fill(place, &mut plan.cells);
        let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        plan.cells.truncate(count(self.len.saturating_sub(places.start)));
        plan.cells.drain(..count(place.saturating_sub(places.start)).min(plan.cells.len()));
        if plan.cells.is_empty() {
            return Err(Error::Thread(format!("found no cells at place {place} of {}", self.len)));
        }
        plan.nnz.resize(plan.cells.len(), 0);
        plan.sorted = plan.cells.iter().copied().zip(0..).collect();
        plan.sorted.sort_unstable();
        let started = Instant::now();
        self.find_chunks(&mut plan)?;
        self.fetch(&mut plan, stop)?;
        Counters::add_time(&self.setup.counters.fetch, started);
        let nnz = plan.nnz.iter().fold(0_u64, |sum, &nnz| sum.saturating_add(nnz as u64));
        let cells = plan.cells.len() as u64;
        let most = self.setup.genes.as_ref().map_or(u64::MAX, |genes| genes.n_genes.saturating_mul(cells));
        plan.bytes = bytes::<C>(nnz.min(most), cells);
        Ok(plan)
    }

    fn find_chunks(&self, plan: &mut Plan) -> Result<()> {
        let tile_size = self.setup.dataset.manifest().tile_size.max(1);
        let mut tiles: Vec<u64> = plan.sorted.iter().map(|(cell, _)| cell / tile_size).collect();
        tiles.dedup();
        let opened = self.setup.dataset.open_tiles(&tiles)?;
        let mut at = 0;
        for (tile, opened) in tiles.into_iter().zip(opened) {
            let first_cell = tile.saturating_mul(tile_size);
            let rest = plan.sorted.get(at..).unwrap_or_default();
            let end = at + rest.partition_point(|(cell, _)| cell / tile_size <= tile);
            match opened {
                Ok(handle) => self.split_tile(plan, &handle, first_cell, at..end)?,
                Err(error) if self.skips(&error) => {
                    Counters::add(&self.setup.counters.damaged_chunks, 1);
                    let lost = plan.sorted.get(at..end).unwrap_or_default();
                    plan.lost.extend(lost.iter().map(|(_, position)| *position));
                }
                Err(error) => return Err(error.into()),
            }
            at = end;
        }
        Ok(())
    }

    /// Makes jobs of some cells of one tile.
    fn split_tile(
        &self,
        plan: &mut Plan,
        tile: &TileHandle,
        first_cell: u64,
        cells: Range<usize>,
    ) -> Result<()> {
        let fault = |e| self.setup.dataset.tile_error(tile.index(), e);
        let head = tile.head();
        let row = |cell: u64| usize::try_from(cell - first_cell).unwrap_or(usize::MAX);
        let mut at = cells.start;
        while at < cells.end {
            let rest = plan.sorted.get(at..cells.end).unwrap_or_default();
            let Some((first, _)) = rest.first() else { break };
            let chunk = head.chunk_of_cell(row(*first)).map_err(fault)?;
            let held = head.chunk_cells(chunk).map_err(fault)?;
            let len = rest.partition_point(|(cell, _)| row(*cell) < held.end).max(1);
            for (cell, position) in rest.iter().take(len) {
                let row = row(*cell);
                let nnz = head.nonzeros(row..row + 1).map_err(fault)?.len();
                if let Some(slot) = plan.nnz.get_mut(*position as usize) {
                    *slot = nnz;
                }
            }
            let span = head.frames_span(chunk).map_err(fault)?;
            plan.jobs.push(Job {
                tile: tile.clone(),
                first_cell,
                chunk,
                cells: at..at + len,
                fetched: None,
                bytes: span.end - span.start,
            });
            at += len;
        }
        Ok(())
    }

    fn fetch(&self, plan: &mut Plan, stop: &AtomicBool) -> Result<()> {
        if !self.setup.dataset.storage().is_remote() {
            return Ok(());
        }
        let mut rest = plan.jobs.as_mut_slice();
        while !rest.is_empty() && !stop.load(Ordering::Acquire) {
            let mut bytes = 0_u64;
            let many = rest.iter().take_while(|job| {
                let before = bytes;
                bytes = bytes.saturating_add(job.bytes);
                before < FETCH
            });
            let many = many.count();
            let (now, later) = rest.split_at_mut(many);
            rest = later;
            let wanted: Vec<(&TileHandle, usize)> = now.iter().map(|job| (&job.tile, job.chunk)).collect();
            for (answer, job) in self.setup.dataset.fetch_chunks(&wanted).into_iter().zip(now) {
                match answer {
                    Ok(fetched) => job.fetched = fetched,
                    // It is read again when it is decoded, and at fault there.
                    Err(error) if self.skips(&error) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    fn skips(&self, error: &DatasetError) -> bool {
        self.setup.on_damage.skips(error)
    }
}
