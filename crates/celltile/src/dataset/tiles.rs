//! The tiles of an open dataset: their heads, kept, and their frames, read by position; both checked as
//! [`Verify`] says.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use celltile_tile::layout::{CHUNK_ENTRY_LEN, ChunkEntry, HEADER_LEN, Header};
use celltile_tile::{ChunkFrames, Tile, TileHead, frames_crc, head_crc};

use super::{OpenOptions, Verify};
use crate::checksums::{ChecksumFile, TileChecksums};
use crate::dataset::lru::Lru;
use crate::error::{Error, Result};
use crate::keys;
use crate::manifest::Manifest;
use crate::storage::{Object, Storage};

/// Bytes read at a time where a whole tile's CRC is computed.
const PIECE: usize = 1 << 20;

/// Access to the tiles of one dataset.
#[derive(Debug)]
pub(super) struct Tiles {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) manifest: Arc<Manifest>,
    verify: Verify,
    heads: Lru<Arc<OpenTile>>,
    objects: Lru<Arc<dyn Object>>,
    /// Tiles whose CRC was found right since the dataset was opened.
    sound: Vec<AtomicBool>,
    /// Tiles that were fetched whole since the dataset was opened, so that a cache of tiles has them; none without one.
    kept: Option<Vec<AtomicBool>>,
    checksums: Mutex<Option<Arc<ChecksumFile>>>,
}

/// A tile whose head is known and checked.
#[derive(Debug)]
pub(super) struct OpenTile {
    pub(super) index: u64,
    pub(super) head: TileHead,
    /// A CRC a tile chunk, if its frames are to be checked whenever they are read.
    chunk_crcs: Option<Vec<u32>>,
    /// All of the tile, where it could only be fetched and checked whole.
    whole: Option<Bytes>,
}

impl OpenTile {
    /// Whether the frames of its chunks must be read before they are decoded.
    pub(super) fn is_resident(&self) -> bool {
        self.whole.is_some()
    }

    fn weight(&self) -> u64 {
        let table = self.head.n_chunks().saturating_mul(CHUNK_ENTRY_LEN + 4);
        let indptr = self.head.indptr().len().saturating_mul(8);
        let whole = self.whole.as_ref().map_or(0, Bytes::len);
        u64::try_from(table.saturating_add(indptr).saturating_add(whole)).unwrap_or(u64::MAX)
    }
}

/// What the manifest says of a tile.
struct Recorded {
    cells: u64,
    nnz: u64,
    bytes: u64,
}

impl Tiles {
    pub(super) fn new(storage: Arc<dyn Storage>, manifest: Arc<Manifest>, options: &OpenOptions) -> Self {
        let flags = || manifest.tile_cells.iter().map(|_| AtomicBool::new(false)).collect();
        let kept = (options.tile_cache.is_some() && storage.is_remote()).then(flags);
        Self {
            kept,
            storage,
            verify: options.verify,
            heads: Lru::new(options.head_cache),
            objects: Lru::new(options.open_files),
            sound: flags(),
            checksums: Mutex::new(None),
            manifest,
        }
    }

    /// Opens a tile: its head is checked, and its CRC too where that is what [`Verify`] asks for. `fetched` is what was read of
    /// [`first_read`](Self::first_read), if the caller has it.
    pub(super) fn open(&self, tile: u64, fetched: Option<Bytes>) -> Result<Arc<OpenTile>> {
        let open = Arc::new(self.load(tile, fetched)?);
        self.heads.put(tile, Arc::clone(&open), open.weight());
        Ok(open)
    }

    /// The tile, if it is open.
    pub(super) fn opened(&self, tile: u64) -> Option<Arc<OpenTile>> {
        self.heads.get(tile)
    }

    /// The bytes with which [`open`](Self::open) begins.
    pub(super) fn first_read(&self, tile: u64) -> Result<Range<u64>> {
        let recorded = self.recorded(tile)?;
        let whole = self.fetches_whole() || self.is_to_be_kept(tile);
        Ok(0..if whole { recorded.bytes } else { self.head_guess(&recorded) })
    }

