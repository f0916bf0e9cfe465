//! `manifest.json`: what a dataset holds ("manifest.json").
//!
//! Reading is strict in both directions: a key that is missing or of the wrong type, and figures that disagree, are
//! refused with the field named. Keys unknown to this version are kept. Writing is canonical: the same manifest is
//! always the same text.

mod check;
mod json;
mod parse;
mod write;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::digest::Sha256;
use crate::error::{Error, ManifestFault, Result};
use crate::storage::Storage;
use crate::{host, keys};

/// What `format` must be.
pub const FORMAT: &str = "deltacells-dataset";
/// What `version` must be.
pub const VERSION: u64 = 2;

/// Bytes that a manifest is read up to: some million tiles.
const MOST_BYTES: u64 = 1 << 30;

/// The manifest of a dataset.
///
/// The fields are public so that a writer can fill them; [`check`](Self::check) says whether they agree, and both
/// [`parse`](Self::parse) and [`to_json`](Self::to_json) insist on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Cells of all tiles together.
    pub n_cells: u64,
    /// Genes, 1 to 2^31.
    pub n_genes: u64,
    /// Cells of every tile but the last.
    pub tile_size: u64,
    /// Cells of each tile.
    pub tile_cells: Vec<u64>,
    /// Stored nonzeros of each tile.
    pub tile_nnz: Vec<u64>,
    /// Bytes of each tile's object.
    pub tile_bytes: Vec<u64>,
    /// The largest number of tile chunks of any tile (informational).
    pub n_chunks: u64,
    /// The zstd level, or the one nearest to the preset (informational).
    pub zstd_level: i64,
    /// Whether there is a `gene_order.npy`.
    pub has_gene_order: bool,
    /// Whether there is a `var_names.txt`.
    pub has_var_names: bool,
    /// Whether there is a `var.parquet`.
    pub has_var_table: bool,
    /// What there is of obs, if anything.
    pub obs: Option<ObsRecord>,
    /// SHA-256 of each tile's object (this writer's addition).
    pub tile_sha256: Option<Vec<Sha256>>,
    /// Size and hash of `tile_checksums.bin` (this writer's addition).
    pub tile_checksums: Option<FileRecord>,
    /// Size and hash of the other files, by key (this writer's addition).
    pub files: BTreeMap<String, FileRecord>,
    /// The recorded hash of the manifest's own text (this writer's addition); filled in anew whenever it is written.
    pub manifest_sha256: Option<Sha256>,
    /// Unknown keys with their JSON text, kept as they were.
    pub extra: BTreeMap<String, String>,
    /// The JSON text of the free-form object.
    metadata: String,
}

/// Size and hash of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileRecord {
    /// Its size.
    pub bytes: u64,
    /// Its hash.
    pub sha256: Sha256,
}

impl FileRecord {
    /// Of a file with this content.
    #[must_use]
    pub fn of(content: &[u8]) -> Self {
        Self { bytes: u64::try_from(content.len()).unwrap_or(u64::MAX), sha256: Sha256::of(content) }
    }
}

/// What the manifest says of obs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObsRecord {
    /// Tiles (row groups) of each shard but the last.
    pub tiles_per_file: u64,
    /// Bytes of each shard.
    pub shard_bytes: Vec<u64>,
    /// SHA-256 of each shard.
    pub shard_sha256: Vec<Sha256>,
    /// 24 hexadecimal digits that identify the obs content.
    pub fingerprint: String,
}

impl Manifest {
    /// Of a dataset without cells: the start of a new one.
    #[must_use]
    pub fn empty(n_genes: u64, tile_size: u64) -> Self {
        Self {
            n_cells: 0,
            n_genes,
            tile_size,
            tile_cells: Vec::new(),
            tile_nnz: Vec::new(),
            tile_bytes: Vec::new(),
            n_chunks: 0,
            zstd_level: 0,
            has_gene_order: false,
            has_var_names: false,
            has_var_table: false,
            obs: None,
            tile_sha256: None,
            tile_checksums: None,
            files: BTreeMap::new(),
            manifest_sha256: None,
            extra: BTreeMap::new(),
            metadata: "{}".to_owned(),
        }
    }

