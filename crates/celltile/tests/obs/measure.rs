//! Figures, and that memory stays that of a column: `cargo test --release -p celltile --test obs -- --ignored --nocapture measure`.

use std::sync::Arc;
use std::time::Instant;

use arrow_array::{Array, Float64Array};
use celltile::obs::{Cache, ObsReader, ObsWriter};
use celltile::storage::{LocalStorage, Storage};
use celltile::table::{Categories, Column, Table, Text};

use crate::tables::{category, manifest, numeric, options};

/// A line of `/proc/self/status`, in MiB.
fn status(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap_or(0) / 1024
}

/// Cells `first..first + cells`: an integer code, a float, a name.
fn rows(first: usize, cells: usize) -> Table {
    let mixed = |i: usize| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let each = || first..first + cells;
    let kinds = Categories::from_text((0..50).map(|i| format!("type {i}"))).unwrap();
    let columns = vec![
        Column::new("kind", category(each().map(|i| (mixed(i) % 50) as i64), kinds, false)),
        Column::new(
            "total",
            numeric(each().map(|i| Some(mixed(i) as f64 / 3.0)).collect::<Float64Array>(), false),
        ),
        Column::new("name", each().map(|i| Some(format!("{:010}-CELL", mixed(i)))).collect::<Text>()),
    ];
    Table::new(cells, None, columns).unwrap()
}

#[test]
#[ignore = "a measurement"]
fn measure_ten_million_cells() {
    const TILE: usize = 10_000;
    const TILES: usize = 1000;
    let folder = tempfile::tempdir().unwrap();
    let storage = Arc::new(LocalStorage::new(folder.path().join("dataset")));
    let start = Instant::now();
    let mut writer = ObsWriter::create(storage.clone(), &rows(0, 0), TILE as u64, options(1000)).unwrap();
    for tile in 0..TILES {
        writer.push(&rows(tile * TILE, TILE)).unwrap();
    }
    let written = writer.finish().unwrap();
    storage.write("obs/schema.json", written.schema.as_bytes()).unwrap();
    let bytes: u64 = written.record.shard_bytes.iter().sum();
    println!(
        "written: {:.1} s, rows made included, {} MiB, peak {} MiB",
        start.elapsed().as_secs_f64(),
        bytes >> 20,
        status("VmHWM")
    );
    let manifest = manifest(&written, TILE as u64);
    let reader = ObsReader::open(storage, &manifest).unwrap().unwrap();
    let cache = Cache::at(folder.path().join("cache"));
    for (name, what) in
        [("kind", "10 MB of codes"), ("total", "80 MB of floats"), ("name", "190 MB of names")]
    {
        for pass in ["fetched", "mapped"] {
            // Starts the peak anew.
            let _ = std::fs::write("/proc/self/clear_refs", "5");
            let before = (status("VmRSS"), status("RssAnon"));
            let start = Instant::now();
            let obs = reader.columns(&[name], &cache).unwrap();
            let rows: usize = obs.columns()[0].tiles().iter().map(|tile| tile.len()).sum();
            let peak = status("VmHWM").saturating_sub(before.0);
            let own = status("RssAnon").saturating_sub(before.1);
            println!(
                "{name} ({what}), {pass}: {:.2} s, {rows} rows, peak +{peak} MiB, of its own memory +{own} MiB afterwards",
                start.elapsed().as_secs_f64(),
            );
            let column: usize = obs.columns()[0]
                .tiles()
                .iter()
                .map(|tile| tile.to_data().get_slice_memory_size().unwrap())
                .sum();
            // The pages of the mapped file, and a tile or the footer of a shard while it is fetched.
            assert!(
                peak <= (column >> 20) as u64 + 16,
                "{peak} MiB at the peak, a column is {} MiB",
                column >> 20
            );
            assert!(own <= 8, "{own} MiB of its own");
        }
    }
}
