//! Strict verification: every rule of the format, also those that a decoder leaves out on its hot path.

use crate::decode::{Decoder, OpenChunk};
use crate::error::{Error, Result};
use crate::layout::{ALIGNMENT, EXCEPTION_SLOT};
use crate::memory::resize;
use crate::tile::Tile;

/// A broken rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}{}", .times.checked_sub(1).filter(|more| *more > 0).map_or_else(String::new, |more| format!(" (and {more} more)")))]
pub struct Fault {
    /// The first place in a tile chunk where the rule is broken.
    pub error: Error,
    /// How often it is broken in that chunk.
    pub times: u64,
}

/// Checks the CRC, decodes everything and checks every rule of the format. Returns all faults: the first of each kind in
/// each tile chunk, and how many there are of it. None means that the tile is sound.
///
/// That the tile parses is the structural part of the verification; this is the rest.
#[must_use]
pub fn verify_strict(tile: &Tile<'_>) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut decoder = match Decoder::new() {
        Ok(decoder) => decoder,
        Err(error) => return vec![Fault { error, times: 1 }],
    };
    let mut report = |result: Result<()>| {
        if let Err(error) = result {
            faults.push(Fault { error, times: 1 });
        }
    };
    report(tile.check_crc());
    let head = tile.head();
    let found = head.header().reserved;
    report(if found == 0 { Ok(()) } else { Err(Error::Reserved { found }) });
    for (chunk, entry) in head.chunks().iter().enumerate() {
        for (stream, slot) in entry.slots() {
            let offset = slot.offset;
            let unaligned = slot.len > 0 && offset % ALIGNMENT != 0;
            report(if unaligned { Err(Error::Unaligned { chunk, stream, offset }) } else { Ok(()) });
        }
    }
    let mut genes = Vec::new();
    let mut counts = Vec::new();
    for chunk in 0..head.n_chunks() {
        let opened = tile.frames(chunk).and_then(|frames| decoder.open_chunk(head, chunk, &frames));
        let result =
            opened.and_then(|opened| check_chunk(tile, &opened, &mut genes, &mut counts, &mut faults));
        if let Err(error) = result {
            faults.push(Fault { error, times: 1 });
        }
    }
    faults
}

/// Decodes a chunk cell by cell, so that a bad gene in one does not hide the faults of the others.
fn check_chunk(
    tile: &Tile<'_>,
    opened: &OpenChunk<'_>,
    genes: &mut Vec<i32>,
    counts: &mut Vec<i32>,
    faults: &mut Vec<Fault>,
) -> Result<()> {
    let chunk = opened.chunk();
    let [mut bad, mut zeros, mut repeats, mut slots] = [const { None }; 4];
    for cell in opened.cells() {
        let cells = cell..cell.saturating_add(1);
        let len = tile.head().nonzeros(cells.clone())?.len();
        resize(genes, len)?;
        resize(counts, len)?;
        if let Err(error) = opened.decode_cells(cells, genes, counts) {
            count(&mut bad, || error);
            continue;
        }
        for (&gene, &found) in genes.iter().zip(counts.iter()) {
            if found == 0 {
                count(&mut zeros, || Error::StoredZero { chunk, cell, gene });
            }
        }
        for (&gene, &next) in genes.iter().zip(genes.iter().skip(1)) {
            if gene == next {
                count(&mut repeats, || Error::RepeatedGene { chunk, cell, gene });
            }
        }
    }
    for (stream, position, found) in opened.exception_slots() {
        if found != EXCEPTION_SLOT {
            count(&mut slots, || Error::ExceptionSlot { chunk, stream, position, found });
        }
    }
    faults.extend([bad, zeros, repeats, slots].into_iter().flatten());
    Ok(())
}

fn count(fault: &mut Option<Fault>, error: impl FnOnce() -> Error) {
    match fault {
        Some(fault) => fault.times = fault.times.saturating_add(1),
        None => *fault = Some(Fault { error: error(), times: 1 }),
    }
}