    /// Whether a tile is to be fetched whole so that the cache of tiles has it: once as long as the dataset is open.
    fn is_to_be_kept(&self, tile: u64) -> bool {
        let flag = self.kept.as_ref().zip(usize::try_from(tile).ok()).and_then(|(kept, at)| kept.get(at));
        flag.is_some_and(|kept| !kept.load(Ordering::Acquire))
    }

    fn set_kept(&self, tile: u64) {
        let flag = self.kept.as_ref().zip(usize::try_from(tile).ok()).and_then(|(kept, at)| kept.get(at));
        if let Some(kept) = flag {
            kept.store(true, Ordering::Release);
        }
    }

    /// Header and chunk table of a tile, as they stand in the object: the cells at which its chunks begin, and one past
    /// the last. Only what is needed to cut the tile is read and checked; opening the tile checks the rest.
    pub(super) fn chunk_bounds(&self, tile: u64, fetched: Option<&[u8]>) -> Result<Vec<u64>> {
        if let Some(open) = self.opened(tile) {
            return Ok(bounds(open.head.chunks()));
        }
        let recorded = self.recorded(tile)?;
        let fault = |e| self.fault(tile, e);
        let object = self.object(tile)?;
        let start = match fetched {
            Some(bytes) => bytes.to_vec(),
            None => read(object.as_ref(), 0, self.table_guess(&recorded))?,
        };
        let header = Header::parse(&start, recorded.bytes).map_err(fault)?;
        self.compare(tile, &recorded, &header)?;
        let range = HEADER_LEN as u64..header.table_range().end;
        let inside = usize::try_from(range.end).ok().and_then(|end| start.get(HEADER_LEN..end));
        let table = match inside {
            Some(bytes) => bytes.to_vec(),
            // Within the tile: the header was checked.
            None => read(object.as_ref(), range.start, range.end.saturating_sub(range.start))?,
        };
        let chunks: Vec<ChunkEntry> = table.as_chunks().0.iter().map(ChunkEntry::parse).collect();
        let mut end = 0;
        for (chunk, entry) in chunks.iter().enumerate() {
            for (field, found, ok) in [
                ("cell_lo", entry.cell_lo, entry.cell_lo == end),
                ("cell_hi", entry.cell_hi, (end..=header.n_cells).contains(&entry.cell_hi)),
            ] {
                if !ok {
                    let expected = format!("{end} to {}", header.n_cells);
                    return Err(fault(celltile_tile::Error::ChunkTable { chunk, field, found, expected }));
                }
            }
            end = entry.cell_hi;
        }
        if end != header.n_cells {
            let chunk = chunks.len().saturating_sub(1);
            let expected = format!("{}, the end of the tile", header.n_cells);
            return Err(fault(celltile_tile::Error::ChunkTable {
                chunk,
                field: "cell_hi",
                found: end,
                expected,
            }));
        }
        Ok(bounds(&chunks))
    }

    /// The bytes with which [`chunk_bounds`](Self::chunk_bounds) begins.
    pub(super) fn table_read(&self, tile: u64) -> Result<Range<u64>> {
        let recorded = self.recorded(tile)?;
        Ok(0..self.table_guess(&recorded))
    }

    /// Where a tile's chunk table most likely ends.
    fn table_guess(&self, recorded: &Recorded) -> u64 {
        let table = self.manifest.n_chunks.min(recorded.cells).saturating_mul(CHUNK_ENTRY_LEN as u64);
        (HEADER_LEN as u64).saturating_add(table).min(recorded.bytes)
    }

    /// Whether a tile can only be checked by fetching all of it.
    fn fetches_whole(&self) -> bool {
        self.verify == Verify::Full && self.manifest.tile_checksums.is_none() && self.storage.is_remote()
    }

    /// Where a tile's head most likely ends: there, if it lies as this crate's writer lays it.
    fn head_guess(&self, recorded: &Recorded) -> u64 {
        // The manifest's number of chunks is informational.
        let table = self.manifest.n_chunks.min(recorded.cells).saturating_mul(CHUNK_ENTRY_LEN as u64);
        let indptr = recorded.cells.saturating_add(1).saturating_mul(8);
        (HEADER_LEN as u64).saturating_add(table).saturating_add(indptr).min(recorded.bytes)
    }

