//! Converts one file and prints what it took: `convert INPUT OUTPUT [PRESET [MEMORY_MIB [THREADS]]]`. For measuring; the
//! command `celltile convert` is for work.

use std::error::Error;
use std::sync::Arc;

use celltile::storage::LocalStorage;
use celltile::{Compression, Preset};
use celltile_ingest::convert::{ConvertOptions, convert_file};
use celltile_ingest::source::SourceOptions;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(input), Some(output)) = (arguments.next(), arguments.next()) else {
        return Err("expected: INPUT OUTPUT [PRESET [MEMORY_MIB [THREADS]]]".into());
    };
    let mut options = ConvertOptions::default();
    options.writer.overwrite = true;
    options.writer.encode.compression = Compression::Preset(match arguments.next().as_deref() {
        Some("small") => Preset::Small,
        Some("balanced") => Preset::Balanced,
        _ => Preset::Fast,
    });
    if let Some(mebibytes) = arguments.next() {
        options.memory = mebibytes.parse::<u64>()? << 20;
    }
    if let Some(threads) = arguments.next() {
        options.writer.threads = threads.parse()?;
    }
    let storage = Arc::new(LocalStorage::new(&output));
    match convert_file(input, storage, &SourceOptions::default(), &options) {
        Ok(summary) => println!("{summary}; {} cells read twice", summary.cells_read_twice),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
    // Linux keeps the largest resident size of a process.
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        for line in status.lines().filter(|line| line.starts_with("VmHWM")) {
            println!("{line}");
        }
    }
    Ok(())
}
