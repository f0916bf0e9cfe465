//! Searches zstd's parameters for the front of size against encoding time, on tile chunks of real or simulated cells.
//!
//! `cargo run --release -p celltile-tile --example preset_search [CELLS|FILE]...` takes numbers of simulated cells and raw
//! files (see `support/cells.rs`). The two streams of a tile are independent, so each parameter set is measured on each
//! stream alone, and the front is that of all pairs. Sizes and times are relative to zstd level 19 with 8 chunks a tile of
//! 10,000 cells; times are CPU times of the whole encoding: gaps, split, zstd and CRC.
//!
//! With `--cells-per-chunk N`, chunks of N cells instead of the default; with `--first N`, the first N cells of each matrix.
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

use celltile_tile::{
    ChunkCut, ChunkEncoder, Compression, CsrView, EncodeOptions, Preset, TileEncoder, ZstdParameters,
};
use zstd_safe::{CCtx, CParameter, ResetDirective, Strategy};

const TILE: usize = 10_000;

/// Seconds that every measurement takes at least.
const LONG_ENOUGH: f64 = 0.15;

/// The content of one stream's frames.
type Stream = Vec<Vec<u8>>;

/// What one parameter set makes of one stream.
#[derive(Clone, Copy)]
struct Point {
    set: ZstdParameters,
    bytes: f64,
    seconds: f64,
}

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut cut = ChunkCut::default();
    if let Some(at) = arguments.iter().position(|argument| argument == "--cells-per-chunk") {
        cut = ChunkCut::Cells(arguments[at + 1].parse().unwrap());
        arguments.drain(at..at + 2);
    }
    let mut first = usize::MAX;
    if let Some(at) = arguments.iter().position(|argument| argument == "--first") {
        first = arguments[at + 1].parse().unwrap();
        arguments.drain(at..at + 2);
    }
    let matrices = cells::from_arguments(&arguments);
    for matrix in &matrices {
        let csr = matrix.csr.view().unwrap();
        let csr = csr.cells(0..csr.n_cells().min(first)).unwrap();
        let nnz = csr.nnz() as f64 / csr.n_cells() as f64;
        println!("\n{}: {} cells, {nnz:.0} nonzeros each, chunks: {cut:?}", matrix.name, csr.n_cells());
        search(csr, matrix.n_genes, cut);
    }
}

fn search(csr: CsrView<'_>, n_genes: u32, cut: ChunkCut) {
    // What the presets are held against.
    let level_19 = EncodeOptions { compression: Compression::Level(19), cut: ChunkCut::Count(8) };
    let (base_bytes, base_seconds) = encode(csr, n_genes, &level_19);
    let report = |name: &str, bytes: f64, seconds: f64| {
        println!(
            "{:+6.2} % {:7.1} x {:8.0} cells/s {:8.1} B/cell  {name}",
            (bytes / base_bytes - 1.0) * 100.0,
            base_seconds / seconds,
            csr.n_cells() as f64 / seconds,
            bytes / csr.n_cells() as f64
        );
    };
    report("level 19, 8 chunks", base_bytes, base_seconds);
    for preset in Preset::ALL {
        let options = EncodeOptions { compression: Compression::Preset(preset), cut };
        let (bytes, seconds) = encode(csr, n_genes, &options);
        report(preset.name(), bytes, seconds);
    }
    for level in [1, 3, 9, 13, 19] {
        let options = EncodeOptions { compression: Compression::Level(level), cut };
        let (bytes, seconds) = encode(csr, n_genes, &options);
        report(&format!("level {level}"), bytes, seconds);
    }

    let (gaps, vals) = streams(csr, n_genes, cut);
    // Everything but the frames: their cost is the same for all.
    let trivial =
        ZstdParameters { level: 1, strategy: 1, hash_log: 6, min_match: 7, ..ZstdParameters::default() };
    let options =
        EncodeOptions { compression: Compression::Parameters { gaps: trivial, vals: trivial }, cut };
    let (bytes, seconds) = encode(csr, n_genes, &options);
    let (g, v) = (measure(&gaps, trivial), measure(&vals, trivial));
    let (other_bytes, other_seconds) =
        (bytes - g.bytes - v.bytes, (seconds - g.seconds - v.seconds).max(0.0));
    println!(
        "of `fast`: {:.1} B/cell and {:.1} us/cell are not zstd",
        other_bytes / csr.n_cells() as f64,
        other_seconds * 1e6 / csr.n_cells() as f64
    );

    let gaps = front(sets().map(|set| measure(&gaps, set)).collect());
    let vals = front(sets().map(|set| measure(&vals, set)).collect());
    for (name, points) in [("gaps", &gaps), ("vals", &vals)] {
        println!("front of the {name}:");
        for point in points {
            println!(
                "  {:9.1} B/cell {:9.2} us/cell  {}",
                point.bytes / csr.n_cells() as f64,
                point.seconds * 1e6 / csr.n_cells() as f64,
                describe(point.set)
            );
        }
    }
    let mut pairs = Vec::new();
    for g in &gaps {
        for v in &vals {
            pairs.push((
                g.bytes + v.bytes + other_bytes,
                g.seconds + v.seconds + other_seconds,
                g.set,
                v.set,
            ));
        }
    }
    pairs.sort_by(|a, b| a.1.total_cmp(&b.1));
    println!("front of both:");
    let mut smallest = f64::INFINITY;
    for (bytes, seconds, g, v) in pairs {
        // Steps below a thousandth are noise.
        if bytes < smallest * 0.999 {
            smallest = bytes;
            report(&format!("gaps {} vals {}", describe(g), describe(v)), bytes, seconds);
        }
    }
}

