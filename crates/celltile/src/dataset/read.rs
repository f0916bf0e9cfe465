//! From a list of cells to their counts: which tile chunks hold them, where they go in the result, and the decoding.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use celltile_tile::{Count, Csr, Stores};

use super::ReadOptions;
use super::pool::{Pool, Worker};
use super::tiles::{OpenTile, Tiles};
use crate::error::{Error, Result};
use crate::keys;
use crate::memory::advise_large;
use crate::storage::ReadRequest;

/// Bytes of frames fetched at once from a remote storage.
const FETCH: u64 = 64 << 20;

/// Bytes of a result from which on it is written past the caches, which it would only empty.
const STREAMED: usize = 16 << 20;

/// Consecutive cells of one tile chunk that stand side by side in the result.
#[derive(Debug, Clone)]
struct Piece {
    /// Index into the plan's tiles.
    tile: usize,
    chunk: usize,
    /// Within the tile.
    cells: Range<usize>,
    /// Nonzeros of these cells.
    nnz: usize,
}

/// Where all cells of a request are, in the order of the result.
#[derive(Debug, Default)]
pub(super) struct Plan {
    tiles: Vec<Arc<OpenTile>>,
    pieces: Vec<Piece>,
    nnz: usize,
}

/// A piece and its part of the result.
struct Place<'a, C> {
    piece: Piece,
    /// Number of the piece in the plan.
    at: usize,
    genes: &'a mut [i32],
    counts: &'a mut [C],
}

/// All of a request that one tile chunk holds: it is read and inflated once.
struct Job<'p, 'a, C> {
    places: &'p mut [Place<'a, C>],
    fetched: Option<Bytes>,
}

impl<C> Job<'_, '_, C> {
    /// The tile chunk, as an index into the plan's tiles and the chunk's number there.
    fn chunk(&self) -> Option<(usize, usize)> {
        self.places.first().map(|place| (place.piece.tile, place.piece.chunk))
    }
}

impl Plan {
    /// A plan for cells in any order, repeats allowed. `locate` gives the tile of a cell and its number there.
    pub(super) fn new(
        tiles: &Tiles,
        pool: &Pool,
        cells: &[u64],
        locate: impl Fn(u64) -> Result<(u64, usize)>,
    ) -> Result<Self> {
        let places = cells.iter().map(|&cell| locate(cell)).collect::<Result<Vec<_>>>()?;
        let mut needed: Vec<u64> = places.iter().map(|(tile, _)| *tile).collect();
        needed.sort_unstable();
        needed.dedup();
        let mut plan = Self { tiles: open_all(tiles, pool, &needed)?, ..Self::default() };
        for (tile, row) in places {
            let at = needed.binary_search(&tile).unwrap_or_default();
            plan.push(tiles, at, row..row.saturating_add(1))?;
        }
        Ok(plan)
    }

    /// A plan for consecutive cells, given as ranges of consecutive tiles' cells.
    pub(super) fn of_ranges(tiles: &Tiles, pool: &Pool, ranges: &[(u64, Range<usize>)]) -> Result<Self> {
        let needed: Vec<u64> = ranges.iter().map(|(tile, _)| *tile).collect();
        let mut plan = Self { tiles: open_all(tiles, pool, &needed)?, ..Self::default() };
        for (at, (_, rows)) in ranges.iter().enumerate() {
            plan.push(tiles, at, rows.clone())?;
        }
        Ok(plan)
    }

    /// A plan for all cells of a tile.
    pub(super) fn of_tile(tiles: &Tiles, tile: OpenTile) -> Result<Self> {
        let rows = 0..tile.head.n_cells();
        let mut plan = Self { tiles: vec![Arc::new(tile)], ..Self::default() };
        plan.push(tiles, 0, rows)?;
        Ok(plan)
    }

    /// Appends consecutive cells of one tile: to the last piece if they follow it.
    fn push(&mut self, tiles: &Tiles, at: usize, rows: Range<usize>) -> Result<()> {
        let Some(tile) = self.tiles.get(at) else { return Ok(()) };
        let fault = |e| tiles.fault(tile.index, e);
        let head = &tile.head;
        let mut start = rows.start;
        while start < rows.end {
            let follows =
                self.pieces.last().filter(|p| p.tile == at && p.cells.end == start).map(|p| p.chunk);
            let held = |chunk| head.chunk_cells(chunk).map_err(fault);
            let joined = match follows {
                Some(chunk) => Some(held(chunk)?).filter(|cells| cells.contains(&start)),
                None => None,
            };
            let (chunk, chunk_end) = match joined.and_then(|cells| Some((follows?, cells.end))) {
                Some(found) => found,
                None => {
                    let chunk = head.chunk_of_cell(start).map_err(fault)?;
                    (chunk, held(chunk)?.end)
                }
            };
            let cells = start..rows.end.min(chunk_end);
            start = cells.end;
            let nnz = head.nonzeros(cells.clone()).map_err(fault)?.len();
            self.nnz = self.nnz.checked_add(nnz).ok_or_else(|| too_large(tiles, tile.index))?;
            match self.pieces.last_mut() {
                Some(last) if follows == Some(chunk) => {
                    last.cells.end = cells.end;
                    // No more than the sum above.
                    last.nnz = last.nnz.saturating_add(nnz);
                }
                _ => self.pieces.push(Piece { tile: at, chunk, cells, nnz }),
            }
        }
        Ok(())
    }

