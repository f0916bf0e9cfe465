//! `celltile serve`: a dataset as a Zarr store over HTTP.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use celltile_zarr::export::ZARR_PYTHON_SETTING;
use celltile_zarr::server::Server;
use celltile_zarr::{GridForm, Hierarchy, LiveView};

use crate::args::dataset::{KeepTiles, Source};
use crate::args::{StoreArgs, Threads};
use crate::failure::Failure;
use crate::interrupt;

/// Serve a dataset as an AnnData Zarr store over HTTP, read only, without writing the store anywhere
///
/// Its URL is the first line of the output; an interrupt ends it. Whoever reaches the address reads the dataset.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// The address to listen on; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    bind: SocketAddr,
    #[command(flatten)]
    keep: KeepTiles,
    #[command(flatten)]
    threads: Threads,
    #[command(flatten)]
    store: StoreArgs,
}

/// Time between two looks at whether the user wants to stop.
const LOOK: Duration = Duration::from_millis(50);

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let dataset = args.source.open_kept(args.threads.get(), &args.keep)?;
    let hierarchy = Hierarchy::open(Arc::new(dataset), &args.keep.folder()?, args.store.get())?;
    let form = hierarchy.form();
    for name in hierarchy.left_out() {
        eprintln!("left out: {name}, whose name can be no path");
    }
    let told = |key: &str, error: &_| eprintln!("error: {key}: {error}");
    let server = Server::bind(LiveView::new(hierarchy), args.bind, Box::new(told))?;
    let mut out = io::stdout().lock();
    writeln!(out, "{}", server.url())?;
    out.flush()?;
    drop(out);
    if form == GridForm::Rectilinear {
        eprintln!("zarr-python needs {ZARR_PYTHON_SETTING}");
    }
    if !args.bind.ip().is_loopback() {
        eprintln!("other machines can read the dataset");
    }
    let (asked, stop) = (interrupt::cooperate(), server.stop_handle());
    std::thread::spawn(move || {
        while !asked.load(Ordering::SeqCst) {
            std::thread::sleep(LOOK);
        }
        stop.stop();
    });
    Ok(server.run()?)
}
