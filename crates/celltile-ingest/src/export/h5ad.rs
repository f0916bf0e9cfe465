//! A dataset -> an h5ad file, as current anndata writes it.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use celltile::genes::GeneOrder;
use celltile::obs::Cache;
use celltile::table::{Index, Table, Text};
use celltile::{Csr, Dataset, ReadOptions};
use rayon::prelude::*;

use super::ExportSummary;
use super::file::H5adFile;
use super::order::CellSorter;
use crate::error::{Error, Result};
use crate::hdf5::Element;
use crate::metadata::Origin;

/// Nonzeros decoded at a time: enough to keep all cores busy, 16 bytes each.
const BATCH_NONZEROS: u64 = 4 << 20;

/// Genes without names that an export gives numbers to. A manifest can claim 2^31 in a few bytes.
const MOST_UNNAMED: u64 = 1 << 24;

/// How an h5ad file is written.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct H5adOptions<'a> {
    /// Deflate level, 1 to 9; `None` for no compression.
    pub level: Option<u32>,
    /// Set by the caller to stop; nothing is left of the file then.
    pub cancel: Option<&'a AtomicBool>,
    /// Told how many of how many cells are written.
    pub progress: Option<&'a (dyn Fn(u64, u64) + Sync)>,
}

impl Default for H5adOptions<'_> {
    fn default() -> Self {
        Self { level: Some(1), cancel: None, progress: None }
    }
}

/// Writes a dataset as an h5ad file: `X` (CSR; genes in the order of the source, counts in its dtype, where the dataset
/// says what they were), obs and var.
///
/// Memory stays bounded but for obs and var, which are held whole. The file appears when it is complete.
///
/// # Errors
///
/// [`Error::Dataset`] for a damaged dataset, [`Error::Write`] and [`Error::Io`] for what the file refuses,
/// [`Error::Unsupported`] for column names that HDF5 cannot hold, [`Error::Cancelled`].
pub fn export_h5ad(dataset: &Dataset, target: &Path, options: &H5adOptions<'_>) -> Result<ExportSummary> {
    let order = dataset.gene_order()?;
    let source = Origin::of(&dataset.manifest().metadata());
    // The source's type, unless a count has outgrown it (repeated entries added up, say).
    // Half precision becomes single: SciPy has no sparse matrices of it, so that nothing could read the file.
    let element = source.element.map(|element| match element {
        Element::Float16 => Element::Float32,
        element => element,
    });
    let tries = element.into_iter().chain([Element::Int32]);
    let mut written = None;
    for element in tries {
        written = write(dataset, target, order.as_ref(), element, options)?;
        if written.is_some() {
            break;
        }
    }
    let Some((element, bytes)) = written else {
        return Err(Error::Options("no type holds the counts".into()));
    };
    Ok(ExportSummary {
        cells: dataset.n_cells(),
        genes: dataset.n_genes(),
        nonzeros: dataset.manifest().nnz(),
        bytes,
        dtype: element.name(),
        source_order: order.is_some(),
        not_carried: source.not_carried,
    })
}

/// Writes the file, and says what it weighs; nothing if there is a count that `element` does not hold.
fn write(
    dataset: &Dataset,
    target: &Path,
    order: Option<&GeneOrder>,
    element: Element,
    options: &H5adOptions<'_>,
) -> Result<Option<(Element, u64)>> {
    let file = H5adFile::create(target, options.level)?;
    if !write_x(&file, dataset, order, element, options)? {
        return Ok(None);
    }
    Ok(Some((element, file.finish(&obs(dataset)?, &var(dataset, order)?)?)))
}

pub(super) fn obs(dataset: &Dataset) -> Result<Table> {
    match dataset.obs_reader()? {
        // Read once, so that nothing need be kept on disk.
        Some(reader) => Ok(reader.all(&Cache::memory())?.to_table()?),
        None => Ok(Table::new(usize::try_from(dataset.n_cells()).unwrap_or(usize::MAX), None, Vec::new())?),
    }
}

