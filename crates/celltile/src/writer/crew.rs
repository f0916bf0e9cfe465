//! The threads behind a writer: some encode tile chunks, some put tiles together and write them.
//!
//! One lock guards all that they share. Work is handed over in batches of many thousand nonzeros, so it is taken a few
//! hundred times a second.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use celltile_tile::layout::Header;
use celltile_tile::{
    ChunkCut, ChunkEncoder, Csr, CsrView, EncodeOptions, EncodedChunk, TileAssembler, frames_crc, head_crc,
};

use super::job::{Batch, Done, Job, Work};
use super::record::{OnTile, TileRecord};
use super::source::Sorter;
use super::staged::{StagedBatch, StagedTile};
use crate::checksums::TileChecksums;
use crate::digest::Sha256;
use crate::error::{CellFault, Error, Result};
use crate::keys;
use crate::storage::Storage;

/// Tiles in the making at once: one being filled, others being encoded or written.
const OPEN_TILES: usize = 3;

/// What the threads need to know.
pub(super) struct Spec {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) n_genes: u32,
    pub(super) encode: EncodeOptions,
    pub(super) threads: usize,
    pub(super) memory: u64,
    /// The tile that comes first.
    pub(super) first_tile: u64,
    pub(super) on_tile: Option<OnTile>,
}

/// All that was written.
#[derive(Debug)]
pub(super) struct AllDone {
    pub(super) tiles: Vec<TileRecord>,
    pub(super) zeros_dropped: u64,
    pub(super) unsorted_cells: u64,
}

/// The threads and what they share; on the writer's side.
#[derive(Debug)]
pub(super) struct Crew {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    tile: u64,
    /// Batches of the tile that is being filled.
    batches: usize,
    tile_first_cell: u64,
}

#[derive(Debug)]
struct Shared {
    spec: Spec,
    state: Mutex<State>,
    /// There is a job, or an end of all jobs.
    jobs: Condvar,
    /// There is a tile to write, or an end of all tiles.
    ready: Condvar,
    /// A job or tile is done, or something failed.
    progress: Condvar,
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Tiles begun and not yet written.
    tiles: BTreeMap<u64, TileParts>,
    ready: VecDeque<u64>,
    records: BTreeMap<u64, TileRecord>,
    /// Bytes of cells handed over and not yet done with.
    in_flight: u64,
    spare: Vec<Csr>,
    zeros_dropped: u64,
    unsorted_cells: u64,
    closed: bool,
    /// The error of the first cell among those that failed.
    failure: Option<(u64, Error)>,
}

/// A tile in the making.
#[derive(Debug, Default)]
struct TileParts {
    first_cell: u64,
    encoded: BTreeMap<usize, Vec<EncodedChunk>>,
    staged: BTreeMap<usize, StagedBatch>,
    /// Jobs that make up the tile, once that is known.
    n_jobs: Option<usize>,
}

impl std::fmt::Debug for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spec")
            .field("storage", &self.storage)
            .field("encode", &self.encode)
            .finish_non_exhaustive()
    }
}

impl Crew {
    /// Starts the threads.
    pub(super) fn new(spec: Spec) -> Result<Self> {
        let (encoders, writers) = (spec.threads, 1 + spec.threads / 8);
        let tile = spec.first_tile;
        let shared = Arc::new(Shared {
            spec,
            state: Mutex::default(),
            jobs: Condvar::new(),
            ready: Condvar::new(),
            progress: Condvar::new(),
        });
        let mut crew = Self { shared, threads: Vec::new(), tile, batches: 0, tile_first_cell: 0 };
        for _ in 0..encoders {
            crew.spawn("celltile-encode", encode_loop)?;
        }
        for _ in 0..writers {
            crew.spawn("celltile-write", write_loop)?;
        }
        Ok(crew)
    }