    /// Reads, parses and checks the manifest of the dataset in a storage.
    ///
    /// # Errors
    /// [`Error::NotADataset`] if there is no manifest: nothing here, or a dataset that was never finished.
    /// [`Error::BigEndianHost`], and as [`parse`](Self::parse).
    pub fn read(storage: &dyn Storage) -> Result<Self> {
        host::check(host::HOST)?;
        if !storage.is_remote()
            && let Ok(found) = storage.size(keys::MANIFEST)
            && found > MOST_BYTES
        {
            return Err(Error::File {
                path: storage.locate(keys::MANIFEST),
                what: "size".to_owned(),
                found: found.to_string(),
                expected: format!("at most {MOST_BYTES} bytes"),
            });
        }
        let text = match storage.read(keys::MANIFEST) {
            Err(Error::NotFound { .. }) => return Err(Self::missing(storage)),
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotADirectory => {
                let reason = "it is a file, expected the folder of a dataset".to_owned();
                return Err(Error::NotADataset { path: storage.locate(""), reason });
            }
            result => result?,
        };
        Self::parse(&text, &storage.locate(keys::MANIFEST))
    }

    /// What to say where there is no manifest.
    fn missing(storage: &dyn Storage) -> Error {
        let reason = match storage.list("") {
            Err(error) => return error,
            Ok(entries) if entries.is_empty() => {
                "there is nothing here, expected a dataset with a manifest.json"
            }
            Ok(entries) if entries.iter().any(|entry| entry.key == keys::TILES) => {
                "there are tiles but no manifest.json: an incomplete dataset, whose writing never ended"
            }
            Ok(_) => "there is no manifest.json: not a dataset",
        };
        Error::NotADataset { path: storage.locate(""), reason: reason.to_owned() }
    }

    /// Parses and checks a manifest's text. `path` names it in errors.
    ///
    /// # Errors
    /// [`Error::Manifest`] with the first field that is missing, of the wrong type or in disagreement with others.
    pub fn parse(text: &[u8], path: &str) -> Result<Self> {
        Self::parse_text(text)
            .map_err(|fault| Error::Manifest { path: path.to_owned(), fault: Box::new(fault) })
    }

    fn parse_text(text: &[u8]) -> Result<Self, ManifestFault> {
        let manifest = parse::manifest(as_text(text)?)?;
        manifest.check()?;
        Ok(manifest)
    }

    /// Whether the fields agree with each other and with the format's limits.
    ///
    /// # Errors
    /// The first rule broken.
    pub fn check(&self) -> Result<(), ManifestFault> {
        check::manifest(self)
    }

    /// The canonical text: fixed order of keys, one key a line, metadata last, `manifest_sha256` filled in.
    ///
    /// # Errors
    /// The first rule that the fields break.
    pub fn to_json(&self) -> Result<String, ManifestFault> {
        self.check()?;
        write::text(self)
    }

    /// The hash of a manifest's text as `manifest_sha256` counts it: the 64 digits of that key as zeros, and the
    /// value of `metadata` as `{}`. Nothing if the text has no such key.
    ///
    /// # Errors
    /// [`ManifestFault`] if the text is no JSON object with metadata, or the digits are none.
    pub fn text_sha256(text: &[u8]) -> Result<Option<Sha256>, ManifestFault> {
        let text = as_text(text)?;
        Ok(parse::blanked_spans(text)?.map(|spans| write::blanked_sha256(text, &spans)))
    }

    /// Number of tiles.
    #[must_use]
    pub fn n_tiles(&self) -> u64 {
        u64::try_from(self.tile_cells.len()).unwrap_or(u64::MAX)
    }

    /// Nonzeros of all tiles together.
    #[must_use]
    pub fn nnz(&self) -> u64 {
        self.tile_nnz.iter().fold(0, |sum, &nnz| sum.saturating_add(nnz))
    }

    /// Bytes of all tiles together.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.tile_bytes.iter().fold(0, |sum, &bytes| sum.saturating_add(bytes))
    }

    /// The free-form object.
    #[must_use]
    pub fn metadata(&self) -> Map<String, Value> {
        // The text was checked when it was parsed, and made from a map otherwise.
        serde_json::from_str(&self.metadata).unwrap_or_default()
    }

    /// The free-form object's JSON text.
    #[must_use]
    pub fn metadata_text(&self) -> &str {
        &self.metadata
    }

    /// Replaces the free-form object. Its keys are written in sorted order, at every depth.
    pub fn set_metadata(&mut self, metadata: Map<String, Value>) {
        self.metadata = write::sorted(Value::Object(metadata)).to_string();
    }
}

fn as_text(bytes: &[u8]) -> Result<&str, ManifestFault> {
    std::str::from_utf8(bytes).map_err(|e| {
        json::fault("JSON", None, format!("byte {} is not UTF-8", e.valid_up_to()), "UTF-8 text")
    })
}
