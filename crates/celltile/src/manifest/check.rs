//! What the manifest's fields must satisfy, alone and together.

use super::json::{cut, fault};
use super::{Manifest, ObsRecord};
use crate::error::ManifestFault;
use crate::keys;

type Result<T> = std::result::Result<T, ManifestFault>;

/// Genes a dataset can have: 2^31 ("Limits").
const MAX_GENES: u64 = 1 << 31;
/// `indptr` is a list of int64.
const MAX_NNZ: u64 = i64::MAX as u64;
/// Header, one chunk table entry, and the first element of indptr.
const TILE_OVERHEAD: u64 = 64 + 96 + 8;

/// The first rule that the manifest breaks.
pub(super) fn manifest(m: &Manifest) -> Result<()> {
    if !(1..=MAX_GENES).contains(&m.n_genes) {
        return Err(fault("n_genes", None, m.n_genes, format!("1 to {MAX_GENES}")));
    }
    if m.tile_size == 0 {
        return Err(fault("tile_size", None, 0, "at least 1"));
    }
    tile_cells(m)?;
    let n_tiles = count(&m.tile_cells);
    length("tile_nnz", count(&m.tile_nnz), n_tiles)?;
    length("tile_bytes", count(&m.tile_bytes), n_tiles)?;
    tiles(m)?;
    sum("tile_nnz", &m.tile_nnz)?;
    sum("tile_bytes", &m.tile_bytes)?;
    if let Some(list) = &m.tile_sha256 {
        length("tile_sha256", count(list), n_tiles)?;
    }
    if let Some(obs) = &m.obs {
        check_obs(obs, n_tiles)?;
    }
    files(m)
}

/// All tiles but the last hold exactly `tile_size` cells, the last 1 to `tile_size`, all together `n_cells`.
fn tile_cells(m: &Manifest) -> Result<()> {
    let n_tiles = m.n_cells.div_ceil(m.tile_size);
    if count(&m.tile_cells) != n_tiles {
        let expected = format!("{n_tiles} tiles for {} cells by {}", m.n_cells, m.tile_size);
        return Err(fault("tile_cells", None, format!("{} tiles", m.tile_cells.len()), expected));
    }
    let mut left = m.n_cells;
    for (index, &cells) in (0..).zip(&m.tile_cells) {
        let expected = left.min(m.tile_size);
        if cells != expected {
            return Err(fault("tile_cells", Some(index), cells, expected));
        }
        left -= expected;
    }
    Ok(())
}

/// What a tile's figures say of each other.
fn tiles(m: &Manifest) -> Result<()> {
    for (index, ((&cells, &nnz), &bytes)) in
        (0..).zip(m.tile_cells.iter().zip(&m.tile_nnz).zip(&m.tile_bytes))
    {
        let most = u128::from(cells).saturating_mul(u128::from(m.n_genes)).min(u128::from(MAX_NNZ));
        if u128::from(nnz) > most {
            let expected = format!("at most {most} for {cells} cells of {} genes", m.n_genes);
            return Err(fault("tile_nnz", Some(index), nnz, expected));
        }
        // Confirms that the tile's indptr is no larger than the tile, before any reader takes memory for it.
        let least = cells.checked_mul(8).and_then(|indptr| indptr.checked_add(TILE_OVERHEAD));
        if least.is_none_or(|least| bytes < least) || bytes > MAX_NNZ {
            let least = least.map_or_else(|| "2^63".to_owned(), |least| least.to_string());
            let expected = format!("at least {least} for {cells} cells");
            return Err(fault("tile_bytes", Some(index), bytes, expected));
        }
    }
    Ok(())
}

fn check_obs(obs: &ObsRecord, n_tiles: u64) -> Result<()> {
    if obs.tiles_per_file == 0 {
        return Err(fault("obs_tiles_per_file", None, 0, "at least 1"));
    }
    let n_shards = n_tiles.div_ceil(obs.tiles_per_file);
    length("obs_shard_bytes", count(&obs.shard_bytes), n_shards)?;
    length("obs_shard_sha256", count(&obs.shard_sha256), n_shards)?;
    sum("obs_shard_bytes", &obs.shard_bytes)?;
    let digits = obs.fingerprint.bytes().all(|b| b.is_ascii_hexdigit());
    if obs.fingerprint.len() != 24 || !digits {
        return Err(fault("obs_fingerprint", None, cut(&obs.fingerprint), "24 hexadecimal digits"));
    }
    Ok(())
}

/// `files`, where it names one of the optional files, agrees with that file's flag.
fn files(m: &Manifest) -> Result<()> {
    for (key, flag, has) in [
        (keys::GENE_ORDER, "has_gene_order", m.has_gene_order),
        (keys::VAR_NAMES, "has_var_names", m.has_var_names),
        (keys::VAR_TABLE, "has_var_table", m.has_var_table),
        (keys::OBS_SCHEMA, "has_obs", m.obs.is_some()),
    ] {
        if m.files.contains_key(key) && !has {
            return Err(fault(
                &format!("files.{key}"),
                None,
                "a file",
                format!("none, since {flag} is false"),
            ));
        }
    }
    Ok(())
}

fn length(field: &str, found: u64, expected: u64) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(fault(field, None, format!("{found} elements"), format!("{expected}")))
}

fn sum(field: &str, list: &[u64]) -> Result<u64> {
    list.iter()
        .try_fold(0u64, |sum, &value| sum.checked_add(value))
        .ok_or_else(|| fault(field, None, "a sum above 18446744073709551615", "a sum that 64 bits hold"))
}

fn count<T>(list: &[T]) -> u64 {
    u64::try_from(list.len()).unwrap_or(u64::MAX)
}
