//! `celltile export`: a dataset -> a file or store that other tools read.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use celltile::Dataset;
use celltile::storage::{LocalStorage, RemoteOptions, is_url, open_storage};
use celltile_ingest::export::{ExportSummary, H5adOptions, MtxOptions, export_h5ad, export_mtx};
use celltile_zarr::export::ExportReport;
use celltile_zarr::{Hierarchy, export};

use crate::args::dataset::{KeepTiles, Source};
use crate::args::{Deflate, StoreArgs, Target, Threads};
use crate::failure::Failure;
use crate::interrupt;
use crate::ui::{self, Progress, ProgressMode, Table};

/// Write a dataset as an h5ad file, as an AnnData Zarr store where the output ends in .zarr, or as a 10x folder
///
/// In an h5ad file genes come back in the order of the source and counts in its dtype where the dataset knows them; int32 otherwise.
/// A store has the genes in the dataset's order, names beside, and its matrix cut where the tiles are cut. A folder (--format mtx)
/// holds matrix.mtx.gz, barcodes.tsv.gz and features.tsv.gz as 10x v3 has them, genes in the order of the source.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    target: Target,
    /// What to write, where the output's name does not say it.
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    #[command(flatten)]
    deflate: Deflate,
    #[command(flatten)]
    keep: KeepTiles,
    #[command(flatten)]
    threads: Threads,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A file for anndata.
    H5ad,
    /// A folder as 10x writes it.
    Mtx,
}

pub(crate) fn run(args: &Args, progress: ProgressMode) -> Result<(), Failure> {
    let start = Instant::now();
    let threads = args.threads.get();
    let zarr = args.target.path().extension().is_some_and(|extension| extension == "zarr");
    let mut table = if args.format == Some(Format::Mtx) {
        // The folder may be there; the files in it may not.
        let dataset = args.source.open_kept(threads, &args.keep)?;
        to_folder(args, &dataset, args.target.path(), progress)?
    } else if args.format.is_none() && zarr {
        if args.target.overwrites() {
            return Err(Failure::Usage(
                "a Zarr store is written to a new place; remove the old one first".into(),
            ));
        }
        let dataset = args.source.open_kept(threads, &args.keep)?;
        to_store(args, dataset, args.target.path(), progress)?
    } else {
        let target = args.target.free()?;
        let dataset = args.source.open_kept(threads, &args.keep)?;
        to_file(args, &dataset, target, progress)?
    };
    table.row(["time".to_owned(), ui::duration(start.elapsed())]);
    let mut out = BufWriter::new(io::stdout().lock());
    table.write(&mut out)?;
    out.flush()?;
    Ok(())
}

fn to_folder(
    args: &Args,
    dataset: &Dataset,
    target: &Path,
    progress: ProgressMode,
) -> Result<Table, Failure> {
    let bar = Progress::new(progress, "export", "cells", dataset.n_cells());
    let cancel = interrupt::cooperate();
    let told = |done, _| bar.set(done);
    let mut options = MtxOptions::default();
    options.level = args.deflate.get();
    options.overwrite = args.target.overwrites();
    options.cancel = Some(&*cancel);
    options.progress = Some(&told);
    let result = args.threads.run(|| export_mtx(dataset, target, &options))?;
    drop(bar);
    Ok(as_table(&result.map_err(Failure::of_ingest)?))
}

fn to_file(args: &Args, dataset: &Dataset, target: &Path, progress: ProgressMode) -> Result<Table, Failure> {
    let bar = Progress::new(progress, "export", "cells", dataset.n_cells());
    let cancel = interrupt::cooperate();
    let told = |done, _| bar.set(done);
    let mut options = H5adOptions::default();
    options.level = args.deflate.get();
    options.cancel = Some(&*cancel);
    options.progress = Some(&told);
    let result = args.threads.run(|| export_h5ad(dataset, target, &options))?;
    drop(bar);
    Ok(as_table(&result.map_err(Failure::of_ingest)?))
}

fn to_store(args: &Args, dataset: Dataset, target: &Path, progress: ProgressMode) -> Result<Table, Failure> {
    let hierarchy = Hierarchy::open(Arc::new(dataset), &args.keep.folder()?, args.store.get())?;
    let place = match target.to_str() {
        Some(url) if is_url(url) => open_storage(url, &RemoteOptions::default())?,
        _ => Arc::new(LocalStorage::new(target)),
    };
    let bar = Progress::new(progress, "export", "chunks", hierarchy.n_chunks());
    let report = export(&hierarchy, place.as_ref(), args.threads.number(), &|_, done| bar.set(done))?;
    drop(bar);
    Ok(store_table(&hierarchy, &report))
}

fn as_table(summary: &ExportSummary) -> Table {
    let mut table = Table::new(0..0);
    table.row(["cells".to_owned(), ui::count(summary.cells)]);
    table.row(["genes".to_owned(), ui::count(summary.genes)]);
    table.row(["nonzeros".to_owned(), ui::count(summary.nonzeros)]);
    table.row(["counts as", summary.dtype]);
    table.row(["gene order", if summary.source_order { "the source's" } else { "the dataset's" }]);
    table.row(["size".to_owned(), ui::bytes(summary.bytes)]);
    for part in &summary.not_carried {
        table.row(["not in the dataset".to_owned(), super::not_carried(part)]);
    }
    table
}

fn store_table(hierarchy: &Hierarchy, report: &ExportReport) -> Table {
    let dataset = hierarchy.dataset();
    let mut table = Table::new(0..0);
    table.row(["cells".to_owned(), ui::count(dataset.n_cells())]);
    table.row(["genes".to_owned(), ui::count(dataset.n_genes())]);
    table.row(["nonzeros".to_owned(), ui::count(dataset.manifest().nnz())]);
    table.row(["grid chunks of the matrix".to_owned(), ui::count(hierarchy.n_parts())]);
    table.row(["gene order", "the dataset's"]);
    table.row([
        "size".to_owned(),
        format!("{} in {} objects", ui::bytes(report.bytes), ui::count(report.objects)),
    ]);
    for name in &report.left_out {
        table.row(["left out".to_owned(), format!("{name}, whose name can be no path")]);
    }
    if let Some(setting) = report.setting {
        table.row(["zarr-python needs", setting]);
    }
    table
}
