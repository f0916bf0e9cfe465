//! Tile chunks by number: for those who bring threads and memory of their own.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use celltile_tile::{OpenChunk, Stores, TileHead};

use super::Dataset;
use super::pool::Worker;
use super::read::{open_each, read_each, read_many};
use super::tiles::OpenTile;
use crate::error::{Error, Result};
use crate::keys;

/// A tile of an open dataset whose head is known and checked. Cheap to clone.
#[derive(Debug, Clone)]
pub struct TileHandle(Arc<OpenTile>);

impl TileHandle {
    /// The tile's number.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.0.index
    }

    /// Header, chunk table and indptr.
    #[must_use]
    pub fn head(&self) -> &TileHead {
        &self.0.head
    }
}

/// A decoder and memory for frames, used again from tile chunk to tile chunk: keep one a thread.
#[derive(Debug)]
pub struct ChunkReader(Worker);

impl ChunkReader {
    /// A reader for one thread.
    ///
    /// # Errors
    /// [`Error::Argument`] if there is no memory for a zstd context.
    pub fn new() -> Result<Self> {
        Worker::new().map(Self)
    }

    /// How what is decoded into the caller's slices is written from now on.
    pub fn set_stores(&mut self, genes: Stores, counts: Stores) {
        self.0.decoder.set_stores(genes, counts);
    }
}

impl Dataset {
    /// The cells at which the chunks of tiles begin, numbered within each tile, and one past the last: what is needed to
    /// plan which cells are read together. Reads headers and chunk tables, with an answer for each tile, and checks no
    /// checksums: opening a tile does.
    ///
    /// An answer is [`Error::OutOfRange`] past the last tile, [`Error::Tile`] or [`Error::TileMismatch`] for a damaged
    /// table, or what the storage reports.
    #[must_use]
    pub fn chunk_bounds(&self, tiles: &[u64]) -> Vec<Result<Vec<u64>>> {
        let mut bounds = Vec::with_capacity(tiles.len());
        // Tables of tens of kilobytes each.
        for some in tiles.chunks(256) {
            let fetched = read_each(&self.tiles, some, |tile| self.tiles.table_read(tile));
            bounds.extend(
                some.iter()
                    .zip(fetched)
                    .map(|(&tile, fetched)| self.tiles.chunk_bounds(tile, fetched?.as_deref())),
            );
        }
        bounds
    }

    /// Opens tiles, many at once, with an answer for each: their heads are read and checked, and what else
    /// [`Verify`](super::Verify) asks for.
    ///
    /// # Errors
    /// [`Error::Argument`] if there is no memory for a thread's decoder.
    pub fn open_tiles(&self, tiles: &[u64]) -> Result<Vec<Result<TileHandle>>> {
        let opened = open_each(&self.tiles, &self.pool, tiles)?;
        Ok(opened.into_iter().map(|open| open.map(TileHandle)).collect())
    }

    /// The frames of tile chunks, all fetched at once, where that saves round trips; `None` for those that are best read
    /// when they are decoded.
    #[must_use]
    pub fn fetch_chunks(&self, chunks: &[(&TileHandle, usize)]) -> Vec<Result<Option<Bytes>>> {
        let mut answers: Vec<Result<Option<Bytes>>> = chunks.iter().map(|_| Ok(None)).collect();
        if !self.tiles.storage.is_remote() {
            return answers;
        }
        let mut wanted = Vec::new();
        for (at, (TileHandle(tile), chunk)) in chunks.iter().enumerate() {
            if tile.is_resident() {
                continue;
            }
            match tile.head.frames_span(*chunk) {
                Ok(span) => wanted.push((keys::tile(tile.index), span, at)),
                Err(error) => {
                    if let Some(answer) = answers.get_mut(at) {
                        *answer = Err(self.tiles.fault(tile.index, error));
                    }
                }
            }
        }
        for (found, (_, _, at)) in read_many(&self.tiles, &wanted).into_iter().zip(&wanted) {
            if let Some(answer) = answers.get_mut(*at) {
                *answer = found.map(Some);
            }
        }
        answers
    }

    /// Appends some bytes of a tile, as they are, to `out`: frames that lie near each other are read best at once. Returns whether it
    /// did; not where [`fetch_chunks`](Self::fetch_chunks) does better, or the tile is in memory already.
    ///
    /// # Errors
    /// [`Error::Size`] past the end of the tile, or what the storage reports.
    pub fn read_span(&self, tile: &TileHandle, span: Range<u64>, out: &mut Vec<u8>) -> Result<bool> {
        if self.tiles.storage.is_remote() || tile.0.is_resident() {
            return Ok(false);
        }
        self.tiles.read_span(tile.index(), span, out)?;
        Ok(true)
    }

    /// An error of a tile's bytes, with its place.
    #[must_use]
    pub fn tile_error(&self, tile: u64, source: celltile_tile::Error) -> Error {
        self.tiles.fault(tile, source)
    }

    /// Reads and inflates a tile chunk, checks it, and hands it on. `fetched` is what
    /// [`fetch_chunks`](Self::fetch_chunks) gave for it.
    ///
    /// # Errors
    /// [`Error::Tile`] or [`Error::Checksum`] for damaged data, also what
    /// `decode` returns; or what the storage reports.
    pub fn with_chunk<T>(
        &self,
        reader: &mut ChunkReader,
        tile: &TileHandle,
        chunk: usize,
        fetched: Option<&[u8]>,
        round_counts: bool,
        decode: impl FnOnce(&mut OpenChunk<'_>) -> celltile_tile::Result<T>,
    ) -> Result<T> {
        let Worker { decoder, buffer } = &mut reader.0;
        decoder.set_round_counts(round_counts);
        self.tiles.with_frames(&tile.0, chunk, fetched, buffer, |frames| {
            decode(&mut decoder.open_chunk(&tile.0.head, chunk, frames)?)
        })
    }
}
