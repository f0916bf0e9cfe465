//! celltile-grid beside zarrs' own rectilinear grid, in one run: `cargo run --release`.
//!
//! Each figure is the best of several passes or batches. "In a chain" means that each look-up waits for the one before it, as where
//! an answer is used at once; "side by side" ones overlap, as in a loop over many indices.

use std::hint::black_box;
use std::process::Command;
use std::time::{Duration, Instant};

use allocation_counter::measure;
use celltile_grid::Grid;
use zarrs::array::ChunkGrid;
use zarrs::metadata::v3::MetadataV3;

const RUNS: usize = 1_000_000;
const LOOKUPS: usize = 1_000_000;
const BATCH: usize = 10_000;
const BOMB: &str =
    r#"{"name":"rectilinear","configuration":{"kind":"inline","chunk_shapes":[[[1,1000000000000]]]}}"#;

type Error = Box<dyn std::error::Error>;

/// xorshift64: the same numbers each time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

fn best<T>(passes: usize, mut pass: impl FnMut() -> T) -> Duration {
    let time = |_| {
        let start = Instant::now();
        black_box(pass());
        start.elapsed()
    };
    (0..passes).map(time).min().unwrap_or_default()
}

/// Nanoseconds a look-up: of the best batch, since another process may take the processor, and its caches, at any time.
/// Batches have different indices, so what one has brought into the caches helps the next one little.
fn lookup(indices: &[u64], chained: bool, mut answer: impl FnMut(u64) -> u64) -> f64 {
    let mut best = f64::INFINITY;
    for batch in indices.chunks_exact(BATCH) {
        let start = Instant::now();
        let mut last = 0;
        for &index in batch {
            // The answer never is u64::MAX, but the processor must wait to know.
            let wait = u64::from(chained && black_box(last) == u64::MAX);
            last = answer(index + wait);
        }
        black_box(last);
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / BATCH as f64);
    }
    best
}

fn zarrs_grid(json: &str, shape: &[u64]) -> Result<ChunkGrid, Error> {
    let metadata: MetadataV3 = serde_json::from_str(json)?;
    Ok(ChunkGrid::from_metadata(&metadata, shape)?)
}

fn row(what: &str, ours: f64, theirs: f64, unit: &str) {
    println!("| {what} | {ours:.1} {unit} | {theirs:.1} {unit} | {:.2} |", ours / theirs);
}

