use std::fmt::Write;

use crate::digest::Sha256;

/// How canonical JSON separates its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Separators {
    /// `, ` and `: `: the default of Python's `json.dumps`, and what we write.
    Spaced,
    /// `,` and `:`.
    Compact,
}

/// The `obs_fingerprint` of some obs content ("Fingerprint"): the first 24 hexadecimal digits of the SHA-256 of
/// `{"schema": <text>, "shards": [<SHA-256 of each shard>], "tile_cells": [...]}` as Python's
/// `json.dumps(..., sort_keys=True)` writes it.
#[must_use]
pub fn fingerprint(schema: &str, tile_cells: &[u64], shards: &[Sha256], separators: Separators) -> String {
    let (comma, colon) = match separators {
        Separators::Spaced => (", ", ": "),
        Separators::Compact => (",", ":"),
    };
    let mut text = String::with_capacity(schema.len() + 80 * shards.len() + 8 * tile_cells.len() + 64);
    text.push_str("{\"schema\"");
    text.push_str(colon);
    push_ascii(&mut text, schema);
    push_list(&mut text, comma, &format!("\"shards\"{colon}"), shards.iter().map(|d| format!("\"{d}\"")));
    push_list(&mut text, comma, &format!("\"tile_cells\"{colon}"), tile_cells.iter().map(u64::to_string));
    text.push('}');
    Sha256::of(text.as_bytes()).to_string().chars().take(24).collect()
}

/// Whether a recorded fingerprint is that of the content, with either kind of separator.
#[must_use]
pub fn fingerprint_matches(recorded: &str, schema: &str, tile_cells: &[u64], shards: &[Sha256]) -> bool {
    [Separators::Spaced, Separators::Compact]
        .into_iter()
        .any(|separators| fingerprint(schema, tile_cells, shards, separators).eq_ignore_ascii_case(recorded))
}

fn push_list(text: &mut String, comma: &str, key: &str, items: impl Iterator<Item = String>) {
    text.push_str(comma);
    text.push_str(key);
    text.push('[');
    for (index, item) in items.enumerate() {
        if index > 0 {
            text.push_str(comma);
        }
        text.push_str(&item);
    }
    text.push(']');
}

/// A JSON string in ASCII, as Python escapes it: UTF-16 units for what is not printable ASCII.
fn push_ascii(text: &mut String, value: &str) {
    text.push('"');
    let mut units = [0; 2];
    for c in value.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            ' '..='~' => text.push(c),
            c => {
                for unit in c.encode_utf16(&mut units) {
                    // Writing to a String cannot fail.
                    let _ = write!(text, "\\u{unit:04x}");
                }
            }
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprint_is_what_python_computes() {
        // hashlib.sha256(json.dumps({"schema": "{\"a\": \"\u00e9\U0001f600\x7f\\\n\"}", "tile_cells": [3, 1],
        //   "shards": [hashlib.sha256(b"x").hexdigest()]}, sort_keys=True).encode()).hexdigest()[:24]
        let schema = "{\"a\": \"\u{e9}\u{1f600}\u{7f}\\\n\"}";
        let shards = [Sha256::of(b"x")];
        let spaced = fingerprint(schema, &[3, 1], &shards, Separators::Spaced);
        assert_eq!(spaced, "fa24e49e067c9c362c07a6c1");
        let compact = fingerprint(schema, &[3, 1], &shards, Separators::Compact);
        assert_eq!(compact, "f966926fb9b541c878596eca");
        assert!(fingerprint_matches(&spaced, schema, &[3, 1], &shards));
        assert!(fingerprint_matches(&compact, schema, &[3, 1], &shards));
        assert!(!fingerprint_matches(&compact, schema, &[4], &shards));
    }
}
