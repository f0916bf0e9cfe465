//! The manifest: strict in, canonical out.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use celltile::digest::Sha256;
use celltile::manifest::{FileRecord, ObsRecord};
use celltile::storage::{MemoryStorage, Storage};
use celltile::{Error, Manifest};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn sample() -> Manifest {
    let mut m = Manifest::empty(50, 10);
    m.n_cells = 25;
    m.tile_cells = vec![10, 10, 5];
    m.tile_nnz = vec![100, 0, 250];
    m.tile_bytes = vec![1000, 248, 1000];
    m.n_chunks = 2;
    m.zstd_level = -3;
    m.has_gene_order = true;
    m.tile_sha256 = Some(vec![Sha256::of(b"a"), Sha256::of(b"b"), Sha256::of(b"c")]);
    m.tile_checksums = Some(FileRecord::of(b"sums"));
    m.files.insert("gene_order.npy".into(), FileRecord::of(b"order"));
    m.obs = Some(ObsRecord {
        tiles_per_file: 2,
        shard_bytes: vec![7, 8],
        shard_sha256: vec![Sha256::of(b"x"), Sha256::of(b"y")],
        fingerprint: "0123456789abcdef01234567".into(),
    });
    let metadata = json!({"z": {"b": 1, "a": [1.5, null]}, "a": "\u{e9}\n"});
    m.set_metadata(metadata.as_object().unwrap().clone());
    m
}

fn parse(text: &str) -> celltile::Result<Manifest> {
    Manifest::parse(text.as_bytes(), "x/manifest.json")
}

/// The sample with one key's JSON text replaced, added, or (for the empty text) removed.
fn with(key: &str, value: &str) -> String {
    let text = sample().to_json().unwrap();
    let all: Map<String, Value> = serde_json::from_str(&text).unwrap();
    let mut parts = Vec::new();
    for (name, old) in &all {
        match name == key {
            true if value.is_empty() => {}
            true => parts.push(format!("{name:?}: {value}")),
            false => parts.push(format!("{name:?}: {old}")),
        }
    }
    if !all.contains_key(key) {
        parts.push(format!("{key:?}: {value}"));
    }
    format!("{{{}}}", parts.join(","))
}

fn without_hash(manifest: &Manifest) -> Manifest {
    let mut manifest = manifest.clone();
    manifest.manifest_sha256 = None;
    manifest
}