fn compare(title: &str, chunk_shapes: &str, length: u64, n_edges: u64) -> Result<(), Error> {
    println!("\n{title}\n\n| | celltile-grid | zarrs | ratio |\n|---|---|---|---|");
    let json = format!(
        r#"{{"name":"rectilinear","configuration":{{"kind":"inline","chunk_shapes":[{chunk_shapes}]}}}}"#
    );
    let ours = Grid::from_json(&json, &[length])?;
    let theirs = zarrs_grid(&json, &[length])?;
    let axis = &ours.axes()[0];
    assert_eq!(ours.declared_shape(), theirs.grid_shape());

    let (mut kept, mut their_kept) = (None, None);
    let heap = measure(|| kept = Some(Grid::from_json(&json, &[length]))).bytes_current;
    let their_heap = measure(|| their_kept = Some(zarrs_grid(&json, &[length]))).bytes_current;
    drop((kept, their_kept));
    let per_run = |bytes: i64| bytes as f64 / axis.n_runs() as f64;
    row("heap a run", per_run(heap), per_run(their_heap), "bytes");

    let parse = best(5, || Grid::from_json(&json, &[length]));
    let their_parse = best(5, || zarrs_grid(&json, &[length]));
    row("parse", parse.as_secs_f64() * 1e3, their_parse.as_secs_f64() * 1e3, "ms");
    let write = best(5, || ours.to_json());
    let their_write = best(5, || serde_json::to_string(&theirs.configuration()));
    row("write", write.as_secs_f64() * 1e3, their_write.as_secs_f64() * 1e3, "ms");

    let mut random = Random(42);
    let indices: Vec<u64> = (0..LOOKUPS).map(|_| random.below(length)).collect();
    let chunks: Vec<u64> = (0..LOOKUPS).map(|_| random.below(n_edges)).collect();
    for &index in &indices[..1000] {
        let found = axis.locate(index)?;
        assert_eq!(theirs.chunk_indices(&[index])?, Some(vec![found.chunk]));
        assert_eq!(theirs.chunk_element_indices(&[index])?, Some(vec![found.within]));
    }
    for (chained, how) in [(false, "side by side"), (true, "in a chain")] {
        let located = lookup(&indices, chained, |index| {
            axis.locate(index).map_or(0, |found| black_box(found.within) + found.chunk)
        });
        let chunk = |index| theirs.chunk_indices(&[index]).ok().flatten().map_or(0, |chunk| chunk[0]);
        let within =
            |index| theirs.chunk_element_indices(&[index]).ok().flatten().map_or(0, |within| within[0]);
        let their_chunk = lookup(&indices, chained, chunk);
        let their_both = lookup(&indices, chained, |index| black_box(within(index)) + chunk(index));
        row(&format!("index -> chunk and within, {how}"), located, their_both, "ns");
        row(&format!("the same; zarrs: chunk only, {how}"), located, their_chunk, "ns");
        let origin =
            lookup(&chunks, chained, |chunk| axis.chunk(chunk).map_or(0, |found| found.origin + found.edge));
        let their_origin = lookup(&chunks, chained, |chunk| {
            let origin = theirs.chunk_origin(&[chunk]).ok().flatten().map_or(0, |origin| origin[0]);
            let edge = theirs.chunk_shape_u64(&[chunk]).ok().flatten().map_or(0, |shape| shape[0]);
            origin + edge
        });
        row(&format!("chunk -> origin and edge, {how}"), origin, their_origin, "ns");
    }

    let all = best(5, || axis.select(0..length).map(|parts| parts.map(|part| part.within.end).sum::<u64>()));
    let their_all = best(5, || {
        (0..n_edges)
            .map(|chunk| theirs.chunk_shape_u64(&[chunk]).ok().flatten().map_or(0, |shape| shape[0]))
            .sum::<u64>()
    });
    row(
        "every chunk in turn, each",
        all.as_secs_f64() * 1e9 / n_edges as f64,
        their_all.as_secs_f64() * 1e9 / n_edges as f64,
        "ns",
    );
    Ok(())
}

/// `[1, 10^12]` in our grid, and in zarrs' in a process of its own with 4 GB of memory.
fn bomb() -> Result<(), Error> {
    println!("\nThe axis [[1, 1000000000000]]\n");
    let length = 1_000_000_000_000;
    let mut took = Duration::ZERO;
    let used = measure(|| {
        let start = Instant::now();
        let grid = Grid::from_json(BOMB, &[length]).map(|grid| grid.locate(&[length - 1]));
        took = start.elapsed();
        assert!(matches!(grid, Ok(Ok(_))));
    });
    println!("celltile-grid: parsed and looked up in {took:?}, {} bytes of heap", used.bytes_max);
    let start = Instant::now();
    let me = std::env::current_exe()?;
    let child = Command::new("sh").args(["-c", "ulimit -v 4000000; exec \"$0\" bomb"]).arg(me).output()?;
    let last = String::from_utf8_lossy(&child.stderr).lines().next().unwrap_or_default().to_owned();
    println!("zarrs: {} after {:?} ({last})", child.status, start.elapsed());
    Ok(())
}

fn main() -> Result<(), Error> {
    if std::env::args().nth(1).as_deref() == Some("bomb") {
        zarrs_grid(BOMB, &[1_000_000_000_000])?;
        return Ok(());
    }
    let mut random = Random(7);
    let edges: Vec<u64> = (0..RUNS).map(|_| 1 + random.below(1000)).collect();
    let text: Vec<String> = edges.iter().map(u64::to_string).collect();
    let length = edges.iter().sum();
    compare("10^6 random edges of 1 to 1000", &format!("[{}]", text.join(",")), length, RUNS as u64)?;

    let runs: Vec<(u64, u64)> =
        (0..RUNS as u64).map(|n| (1 + 2 * random.below(500) + n % 2, 2 + random.below(6))).collect();
    let text: Vec<String> = runs.iter().map(|(edge, count)| format!("[{edge},{count}]")).collect();
    let length = runs.iter().map(|(edge, count)| edge * count).sum();
    let n_edges = runs.iter().map(|(_, count)| count).sum();
    compare("10^6 runs of 2 to 7 equal edges", &format!("[{}]", text.join(",")), length, n_edges)?;
    bomb()
}
