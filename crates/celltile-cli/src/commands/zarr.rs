//! `celltile zarr`: what is in a Zarr store, what is wrong with it, its arrays on other grids.

mod append;
mod check;
mod info;
mod regrid;

use std::path::Path;
use std::sync::Arc;

use celltile::storage::{LocalStorage, RemoteOptions, is_url, open_storage};
use celltile_zarr::KeyStore;

use crate::failure::Failure;
use crate::ui::ProgressMode;

/// Look at Zarr stores and change the grids of their arrays
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Info(info::Args),
    Check(check::Args),
    Regrid(regrid::Args),
    Append(append::Args),
}

pub(crate) fn run(args: &Args, progress: ProgressMode) -> Result<(), Failure> {
    match &args.command {
        Command::Info(args) => info::run(args),
        Command::Check(args) => check::run(args),
        Command::Regrid(args) => regrid::run(args, progress),
        Command::Append(args) => append::run(args),
    }
}

/// The store at a path or URL.
fn open(location: &Path) -> Result<Arc<KeyStore>, Failure> {
    let storage = match location.to_str() {
        Some(url) if is_url(url) => open_storage(url, &RemoteOptions::default())?,
        _ => Arc::new(LocalStorage::new(location)),
    };
    Ok(Arc::new(KeyStore::new(storage)))
}