    /// The tile with all of its bytes, in one read; nothing of it is kept.
    pub(super) fn open_whole(&self, tile: u64) -> Result<OpenTile> {
        let (bytes, head) = self.read_whole(tile, None)?;
        Ok(OpenTile { index: tile, head, chunk_crcs: None, whole: Some(bytes) })
    }

    /// Whether reading a tile whole is the best way to all of its cells.
    pub(super) fn whole_is_best(&self) -> bool {
        self.storage.is_remote() || self.manifest.tile_checksums.is_none()
    }

    /// All bytes of a tile, in one read (or as fetched already), checked; and its head.
    pub(super) fn read_whole(&self, tile: u64, fetched: Option<Bytes>) -> Result<(Bytes, TileHead)> {
        let recorded = self.recorded(tile)?;
        let key = keys::tile(tile);
        if !self.storage.is_remote() {
            let found = self.object(tile)?.size()?;
            if found != recorded.bytes {
                return Err(Error::Size { path: self.storage.locate(&key), found, expected: recorded.bytes });
            }
        }
        let bytes = match fetched {
            Some(bytes) => bytes,
            None => self.storage.read_range(&key, 0..recorded.bytes)?,
        };
        let parsed = Tile::parse(&bytes).map_err(|e| self.fault(tile, e))?;
        self.compare(tile, &recorded, parsed.head().header())?;
        if self.verify == Verify::Full {
            parsed.check_crc().map_err(|e| self.fault(tile, e))?;
            self.set_sound(tile);
        }
        let head = parsed.into_head();
        Ok((bytes, head))
    }