fn describe(s: ZstdParameters) -> String {
    format!(
        "{{s{} h{} c{} sl{} mm{} tl{} w{}}}",
        s.strategy, s.hash_log, s.chain_log, s.search_log, s.min_match, s.target_length, s.window_log
    )
}

/// Those that no other beats in both size and time, fastest first.
fn front(mut points: Vec<Point>) -> Vec<Point> {
    points.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let mut smallest = f64::INFINITY;
    points.retain(|point| {
        let better = point.bytes < smallest * 0.9995;
        smallest = smallest.min(point.bytes);
        better
    });
    points
}

/// Encodes a matrix tile by tile: bytes and CPU seconds.
fn encode(csr: CsrView<'_>, n_genes: u32, options: &EncodeOptions) -> (f64, f64) {
    let mut encoder = TileEncoder::new(options).unwrap();
    let mut bytes = 0;
    let mut rounds = 0.0;
    let start = cpu_seconds();
    while rounds == 0.0 || cpu_seconds() - start < LONG_ENOUGH {
        rounds += 1.0;
        bytes = 0;
        for low in (0..csr.n_cells()).step_by(TILE) {
            let tile = csr.cells(low..csr.n_cells().min(low + TILE)).unwrap();
            bytes += encoder.encode(tile, n_genes).unwrap().len();
        }
    }
    (bytes as f64, (cpu_seconds() - start) / rounds)
}

/// Bytes and CPU seconds of a parameter set on a stream.
fn measure(stream: &Stream, set: ZstdParameters) -> Point {
    let mut zstd = CCtx::create();
    let mut out = Vec::new();
    let mut bytes = 0;
    let mut rounds = 0.0;
    let start = cpu_seconds();
    // The system counts in steps of some milliseconds.
    while rounds == 0.0 || cpu_seconds() - start < LONG_ENOUGH {
        rounds += 1.0;
        bytes = 0;
        for content in stream {
            zstd.reset(ResetDirective::SessionAndParameters).unwrap();
            zstd.set_parameter(CParameter::CompressionLevel(set.level)).unwrap();
            for parameter in [
                CParameter::Strategy(strategy(set.strategy)),
                CParameter::WindowLog(set.window_log),
                CParameter::HashLog(set.hash_log),
                CParameter::ChainLog(set.chain_log),
                CParameter::SearchLog(set.search_log),
                CParameter::MinMatch(set.min_match),
                CParameter::TargetLength(set.target_length),
            ] {
                zstd.set_parameter(parameter).unwrap();
            }
            out.clear();
            out.reserve(zstd_safe::compress_bound(content.len()));
            bytes += zstd.compress2(&mut out, content).unwrap().next_multiple_of(8);
        }
    }
    let seconds = (cpu_seconds() - start) / rounds;
    Point { set, bytes: bytes as f64, seconds }
}