    fn spawn(&mut self, name: &str, run: fn(&Shared)) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let body = move || {
            let guard = PanicGuard(&shared);
            run(&shared);
            drop(guard);
        };
        let thread =
            std::thread::Builder::new().name(name.to_owned()).spawn(body).map_err(|e| Error::Io {
                path: self.shared.spec.storage.locate(""),
                action: "start a thread to write",
                source: e,
            })?;
        self.threads.push(thread);
        Ok(())
    }

    /// Memory of a batch that is done with.
    pub(super) fn spare(&self) -> Csr {
        self.shared.lock().spare.pop().unwrap_or_default()
    }

    /// Hands over a batch, after waiting while more than the allowed bytes are under way.
    pub(super) fn submit(&mut self, batch: Batch) -> Result<()> {
        if batch.cells.n_cells() == 0 {
            return Ok(());
        }
        let shared = &self.shared;
        let (bytes, first_cell) = (batch.bytes(), batch.first_cell);
        if self.batches == 0 {
            self.tile_first_cell = first_cell;
        }
        let waits = |state: &mut State| {
            let full = state.in_flight > 0 && state.in_flight.saturating_add(bytes) > shared.spec.memory;
            let many = !state.tiles.contains_key(&self.tile) && state.tiles.len() >= OPEN_TILES;
            state.failure.is_none() && (full || many)
        };
        let mut state =
            shared.progress.wait_while(shared.lock(), waits).unwrap_or_else(PoisonError::into_inner);
        if state.failure.is_some() {
            return Err(stopped());
        }
        let tile_first_cell = self.tile_first_cell;
        state
            .tiles
            .entry(self.tile)
            .or_insert_with(|| TileParts { first_cell: tile_first_cell, ..TileParts::default() });
        state.in_flight = state.in_flight.saturating_add(bytes);
        let work = match shared.spec.encode.cut {
            ChunkCut::Count(_) => Work::Stage(batch),
            _ => Work::Encode(batch),
        };
        state.jobs.push_back(Job { tile: self.tile, number: self.batches, work, bytes, first_cell });
        self.batches = self.batches.saturating_add(1);
        shared.jobs.notify_one();
        Ok(())
    }

    /// The tile that is being filled has all of its batches.
    pub(super) fn end_tile(&mut self) -> Result<()> {
        let mut state = self.shared.lock();
        if let Some(parts) = state.tiles.get_mut(&self.tile) {
            parts.n_jobs = Some(self.batches);
        }
        self.shared.advance(&mut state, self.tile);
        self.tile = self.tile.saturating_add(1);
        self.batches = 0;
        if state.failure.is_some() { Err(stopped()) } else { Ok(()) }
    }

    /// Waits for everything to be written.
    pub(super) fn finish(mut self) -> Result<AllDone> {
        let shared = Arc::clone(&self.shared);
        let waits = |state: &mut State| state.failure.is_none() && !state.tiles.is_empty();
        drop(shared.progress.wait_while(shared.lock(), waits).unwrap_or_else(PoisonError::into_inner));
        self.join();
        let mut state = shared.lock();
        match state.failure.take() {
            Some((_, error)) => Err(error),
            None => Ok(AllDone {
                tiles: std::mem::take(&mut state.records).into_values().collect(),
                zeros_dropped: state.zeros_dropped,
                unsorted_cells: state.unsorted_cells,
            }),
        }
    }

    /// Ends after an error. One that a thread has met is that of an earlier cell, so it comes first.
    pub(super) fn abandon(mut self, error: Error) -> Error {
        self.join();
        let failure = self.shared.lock().failure.take();
        failure.map_or(error, |(_, failure)| failure)
    }

    /// Ends the threads. What an encoder has begun, and what comes before a failed cell, is done first.
    fn join(&mut self) {
        self.shared.lock().closed = true;
        self.shared.jobs.notify_all();
        self.shared.ready.notify_all();
        for thread in self.threads.drain(..) {
            // A panic was noted by its guard.
            let _ = thread.join();
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            // A writer that is dropped unfinished: what waits is not worth doing.
            let mut state = self.shared.lock();
            state.jobs.clear();
            state.ready.clear();
            drop(state);
            self.join();
        }
    }
}

