//! How fast shuffled batches come, beside plain decoding of the same tiles with as many threads.
//!
//!     cargo run --release -p celltile-loader --example loading_speed -- [FOLDER] [THREADS] [BATCH]
//!
//! FOLDER is a dataset; without one, 40,000 cells are simulated.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use celltile::{Csr, Dataset, DatasetWriter, OpenOptions, ReadOptions, WriterOptions};
use celltile_ingest::simulate::{SimulateOptions, Simulation};
use celltile_loader::{Loader, LoaderOptions, Shuffle, Transform};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().map_or_else(simulated, |path| Ok(PathBuf::from(path)))?;
    let threads = arguments.next().map_or(Ok(2), |text| text.parse())?;
    let batch_size = arguments.next().map_or(Ok(4096), |text| text.parse())?;
    let open = OpenOptions::default().threads(threads);
    let dataset = Arc::new(Dataset::open_with(&folder, &open)?);
    let cells = dataset.n_cells();
    let rate = |what: &str, cells: u64, start: Instant| {
        println!("{what:<32} {:>10.0} cells/s", cells as f64 / start.elapsed().as_secs_f64());
    };
    let mut out = Csr::<f32>::new();
    for round in ["first touch", "plain decoding"] {
        let start = Instant::now();
        for tile in 0..dataset.n_tiles() {
            dataset.tile_into(tile, &ReadOptions::default(), &mut out)?;
        }
        rate(round, cells, start);
    }
    let run = |what: &str, change: &dyn Fn(&mut LoaderOptions)| -> Result<(), Box<dyn std::error::Error>> {
        let mut options = LoaderOptions::default();
        options.threads = threads;
        options.batch_size = batch_size;
        change(&mut options);
        let mut loader = Loader::<f32>::new(Arc::clone(&dataset), options)?;
        while let Some(batch) = loader.next_batch() {
            batch?;
        }
        let before = loader.stats();
        let start = Instant::now();
        while let Some(batch) = loader.next_batch() {
            batch?;
        }
        rate(what, loader.n_cells(), start);
        let after = loader.stats();
        println!(
            "    wait {:?}, decode {:?}, plan {:?}",
            after.wait - before.wait,
            after.decode - before.decode,
            after.fetch - before.fetch
        );
        Ok(())
    };
    run("chunks", &|_| {})?;
    run("tiles", &|options| options.shuffle = Shuffle::Tiles)?;
    run("cells", &|options| options.shuffle = Shuffle::Cells)?;
    run("in order", &|options| options.shuffle = Shuffle::None)?;
    run("chunks, totals", &|options| options.totals = true)?;
    run("chunks, log1p", &|options| options.transform = Transform::Log1pCp10k)?;
    run("chunks, 2,000 genes", &|options| {
        let n_genes = dataset.n_genes();
        options.genes = Some((0..2000.min(n_genes)).map(|i| i * 7 % n_genes).collect());
    })?;
    Ok(())
}

fn simulated() -> Result<PathBuf, Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join("celltile-loading-speed");
    if folder.join("manifest.json").exists() {
        return Ok(folder);
    }
    let options = SimulateOptions::new(40_000);
    let simulation = Simulation::new(options)?;
    let mut writer = DatasetWriter::create_at(&folder, options.genes.into(), &WriterOptions::default())?;
    for start in (0..options.cells).step_by(2000) {
        writer.push(simulation.cells(start..options.cells.min(start + 2000))?.view()?)?;
    }
    writer.finish()?;
    Ok(folder)
}
