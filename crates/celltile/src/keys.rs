//! The names of a dataset's objects ("Dataset layout").

/// The manifest: written last, so a folder without it holds an incomplete dataset.
pub const MANIFEST: &str = "manifest.json";
/// Folder of the tiles.
pub const TILES: &str = "tiles";
/// Folder of the obs schema and shards.
pub const OBS: &str = "obs";
/// Output column -> source column.
pub const GENE_ORDER: &str = "gene_order.npy";
/// One gene name a line, in output order.
pub const VAR_NAMES: &str = "var_names.txt";
/// The gene table.
pub const VAR_TABLE: &str = "var.parquet";
/// The obs schema.
pub const OBS_SCHEMA: &str = "obs/schema.json";
/// Checksums of the tiles' parts: this writer's addition (`docs/decisions/tile-checksums.md`).
pub const TILE_CHECKSUMS: &str = "tile_checksums.bin";
/// Folder of what a conversion under way keeps; gone once it is finished (`docs/decisions/conversion-stages.md`).
pub const WORK: &str = ".work";

/// The key of a tile: its index in six digits, more where six are too few.
#[must_use]
pub fn tile(index: u64) -> String {
    format!("{TILES}/tile_{index:06}.dct")
}

/// The key of an obs shard: its index in four digits, more where four are too few.
#[must_use]
pub fn obs_shard(index: u64) -> String {
    format!("{OBS}/obs_{index:04}.parquet")
}

/// The index of a tile's key, if it is one.
#[must_use]
pub fn tile_index(key: &str) -> Option<u64> {
    index_of(key, tile, "tiles/tile_", ".dct")
}

/// The index of an obs shard's key, if it is one.
#[must_use]
pub fn obs_shard_index(key: &str) -> Option<u64> {
    index_of(key, obs_shard, "obs/obs_", ".parquet")
}

/// Whether a dataset may hold an object of this key, so that a writer may replace it.
#[must_use]
pub fn is_ours(key: &str) -> bool {
    matches!(key, MANIFEST | GENE_ORDER | VAR_NAMES | VAR_TABLE | OBS_SCHEMA | TILE_CHECKSUMS)
        || tile_index(key).is_some()
        || obs_shard_index(key).is_some()
}

fn index_of(key: &str, name: fn(u64) -> String, before: &str, after: &str) -> Option<u64> {
    let digits = key.strip_prefix(before)?.strip_suffix(after)?;
    let index = digits.parse().ok()?;
    // One spelling an index: no sign, no digits too few or too many.
    (name(index) == key).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::{is_ours, obs_shard, obs_shard_index, tile, tile_index};

    #[test]
    fn test_index_has_one_spelling() {
        for index in [0, 7, 999_999, 1_000_000, u64::MAX] {
            assert_eq!(tile_index(&tile(index)), Some(index));
            assert_eq!(obs_shard_index(&obs_shard(index)), Some(index));
        }
        for key in ["tiles/tile_0.dct", "tiles/tile_+00001.dct", "tiles/tile_0000001.dct", "tile_000000.dct"]
        {
            assert_eq!(tile_index(key), None, "{key}");
            assert!(!is_ours(key), "{key}");
        }
    }
}
