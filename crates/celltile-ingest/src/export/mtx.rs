//! A dataset -> a folder as 10x writes it: `matrix.mtx.gz`, `barcodes.tsv.gz`, `features.tsv.gz`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use celltile::table::Table;
use celltile::{Csr, Dataset, ReadOptions};
use rayon::prelude::*;

use super::ExportSummary;
use super::h5ad::{batches, obs, ranks, sort_cells, var};
use crate::error::{Error, Result};
use crate::frame::display_strings;
use crate::hdf5::StringColumn;
use crate::metadata::Origin;

/// Cells whose lines one thread writes and packs at a time.
const PACKED: usize = 256;

/// How a folder is written.
#[derive(Clone, Copy, Default)]
#[non_exhaustive]
pub struct MtxOptions<'a> {
    /// Deflate level, 1 to 9; that of gzip's own default if `None`.
    pub level: Option<u32>,
    /// Whether files that are there already are replaced.
    pub overwrite: bool,
    /// Set by the caller to stop; nothing is left of the files then.
    pub cancel: Option<&'a AtomicBool>,
    /// Told how many of how many cells are written.
    pub progress: Option<&'a (dyn Fn(u64, u64) + Sync)>,
}

/// Writes a dataset as a folder of 10x v3: genes in the order of the source where the dataset knows it, a column a cell.
/// The matrix appears last.
///
/// # Errors
///
/// [`Error::Dataset`] for a damaged dataset, [`Error::Io`] and [`Error::Write`] for what the folder refuses,
/// [`Error::Unsupported`] for names that no line can hold, [`Error::Cancelled`].
pub fn export_mtx(dataset: &Dataset, target: &Path, options: &MtxOptions<'_>) -> Result<ExportSummary> {
    let order = dataset.gene_order()?;
    let origin = Origin::of(&dataset.manifest().metadata());
    let io = |source| Error::Io { path: target.to_owned(), action: "make the folder", source };
    std::fs::create_dir_all(target).map_err(io)?;
    let names = ["features.tsv.gz", "barcodes.tsv.gz", "matrix.mtx.gz"];
    let [features, barcodes, matrix] = names;
    if let Some(there) = names.iter().find(|name| target.join(name).exists()).filter(|_| !options.overwrite) {
        return Err(Error::Write {
            path: target.to_owned(),
            at: (*there).to_owned(),
            why: "is there already; it is replaced only with --overwrite".into(),
        });
    }
    let level = options.level.unwrap_or(6);
    let mut files = Vec::new();
    let mut lists = Packed::create(target, features, level)?;
    lists.push_text(&feature_lines(target, &var(dataset, order.as_ref())?)?)?;
    files.push(lists);
    let mut lists = Packed::create(target, barcodes, level)?;
    lists.push_text(&cell_lines(target, &obs(dataset)?, dataset.n_cells())?)?;
    files.push(lists);

    let mut file = Packed::create(target, matrix, level)?;
    file.push_text(
        format!(
            "%%MatrixMarket matrix coordinate integer general\n%\n{} {} {}\n",
            dataset.n_genes(),
            dataset.n_cells(),
            dataset.manifest().nnz()
        )
        .as_bytes(),
    )?;
    let ranks = order.as_ref().map(ranks);
    let read = ranks.as_deref().map_or_else(ReadOptions::default, |map| ReadOptions::default().gene_map(map));
    let mut cells = Csr::new();
    for (_, range) in batches(dataset)? {
        if options.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
            return Err(Error::Cancelled);
        }
        let (start, end) = (range.start, range.end);
        dataset.rows_into(range, &read, &mut cells)?;
        if ranks.is_some() {
            sort_cells(&mut cells);
        }
        file.push_parts(&entry_lines(&cells, start, level)?)?;
        if let Some(progress) = options.progress {
            progress(end, dataset.n_cells());
        }
    }
    files.push(file);
    // A reader finds the old matrix or the new one, never one with the lists of the other.
    match std::fs::remove_file(target.join(matrix)) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::Io { path: target.join(matrix), action: "replace", source });
        }
        _ => {}
    }
    let mut bytes = 0;
    for file in files {
        bytes += file.finish()?;
    }
    // The folder's entries too: the files are there when this returns.
    File::open(target).and_then(|folder| folder.sync_all()).map_err(io)?;
    Ok(ExportSummary {
        cells: dataset.n_cells(),
        genes: dataset.n_genes(),
        nonzeros: dataset.manifest().nnz(),
        bytes,
        dtype: "integer",
        source_order: order.is_some(),
        not_carried: origin.not_carried,
    })
}

/// Lines of identifier, name and type. A dataset without identifiers has its names twice.
fn feature_lines(target: &Path, var: &Table) -> Result<Vec<u8>> {
    let column =
        |names: &[&str]| names.iter().find_map(|name| var.column(name)).map(|c| display_strings(c.values()));
    let names = match var.index() {
        Some(index) => display_strings(index.values()),
        None => numbers(var.rows()),
    };
    let ids = column(&["gene_ids", "gene_id", "feature_id"]);
    let types = column(&["feature_types", "feature_type"]);
    let mut text = Vec::new();
    for at in 0..names.len() {
        let name = names.get(at).unwrap_or_default();
        let id = ids.as_ref().and_then(|ids| ids.get(at)).unwrap_or(name);
        let kind = types.as_ref().and_then(|types| types.get(at)).unwrap_or("Gene Expression");
        for (field, end) in [(id, b'\t'), (name, b'\t'), (kind, b'\n')] {
            push_field(&mut text, field, end).ok_or_else(|| unfit(target, "features.tsv.gz", at, field))?;
        }
    }
    Ok(text)
}