/// The gene table in the order of the file.
pub(super) fn var(dataset: &Dataset, order: Option<&GeneOrder>) -> Result<Table> {
    let table = match (dataset.var()?, dataset.var_names()?) {
        (Some(table), _) => table,
        (None, Some(names)) => {
            let names = names.into_names();
            let index = Index::new(None, names.iter().map(Some).collect::<Text>());
            Table::new(names.len(), Some(index), Vec::new())?
        }
        (None, None) if dataset.n_genes() > MOST_UNNAMED => {
            return Err(Error::Unsupported {
                file: dataset.storage().locate(""),
                at: "genes".into(),
                what: format!(
                    "{} without names; an h5ad file names each, and more than {MOST_UNNAMED} are not numbered",
                    dataset.n_genes()
                ),
            });
        }
        (None, None) => {
            Table::new(usize::try_from(dataset.n_genes()).unwrap_or(usize::MAX), None, Vec::new())?
        }
    };
    let Some(order) = order else { return Ok(table) };
    // `order[column]` is the source's column; the file needs, for each of these, the column.
    let mut rows: Vec<(i32, u64)> = order.columns().iter().copied().zip(0..).collect();
    rows.sort_unstable();
    Ok(table.take(&rows.into_iter().map(|(_, column)| column).collect::<Vec<_>>())?)
}

/// The place of each of the dataset's genes in the file: its rank among the source columns that the dataset holds.
pub(super) fn ranks(order: &GeneOrder) -> Vec<i32> {
    let mut columns: Vec<(i32, usize)> = order.columns().iter().copied().zip(0..).collect();
    columns.sort_unstable();
    let mut ranks = vec![0; columns.len()];
    for (rank, (_, column)) in (0..).zip(columns) {
        if let Some(to) = ranks.get_mut(column) {
            *to = rank;
        }
    }
    ranks
}

/// Writes `X`; says `false`, early, if there is a count that `element` does not hold.
fn write_x(
    file: &H5adFile,
    dataset: &Dataset,
    order: Option<&GeneOrder>,
    element: Element,
    options: &H5adOptions<'_>,
) -> Result<bool> {
    let mut x = file.x(dataset.n_cells(), dataset.n_genes(), element)?;
    let ranks = order.map(ranks);
    let read = ranks.as_deref().map_or_else(ReadOptions::default, |map| ReadOptions::default().gene_map(map));
    let mut cells = Csr::new();
    for (tile, range) in batches(dataset)? {
        if options.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
            return Err(Error::Cancelled);
        }
        let end = range.end;
        match tile {
            Some(tile) => dataset.tile_into(tile, &read, &mut cells)?,
            None => dataset.rows_into(range, &read, &mut cells)?,
        }
        if ranks.is_some() {
            sort_cells(&mut cells);
        }
        if cells.counts.iter().any(|&count| count > element.exact_to()) {
            return Ok(false);
        }
        x.push(&cells)?;
        if let Some(progress) = options.progress {
            progress(end, dataset.n_cells());
        }
    }
    x.finish()?;
    Ok(true)
}

/// Consecutive cells that hold about [`BATCH_NONZEROS`], never of two tiles. Tiles of a bucket are taken whole, by one request
/// each.
pub(super) fn batches(dataset: &Dataset) -> Result<Vec<(Option<u64>, Range<u64>)>> {
    let mut batches = Vec::new();
    let remote = dataset.storage().is_remote();
    for (tile, &nonzeros) in (0..).zip(&dataset.manifest().tile_nnz) {
        let cells = dataset.tile_cells(tile)?;
        if remote {
            batches.push((Some(tile), cells));
            continue;
        }
        let parts = nonzeros / BATCH_NONZEROS + 1;
        let step = (cells.end - cells.start).div_ceil(parts).max(1);
        let mut start = cells.start;
        while start < cells.end {
            let end = start.saturating_add(step).min(cells.end);
            batches.push((None, start..end));
            start = end;
        }
    }
    Ok(batches)
}

/// Sorts the genes of each cell, on all cores.
pub(super) fn sort_cells(cells: &mut Csr<i32>) {
    let lengths = cells.indptr.windows(2).map(|pair| match pair {
        [start, end] => usize::try_from(end - start).unwrap_or_default(),
        _ => 0,
    });
    let (mut genes, mut counts) = (cells.genes.as_mut_slice(), cells.counts.as_mut_slice());
    let mut rows = Vec::with_capacity(cells.indptr.len());
    for length in lengths {
        let (Some((row_genes, more_genes)), Some((row_counts, more_counts))) =
            (genes.split_at_mut_checked(length), counts.split_at_mut_checked(length))
        else {
            return;
        };
        rows.push((row_genes, row_counts));
        (genes, counts) = (more_genes, more_counts);
    }
    rows.into_par_iter()
        .with_min_len(64)
        .for_each_init(CellSorter::default, |sorter, (genes, counts)| sorter.sort(genes, counts));
}
