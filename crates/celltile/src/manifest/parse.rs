//! From the manifest's text to its fields. What the fields must satisfy together is [`super::check`]'s business.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::json::{self, Value, fault};
use super::{FORMAT, FileRecord, Manifest, ObsRecord, VERSION};
use crate::digest::Sha256;
use crate::error::ManifestFault;

type Result<T> = std::result::Result<T, ManifestFault>;

/// The fields of a manifest's text, each of its right type.
pub(super) fn manifest(text: &str) -> Result<Manifest> {
    let mut fields = Fields { prefix: "", pairs: json::object("JSON", text)? };

    // First of all: in an unknown format no other field means anything.
    let format = fields.required("format")?.string("format", None)?;
    if format != FORMAT {
        return Err(fault("format", None, format!("{:?}", json::cut(&format)), format!("{FORMAT:?}")));
    }
    let version = fields.required("version")?.unsigned("version", None)?;
    if version != VERSION {
        return Err(fault("version", None, version, VERSION));
    }

    let mut manifest = Manifest {
        n_cells: fields.unsigned("n_cells")?,
        n_genes: fields.unsigned("n_genes")?,
        tile_size: fields.unsigned("tile_size")?,
        tile_cells: fields.unsigned_list("tile_cells")?,
        tile_nnz: fields.unsigned_list("tile_nnz")?,
        tile_bytes: fields.unsigned_list("tile_bytes")?,
        n_chunks: fields.unsigned("n_chunks")?,
        zstd_level: fields.required("zstd_level")?.signed("zstd_level")?,
        has_gene_order: fields.required("has_gene_order")?.boolean("has_gene_order")?,
        has_var_names: fields.required("has_var_names")?.boolean("has_var_names")?,
        has_var_table: fields.required("has_var_table")?.boolean("has_var_table")?,
        obs: None,
        tile_sha256: fields
            .take("tile_sha256")
            .map(|v| v.list("tile_sha256", |e, i| sha256(e, "tile_sha256", Some(i))))
            .transpose()?,
        tile_checksums: fields
            .take("tile_checksums")
            .map(|v| file_record(v, "tile_checksums"))
            .transpose()?,
        files: BTreeMap::new(),
        manifest_sha256: fields
            .take("manifest_sha256")
            .map(|v| sha256(v, "manifest_sha256", None))
            .transpose()?,
        extra: BTreeMap::new(),
        metadata: metadata(fields.required("metadata")?)?,
    };
    if let Some(value) = fields.take("files") {
        for (name, record) in json::object("files", value.text)? {
            let field = format!("files.{}", json::cut(&name));
            if let Err(e) = crate::storage::check_key(&name) {
                return Err(fault(&field, None, e, "the key of an object of the dataset"));
            }
            manifest.files.insert(name.into_owned(), file_record(record, &field)?);
        }
    }
    manifest.obs = obs(&mut fields)?;
    for (key, value) in fields.pairs {
        value.check_free_form(&json::cut(&key))?;
        manifest.extra.insert(key.into_owned(), value.text.to_owned());
    }
    Ok(manifest)
}

/// Where the two values stand that the manifest's own hash leaves out: its digits, and the metadata.
pub(super) struct BlankedSpans {
    /// The 64 digits, without their quotes.
    pub(super) digits: std::ops::Range<usize>,
    pub(super) metadata: std::ops::Range<usize>,
}

/// Finds both; nothing if the manifest has no `manifest_sha256` of 64 characters.
pub(super) fn blanked_spans(text: &str) -> Result<Option<BlankedSpans>> {
    let mut fields = Fields { prefix: "", pairs: json::object("JSON", text)? };
    let Some(digits) = fields.take("manifest_sha256") else { return Ok(None) };
    sha256(digits, "manifest_sha256", None)?;
    let quoted = json::span(text, digits);
    if quoted.len() != 66 {
        return Err(fault("manifest_sha256", None, json::cut(digits.text), "64 digits without escapes"));
    }
    let digits = quoted.start.saturating_add(1)..quoted.end.saturating_sub(1);
    let metadata = json::span(text, fields.required("metadata")?);
    Ok(Some(BlankedSpans { digits, metadata }))
}

/// The obs fields: required with `has_obs`, without meaning (and left out) otherwise.
fn obs(fields: &mut Fields<'_>) -> Result<Option<ObsRecord>> {
    const NAMES: [&str; 4] = ["obs_tiles_per_file", "obs_shard_bytes", "obs_shard_sha256", "obs_fingerprint"];
    if !fields.required("has_obs")?.boolean("has_obs")? {
        for name in NAMES {
            fields.take(name);
        }
        return Ok(None);
    }
    let fingerprint = fields.required("obs_fingerprint")?.string("obs_fingerprint", None)?;
    Ok(Some(ObsRecord {
        tiles_per_file: fields.unsigned("obs_tiles_per_file")?,
        shard_bytes: fields.unsigned_list("obs_shard_bytes")?,
        shard_sha256: fields
            .required("obs_shard_sha256")?
            .list("obs_shard_sha256", |e, i| sha256(e, "obs_shard_sha256", Some(i)))?,
        fingerprint: fingerprint.into_owned(),
    }))
}

/// `{"bytes": ..., "sha256": ...}`.
fn file_record(value: Value<'_>, field: &str) -> Result<FileRecord> {
    let mut fields = Fields { prefix: field, pairs: json::object(field, value.text)? };
    let bytes = fields.unsigned("bytes")?;
    let digits = fields.required("sha256")?;
    Ok(FileRecord { bytes, sha256: sha256(digits, &format!("{field}.sha256"), None)? })
}

fn metadata(value: Value<'_>) -> Result<String> {
    if !value.text.starts_with('{') {
        return Err(fault("metadata", None, json::cut(value.text), "a JSON object"));
    }
    value.check_free_form("metadata")?;
    Ok(value.text.to_owned())
}

fn sha256(value: Value<'_>, field: &str, index: Option<u64>) -> Result<Sha256> {
    let text = value.string(field, index)?;
    text.parse().map_err(|_| fault(field, index, json::cut(value.text), "64 hexadecimal digits"))
}

/// The fields of an object that nobody has taken yet.
struct Fields<'a> {
    /// The object's own key; empty for the manifest.
    prefix: &'a str,
    pairs: Vec<(Cow<'a, str>, Value<'a>)>,
}

impl<'a> Fields<'a> {
    fn take(&mut self, name: &str) -> Option<Value<'a>> {
        let at = self.pairs.iter().position(|(key, _)| key == name)?;
        Some(self.pairs.swap_remove(at).1)
    }

    fn required(&mut self, name: &str) -> Result<Value<'a>> {
        self.take(name).ok_or_else(|| fault(&self.name(name), None, "nothing", "this key"))
    }

    fn unsigned(&mut self, name: &str) -> Result<u64> {
        self.required(name)?.unsigned(&self.name(name), None)
    }

    fn unsigned_list(&mut self, name: &str) -> Result<Vec<u64>> {
        self.required(name)?.list(name, |element, index| element.unsigned(name, Some(index)))
    }

    fn name(&self, name: &str) -> String {
        if self.prefix.is_empty() { name.to_owned() } else { format!("{}.{name}", self.prefix) }
    }
}
