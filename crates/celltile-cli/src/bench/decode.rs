//! How fast tiles are decoded, beside libzstd alone on the same frames.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use celltile::{Csr, Dataset, Decoder, Tile, TileBytes};

use super::clock::{Times, time};
use crate::failure::Failure;

/// Tiles in memory.
pub(crate) struct Held {
    tiles: Vec<TileBytes>,
    /// The longest tile chunk, in nonzeros.
    longest: usize,
    pub(crate) cells: u64,
    pub(crate) nonzeros: u64,
    pub(crate) bytes: u64,
}

/// Times of the same tiles, decoded in different ways.
#[derive(Debug, Default)]
pub(crate) struct DecodeTimes {
    /// libzstd alone on all frames, one thread.
    pub(crate) zstd: Times,
    /// CRC, frames, planes, sums and exceptions into a buffer that is used again for every tile chunk, one thread.
    pub(crate) chunks: Times,
    /// The same into arrays of a whole tile, one thread.
    pub(crate) tiles: Times,
    /// As `chunks`, on all threads.
    pub(crate) threads: Times,
}

impl Held {
    /// Reads the first tiles of a dataset, up to so many bytes but at least one.
    pub(crate) fn read(dataset: &Dataset, limit: u64) -> Result<Self, Failure> {
        let mut held = Self { tiles: Vec::new(), longest: 0, cells: 0, nonzeros: 0, bytes: 0 };
        for (number, &bytes) in (0..).zip(&dataset.manifest().tile_bytes) {
            if held.bytes > 0 && held.bytes.saturating_add(bytes) > limit {
                break;
            }
            let tile = dataset.tile_bytes(number)?;
            let chunks =
                tile.head.chunks().iter().map(|chunk| usize::try_from(chunk.nnz()).unwrap_or(usize::MAX));
            held.longest = chunks.fold(held.longest, usize::max);
            held.cells += tile.head.n_cells() as u64;
            held.nonzeros += tile.head.header().nnz;
            held.bytes += bytes;
            held.tiles.push(tile);
        }
        Ok(held)
    }

    /// Measures so many rounds, the ways taking turns tile by tile.
    pub(crate) fn measure(&self, rounds: usize, threads: usize) -> Result<DecodeTimes, Failure> {
        let mut times = DecodeTimes::default();
        let mut decoder = Decoder::new()?;
        let mut buffer = Buffer::new(self.longest);
        let mut whole = Csr::<i32>::new();
        // The first round warms caches and buffers up.
        for round in 0..=rounds {
            let mut sums = [Duration::ZERO; 3];
            for held in &self.tiles {
                let (zstd, result) = time(|| inflate(held, &mut decoder));
                result?;
                let (chunks, result) = time(|| decode(held, &mut decoder, &mut buffer));
                result?;
                let (tiles, result) =
                    time(|| Tile::open(&held.bytes).and_then(|tile| tile.decode(&mut decoder, &mut whole)));
                result?;
                black_box(&whole);
                for (sum, one) in sums.iter_mut().zip([zstd, chunks, tiles]) {
                    *sum += one;
                }
            }
            let (all, result) = time(|| self.decode_on(threads));
            result?;
            if round > 0 {
                let [zstd, chunks, tiles] = sums;
                times.zstd.push(zstd);
                times.chunks.push(chunks);
                times.tiles.push(tiles);
                times.threads.push(all);
            }
        }
        Ok(times)
    }

    /// All tile chunks and CRCs, shared out among threads.
    fn decode_on(&self, threads: usize) -> celltile_tile::Result<()> {
        let mut work = Vec::new();
        for held in &self.tiles {
            work.push((held, None));
            work.extend((0..held.head.chunks().len()).map(|chunk| (held, Some(chunk))));
        }
        let next = AtomicUsize::new(0);
        let run = || {
            let mut decoder = Decoder::new()?;
            let mut buffer = Buffer::new(self.longest);
            // Parsed anew only where a thread comes to another tile, which may have a tile chunk a cell.
            let mut parsed: Option<(&TileBytes, Tile<'_>)> = None;
            while let Some(&(held, part)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                let tile = match parsed.take() {
                    Some((of, tile)) if std::ptr::eq(of, held) => tile,
                    _ => Tile::parse(&held.bytes)?,
                };
                let (_, tile) = parsed.insert((held, tile));
                match part {
                    None => tile.check_crc()?,
                    Some(chunk) => buffer.decode(tile, chunk, &mut decoder)?,
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let helpers: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
            let mut result = run();
            for helper in helpers {
                let theirs = helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                result = result.and(theirs);
            }
            result
        })
    }
}

/// Room for the longest tile chunk, used again and again.
struct Buffer {
    genes: Vec<i32>,
    counts: Vec<i32>,
}

impl Buffer {
    fn new(longest: usize) -> Self {
        Self { genes: vec![0; longest], counts: vec![0; longest] }
    }

    fn decode(&mut self, tile: &Tile<'_>, chunk: usize, decoder: &mut Decoder) -> celltile_tile::Result<()> {
        let nnz =
            tile.head().chunks().get(chunk).map_or(0, |entry| usize::try_from(entry.nnz()).unwrap_or(0));
        let genes = self.genes.get_mut(..nnz).unwrap_or_default();
        let counts = self.counts.get_mut(..nnz).unwrap_or_default();
        tile.decode_chunk(decoder, chunk, genes, counts)?;
        black_box((&genes, &counts));
        Ok(())
    }
}

fn inflate(held: &TileBytes, decoder: &mut Decoder) -> celltile_tile::Result<()> {
    let tile = Tile::parse(&held.bytes)?;
    for chunk in 0..held.head.chunks().len() {
        decoder.inflate_only(&held.head, chunk, &tile.frames(chunk)?)?;
    }
    Ok(())
}

fn decode(held: &TileBytes, decoder: &mut Decoder, buffer: &mut Buffer) -> celltile_tile::Result<()> {
    let tile = Tile::open(&held.bytes)?;
    for chunk in 0..held.head.chunks().len() {
        buffer.decode(&tile, chunk, decoder)?;
    }
    Ok(())
}