    /// Decodes all cells into `out`, whose memory is used again.
    pub(super) fn decode<C: Count>(
        self,
        tiles: &Tiles,
        pool: &Pool,
        options: &ReadOptions<'_>,
        out: &mut Csr<C>,
    ) -> Result<()> {
        self.fill_indptr(tiles, &mut out.indptr)?;
        resize(&mut out.genes, self.nnz, 0)?;
        resize(&mut out.counts, self.nnz, C::default())?;
        let (mut genes, mut counts) = (out.genes.as_mut_slice(), out.counts.as_mut_slice());
        let mut places = Vec::with_capacity(self.pieces.len());
        for (piece, at) in self.pieces.into_iter().zip(0..) {
            // The lengths add up to that of the result.
            let (own_genes, other_genes) = std::mem::take(&mut genes).split_at_mut(piece.nnz);
            let (own_counts, other_counts) = std::mem::take(&mut counts).split_at_mut(piece.nnz);
            (genes, counts) = (other_genes, other_counts);
            places.push(Place { piece, at, genes: own_genes, counts: own_counts });
        }
        let large = self.nnz.saturating_mul(size_of::<i32>() + size_of::<C>()) >= STREAMED;
        let stores = if large { Stores::Streamed } else { Stores::Cached };
        run_by_chunk(tiles, pool, &self.tiles, places, |worker, tile, chunk, fetched, places| {
            options.check_cancelled()?;
            let Worker { decoder, buffer } = worker;
            decoder.set_round_counts(options.round_counts);
            decoder.set_stores(stores, stores);
            tiles.with_frames(tile, chunk, fetched, buffer, |frames| {
                if let [place] = &mut *places
                    && place.piece.cells == tile.head.chunk_cells(chunk)?
                {
                    return decoder.decode_chunk(&tile.head, chunk, frames, place.genes, place.counts);
                }
                let open = decoder.open_chunk(&tile.head, chunk, frames)?;
                for place in places {
                    open.decode_cells(place.piece.cells.clone(), place.genes, place.counts)?;
                }
                Ok(())
            })
        })
    }

    /// Decodes all cells into `out`, with genes renumbered by `map` and those dropped that it maps below 0.
    pub(super) fn decode_mapped<C: Count>(
        self,
        tiles: &Tiles,
        pool: &Pool,
        options: &ReadOptions<'_>,
        map: &[i32],
        out: &mut Csr<C>,
    ) -> Result<()> {
        // What is left of each piece is known only once it is decoded: a matrix each, joined at the end.
        let parts: Vec<Mutex<Csr<C>>> = self.pieces.iter().map(|_| Mutex::new(Csr::new())).collect();
        let place = |(piece, at)| Place::<C> { piece, at, genes: &mut [], counts: &mut [] };
        let places = self.pieces.into_iter().zip(0..).map(place).collect();
        run_by_chunk(tiles, pool, &self.tiles, places, |worker, tile, chunk, fetched, places| {
            options.check_cancelled()?;
            let Worker { decoder, buffer } = worker;
            decoder.set_round_counts(options.round_counts);
            tiles.with_frames(tile, chunk, fetched, buffer, |frames| {
                let mut open = decoder.open_chunk(&tile.head, chunk, frames)?;
                for place in places {
                    let Some(part) = parts.get(place.at) else { continue };
                    let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
                    open.append_cells(place.piece.cells.clone(), Some(map), &mut part)?;
                }
                Ok(())
            })
        })?;
        join(parts, out)
    }

    /// The offsets of the result.
    fn fill_indptr(&self, tiles: &Tiles, indptr: &mut Vec<i64>) -> Result<()> {
        indptr.clear();
        indptr.push(0);
        let mut end = 0_i64;
        for piece in &self.pieces {
            let Some(tile) = self.tiles.get(piece.tile) else { continue };
            let offsets = tile.head.indptr().get(piece.cells.start..=piece.cells.end).unwrap_or_default();
            for (low, high) in offsets.iter().zip(offsets.iter().skip(1)) {
                end =
                    end.checked_add(high.saturating_sub(*low)).ok_or_else(|| too_large(tiles, tile.index))?;
                indptr.push(end);
            }
        }
        Ok(())
    }
}

