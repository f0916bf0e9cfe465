//! Bytes as a manifest: raw, and put in place of a value of a good one, since hardly any raw input gets past the first
//! key.
//!
//! Nothing may panic, no input takes more memory than 16 times its size, and what is accepted comes back from its own
//! text.

#![no_main]

#[path = "../support/memory.rs"]
mod memory;

use celltile::Manifest;
use libfuzzer_sys::fuzz_target;

/// Keys of a good manifest of two tiles, each with a value.
const GOOD: [(&str, &str); 22] = [
    ("format", "\"deltacells-dataset\""),
    ("version", "2"),
    ("n_cells", "15"),
    ("n_genes", "100"),
    ("tile_size", "10"),
    ("tile_cells", "[10, 5]"),
    ("tile_nnz", "[40, 20]"),
    ("tile_bytes", "[900, 800]"),
    ("n_chunks", "1"),
    ("zstd_level", "19"),
    ("has_gene_order", "true"),
    ("has_var_names", "false"),
    ("has_var_table", "false"),
    ("has_obs", "true"),
    ("obs_tiles_per_file", "1000"),
    ("obs_shard_bytes", "[77]"),
    ("obs_shard_sha256", "[\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"]"),
    ("obs_fingerprint", "\"0123456789abcdef01234567\""),
    ("files", "{\"gene_order.npy\": {\"bytes\": 0, \"sha256\": \"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"}}"),
    ("later", "[1]"),
    ("manifest_sha256", "\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\""),
    ("metadata", "{\"a\": [1, {}]}"),
];

fuzz_target!(|input: &[u8]| {
    check(input);
    let Some((which, value)) = input.split_first() else { return };
    let mut text = Vec::new();
    for (index, (key, good)) in GOOD.iter().enumerate() {
        text.extend(if text.is_empty() { b"{" } else { b"," });
        text.extend(format!("\"{key}\":").as_bytes());
        let replaced = index == usize::from(*which) % GOOD.len();
        text.extend(if replaced { value } else { good.as_bytes() });
    }
    text.push(b'}');
    check(&text);
});

fn check(text: &[u8]) {
    let (parsed, most) = memory::most(|| Manifest::parse(text, "manifest.json"));
    assert!(most <= 16 * text.len() + 4096, "{most} bytes to parse {}", text.len());
    let (_, most) = memory::most(|| Manifest::text_sha256(text));
    assert!(most <= 16 * text.len() + 4096, "{most} bytes to hash {}", text.len());
    let Ok(manifest) = parsed else { return };
    let written = manifest.to_json().expect("what was accepted can be written");
    let again = Manifest::parse(written.as_bytes(), "again").expect("what was written is accepted");
    assert_eq!(again.manifest_sha256, Manifest::text_sha256(written.as_bytes()).unwrap());
    let mut same = again.clone();
    same.manifest_sha256 = manifest.manifest_sha256;
    assert_eq!(same, manifest);
    assert_eq!(again.to_json().unwrap(), written);
}
