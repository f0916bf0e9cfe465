//! Measures decoding against libzstd alone on the same frames.
//!
//! `cargo run --release -p celltile-tile --example decode_speed [CELLS|FILE]...`: for each number of simulated cells, or
//! raw file (see `support/cells.rs`), and each preset, the best of many rounds, chunk by chunk, in ns a nonzero. `over_zstd`
//! is the time to check the CRC of a tile and decode its chunks into a buffer used again for each, over the time of
//! libzstd alone; `scalar` and `f32` are the same ratio for plain loops and for float32 counts.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "a tool for measuring may stop where it is wrong"
)]

#[path = "support/cells.rs"]
mod cells;

use std::time::Instant;

use celltile_tile::{ChunkCut, Compression, Csr, Decoder, EncodeOptions, Preset, Tile, TileEncoder};

const ROUNDS: usize = 25;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    println!(
        "{:16} {:9} {:7} {:>8} {:>7} {:>7} {:>7} {:>7} {:>9} {:>7} {:>7} {:>8}",
        "cells",
        "encoding",
        "cut",
        "B/cell",
        "zstd",
        "crc",
        "chunks",
        "tile",
        "over_zstd",
        "scalar",
        "f32",
        "Mcells/s"
    );
    for cells in cells::from_arguments(&arguments) {
        for (name, compression) in Preset::ALL
            .map(|preset| (preset.name(), Compression::Preset(preset)))
            .into_iter()
            .chain([("level 19", Compression::Level(19))])
        {
            for (cut_name, cut) in [("128 Ki", ChunkCut::default()), ("1 cell", ChunkCut::Cells(1))] {
                if cut_name == "1 cell" && name == "level 19" {
                    continue;
                }
                let options = EncodeOptions { compression, cut };
                let bytes = TileEncoder::new(&options)
                    .unwrap()
                    .encode(cells.csr.view().unwrap(), cells.n_genes)
                    .unwrap();
                measure(&cells, name, cut_name, &bytes);
            }
        }
    }
}

fn measure(cells: &cells::Cells, name: &str, cut: &str, bytes: &[u8]) {
    let tile = Tile::open(bytes).unwrap();
    let head = tile.head();
    let n_chunks = head.n_chunks();
    let mut fast = Decoder::new().unwrap();
    let mut scalar = Decoder::new().unwrap().scalar();
    let nnz_of = |chunk: usize| head.chunk_nonzeros(chunk).unwrap().len();
    let largest = (0..n_chunks).map(nnz_of).max().unwrap();
    let (mut genes, mut counts, mut floats) = (vec![0; largest], vec![0_i32; largest], vec![0_f32; largest]);
    let mut whole = Csr::<i32>::new();
    let [mut zstd, mut chunks, mut plain, mut float] = [(); 4].map(|()| Best::new(n_chunks));
    let [mut crc, mut into_tile] = [(); 2].map(|()| Best::new(1));
    for _ in 0..ROUNDS {
        zstd.round(|chunk| fast.inflate_only(head, chunk, &tile.frames(chunk).unwrap()).unwrap());
        crc.round(|_| tile.check_crc().unwrap());
        chunks.round(|chunk| {
            let n = nnz_of(chunk);
            tile.decode_chunk(&mut fast, chunk, &mut genes[..n], &mut counts[..n]).unwrap();
        });
        plain.round(|chunk| {
            let n = nnz_of(chunk);
            tile.decode_chunk(&mut scalar, chunk, &mut genes[..n], &mut counts[..n]).unwrap();
        });
        float.round(|chunk| {
            let n = nnz_of(chunk);
            tile.decode_chunk(&mut fast, chunk, &mut genes[..n], &mut floats[..n]).unwrap();
        });
        into_tile.round(|_| tile.decode(&mut fast, &mut whole).unwrap());
    }
    assert_eq!(whole, cells.csr);
    let [zstd, crc, chunks, plain, float, into_tile] =
        [zstd, crc, chunks, plain, float, into_tile].map(|b| b.total());
    let per = |seconds: f64| seconds * 1e9 / head.nnz() as f64;
    println!(
        "{:16} {:9} {:7} {:8.1} {:7.3} {:7.3} {:7.3} {:7.3} {:9.3} {:7.3} {:7.3} {:8.3}",
        cells.name,
        name,
        cut,
        bytes.len() as f64 / head.n_cells() as f64,
        per(zstd),
        per(crc),
        per(chunks),
        per(into_tile),
        (crc + chunks) / zstd,
        (crc + plain) / zstd,
        (crc + float) / zstd,
        head.n_cells() as f64 / (crc + chunks) / 1e6
    );
}

/// The best time of each part of some work. On a busy machine the sum of these is steadier than the best whole round.
struct Best(Vec<f64>);

impl Best {
    fn new(parts: usize) -> Self {
        Self(vec![f64::INFINITY; parts])
    }

    fn round(&mut self, mut work: impl FnMut(usize)) {
        for (part, best) in self.0.iter_mut().enumerate() {
            let start = Instant::now();
            work(part);
            *best = best.min(start.elapsed().as_secs_f64());
        }
    }

    fn total(&self) -> f64 {
        self.0.iter().sum()
    }
}
