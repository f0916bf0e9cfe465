use std::path::{Path, PathBuf};

use super::header::is_matrix_market;
use crate::error::{Error, Result};
use crate::source::SourceOptions;
use crate::text::TextFile;

/// A matrix and the lists beside it.
#[derive(Debug)]
pub(in crate::source) struct Found {
    pub(in crate::source) matrix: TextFile,
    pub(in crate::source) barcodes: Option<TextFile>,
    pub(in crate::source) features: Option<TextFile>,
    /// What people should know of how they were chosen.
    pub(in crate::source) notes: Vec<String>,
}

/// Names of lists of cells, after what the matrix' name starts with: those of 10x, of kallisto, of alevin.
const CELLS: [&str; 5] = ["barcodes.tsv", "cells.tsv", "barcodes.txt", "cells.txt", "rows.txt"];
/// Names of lists of genes.
const GENES: [&str; 5] = ["features.tsv", "genes.tsv", "genes.txt", "features.txt", "cols.txt"];

/// Largest list that is compared with another of the same name.
const COMPARED: usize = 1 << 26;

/// A name without the ending of a compressed file.
fn unpacked(name: &str) -> &str {
    [".gz", ".zst"].into_iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
}

/// What a matrix' name starts with, if it is one by its name.
fn stem(name: &str) -> Option<&str> {
    unpacked(name).strip_suffix(".mtx")
}

/// Names of what is in a folder, sorted.
fn names(folder: &Path) -> Result<(Vec<String>, Vec<String>)> {
    let io = |source| Error::Io { path: folder.to_owned(), action: "list", source };
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        // Names that are not UTF-8 are none of those looked for.
        let Ok(name) = entry.file_name().into_string() else { continue };
        match std::fs::metadata(entry.path()) {
            Ok(metadata) if metadata.is_dir() => folders.push(name),
            Ok(_) => files.push(name),
            Err(_) => {}
        }
    }
    files.sort();
    folders.sort();
    Ok((files, folders))
}

/// The one matrix of a folder; none if there is none.
pub(in crate::source) fn matrix_of(folder: &Path) -> Result<Option<PathBuf>> {
    let (files, folders) = names(folder)?;
    let matrices: Vec<&String> = files.iter().filter(|name| stem(name).is_some()).collect();
    let plain: Vec<&String> =
        matrices.iter().copied().filter(|name| stem(name).is_some_and(|stem| stem == "matrix")).collect();
    let chosen = if plain.len() == 1 { &plain } else { &matrices };
    match chosen.as_slice() {
        [only] => Ok(Some(folder.join(only))),
        [] => {
            let below: Vec<&str> = folders
                .iter()
                .filter(|name| {
                    names(&folder.join(name))
                        .is_ok_and(|(files, _)| files.iter().any(|name| stem(name).is_some()))
                })
                .map(String::as_str)
                .collect();
            if below.is_empty() {
                return Ok(None);
            }
            Err(Error::Options(format!(
                "{}: no matrix.mtx in it, but in its folders: choose one of {}",
                folder.display(),
                below.join(", ")
            )))
        }
        many => {
            let many: Vec<&str> = many.iter().map(|name| name.as_str()).collect();
            Err(Error::Options(format!(
                "{}: several matrices: name the one to read ({})",
                folder.display(),
                many.join(", ")
            )))
        }
    }
}

/// The matrix at a path, or in the folder at a path, with its lists.
pub(super) fn find(path: &Path, options: &SourceOptions) -> Result<Found> {
    let path = if path.is_dir() {
        matrix_of(path)?.ok_or_else(|| Error::NotRecognised {
            file: path.display().to_string(),
            found: "a folder without a Matrix Market file".into(),
            expected: "matrix.mtx, plain or compressed with gzip or zstd".into(),
        })?
    } else {
        path.to_owned()
    };
    beside(&path, options)
}

/// The lists beside a matrix.
pub(in crate::source) fn beside(path: &Path, options: &SourceOptions) -> Result<Found> {
    let matrix = TextFile::open(path)?;
    if !is_matrix_market(&matrix.start_of_text(64)?) {
        return Err(Error::NotRecognised {
            file: matrix.name().to_owned(),
            found: "its first line is not %%MatrixMarket".into(),
            expected: "a Matrix Market file".into(),
        });
    }
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let (files, _) = names(folder)?;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let stem = stem(name).unwrap_or_else(|| unpacked(name));
    // GSM1_matrix.mtx.gz goes with GSM1_barcodes.tsv.gz, cells_x_genes.mtx with cells_x_genes.barcodes.txt.
    let mut prefixes = Vec::new();
    if let Some(prefix) = stem.strip_suffix("matrix") {
        prefixes.push(prefix.to_owned());
    }
    prefixes.extend([format!("{stem}."), format!("{stem}_"), format!("{stem}-")]);
    if let Some(at) = stem.rfind(['_', '.', '-']) {
        prefixes.extend(stem.get(..=at).map(str::to_owned));
    }
    prefixes.push(String::new());
    let mut notes = Vec::new();
    let mut list = |kinds: &[&str], what: &str| -> Result<Option<TextFile>> {
        for prefix in &prefixes {
            let found: Vec<&String> = files
                .iter()
                .filter(|name| {
                    let rest = unpacked(name).strip_prefix(prefix.as_str());
                    rest.is_some_and(|rest| kinds.iter().any(|kind| rest.eq_ignore_ascii_case(kind)))
                })
                .collect();
            if !found.is_empty() {
                // Names and counts of two matrices would fit each other if they have one size.
                if prefix.is_empty() && stem != "matrix" {
                    let name = found.first().map_or("", |name| name.as_str());
                    notes.push(format!(
                        "its list of {what} is {name}, whose name does not say that it belongs to {stem}"
                    ));
                }
                return one_of(folder, &found, what, &matrix, &mut notes, options).map(Some);
            }
        }
        Ok(None)
    };
    let barcodes = list(&CELLS, "cells")?;
    let features = list(&GENES, "genes")?;
    Ok(Found { matrix, barcodes, features, notes })
}

/// One of several lists, if all say the same.
fn one_of(
    folder: &Path,
    found: &[&String],
    what: &str,
    matrix: &TextFile,
    notes: &mut Vec<String>,
    options: &SourceOptions,
) -> Result<TextFile> {
    let mut lists = Vec::new();
    for name in found {
        options.read.check_cancelled()?;
        lists.push(TextFile::open(&folder.join(name))?);
    }
    let names: Vec<&str> = found.iter().map(|name| name.as_str()).collect();
    if let [first, rest @ ..] = lists.as_slice()
        && !rest.is_empty()
    {
        let text = first.start_of_text(COMPARED)?;
        for other in rest {
            if other.start_of_text(COMPARED)? != text {
                return Err(Error::Options(format!(
                    "{}: several lists of {what} that differ ({}): leave the one that belongs to {}",
                    folder.display(),
                    names.join(", "),
                    matrix.name()
                )));
            }
        }
        notes.push(format!("{} say the same; one of them was read", names.join(" and ")));
    }
    // The one that was written with the matrix, by its looks.
    let alike = lists.iter().position(|list| list.packing() == matrix.packing()).unwrap_or(0);
    lists.into_iter().nth(alike).ok_or_else(|| Error::Missing {
        file: folder.display().to_string(),
        at: format!("list of {what}"),
        hint: String::new(),
    })
}
