use std::path::Path;
use std::sync::Arc;

use super::mtx::{self, MtxSource};
use super::table::TextTable;
use super::{H5adSource, LoomSource, Source, SourceOptions, TenxSource, TilesSource, remote};
use crate::error::{Error, Result};
use crate::hdf5::{ByteSource, File, NodeKind, OpenOptions};
use crate::text::{Packing, TextFile};
use crate::tree::{Group, Node};

/// Datasets at the root of CellRanger's `molecule_info.h5`.
const MOLECULE_INFO: [&str; 4] = ["barcode_idx", "count", "umi", "feature_idx"];

/// What an HDF5 file must hold to be read.
const EXPECTED: &str =
    "an h5ad file (X, obs, var), an h5mu file, a loom file or a 10x feature-barcode matrix";

/// What any input may be.
const ANY: &str =
    "an h5ad, h5mu, loom or 10x HDF5 file, a Matrix Market file or its folder, a table of text, or a dataset";

/// Where HDF5's signature may stand: at the start, or after a user block.
const SIGNATURES: [u64; 5] = [0, 512, 1024, 2048, 4096];

pub(super) fn open(path: &Path, options: &SourceOptions) -> Result<Box<dyn Source>> {
    if let Some(url) = remote::url(path) {
        return open_url(url, path, options);
    }
    if path.is_dir() {
        return open_folder(path, options);
    }
    let bytes = crate::hdf5::open_local(path)?;
    if is_hdf5(bytes.as_ref()) {
        return open_hdf5(&File::open(path, OpenOptions { lock: !options.ignore_lock })?, options);
    }
    refuse_others(&path.display().to_string(), bytes.as_ref())?;
    let file = TextFile::new(path.display().to_string(), bytes)?;
    if mtx::is_matrix_market(&file.start_of_text(64)?) {
        return Ok(Box::new(MtxSource::of(mtx::beside(path, options)?, options)?));
    }
    open_text(file, options)
}

/// Refuses options that choose among what this kind of input does not have: passing them over would convert something else
/// than what was asked for.
fn no_features(name: &str, kind: &str, options: &SourceOptions) -> Result<()> {
    let all = |types: &&Vec<String>| types.iter().all(|kind| kind == "all");
    let option = match (&options.genome, &options.feature_types) {
        (Some(genome), _) if genome != "all" => "--genome",
        (_, Some(types)) if !all(&types) => "--feature-types",
        _ => return Ok(()),
    };
    Err(Error::Options(format!(
        "{name}: {kind} is not divided that way; {option} is for 10x files and folders"
    )))
}

fn open_url(url: &str, path: &Path, options: &SourceOptions) -> Result<Box<dyn Source>> {
    let folder = url.trim_end_matches('/');
    let dataset = format!("{folder}/manifest.json");
    // What is called like a folder is first asked for as one: some servers fail for long where an object is asked for.
    if !folder.rsplit('/').next().unwrap_or(folder).contains('.')
        && remote::RemoteBytes::open(&dataset, &options.remote).is_ok()
    {
        return Ok(Box::new(TilesSource::open(path, options)?));
    }
    let bytes: Arc<dyn ByteSource> = match remote::RemoteBytes::open(url, &options.remote) {
        Ok(bytes) => Arc::new(bytes),
        // A folder of a bucket is no object; a dataset has one that says what it is.
        Err(error) => {
            return match remote::RemoteBytes::open(&dataset, &options.remote) {
                Ok(_) => Ok(Box::new(TilesSource::open(path, options)?)),
                Err(_) => Err(error),
            };
        }
    };
    if is_hdf5(bytes.as_ref()) {
        return open_hdf5(&File::from_bytes(url.to_owned(), bytes)?, options);
    }
    if remote::RemoteBytes::open(&dataset, &options.remote).is_ok() {
        return Ok(Box::new(TilesSource::open(path, options)?));
    }
    refuse_others(url, bytes.as_ref())?;
    let file = TextFile::new(url.to_owned(), bytes)?;
    if mtx::is_matrix_market(&file.start_of_text(64)?) {
        return Err(Error::NotRecognised {
            file: url.to_owned(),
            found: "a Matrix Market file at a URL, where the lists beside it cannot be looked for".into(),
            expected: "a folder on disk: download the matrix and its lists".into(),
        });
    }
    open_text(file, options)
}