/// Keeps the writer from waiting for a thread that is gone.
struct PanicGuard<'a>(&'a Shared);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let error = Error::WriterStopped("a thread panicked".to_owned());
            self.0.fail(&mut self.0.lock(), 0, error);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, state: &mut State, first_cell: u64, error: Error) {
        if state.failure.as_ref().is_none_or(|(cell, _)| first_cell < *cell) {
            state.failure = Some((first_cell, error));
        }
        self.progress.notify_all();
    }

    /// Where a tile is on its way, if all of the jobs of a step are done: the next step.
    fn advance(&self, state: &mut State, tile: u64) {
        let Some(parts) = state.tiles.get_mut(&tile) else { return };
        let Some(n_jobs) = parts.n_jobs else { return };
        if parts.staged.len() == n_jobs && n_jobs > 0 {
            let batches = std::mem::take(&mut parts.staged).into_values().collect();
            let staged = Arc::new(StagedTile::new(batches));
            match self.spec.encode.cut.chunks(&staged.indptr) {
                Ok(chunks) => {
                    parts.n_jobs = Some(chunks.len());
                    let first_cell = parts.first_cell;
                    for (number, cells) in chunks.into_iter().enumerate() {
                        let first_cell = first_cell.saturating_add(cells.start as u64);
                        let work = Work::EncodeStaged(Arc::clone(&staged), cells);
                        state.jobs.push_back(Job { tile, number, work, bytes: 0, first_cell });
                    }
                    self.jobs.notify_all();
                }
                Err(e) => {
                    let (first_cell, error) = (parts.first_cell, self.tile_fault(tile, e));
                    self.fail(state, first_cell, error);
                }
            }
        } else if parts.encoded.len() == n_jobs {
            state.ready.push_back(tile);
            self.ready.notify_one();
        }
    }

    fn tile_fault(&self, tile: u64, source: celltile_tile::Error) -> Error {
        Error::Tile { path: self.spec.storage.locate(&keys::tile(tile)), tile, source: Box::new(source) }
    }

    /// The next job; none at the end. After a failure only what comes before the failed cell is still done, so that the
    /// first fault of the data is told, whatever the number of threads.
    fn next_job(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            while let Some(job) = state.jobs.pop_front() {
                if state.failure.as_ref().is_none_or(|(cell, _)| job.first_cell < *cell) {
                    return Some(job);
                }
                state.in_flight = state.in_flight.saturating_sub(job.bytes);
            }
            if state.closed {
                return None;
            }
            state = self.jobs.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// An encoding thread.
fn encode_loop(shared: &Shared) {
    let mut encoder = match ChunkEncoder::new(shared.spec.encode.compression) {
        Ok(encoder) => encoder,
        Err(e) => return shared.fail(&mut shared.lock(), 0, shared.tile_fault(0, e)),
    };
    let mut sorter = Sorter::new(shared.spec.n_genes);
    let mut unpacked = Csr::new();
    while let Some(job) = shared.next_job() {
        let Job { tile, number, work, bytes, first_cell } = job;
        let mut spare = None;
        let done = match work {
            Work::Encode(mut batch) => {
                let done = sorter.normalise(&mut batch).and_then(|()| {
                    let cells = batch.cells.view().map_err(|e| shared.tile_fault(tile, e))?;
                    let encode = |range| encode(shared, &mut encoder, tile, cells, range, first_cell);
                    batch.chunks().map(encode).collect::<Result<Vec<_>>>()
                });
                spare = Some(batch.cells);
                done.map(Done::Encoded)
            }
            Work::Stage(mut batch) => {
                let done = sorter.normalise(&mut batch).and_then(|()| {
                    let cells = batch.cells.view().map_err(|e| shared.tile_fault(tile, e))?;
                    Ok(StagedBatch::pack(&cells))
                });
                spare = Some(batch.cells);
                done.map(Done::Staged)
            }
            Work::EncodeStaged(staged, range) => {
                staged.unpack(range.clone(), &mut unpacked);
                let cells = unpacked.view().map_err(|e| shared.tile_fault(tile, e));
                let all = 0..range.len();
                cells
                    .and_then(|cells| encode(shared, &mut encoder, tile, cells, all, first_cell))
                    .map(|chunk| Done::Encoded(vec![chunk]))
            }
        };
        let mut state = shared.lock();
        state.in_flight = state.in_flight.saturating_sub(bytes);
        state.zeros_dropped = state.zeros_dropped.saturating_add(std::mem::take(&mut sorter.zeros_dropped));
        state.unsorted_cells =
            state.unsorted_cells.saturating_add(std::mem::take(&mut sorter.unsorted_cells));
        if state.spare.len() < shared.spec.threads {
            state.spare.extend(spare);
        }
        match (done, state.tiles.get_mut(&tile)) {
            (Ok(Done::Encoded(chunks)), Some(parts)) => {
                parts.encoded.insert(number, chunks);
            }
            (Ok(Done::Staged(batch)), Some(parts)) => {
                parts.staged.insert(number, batch);
            }
            (Ok(_), None) => {}
            (Err(error), _) => {
                let cell = if let Error::Cell { cell, .. } = error { cell } else { first_cell };
                shared.fail(&mut state, cell, error);
            }
        }
        shared.advance(&mut state, tile);
        shared.progress.notify_all();
    }
}

/// Encodes one tile chunk; `first` is the number of the first of `cells` in the dataset.
fn encode(
    shared: &Shared,
    encoder: &mut ChunkEncoder,
    tile: u64,
    cells: CsrView<'_>,
    range: std::ops::Range<usize>,
    first: u64,
) -> Result<EncodedChunk> {
    let first_of_chunk = first.saturating_add(u64::try_from(range.start).unwrap_or(u64::MAX));
    let part = cells.cells(range).map_err(|e| shared.tile_fault(tile, e))?;
    encoder.encode(part, shared.spec.n_genes).map_err(|e| {
        use celltile_tile::Error as TileError;
        let number = |cell: usize| first_of_chunk.saturating_add(u64::try_from(cell).unwrap_or(u64::MAX));
        match e {
            TileError::InputOrder { cell, previous, gene } if previous == gene => {
                let found =
                    part.iter().nth(cell).into_iter().flat_map(|(genes, counts)| genes.iter().zip(counts));
                let mut found = found.filter(|(g, _)| **g == gene).map(|(_, count)| i64::from(*count));
                let (first, second) = (found.next().unwrap_or_default(), found.next().unwrap_or_default());
                let reason = CellFault::RepeatedGene { gene: gene.into(), first, second };
                Error::Cell { cell: number(cell), reason }
            }
            TileError::InputOrder { cell, previous, gene } => {
                let reason = CellFault::Unsorted { gene: gene.into(), previous: previous.into() };
                Error::Cell { cell: number(cell), reason }
            }
            TileError::InputGene { cell, gene, n_genes } => {
                let reason = CellFault::GeneOutOfRange { gene: gene.into(), n_genes: n_genes.into() };
                Error::Cell { cell: number(cell), reason }
            }
            TileError::InputCount { cell, gene, count } => {
                let reason = CellFault::Count { gene: gene.into(), count: count.into() };
                Error::Cell { cell: number(cell), reason }
            }
            other => shared.tile_fault(tile, other),
        }
    })
}

/// A writing thread.
fn write_loop(shared: &Shared) {
    loop {
        let (tile, first_cell, chunks) = {
            let mut state = shared.lock();
            let tile = loop {
                if let Some(tile) = state.ready.pop_front() {
                    break tile;
                }
                if state.closed {
                    return;
                }
                state = shared.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
            };
            let parts = state.tiles.get_mut(&tile);
            let first_cell = parts.as_ref().map_or(0, |parts| parts.first_cell);
            let encoded = parts.map(|parts| std::mem::take(&mut parts.encoded)).unwrap_or_default();
            (tile, first_cell, encoded.into_values().flatten())
        };
        let written = write_tile(shared, tile, chunks);
        let mut state = shared.lock();
        match written {
            Ok(record) => {
                state.records.insert(tile, record);
                state.tiles.remove(&tile);
                shared.progress.notify_all();
            }
            Err(error) => shared.fail(&mut state, first_cell, error),
        }
    }
}

/// Puts a tile together and writes it.
fn write_tile(shared: &Shared, tile: u64, chunks: impl Iterator<Item = EncodedChunk>) -> Result<TileRecord> {
    let fault = |e| shared.tile_fault(tile, e);
    let mut assembler = TileAssembler::new(shared.spec.n_genes).map_err(fault)?;
    let mut crcs = Vec::new();
    for chunk in chunks {
        crcs.push(frames_crc(&chunk.frames()));
        assembler.push(chunk).map_err(fault)?;
    }
    let (cells, nnz) = (u64::try_from(assembler.n_cells()).unwrap_or(u64::MAX), assembler.nnz());
    let bytes = assembler.finish().map_err(fault)?;
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let header = Header::parse(&bytes, size).map_err(fault)?;
    let part = |range: std::ops::Range<u64>| {
        let range = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        range.and_then(|(start, end)| bytes.get(start..end)).unwrap_or_default()
    };
    let head = head_crc(part(0..header.table_range().end), part(header.indptr_range()));
    let sha256 = Sha256::of(&bytes);
    shared.spec.storage.write(&keys::tile(tile), &bytes)?;
    let record =
        TileRecord { cells, nnz, bytes: size, sha256, checksums: TileChecksums { head, chunks: crcs } };
    if let Some(on_tile) = &shared.spec.on_tile {
        on_tile(tile, &record)?;
    }
    Ok(record)
}

/// Stands for the failure that the threads have met, until it is known.
fn stopped() -> Error {
    Error::WriterStopped("a thread failed".to_owned())
}
