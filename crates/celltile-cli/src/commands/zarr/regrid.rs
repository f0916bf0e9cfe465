//! `celltile zarr regrid`: the arrays of a store on other grids.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use celltile_zarr::{
    ChunkSpec, Compression, Encoding, GridForm, RegridOptions, StoreTarget, regrid_store, relabel_store,
};

use crate::args::{self, Threads};
use crate::failure::Failure;
use crate::ui::{self, ProgressMode, Stages, Table};

/// Write a store with arrays on another grid, in bounded memory; the same command goes on where it was interrupted
///
/// Arrays that are not concerned are copied as they are. With --as, nothing but metadata is changed, in place: from a regular grid to
/// the equal rectilinear one, or back.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["chunks", "form"]))]
pub(crate) struct Args {
    /// The store or array: a folder or URL.
    store: PathBuf,
    /// The new store.
    #[arg(short, long, value_name = "STORE", required_unless_present = "form")]
    output: Option<PathBuf>,
    /// The new chunks: lengths as in 1000x50, or a list an axis as in '[1000, [[20, 3], 5]]'.
    #[arg(long, value_name = "CHUNKS")]
    chunks: Option<ChunkSpec>,
    /// The other form of the same grid, in place.
    #[arg(long = "as", value_enum, value_name = "FORM", conflicts_with_all = ["output", "compress", "inner"])]
    form: Option<Form>,
    /// The array concerned; may be given several times [default: all with as many axes].
    #[arg(long = "array", value_name = "PATH")]
    arrays: Vec<String>,
    /// Compress chunks anew: none, zstd or zstd:LEVEL [default: the codecs stay].
    #[arg(long, value_name = "HOW")]
    compress: Option<Compression>,
    /// Make chunks shards of inner chunks of this shape, as in 100x50.
    #[arg(long, value_name = "LENGTHS", value_delimiter = 'x')]
    inner: Option<Vec<u64>>,
    /// Memory for chunks.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = args::bytes)]
    memory: u64,
    #[command(flatten)]
    threads: Threads,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Form {
    /// A regular grid.
    Regular,
    /// A rectilinear grid.
    Rectilinear,
}

pub(crate) fn run(args: &Args, progress: ProgressMode) -> Result<(), Failure> {
    let store = super::open(&args.store)?;
    let mut table = Table::new(0..0);
    match (args.form, &args.chunks, &args.output) {
        (Some(form), _, _) => {
            let form = match form {
                Form::Regular => GridForm::Regular,
                Form::Rectilinear => GridForm::Rectilinear,
            };
            let changed = relabel_store(&store, &args.arrays, form)?;
            table.row(["metadata changed of".to_owned(), ui::count(changed.len() as u64)]);
            changed.iter().for_each(|path| table.row(["array", path]));
        }
        (None, Some(chunks), Some(output)) => {
            let stages = Stages::new(progress);
            let told = |done, total| stages.at("regrid", "chunks", done, total);
            let encoding = (args.compress.is_some() || args.inner.is_some()).then(|| Encoding {
                compression: args.compress.unwrap_or_default(),
                inner: args.inner.clone(),
                checksum: false,
            });
            let target = StoreTarget { chunks: chunks.clone(), arrays: args.arrays.clone(), encoding };
            let options = RegridOptions { memory: args.memory, threads: args.threads.number() };
            let report = regrid_store(&store, &super::open(output)?, &target, &options, &told);
            stages.end();
            let report = report?;
            report.regridded.iter().for_each(|path| table.row(["regridded", path]));
            table.row(["arrays copied".to_owned(), ui::count(report.copied.len() as u64)]);
            table.row(["chunks".to_owned(), ui::count(report.chunks)]);
            table.row(["found from before".to_owned(), ui::count(report.found)]);
        }
        _ => return Err(Failure::Usage("--chunks needs --output".into())),
    }
    let mut out = BufWriter::new(io::stdout().lock());
    table.write(&mut out)?;
    out.flush()?;
    Ok(())
}