/// The contents of the frames of both streams, as an encoder makes them.
fn streams(csr: CsrView<'_>, n_genes: u32, cut: ChunkCut) -> (Stream, Stream) {
    let (mut gaps, mut vals) = (Vec::new(), Vec::new());
    let mut encoder = ChunkEncoder::new(Compression::Level(1)).unwrap();
    let mut zstd = zstd_safe::DCtx::create();
    for low in (0..csr.n_cells()).step_by(TILE) {
        let tile = csr.cells(low..csr.n_cells().min(low + TILE)).unwrap();
        for range in cut.chunks(tile.indptr()).unwrap() {
            let chunk = encoder.encode(tile.cells(range).unwrap(), n_genes).unwrap();
            for (frame, stream) in [(chunk.frames().gaps, &mut gaps), (chunk.frames().vals, &mut vals)] {
                let mut content = Vec::with_capacity(2 * chunk.nnz() as usize);
                zstd.decompress(&mut content, frame).unwrap();
                stream.push(content);
            }
        }
    }
    (gaps, vals)
}

fn strategy(number: u32) -> Strategy {
    [
        Strategy::ZSTD_fast,
        Strategy::ZSTD_dfast,
        Strategy::ZSTD_greedy,
        Strategy::ZSTD_lazy,
        Strategy::ZSTD_lazy2,
        Strategy::ZSTD_btlazy2,
        Strategy::ZSTD_btopt,
        Strategy::ZSTD_btultra,
        Strategy::ZSTD_btultra2,
    ][number as usize - 1]
}

/// The sets that are tried: what coarser searches over all strategies left. Small tables are the point of most of them: a
/// stream has few long matches, and tables that stay in the cache find these as well.
fn sets() -> impl Iterator<Item = ZstdParameters> {
    let mut sets = Vec::new();
    let base = ZstdParameters { level: 1, ..ZstdParameters::default() };
    for (min_match, hash_log) in [(4, 14), (5, 6), (6, 6), (6, 12), (7, 6), (7, 10), (7, 14)] {
        sets.push(ZstdParameters { strategy: 1, min_match, hash_log, ..base });
    }
    let base = ZstdParameters { level: 5, min_match: 6, target_length: 999, ..base };
    for strategy in 3..=5 {
        for log in [8, 10, 12] {
            for search_log in [3, 4, 5] {
                for window_log in [0, 16] {
                    let tables = ZstdParameters { hash_log: log, chain_log: log, ..base };
                    sets.push(ZstdParameters { strategy, search_log, window_log, ..tables });
                }
            }
        }
    }
    let base = ZstdParameters { level: 19, ..base };
    for log in [9, 10, 11, 12, 13] {
        for search_log in [1, 2, 6] {
            for (target_length, window_log) in [(32, 0), (999, 0), (999, 15), (999, 16)] {
                let tables = ZstdParameters { hash_log: log, chain_log: log, window_log, ..base };
                sets.push(ZstdParameters { strategy: 7, search_log, target_length, ..tables });
            }
        }
    }
    for log in [12, 13, 15] {
        for search_log in [6, 8] {
            for (target_length, window_log) in [(64, 0), (64, 16), (256, 0), (999, 0)] {
                let tables = ZstdParameters { hash_log: log, chain_log: log, window_log, ..base };
                sets.push(ZstdParameters { strategy: 8, search_log, target_length, ..tables });
            }
        }
    }
    sets.into_iter()
}

/// CPU time of this thread where the system tells it, or else time: other programs disturb the former less.
fn cpu_seconds() -> f64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    let start = START.get_or_init(Instant::now);
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = stat.and_then(|stat| stat.split(' ').next()?.parse::<f64>().ok());
    nanoseconds.map_or_else(|| start.elapsed().as_secs_f64(), |ns| ns / 1e9)
}
