//! The time that an export to Zarr takes, beside the time to decode the same cells plus the time to write as many bytes.
//!
//! `cargo run --release -p celltile-zarr --example export_ratio -- DATASET FOLDER [ROUNDS]`; FOLDER is where stores are written and
//! removed again. Each figure is the best of all rounds, which take turns.
#![allow(clippy::print_stdout, reason = "what it is for")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use celltile::obs::Cache;
use celltile::storage::{LocalStorage, Storage};
use celltile::{Csr, Dataset, ReadOptions};
use celltile_zarr::{Compression, Cut, Hierarchy, StoreOptions, export};

type Failure = Box<dyn Error + Send + Sync>;

/// Runs `task` for every number below `count`, on as many threads as there are cores.
fn on_all_cores(
    count: usize,
    task: impl Fn(usize) -> Result<(), Failure> + Sync,
) -> Result<Duration, Failure> {
    let threads = std::thread::available_parallelism()?.get();
    let next = AtomicUsize::new(0);
    let start = Instant::now();
    std::thread::scope(|scope| {
        let run = || -> Result<(), Failure> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return Ok(());
                }
                task(number)?;
            }
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        running.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread panicked")?)
    })?;
    Ok(start.elapsed())
}

/// Decodes all cells, a tile a task.
fn decode(path: &str) -> Result<Duration, Failure> {
    let dataset = Dataset::open(path)?;
    let tiles = usize::try_from(dataset.n_tiles())?;
    on_all_cores(tiles, |tile| {
        let mut csr = Csr::<i32>::new();
        let cells = dataset.tile_cells(tile as u64)?;
        dataset.rows_into(cells, &ReadOptions::default(), &mut csr)?;
        std::hint::black_box(csr.genes.len());
        Ok(())
    })
}

/// Sizes of all files below a folder.
fn sizes(folder: &Path, into: &mut Vec<u64>) -> Result<(), Failure> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sizes(&entry.path(), into)?;
        } else {
            into.push(entry.metadata()?.len());
        }
    }
    Ok(())
}

/// Writes files of those sizes, as an export does: to a temporary name, synced, renamed.
fn write(folder: &Path, sizes: &[u64]) -> Result<Duration, Failure> {
    let largest = usize::try_from(sizes.iter().copied().max().unwrap_or_default())?;
    let bytes: Vec<u8> = (0..=250).cycle().take(largest).collect();
    let storage = LocalStorage::new(folder);
    let took = on_all_cores(sizes.len(), |number| {
        let size = usize::try_from(sizes.get(number).copied().unwrap_or_default())?;
        Ok(storage.write(&format!("{number}"), bytes.get(..size).unwrap_or_default())?)
    })?;
    std::fs::remove_dir_all(folder)?;
    Ok(took)
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let (Some(path), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err("usage: export_ratio DATASET FOLDER [ROUNDS]".into());
    };
    let rounds: u32 = arguments.next().map_or(Ok(3), |rounds| rounds.parse())?;
    let folder = Path::new(&folder);
    let cuts = [
        ("tile-chunk", Cut::default(), Compression::None),
        ("tile", Cut::Tile, Compression::None),
        ("regular", Cut::Regular { nonzeros: 1 << 20 }, Compression::None),
    ];
    println!(
        "| cut | decode | write as many bytes | export | export / (decode + write) |\n|---|---|---|---|---|"
    );
    for (name, cut, compression) in cuts {
        let (mut decoded, mut written, mut exported) = (Duration::MAX, Duration::MAX, Duration::MAX);
        for _ in 0..rounds {
            decoded = decoded.min(decode(&path)?);
            let target = folder.join("export_ratio.zarr");
            let start = Instant::now();
            let dataset = Arc::new(Dataset::open(&path)?);
            let options = StoreOptions::default().cut(cut).compression(compression);
            let hierarchy = Hierarchy::open(dataset, &Cache::memory(), options)?;
            export(&hierarchy, &LocalStorage::new(&target), None, &|_, _| {})?;
            exported = exported.min(start.elapsed());
            let mut files = Vec::new();
            sizes(&target, &mut files)?;
            std::fs::remove_dir_all(&target)?;
            written = written.min(write(&folder.join("export_ratio.bytes"), &files)?);
        }
        let seconds = |time: Duration| time.as_secs_f64();
        let ratio = seconds(exported) / (seconds(decoded) + seconds(written));
        println!(
            "| {name} | {:.2} s | {:.2} s | {:.2} s | {ratio:.2} |",
            seconds(decoded),
            seconds(written),
            seconds(exported)
        );
    }
    Ok(())
}
