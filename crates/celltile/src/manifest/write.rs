//! The manifest's canonical text.

use std::fmt::{Display, Write};

use serde_json::{Map, Value};

use super::parse::{self, BlankedSpans};
use super::{FORMAT, FileRecord, Manifest, VERSION, json};
use crate::digest::Sha256;
use crate::error::ManifestFault;

/// What stands for the digits of the manifest's own hash while it is computed.
const NO_DIGITS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The text of a manifest whose fields agree.
pub(super) fn text(m: &Manifest) -> Result<String, ManifestFault> {
    let mut text = String::from("{");
    pair(&mut text, "format", quoted(FORMAT));
    pair(&mut text, "version", VERSION);
    pair(&mut text, "n_cells", m.n_cells);
    pair(&mut text, "n_genes", m.n_genes);
    pair(&mut text, "tile_size", m.tile_size);
    pair(&mut text, "tile_cells", list(&m.tile_cells));
    pair(&mut text, "tile_nnz", list(&m.tile_nnz));
    pair(&mut text, "tile_bytes", list(&m.tile_bytes));
    pair(&mut text, "n_chunks", m.n_chunks);
    pair(&mut text, "zstd_level", m.zstd_level);
    pair(&mut text, "has_gene_order", m.has_gene_order);
    pair(&mut text, "has_var_names", m.has_var_names);
    pair(&mut text, "has_var_table", m.has_var_table);
    pair(&mut text, "has_obs", m.obs.is_some());
    if let Some(obs) = &m.obs {
        pair(&mut text, "obs_tiles_per_file", obs.tiles_per_file);
        pair(&mut text, "obs_shard_bytes", list(&obs.shard_bytes));
        pair(&mut text, "obs_shard_sha256", digests(&obs.shard_sha256));
        pair(&mut text, "obs_fingerprint", quoted(&obs.fingerprint));
    }
    if let Some(digests_of_tiles) = &m.tile_sha256 {
        pair(&mut text, "tile_sha256", digests(digests_of_tiles));
    }
    if let Some(record) = &m.tile_checksums {
        pair(&mut text, "tile_checksums", file_record(record));
    }
    if !m.files.is_empty() {
        let files: Vec<String> =
            m.files.iter().map(|(key, record)| format!("{}: {}", quoted(key), file_record(record))).collect();
        pair(&mut text, "files", format!("{{{}}}", files.join(", ")));
    }
    for (key, value) in &m.extra {
        pair(&mut text, key, value);
    }
    pair(&mut text, "manifest_sha256", quoted(NO_DIGITS));
    pair(&mut text, "metadata", &m.metadata);
    text.push_str("\n}\n");
    fill_in_hash(text)
}

/// The hash of a text without its own digits and metadata.
pub(super) fn blanked_sha256(text: &str, spans: &BlankedSpans) -> Sha256 {
    let (digits, metadata) = (&spans.digits, &spans.metadata);
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default().as_bytes();
    let no_digits = NO_DIGITS.as_bytes();
    if digits.start < metadata.start {
        let (before, between, after) =
            (0..digits.start, digits.end..metadata.start, metadata.end..text.len());
        Sha256::of_parts([part(before), no_digits, part(between), b"{}", part(after)])
    } else {
        let (before, between, after) =
            (0..metadata.start, metadata.end..digits.start, digits.end..text.len());
        Sha256::of_parts([part(before), b"{}", part(between), no_digits, part(after)])
    }
}

/// A value with the keys of all objects in it in sorted order, whatever order the map type keeps.
pub(super) fn sorted(value: Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        Value::Object(map) => {
            let mut pairs: Vec<(String, Value)> = map.into_iter().collect();
            pairs.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(pairs.into_iter().map(|(key, value)| (key, sorted(value))).collect::<Map<_, _>>())
        }
        scalar => scalar,
    }
}

fn fill_in_hash(mut text: String) -> Result<String, ManifestFault> {
    let Some(spans) = parse::blanked_spans(&text)? else {
        return Err(json::fault("manifest_sha256", None, "nothing", "this key"));
    };
    let digest = blanked_sha256(&text, &spans).to_string();
    text.replace_range(spans.digits, &digest);
    Ok(text)
}

fn pair(text: &mut String, key: &str, value: impl Display) {
    let comma = if text.ends_with('{') { "" } else { "," };
    // Writing to a string cannot fail.
    let _ = write!(text, "{comma}\n  {}: {value}", quoted(key));
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn list<T: Display>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(T::to_string).collect();
    format!("[{}]", items.join(", "))
}

fn digests(items: &[Sha256]) -> String {
    list(&items.iter().map(|digest| quoted(&digest.to_string())).collect::<Vec<_>>())
}

fn file_record(record: &FileRecord) -> String {
    format!("{{\"bytes\": {}, \"sha256\": \"{}\"}}", record.bytes, record.sha256)
}
