//! `celltile zarr append`: a block of elements at the end of an array.

use std::io::{self, Write};
use std::path::PathBuf;

use celltile_zarr::{ZarrArray, append_npy};

use crate::failure::Failure;
use crate::ui;

/// Add a block to an array as chunks of its own, without touching the others
///
/// The array must end where a chunk ends. A regular grid becomes rectilinear unless the block is as long as its chunks.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The store or array: a folder or URL.
    store: PathBuf,
    /// The elements: an NPY file of the array's type and shape, but for the axis.
    block: PathBuf,
    /// The array's path in the store.
    #[arg(long, value_name = "PATH", default_value = "/")]
    array: String,
    /// The axis.
    #[arg(long, value_name = "N", default_value_t = 0)]
    axis: usize,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let block = std::fs::read(&args.block)
        .map_err(|error| Failure::Bad(format!("{}: {error}", args.block.display()).into()))?;
    let array = ZarrArray::open(super::open(&args.store)?, &format!("/{}", args.array.trim_matches('/')))?;
    let longer = append_npy(&array, args.axis, &block)?;
    let shape: Vec<String> = longer.grid().shape().iter().map(|&n| ui::count(n)).collect();
    writeln!(io::stdout(), "shape  {}", shape.join(" x "))?;
    Ok(())
}