/// Runs `decode` once for every tile chunk with all of its places, fetching frames ahead where that costs a round trip.
fn run_by_chunk<C: Count>(
    tiles: &Tiles,
    pool: &Pool,
    open: &[Arc<OpenTile>],
    mut places: Vec<Place<'_, C>>,
    decode: impl Fn(&mut Worker, &OpenTile, usize, Option<&[u8]>, &mut [Place<'_, C>]) -> Result<()> + Sync,
) -> Result<()> {
    let chunk_of = |place: &Place<'_, C>| (place.piece.tile, place.piece.chunk);
    places.sort_by_key(chunk_of);
    let jobs: Vec<Job<'_, '_, C>> = places
        .chunk_by_mut(|a, b| chunk_of(a) == chunk_of(b))
        .map(|places| Job { places, fetched: None })
        .collect();
    let run = |worker: &mut Worker, job: Job<'_, '_, C>| {
        let Some((tile, chunk)) = job.chunk() else { return Ok(()) };
        let Some(tile) = open.get(tile) else { return Ok(()) };
        decode(worker, tile, chunk, job.fetched.as_deref(), job.places)
    };
    if !tiles.storage.is_remote() {
        return pool.run(jobs, run);
    }
    let mut jobs = jobs.into_iter().peekable();
    while jobs.peek().is_some() {
        let batch = fetch(tiles, open, &mut jobs)?;
        pool.run(batch, run)?;
    }
    Ok(())
}

/// Takes jobs off the front and fetches their frames, all at once.
fn fetch<'p, 'a, C>(
    tiles: &Tiles,
    open: &[Arc<OpenTile>],
    jobs: &mut std::iter::Peekable<std::vec::IntoIter<Job<'p, 'a, C>>>,
) -> Result<Vec<Job<'p, 'a, C>>> {
    let mut batch = Vec::new();
    let mut wanted: Vec<(String, Range<u64>, usize)> = Vec::new();
    let mut total = 0_u64;
    while let Some(job) = jobs.peek() {
        if total >= FETCH {
            break;
        }
        if let Some((tile, chunk)) = job.chunk().and_then(|(tile, chunk)| Some((open.get(tile)?, chunk)))
            && !tile.is_resident()
        {
            let span = tile.head.frames_span(chunk).map_err(|e| tiles.fault(tile.index, e))?;
            total = total.saturating_add(span.end.saturating_sub(span.start));
            wanted.push((keys::tile(tile.index), span, batch.len()));
        }
        batch.extend(jobs.next());
    }
    for (answer, (_, _, at)) in read_many(tiles, &wanted).into_iter().zip(&wanted) {
        if let Some(job) = batch.get_mut(*at) {
            job.fetched = Some(answer?);
        }
    }
    Ok(batch)
}

/// Opens tiles, many at once: their first touch may read all of them. Ends with the first that cannot be opened.
fn open_all(tiles: &Tiles, pool: &Pool, needed: &[u64]) -> Result<Vec<Arc<OpenTile>>> {
    open_tiles(tiles, pool, needed, Err)?.into_iter().collect()
}

/// As [`open_all`], with an answer for each tile.
///
/// # Errors
/// If threads cannot be readied.
pub(super) fn open_each(tiles: &Tiles, pool: &Pool, needed: &[u64]) -> Result<Vec<Result<Arc<OpenTile>>>> {
    open_tiles(tiles, pool, needed, |error| Ok(Err(error)))
}

/// Opens tiles; `failed` says of an error whether it is the tile's answer or ends everything.
fn open_tiles(
    tiles: &Tiles,
    pool: &Pool,
    needed: &[u64],
    failed: impl Fn(Error) -> Result<Result<Arc<OpenTile>>> + Sync,
) -> Result<Vec<Result<Arc<OpenTile>>>> {
    let mut slots: Vec<Option<Result<Arc<OpenTile>>>> =
        needed.iter().map(|&tile| tiles.opened(tile).map(Ok)).collect();
    let empty = needed.iter().copied().zip(&mut slots).filter(|(_, slot)| slot.is_none());
    let mut missing: Vec<_> = empty.collect();
    let mut missing = missing.as_mut_slice();
    while !missing.is_empty() {
        let (now, later) = missing.split_at_mut(first_batch(tiles, missing));
        missing = later;
        let heads = fetch_heads(tiles, now);
        pool.run(heads.into_iter().zip(now).collect(), |_, (fetched, (tile, slot))| {
            let opened = fetched.and_then(|fetched| tiles.open(*tile, fetched));
            **slot = Some(opened.map(Ok).or_else(&failed)?);
            Ok(())
        })?;
    }
    // None is left empty: every task was run.
    Ok(slots.into_iter().flatten().collect())
}

/// How many of these tiles are opened at a time, at least one: what is fetched of them is held until they are.
fn first_batch<T>(tiles: &Tiles, missing: &[(u64, T)]) -> usize {
    if !tiles.storage.is_remote() {
        return missing.len();
    }
    let mut total = 0_u64;
    let fits = |(tile, _): &&(u64, T)| {
        let before = total;
        total = total.saturating_add(tiles.first_read(*tile).map_or(0, |range| range.end));
        before < FETCH
    };
    missing.iter().take_while(fits).count()
}

/// What is read first of each tile.
fn fetch_heads<T>(tiles: &Tiles, missing: &[(u64, T)]) -> Vec<Result<Option<Bytes>>> {
    let needed: Vec<u64> = missing.iter().map(|(tile, _)| *tile).collect();
    read_each(tiles, &needed, |tile| tiles.first_read(tile))
}

/// Reads a range of each tile, all at once, from a remote storage; from a local one nothing is read ahead.
pub(super) fn read_each(
    tiles: &Tiles,
    needed: &[u64],
    range: impl Fn(u64) -> Result<Range<u64>>,
) -> Vec<Result<Option<Bytes>>> {
    if !tiles.storage.is_remote() {
        return needed.iter().map(|_| Ok(None)).collect();
    }
    let mut answers: Vec<Result<Option<Bytes>>> = Vec::with_capacity(needed.len());
    let mut wanted: Vec<(String, Range<u64>, usize)> = Vec::with_capacity(needed.len());
    for (at, &tile) in needed.iter().enumerate() {
        answers.push(range(tile).map(|range| {
            wanted.push((keys::tile(tile), range, at));
            None
        }));
    }
    for (found, (_, _, at)) in read_many(tiles, &wanted).into_iter().zip(&wanted) {
        if let Some(answer) = answers.get_mut(*at) {
            *answer = found.map(Some);
        }
    }
    answers
}

pub(super) fn read_many(tiles: &Tiles, wanted: &[(String, Range<u64>, usize)]) -> Vec<Result<Bytes>> {
    let requests: Vec<ReadRequest<'_>> =
        wanted.iter().map(|(key, range, _)| ReadRequest { key, range: range.clone() }).collect();
    tiles.storage.read_many(&requests)
}

/// Puts matrices under each other.
fn join<C: Count>(parts: Vec<Mutex<Csr<C>>>, out: &mut Csr<C>) -> Result<()> {
    out.clear();
    for part in parts {
        let part = part.into_inner().unwrap_or_else(PoisonError::into_inner);
        let base = out.indptr.last().copied().unwrap_or_default();
        out.indptr.extend(part.indptr.iter().skip(1).map(|offset| base.saturating_add(*offset)));
        reserve(&mut out.genes, part.genes.len())?;
        reserve(&mut out.counts, part.counts.len())?;
        out.genes.extend_from_slice(&part.genes);
        out.counts.extend_from_slice(&part.counts);
    }
    Ok(())
}

/// Makes a buffer exactly this long. What it holds afterwards is to be overwritten.
fn resize<T: Copy>(buffer: &mut Vec<T>, len: usize, value: T) -> Result<()> {
    if buffer.capacity() < len {
        // New memory comes from the system as zeros: asked for so, nothing is written before the threads that decode do.
        // Some room, so that the next result of about as many cells finds a place too.
        let room = len.saturating_add(len / 16);
        *buffer = Vec::new();
        reserve(buffer, room)?;
        *buffer = Vec::new();
        *buffer = vec![value; room];
        advise_large(buffer);
        buffer.truncate(len);
    } else {
        buffer.resize(len, value);
    }
    Ok(())
}

fn reserve<T>(buffer: &mut Vec<T>, more: usize) -> Result<()> {
    buffer.try_reserve(more).map_err(|e| Error::Argument {
        what: "cells asked for",
        found: format!("{more} nonzeros more"),
        expected: format!("as many as memory holds: {e}"),
    })
}

fn too_large(tiles: &Tiles, tile: u64) -> Error {
    let most = i64::MAX.unsigned_abs();
    tiles.fault(tile, celltile_tile::Error::TooLarge { what: "result", found: u64::MAX, most })
}