fn cell_lines(target: &Path, obs: &Table, cells: u64) -> Result<Vec<u8>> {
    let names = match obs.index() {
        Some(index) => display_strings(index.values()),
        None => numbers(usize::try_from(cells).unwrap_or(usize::MAX)),
    };
    let mut text = Vec::new();
    for (at, name) in names.iter().enumerate() {
        push_field(&mut text, name, b'\n').ok_or_else(|| unfit(target, "barcodes.tsv.gz", at, name))?;
    }
    Ok(text)
}

fn numbers(count: usize) -> StringColumn {
    let mut names = StringColumn::default();
    (0..count).for_each(|at| names.push(&at.to_string()));
    names
}

fn push_field(text: &mut Vec<u8>, field: &str, end: u8) -> Option<()> {
    if field.contains(['\t', '\n', '\r']) {
        return None;
    }
    text.extend_from_slice(field.as_bytes());
    text.push(end);
    Some(())
}

fn unfit(target: &Path, file: &str, at: usize, name: &str) -> Error {
    Error::Unsupported {
        file: target.join(file).display().to_string(),
        at: format!("line {}", at.saturating_add(1)),
        what: format!("{name:?} has a tab or a line end in it, which no list of names can hold"),
    }
}

/// The lines of cells, packed in parts of whole lines on all cores.
fn entry_lines(cells: &Csr, first: u64, level: u32) -> Result<Vec<Vec<u8>>> {
    let view = cells.view().map_err(|error| Error::Options(error.to_string()))?;
    let rows: Vec<_> = (first..).zip(view.iter()).collect();
    rows.par_chunks(PACKED)
        .map(|rows| {
            let mut text = Vec::new();
            for (cell, (genes, counts)) in rows {
                for (gene, count) in genes.iter().zip(*counts) {
                    push_number(&mut text, u64::from(gene.unsigned_abs()) + 1, b' ');
                    push_number(&mut text, cell + 1, b' ');
                    push_number(&mut text, u64::from(count.unsigned_abs()), b'\n');
                }
            }
            if text.is_empty() { Ok(Vec::new()) } else { packed(&text, level) }
        })
        .collect()
}

#[allow(clippy::cast_possible_truncation, reason = "one decimal digit")]
fn push_number(text: &mut Vec<u8>, mut number: u64, end: u8) {
    let mut digits = [0_u8; 20];
    let mut used = 0;
    for slot in digits.iter_mut().rev() {
        *slot = b'0' + (number % 10) as u8;
        number /= 10;
        used += 1;
        if number == 0 {
            break;
        }
    }
    text.extend(digits.iter().skip(digits.len() - used));
    text.push(end);
}

/// A gzip member; a file of several reads as one text.
fn packed(text: &[u8], level: u32) -> Result<Vec<u8>> {
    let level = i32::try_from(level).unwrap_or(6);
    let level = libdeflater::CompressionLvl::new(level).unwrap_or_default();
    let mut compressor = libdeflater::Compressor::new(level);
    let mut out = vec![0; compressor.gzip_compress_bound(text.len())];
    let len = compressor
        .gzip_compress(text, &mut out)
        .map_err(|error| Error::Options(format!("cannot deflate: {error}")))?;
    out.truncate(len);
    Ok(out)
}

/// A file on its way into the folder, under a temporary name.
struct Packed {
    target: PathBuf,
    level: u32,
    temporary: Option<tempfile::TempPath>,
    out: BufWriter<File>,
    bytes: u64,
}

impl Packed {
    fn create(folder: &Path, name: &'static str, level: u32) -> Result<Self> {
        let target = folder.join(name);
        let made = tempfile::Builder::new().prefix(&format!(".{name}.")).tempfile_in(folder);
        let (file, temporary) =
            made.map_err(|source| Error::Io { path: target.clone(), action: "create", source })?.into_parts();
        Ok(Self { target, level, temporary: Some(temporary), out: BufWriter::new(file), bytes: 0 })
    }

    fn io(&self, action: &'static str) -> impl Fn(std::io::Error) -> Error + use<> {
        let path = self.target.clone();
        move |source| Error::Io { path: path.clone(), action, source }
    }

    fn push_text(&mut self, text: &[u8]) -> Result<()> {
        let level = self.level;
        let parts: Result<Vec<Vec<u8>>> = text.par_chunks(1 << 20).map(|part| packed(part, level)).collect();
        // A file of no text is a member of none.
        let parts = if text.is_empty() { vec![packed(text, level)?] } else { parts? };
        self.push_parts(&parts)
    }

    fn push_parts(&mut self, parts: &[Vec<u8>]) -> Result<()> {
        for part in parts {
            self.out.write_all(part).map_err(self.io("write"))?;
            self.bytes += part.len() as u64;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<u64> {
        self.out.flush().map_err(self.io("write"))?;
        let file = self.out.get_ref();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // Temporary files are for their owner alone.
            file.set_permissions(std::fs::Permissions::from_mode(0o644)).map_err(self.io("write"))?;
        }
        file.sync_all().map_err(self.io("write"))?;
        if let Some(temporary) = self.temporary.take() {
            temporary.persist(&self.target).map_err(|error| self.io("rename")(error.error))?;
        }
        Ok(self.bytes)
    }
}