/// A folder is a dataset, an AnnData Zarr store, or holds a Matrix Market file.
fn open_folder(path: &Path, options: &SourceOptions) -> Result<Box<dyn Source>> {
    let has = |name: &str| path.join(name).exists();
    if has("manifest.json") {
        return Ok(Box::new(TilesSource::open(path, options)?));
    }
    if let Some(matrix) = mtx::matrix_of(path)? {
        return Ok(Box::new(MtxSource::of(mtx::beside(&matrix, options)?, options)?));
    }
    let found = if has("zarr.json") || has(".zgroup") || has(".zattrs") {
        "a Zarr store, of a kind that is not read here".to_owned()
    } else if has("tiles") {
        "a folder with tiles but without manifest.json: a dataset that was never finished".to_owned()
    } else {
        let mut names: Vec<String> = std::fs::read_dir(path)
            .map_err(|source| Error::Io { path: path.to_owned(), action: "list", source })?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .take(6)
            .collect();
        names.sort();
        format!(
            "a folder of another kind ({})",
            if names.is_empty() { "empty".into() } else { names.join(", ") }
        )
    };
    Err(Error::NotRecognised { file: path.display().to_string(), found, expected: ANY.into() })
}

fn is_hdf5(bytes: &dyn ByteSource) -> bool {
    SIGNATURES.iter().any(|&at| {
        let mut start = [0; 8];
        bytes.read_at(at, &mut start).is_ok() && start == *b"\x89HDF\r\n\x1a\n"
    })
}

/// Files that are known, and are no inputs.
fn refuse_others(name: &str, bytes: &dyn ByteSource) -> Result<()> {
    let mut start = [0; 8];
    let count = usize::try_from(bytes.len()).unwrap_or(8).min(8);
    let read = start.get_mut(..count).unwrap_or_default();
    bytes.read_at(0, read).map_err(|source| Error::Io { path: name.into(), action: "read", source })?;
    let refuse = |found: &str, expected: &str| {
        Err(Error::NotRecognised { file: name.to_owned(), found: found.into(), expected: expected.into() })
    };
    match &start {
        _ if count == 0 => refuse("an empty file", ANY),
        [b'P', b'K', 3, 4, ..] => {
            refuse("a zip archive that is no Zarr store", "what is in it: unpack it first")
        }
        [b'P', b'A', b'R', b'1', ..] => refuse("a Parquet file", ANY),
        [b'A', b'R', b'R', b'O', b'W', b'1', ..] => refuse("an Arrow file", ANY),
        b"BSTE\x01\0\0\0" | [b'D', b'C', b'T', ..] => {
            refuse("a tile", "the dataset's folder, with manifest.json")
        }
        [b'R', b'D', b'X', b'2' | b'3', b'\n', ..] | [b'X' | b'A', b'\n', 0, 0, 0, 2 | 3, ..] => {
            refuse("an R object (rds)", "the object saved from R as h5ad or as a 10x folder")
        }
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => refuse("a NumPy array", ANY),
        [0x80, 2..=5, ..] => refuse("a Python pickle, which can run code", ANY),
        [b'B', b'A', b'M', 1, ..] | [b'C', b'R', b'A', b'M', ..] => {
            refuse("aligned reads", "the matrix of counts")
        }
        [b'%', b'P', b'D', b'F', ..] => refuse("a PDF file", ANY),
        _ => Ok(()),
    }
}