fn fault(text: &str) -> String {
    parse(text).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn test_manifest_comes_back_and_is_canonical() {
    let manifest = sample();
    let text = manifest.to_json().unwrap();
    let read = parse(&text).unwrap();
    let hash = read.manifest_sha256;
    assert_eq!(Manifest::text_sha256(text.as_bytes()).unwrap(), hash);
    assert!(hash.is_some());
    assert_eq!(without_hash(&read), manifest);
    assert_eq!(read.to_json().unwrap(), text);
    assert_eq!(read.metadata_text(), r#"{"a":"é\n","z":{"a":[1.5,null],"b":1}}"#);
    assert_eq!(read.metadata()["z"]["b"], 1);
    assert!(text.trim_end().trim_end_matches('}').contains("\n  \"metadata\": "));
    // Any JSON reader understands it.
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["tile_nnz"], json!([100, 0, 250]));
    assert_eq!(value["files"]["gene_order.npy"]["bytes"], 5);
}

#[test]
fn test_zero_cells_is_zero_tiles() {
    let manifest = Manifest::empty(1, 10_000);
    assert_eq!(parse(&manifest.to_json().unwrap()).unwrap().n_tiles(), 0);
}

#[test]
fn test_each_fault_names_field_and_values() {
    let cases = [
        ("format", "\"zarr\"", "format: found \"zarr\", expected \"deltacells-dataset\""),
        ("format", "7", "format: found 7, expected a string"),
        ("version", "3", "version: found 3, expected 2"),
        ("version", "2.0", "version: found 2.0, expected an integer"),
        ("n_cells", "26", "tile_cells[2]: found 5, expected 6"),
        ("n_cells", "31", "tile_cells: found 3 tiles, expected 4 tiles for 31 cells by 10"),
        ("n_cells", "18446744073709551615", "tile_cells: found 3 tiles"),
        ("n_cells", "18446744073709551616", "n_cells: found 18446744073709551616, expected an integer"),
        ("n_cells", "-25", "n_cells: found -25, expected an integer"),
        ("n_cells", "-0", "n_cells: found -0, expected an integer"),
        ("n_cells", "2.5e1", "n_cells: found 2.5e1, expected an integer"),
        ("n_cells", "true", "n_cells: found true, expected an integer"),
        ("n_cells", "\"25\"", "n_cells: found \"25\", expected an integer"),
        ("n_cells", "null", "n_cells: found null, expected an integer"),
        ("n_cells", "", "n_cells: found nothing, expected this key"),
        ("n_genes", "0", "n_genes: found 0, expected 1 to 2147483648"),
        ("n_genes", "2147483649", "n_genes: found 2147483649, expected 1 to 2147483648"),
        ("n_genes", "24", "tile_nnz[2]: found 250, expected at most 120"),
        ("tile_size", "0", "tile_size: found 0, expected at least 1"),
        ("tile_cells", "[10, 9, 6]", "tile_cells[1]: found 9, expected 10"),
        ("tile_cells", "[10, 10, 4]", "tile_cells[2]: found 4, expected 5"),
        ("tile_cells", "[10, 10, 5, 0]", "tile_cells: found 4 tiles, expected 3"),
        ("tile_cells", "{\"a\": 1}", "tile_cells: found {\"a\": 1}, expected a list"),
        ("tile_nnz", "[100, 0]", "tile_nnz: found 2 elements, expected 3"),
        ("tile_nnz", "[100, 0, -250]", "tile_nnz[2]: found -250, expected an integer"),
        ("tile_nnz", "[100, [], 250]", "tile_nnz[1]: found [], expected an integer"),
        ("tile_bytes", "[1000, 247, 1000]", "tile_bytes[1]: found 247, expected at least 248 for 10 cells"),
        ("tile_bytes", "[1000, 248, 9223372036854775808]", "tile_bytes[2]: found 9223372036854775808"),
        ("n_chunks", "-1", "n_chunks: found -1, expected an integer"),
        ("zstd_level", "1.5", "zstd_level: found 1.5, expected an integer"),
        ("has_obs", "1", "has_obs: found 1, expected true or false"),
        (
            "has_gene_order",
            "false",
            "files.gene_order.npy: found a file, expected none, since has_gene_order is false",
        ),
        ("has_var_names", "", "has_var_names: found nothing, expected this key"),
        ("obs_tiles_per_file", "0", "obs_tiles_per_file: found 0, expected at least 1"),
        ("obs_tiles_per_file", "", "obs_tiles_per_file: found nothing, expected this key"),
        ("obs_shard_bytes", "[7]", "obs_shard_bytes: found 1 elements, expected 2"),
        ("obs_shard_bytes", "[7, 18446744073709551615]", "obs_shard_bytes: found a sum above"),
        (
            "obs_shard_sha256",
            "[\"00\", \"11\"]",
            "obs_shard_sha256[0]: found \"00\", expected 64 hexadecimal digits",
        ),
        ("obs_fingerprint", "\"xyz\"", "obs_fingerprint: found xyz, expected 24 hexadecimal digits"),
        ("tile_sha256", "[]", "tile_sha256: found 0 elements, expected 3"),
        ("tile_checksums", "{\"bytes\": 4}", "tile_checksums.sha256: found nothing, expected this key"),
        ("files", "{\"../x\": {}}", "files.../x: found \"../x\" is not a valid key"),
        ("files", "{\"a\": {\"bytes\": 1.0}}", "files.a.bytes: found 1.0, expected an integer"),
        ("metadata", "[]", "metadata: found [], expected a JSON object"),
        ("metadata", "", "metadata: found nothing, expected this key"),
        ("metadata", "{\"a\": {\"b\": 1, \"b\": 1}}", "metadata: found a key occurs more than once"),
        ("later", "{\"b\": 1, \"b\": 1}", "later: found a key occurs more than once"),
        ("manifest_sha256", "12", "manifest_sha256: found 12, expected a string"),
    ];
    for (key, value, expected) in cases {
        let message = fault(&with(key, value));
        assert!(message.starts_with(&format!("x/manifest.json: {expected}")), "{key} = {value}: {message}");
    }
}

#[test]
fn test_text_that_is_no_object() {
    let good = sample().to_json().unwrap();
    let twice = good.replacen('{', "{\"n_cells\": 25, ", 1);
    assert!(fault(&twice).contains("JSON: found key \"n_cells\" more than once"));
    for text in
        ["", "[]", "null", "{", &good[..good.len() - 3], &format!("{good}x"), &format!("\u{feff}{good}")]
    {
        assert!(fault(text).contains("JSON: found "), "{text:?}");
    }
    let not_utf8 = [good.as_bytes(), b"\xff"].concat();
    assert!(Manifest::parse(&not_utf8, "").is_err());
    // Nesting so deep that a recursive parser would overflow its stack.
    for deep in ["[", "{\"a\":"] {
        let deep = deep.repeat(2_000_000);
        assert!(parse(&with("metadata", &deep)).is_err());
        assert!(parse(&deep).is_err());
        assert!(parse(&good.replacen('{', &format!("{{\"n\": {deep}"), 1)).is_err());
    }
}

#[test]
fn test_obs_fields_without_obs_mean_nothing() {
    let text = with("has_obs", "false");
    let manifest = parse(&text).unwrap();
    assert_eq!(manifest.obs, None);
    assert!(manifest.extra.is_empty());
}

#[test]
fn test_unknown_keys_are_kept() {
    let manifest = parse(&with("later", "{\"x\":[1e400,2]}")).map(|m| m.extra);
    assert!(manifest.is_err(), "a number that no reader can hold");
    let manifest = parse(&with("later", "{\"x\":[1.50,2]}")).unwrap();
    assert_eq!(manifest.extra["later"], "{\"x\":[1.50,2]}");
    assert!(manifest.to_json().unwrap().contains("\n  \"later\": {\"x\":[1.50,2]},\n"));
}

#[test]
fn test_every_damaged_byte_but_the_metadata_is_seen() {
    let text = sample().to_json().unwrap();
    let metadata = text.find("\"metadata\": ").unwrap() + "\"metadata\": ".len();
    let metadata = metadata..metadata + sample().metadata_text().len();
    for at in (0..text.len()).filter(|at| !metadata.contains(at)) {
        for mask in 1..=255 {
            let mut damaged = text.clone().into_bytes();
            damaged[at] ^= mask;
            let Ok(manifest) = Manifest::parse(&damaged, "") else { continue };
            let actual = Manifest::text_sha256(&damaged).unwrap();
            let seen = manifest.manifest_sha256.is_none() || actual != manifest.manifest_sha256;
            assert!(seen, "byte {at} xor {mask}: {:?}", char::from(damaged[at]));
        }
    }
}

#[test]
fn test_missing_manifest_says_why() {
    let storage = MemoryStorage::new();
    let reason = |storage: &MemoryStorage| match Manifest::read(storage) {
        Err(Error::NotADataset { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    assert!(reason(&storage).contains("nothing here"));
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = celltile::Dataset::open(file.path()).map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::NotADataset { .. }), "{error}");
    assert!(error.to_string().ends_with("it is a file, expected the folder of a dataset"), "{error}");
    storage.write("readme.txt", b"").unwrap();
    assert!(reason(&storage).contains("not a dataset"));
    storage.write("tiles/tile_000000.dct", b"").unwrap();
    assert!(reason(&storage).contains("incomplete"));
    storage.write("manifest.json", sample().to_json().unwrap().as_bytes()).unwrap();
    assert!(Manifest::read(&storage).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Manifest::parse(&bytes, "");
        let _ = Manifest::text_sha256(&bytes);
    }

    #[test]
    fn any_edit_does_not_panic(at in 0usize..1500, with in "[\\[\\]{}:,\"0-9a-z.eE+\\\\ -]{0,6}", cut in 0usize..8) {
        let text = sample().to_json().unwrap();
        let start = at.min(text.len() - 8);
        if text.is_char_boundary(start) && text.is_char_boundary(start + cut) {
            let edited = format!("{}{with}{}", &text[..start], &text[start + cut..]);
            let _ = Manifest::parse(edited.as_bytes(), "");
            let _ = Manifest::text_sha256(edited.as_bytes());
        }
    }

    #[test]
    fn any_consistent_manifest_comes_back(tile_size in 1u64..20, n_cells in 0u64..100, nnz in 0u64..19) {
        let mut m = Manifest::empty(20, tile_size);
        m.n_cells = n_cells;
        for start in (0..n_cells).step_by(usize::try_from(tile_size).unwrap()) {
            m.tile_cells.push(tile_size.min(n_cells - start));
            m.tile_nnz.push(nnz);
            m.tile_bytes.push(500 + start);
        }
        let read = parse(&m.to_json().unwrap()).unwrap();
        prop_assert_eq!(without_hash(&read), m);
    }
}
