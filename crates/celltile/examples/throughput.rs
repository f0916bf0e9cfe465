//! How fast a dataset is written and read on this machine: cells a second, one thread.
//!
//!     cargo run --release -p celltile --example throughput [CELLS] [FOLDER]
//!
//! The cells have about 2,000 nonzeros of 36,601 genes, most of them in the first columns, as sorted genes have.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use celltile::storage::LocalStorage;
use celltile::verify::{Level, VerifyOptions, verify};
use celltile::{
    ChunkCut, Compression, Csr, Dataset, DatasetWriter, EncodeOptions, OpenOptions, Preset, ReadOptions,
    WriterOptions,
};

const N_GENES: u64 = 36_601;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let n_cells: u64 = arguments.next().map_or(Ok(20_000), |text| text.parse())?;
    let folder =
        arguments.next().map_or_else(|| std::env::temp_dir().join("celltile-throughput"), PathBuf::from);
    let cells = simulate(n_cells);
    let (sorted, shuffled) = (cells.view()?, reversed(&cells));
    let map: Arc<[i32]> = (0..i32::try_from(N_GENES)?).rev().collect();
    println!("{n_cells} cells, {} nonzeros a cell", cells.nnz() as u64 / n_cells.max(1));

    for (name, cut) in
        [("128 Ki nonzeros a chunk", ChunkCut::default()), ("1 cell a chunk", ChunkCut::Cells(1))]
    {
        let mut options = WriterOptions::default();
        options.encode = EncodeOptions { compression: Compression::Preset(Preset::Fast), cut };
        options.threads = 1;
        options.overwrite = true;
        println!("\n{name}");
        let rate = |what: &str, n: u64, start: Instant| {
            println!("  {what:<42} {:>9.0} cells/s", n as f64 / start.elapsed().as_secs_f64());
        };

        let start = Instant::now();
        let mut writer = DatasetWriter::create_at(&folder, N_GENES, &options)?;
        writer.push(sorted)?;
        let written = writer.finish()?;
        rate("write, preset fast, one encoder", n_cells, start);
        println!("  {:<42} {:>9.0} bytes a cell", "size", written.manifest.bytes() as f64 / n_cells as f64);
        let start = Instant::now();
        let mut writer = DatasetWriter::create_at(&folder, N_GENES, &options)?;
        writer.push_source(shuffled.view()?, &map)?;
        writer.finish()?;
        rate("write unsorted source cells", n_cells, start);

        let dataset = Dataset::open_with(&folder, &OpenOptions::default().threads(1))?;
        let read = ReadOptions::default();
        let mut out = Csr::<i32>::new();
        let mut seed = 1_u64;
        let mut pick = |n: usize| -> Vec<u64> { (0..n).map(|_| next(&mut seed) % n_cells).collect() };
        // Heads and files are opened once.
        dataset.gather_into(&pick(10_000), &read, &mut out)?;
        for batch in [256, 4096] {
            let batches: Vec<Vec<u64>> = (0..40_960 / batch).map(|_| pick(batch)).collect();
            let start = Instant::now();
            for cells in &batches {
                dataset.gather_into(cells, &read, &mut out)?;
            }
            rate(&format!("gather, {batch} random cells at once"), 40_960, start);
        }
        let start = Instant::now();
        for tile in 0..dataset.n_tiles() {
            dataset.tile_into(tile, &read, &mut out)?;
        }
        rate("tile after tile", n_cells, start);
        let start = Instant::now();
        let report = verify(
            &LocalStorage::new(&folder),
            &VerifyOptions::default().threads(1).level(Level::Strict),
            &|_| {},
        )?;
        rate("verify, strict", n_cells, start);
        println!("  {:<42} {:>9}", "faults", report.faults.len());
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

/// Cells of about 2,000 nonzeros, early genes most often.
fn simulate(n_cells: u64) -> Csr {
    let mut out = Csr::new();
    let mut seed = 42;
    for _ in 0..n_cells {
        for gene in 0..N_GENES {
            // About 0.9 for the first genes, 0.01 for the last.
            let chance = 0.9 * 900.0 / (900.0 + gene as f64);
            let number = next(&mut seed);
            if (number >> 11) as f64 / (1_u64 << 53) as f64 >= chance {
                continue;
            }
            let mean = 1 + 40_000 / ((gene + 20) * (gene + 20));
            let count = 1 + u64::from(next(&mut seed).trailing_zeros()) * mean;
            out.genes.push(i32::try_from(gene).unwrap_or(i32::MAX));
            out.counts.push(i32::try_from(count).unwrap_or(i32::MAX));
        }
        out.indptr.push(i64::try_from(out.genes.len()).unwrap_or(i64::MAX));
    }
    out
}

/// The same cells with genes numbered from the other end.
fn reversed(cells: &Csr) -> Csr {
    let last = i32::try_from(N_GENES - 1).unwrap_or(i32::MAX);
    Csr { genes: cells.genes.iter().map(|gene| last - gene).collect(), ..cells.clone() }
}

fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}