fn open_text(file: TextFile, options: &SourceOptions) -> Result<Box<dyn Source>> {
    let start = file.start_of_text(1 << 16)?;
    let name = file.name().to_owned();
    let refuse = |found: String, expected: &str| {
        Err(Error::NotRecognised { file: name.clone(), found, expected: expected.into() })
    };
    if file.packing() == Packing::Gzip {
        match start.as_slice() {
            [b'R', b'D', b'X', b'2' | b'3', b'\n', ..] | [b'X' | b'A', b'\n', 0, 0, 0, 2 | 3, ..] => {
                return refuse(
                    "an R object (rds)".into(),
                    "the object saved from R as h5ad or as a 10x folder",
                );
            }
            _ if start.get(257..262) == Some(b"ustar") => {
                return refuse("an archive (tar.gz)".into(), "the folder in it: unpack it first");
            }
            [0x89, b'H', b'D', b'F', ..] => {
                return refuse("a compressed HDF5 file".into(), "the file itself: unpack it first");
            }
            [b'B', b'A', b'M', 1, ..] => return refuse("aligned reads".into(), "the matrix of counts"),
            _ => {}
        }
    }
    if start.get(257..262) == Some(b"ustar") {
        return refuse("an archive (tar)".into(), "the folder in it: unpack it first");
    }
    if start.contains(&0) {
        return refuse("not an HDF5 file, and not text".into(), ANY);
    }
    let first = start.split(|&byte| byte == b'\n').next().unwrap_or(&[]);
    let trimmed = first.trim_ascii();
    if trimmed.starts_with(b"{") || trimmed.starts_with(b"<") || trimmed.starts_with(b"@") {
        let shown: String = String::from_utf8_lossy(trimmed).chars().take(40).collect();
        return refuse(format!("text that is no table, starting with {shown:?}"), ANY);
    }
    if super::table::delimiter(first).is_none() && !first.starts_with(b"#") {
        let shown: String = String::from_utf8_lossy(trimmed).chars().take(40).collect();
        return refuse(format!("not an HDF5 file, and no table: its first line is {shown:?}"), ANY);
    }
    no_features(&name, "a table of text", options)?;
    Ok(Box::new(TextTable::of(file, options)?))
}

fn open_hdf5(file: &File, options: &SourceOptions) -> Result<Box<dyn Source>> {
    let root = Group::of_file(file)?;
    let members = root.members()?;
    let has = |name: &str| members.iter().any(|(member, _)| member == name);
    if MOLECULE_INFO.iter().filter(|name| has(name)).count() >= 2 {
        return Err(Error::NotRecognised {
            file: file.name().to_owned(),
            found: "a molecule_info.h5 of CellRanger, which lists molecules".into(),
            expected: "the matrix beside it, filtered_feature_bc_matrix.h5 (or raw_feature_bc_matrix.h5)"
                .into(),
        });
    }
    if has("matrix") && TenxSource::is_v3(file)? {
        return Ok(Box::new(TenxSource::open_v3(file, options)?));
    }
    if LoomSource::is_one(file)? {
        no_features(file.name(), "a loom file", options)?;
        return Ok(Box::new(LoomSource::open(file, options)?));
    }
    let genomes = TenxSource::genomes(file)?;
    if !genomes.is_empty() {
        return Ok(Box::new(TenxSource::open_v2(file, &genomes, options)?));
    }
    if let Some(Node::Group(modalities)) = root.find("mod")? {
        no_features(file.name(), "an h5mu file", options)?;
        return open_modality(file, &modalities, options);
    }
    if has("obs") || has("var") || has("X") {
        if let Some(modality) = &options.modality {
            return Err(Error::Options(format!(
                "{}: an h5ad file has no modalities; {modality:?} cannot be chosen",
                file.name()
            )));
        }
        no_features(file.name(), "an h5ad file", options)?;
        return Ok(Box::new(H5adSource::open(file, options)?));
    }
    let groups = members.iter().filter(|(_, kind)| *kind == NodeKind::Group).map(|(name, _)| name.as_str());
    let groups = groups.collect::<Vec<_>>();
    let found = if has("assays") && has("meta.data") {
        "an h5Seurat file".to_owned()
    } else {
        format!("an HDF5 file of another kind (groups: {})", groups.join(", "))
    };
    Err(Error::NotRecognised { file: file.name().to_owned(), found, expected: EXPECTED.into() })
}

fn open_modality(file: &File, modalities: &Group, options: &SourceOptions) -> Result<Box<dyn Source>> {
    let there: Vec<String> = modalities
        .members()?
        .into_iter()
        .filter(|(_, kind)| *kind == NodeKind::Group)
        .map(|(name, _)| name)
        .collect();
    let list = there.join(", ");
    let name = match (&options.modality, there.as_slice()) {
        (Some(asked), _) => there.iter().find(|name| *name == asked).ok_or_else(|| {
            Error::Options(format!("{}: no modality {asked:?}; it has: {list}", file.name()))
        })?,
        (None, [only]) => only,
        (None, []) => {
            let (at, hint) = ("mod: modality".into(), String::new());
            return Err(Error::Missing { file: file.name().to_owned(), at, hint });
        }
        (None, _) => {
            return Err(Error::Options(format!(
                "{}: several modalities ({list}): choose one with --modality",
                file.name()
            )));
        }
    };
    Ok(Box::new(H5adSource::open_modality(file, name, &list, options)?))
}
