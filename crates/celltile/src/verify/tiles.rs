//! The tiles: size, hash, header, checksums, and with strict verification every rule of the format.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use celltile_tile::{Tile, frames_crc, head_crc, verify_strict};

use super::sources::Sources;
use super::{Context, Fault, Level, Progress};
use crate::checksums::ChecksumFile;
use crate::digest::Sha256;
use crate::keys;

/// Verifies all tiles, each thread one at a time.
pub(super) fn check(
    context: &Context<'_>,
    checksums: Option<&ChecksumFile>,
    sources: Option<&Sources>,
    looked_at: &Mutex<(u64, u64)>,
    progress: &(dyn Fn(Progress) + Sync),
) -> Vec<Fault> {
    let n_tiles = context.manifest.n_tiles();
    let next = AtomicU64::new(0);
    let found = Mutex::new(Vec::new());
    let work = || {
        loop {
            let tile = next.fetch_add(1, Ordering::Relaxed);
            if tile >= n_tiles || context.options.is_cancelled() {
                return;
            }
            let mut faults = Vec::new();
            let size = check_tile(context, checksums, sources, tile, &mut faults);
            found
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(faults.into_iter().map(|f| (tile, f)));
            let (tiles, bytes) = {
                let mut total = looked_at.lock().unwrap_or_else(PoisonError::into_inner);
                *total = (total.0.saturating_add(1), total.1.saturating_add(size));
                *total
            };
            progress(Progress { tiles, n_tiles, bytes });
        }
    };
    let threads = u64::try_from(context.options.threads).unwrap_or(u64::MAX).clamp(1, n_tiles.max(1));
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(tile, _)| *tile);
    found.into_iter().map(|(_, fault)| fault).collect()
}

/// Verifies one tile and says how many bytes it has.
fn check_tile(
    context: &Context<'_>,
    checksums: Option<&ChecksumFile>,
    sources: Option<&Sources>,
    tile: u64,
    faults: &mut Vec<Fault>,
) -> u64 {
    let Context { storage, manifest, options } = *context;
    let key = keys::tile(tile);
    let path = storage.locate(&key);
    let of =
        |list: &[u64]| usize::try_from(tile).ok().and_then(|at| list.get(at)).copied().unwrap_or_default();
    let expected_size = of(&manifest.tile_bytes);
    let first_cell = tile.saturating_mul(manifest.tile_size);
    let mut report = |what: String| faults.push(Fault::of_tile(&path, tile, what));

    let size = match storage.size(&key) {
        Ok(size) => size,
        Err(error) => {
            report(Fault::of(&path, &error).what);
            return 0;
        }
    };
    if size != expected_size {
        report(format!("{size} bytes, the manifest says {expected_size}"));
        return 0;
    }
    let bytes = match storage.read_range(&key, 0..size) {
        Ok(bytes) => bytes,
        Err(error) => {
            report(Fault::of(&path, &error).what);
            return 0;
        }
    };
    if let Some(expected) = manifest.tile_sha256.as_ref().and_then(|l| l.get(usize::try_from(tile).ok()?)) {
        let found = Sha256::of(&bytes);
        if found != *expected {
            report(format!("its SHA-256 is {found}, the manifest says {expected}"));
        }
    }
    let parsed = match Tile::parse(&bytes) {
        Ok(parsed) => parsed,
        Err(error) => {
            faults.push(Fault::of_tile_error(&path, tile, first_cell, error.to_string(), &error));
            return size;
        }
    };
    let header = parsed.head().header();
    for (what, found, expected) in [
        ("n_cells", header.n_cells, of(&manifest.tile_cells)),
        ("nnz", header.nnz, of(&manifest.tile_nnz)),
        ("n_genes", u64::from(header.n_genes), manifest.n_genes),
    ] {
        if found != expected {
            report(format!("{what} is {found}, the manifest says {expected}"));
        }
    }
    if let Some(checksums) = checksums {
        check_parts(context, checksums, tile, &parsed, &mut report);
    }
    match options.level {
        Level::Basic => {
            if let Err(error) = parsed.check_crc() {
                report(error.to_string());
            }
        }
        Level::Strict => {
            let before = faults.len();
            faults.extend(
                verify_strict(&parsed).iter().map(|fault| {
                    Fault::of_tile_error(&path, tile, first_cell, fault.to_string(), &fault.error)
                }),
            );
            if let Some(sources) = sources.filter(|_| faults.len() == before)
                && let Err(what) = sources.add(context, tile, &parsed)
            {
                faults.push(Fault::of_tile(&path, tile, what));
            }
        }
    }
    size
}

/// The tile's parts against `tile_checksums.bin`.
fn check_parts(
    context: &Context<'_>,
    checksums: &ChecksumFile,
    tile: u64,
    parsed: &Tile<'_>,
    report: &mut impl FnMut(String),
) {
    let sidecar = keys::TILE_CHECKSUMS;
    let recorded = match checksums.tile(context.storage, tile) {
        Ok(recorded) => recorded,
        Err(error) => return report(error.to_string()),
    };
    let header = parsed.head().header();
    let part = |range: std::ops::Range<u64>| {
        let range = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        range.and_then(|(start, end)| parsed.bytes().get(start..end)).unwrap_or_default()
    };
    let found = head_crc(part(0..header.table_range().end), part(header.indptr_range()));
    if found != recorded.head {
        report(format!("the head's CRC-32 is {found:08x}, {sidecar} says {:08x}", recorded.head));
    }
    let n_chunks = parsed.head().n_chunks();
    if n_chunks != recorded.chunks.len() {
        report(format!("{n_chunks} tile chunks, {sidecar} says {}", recorded.chunks.len()));
        return;
    }
    for (chunk, expected) in recorded.chunks.iter().enumerate() {
        match parsed.frames(chunk).map(|frames| frames_crc(&frames)) {
            Ok(found) if found == *expected => {}
            Ok(found) => {
                report(format!("tile chunk {chunk}: CRC-32 {found:08x}, {sidecar} says {expected:08x}"));
            }
            Err(error) => report(error.to_string()),
        }
    }
}