    /// Hands the frames of a tile chunk, checked, to `use_frames`. `fetched` is what was read of
    /// [`TileHead::frames_span`], if the caller has it; otherwise it is read into `buffer`.
    pub(super) fn with_frames<T>(
        &self,
        tile: &OpenTile,
        chunk: usize,
        fetched: Option<&[u8]>,
        buffer: &mut Vec<u8>,
        use_frames: impl FnOnce(&ChunkFrames<'_>) -> celltile_tile::Result<T>,
    ) -> Result<T> {
        let fault = |e| self.fault(tile.index, e);
        let span = tile.head.frames_span(chunk).map_err(fault)?;
        let (bytes, base) = match (&tile.whole, fetched) {
            (Some(whole), _) => (whole.as_ref(), 0),
            (None, Some(fetched)) => (fetched, span.start),
            (None, None) => {
                let object = self.object(tile.index)?;
                // No longer than the tile, whose size was compared with the manifest's.
                let len = usize::try_from(span.end.saturating_sub(span.start)).unwrap_or(usize::MAX);
                if buffer.len() < len {
                    buffer.resize(len, 0);
                }
                let bytes = buffer.get_mut(..len).unwrap_or_default();
                object.read_at(span.start, bytes)?;
                (&*bytes, span.start)
            }
        };
        let frames = tile.head.frames(chunk, bytes, base).map_err(fault)?;
        if let Some(expected) = tile.chunk_crcs.as_ref().and_then(|crcs| crcs.get(chunk)) {
            self.compare_crc(tile.index, || format!("tile chunk {chunk}"), frames_crc(&frames), *expected)?;
        }
        use_frames(&frames).map_err(fault)
    }

    /// Appends some bytes of a tile to `out`.
    pub(super) fn read_span(&self, tile: u64, span: Range<u64>, out: &mut Vec<u8>) -> Result<()> {
        let recorded = self.recorded(tile)?;
        if span.end > recorded.bytes || span.start > span.end {
            let path = self.storage.locate(&keys::tile(tile));
            return Err(Error::Size { path, found: recorded.bytes, expected: span.end });
        }
        let start = out.len();
        // No more than the tile has.
        let len = usize::try_from(span.end - span.start).unwrap_or(usize::MAX);
        out.resize(start.saturating_add(len), 0);
        self.object(tile)?.read_at(span.start, out.get_mut(start..).unwrap_or_default())
    }

    /// An error of a tile with its place.
    pub(super) fn fault(&self, tile: u64, source: celltile_tile::Error) -> Error {
        Error::Tile { path: self.storage.locate(&keys::tile(tile)), tile, source: Box::new(source) }
    }

    fn load(&self, tile: u64, fetched: Option<Bytes>) -> Result<OpenTile> {
        let recorded = self.recorded(tile)?;
        let checksums = match self.verify {
            Verify::Full => self.checksums(tile)?,
            Verify::Structure => None,
        };
        if self.fetches_whole() {
            let (bytes, head) = self.read_whole(tile, fetched)?;
            return Ok(OpenTile { index: tile, head, chunk_crcs: None, whole: Some(bytes) });
        }
        if self.is_to_be_kept(tile) {
            let (_, head) = self.read_whole(tile, fetched)?;
            self.set_kept(tile);
            let chunk_crcs = self.chunk_crcs(tile, checksums, head.n_chunks() as u64)?;
            return Ok(OpenTile { index: tile, head, chunk_crcs, whole: None });
        }
        let object = self.object(tile)?;
        if !self.storage.is_remote() {
            let found = object.size()?;
            if found != recorded.bytes {
                let path = self.storage.locate(&keys::tile(tile));
                return Err(Error::Size { path, found, expected: recorded.bytes });
            }
        }
        let parts = self.read_head(tile, object.as_ref(), &recorded, fetched)?;
        self.compare(tile, &recorded, &parts.header)?;
        if let Some(checksums) = &checksums {
            let found = head_crc(&parts.header_and_table, &parts.indptr);
            self.compare_crc(tile, || "the tile's head".to_owned(), found, checksums.head)?;
        }
        let whole_crc = self.verify == Verify::Full && checksums.is_none();
        let chunk_crcs = self.chunk_crcs(tile, checksums, u64::from(parts.header.n_chunks))?;
        let head = TileHead::parse(&parts.header_and_table, &parts.indptr, recorded.bytes)
            .map_err(|e| self.fault(tile, e))?;
        if whole_crc {
            self.check_crc(tile, object.as_ref(), head.header())?;
        }
        Ok(OpenTile { index: tile, head, chunk_crcs, whole: None })
    }

    /// The recorded CRCs of a tile's chunks, one a chunk, if there are any.
    fn chunk_crcs(
        &self,
        tile: u64,
        checksums: Option<TileChecksums>,
        expected: u64,
    ) -> Result<Option<Vec<u32>>> {
        let Some(TileChecksums { chunks, .. }) = checksums else { return Ok(None) };
        let found = chunks.len() as u64;
        if found == expected {
            return Ok(Some(chunks));
        }
        Err(Error::File {
            path: self.storage.locate(keys::TILE_CHECKSUMS),
            what: format!("n_chunks of tile {tile}"),
            found: found.to_string(),
            expected: format!("{expected}, as the tile has"),
        })
    }

    /// Reads header, chunk table and indptr: one read where they lie as this crate's writer lays them.
    fn read_head(
        &self,
        tile: u64,
        object: &dyn Object,
        recorded: &Recorded,
        fetched: Option<Bytes>,
    ) -> Result<HeadParts> {
        let fault = |e| self.fault(tile, e);
        let start = match fetched {
            Some(start) => start,
            None => read(object, 0, self.head_guess(recorded))?.into(),
        };
        let header = Header::parse(&start, recorded.bytes).map_err(fault)?;
        let part = |range: Range<u64>| -> Result<Vec<u8>> {
            let inside = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
            match inside.and_then(|(low, high)| start.get(low..high)) {
                Some(bytes) => Ok(bytes.to_vec()),
                // Within the tile: the header was checked.
                None => read(object, range.start, range.end.saturating_sub(range.start)),
            }
        };
        let header_and_table = part(0..header.table_range().end)?;
        let indptr = part(header.indptr_range())?;
        Ok(HeadParts { header, header_and_table, indptr })
    }

    /// Reads all of a tile once to compare its CRC.
    fn check_crc(&self, tile: u64, object: &dyn Object, header: &Header) -> Result<()> {
        let sound = usize::try_from(tile).ok().and_then(|at| self.sound.get(at));
        if sound.is_some_and(|sound| sound.load(Ordering::Acquire)) {
            return Ok(());
        }
        let mut hasher = crc32fast::Hasher::new();
        let mut piece = vec![0; PIECE];
        let mut at = HEADER_LEN as u64;
        while at < header.total_size {
            let left = usize::try_from(header.total_size.saturating_sub(at)).unwrap_or(usize::MAX);
            let bytes = piece.get_mut(..left.min(PIECE)).unwrap_or_default();
            object.read_at(at, bytes)?;
            hasher.update(bytes);
            at = at.saturating_add(bytes.len() as u64);
        }
        let computed = hasher.finalize();
        if computed != header.crc32 {
            return Err(self.fault(tile, celltile_tile::Error::Crc { stated: header.crc32, computed }));
        }
        self.set_sound(tile);
        Ok(())
    }

    fn set_sound(&self, tile: u64) {
        if let Some(sound) = usize::try_from(tile).ok().and_then(|at| self.sound.get(at)) {
            sound.store(true, Ordering::Release);
        }
    }

    /// Manifest against header, on a tile's first touch.
    fn compare(&self, tile: u64, recorded: &Recorded, header: &Header) -> Result<()> {
        for (what, found, expected) in [
            ("n_cells", header.n_cells, recorded.cells),
            ("nnz", header.nnz, recorded.nnz),
            ("n_genes", u64::from(header.n_genes), self.manifest.n_genes),
            ("total_size", header.total_size, recorded.bytes),
        ] {
            if found != expected {
                let path = self.storage.locate(&keys::tile(tile));
                return Err(Error::TileMismatch { path, tile, what, found, expected });
            }
        }
        Ok(())
    }

    fn compare_crc(&self, tile: u64, what: impl FnOnce() -> String, found: u32, expected: u32) -> Result<()> {
        if found == expected {
            return Ok(());
        }
        Err(Error::Checksum {
            path: self.storage.locate(&keys::tile(tile)),
            what: what(),
            found: format!("{found:08x}"),
            expected: format!("{expected:08x}"),
        })
    }

    /// The checksums of a tile's parts, if the dataset has them.
    fn checksums(&self, tile: u64) -> Result<Option<TileChecksums>> {
        let Some(record) = &self.manifest.tile_checksums else { return Ok(None) };
        let file = {
            let mut slot = self.checksums.lock().unwrap_or_else(PoisonError::into_inner);
            match &*slot {
                Some(file) => Arc::clone(file),
                None => {
                    let file = ChecksumFile::open(self.storage.as_ref(), record, self.manifest.n_tiles())?;
                    Arc::clone(slot.insert(Arc::new(file)))
                }
            }
        };
        file.tile(self.storage.as_ref(), tile).map(Some)
    }

    fn object(&self, tile: u64) -> Result<Arc<dyn Object>> {
        if let Some(object) = self.objects.get(tile) {
            return Ok(object);
        }
        let object: Arc<dyn Object> = self.storage.open(&keys::tile(tile))?.into();
        self.objects.put(tile, Arc::clone(&object), 1);
        Ok(object)
    }

    fn recorded(&self, tile: u64) -> Result<Recorded> {
        let of = |list: &[u64]| usize::try_from(tile).ok().and_then(|at| list.get(at)).copied();
        let m = &self.manifest;
        match (of(&m.tile_cells), of(&m.tile_nnz), of(&m.tile_bytes)) {
            (Some(cells), Some(nnz), Some(bytes)) => Ok(Recorded { cells, nnz, bytes }),
            _ => Err(Error::OutOfRange { what: "tile", index: tile, len: m.n_tiles() }),
        }
    }
}

/// Where chunks begin, and where the last one ends.
fn bounds(chunks: &[ChunkEntry]) -> Vec<u64> {
    std::iter::once(0).chain(chunks.iter().map(|entry| entry.cell_hi)).collect()
}

struct HeadParts {
    header: Header,
    header_and_table: Vec<u8>,
    indptr: Vec<u8>,
}

/// Reads bytes that are known to be no more than the object has.
fn read(object: &dyn Object, offset: u64, length: u64) -> Result<Vec<u8>> {
    let mut buffer = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    object.read_at(offset, &mut buffer)?;
    Ok(buffer)
}
