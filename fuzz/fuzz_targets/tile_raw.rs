//! Raw bytes as a tile. Size and CRC are made to fit first, since hardly any input would get past them.
//!
//! Nothing may panic, all ways of decoding agree, strict verification finds whatever a decoder refuses, and no input
//! takes more memory than 16 times its size and what it declares.

#![no_main]

#[path = "../support/memory.rs"]
mod memory;

use celltile_tile::{Csr, Decoder, Tile, verify_strict};
use libfuzzer_sys::fuzz_target;

/// A dataset's manifest says how many nonzeros a tile has. Here nothing does, so larger tiles are left alone.
const MOST_NONZEROS: usize = 1 << 20;
/// The same for a gene map, which is one entry a gene.
const MOST_GENES: u32 = 1 << 16;

fuzz_target!(|input: &[u8]| {
    let mut bytes = input.to_vec();
    if bytes.len() >= 64 {
        let size = bytes.len() as u64;
        bytes[48..56].copy_from_slice(&size.to_le_bytes());
        let crc = crc32fast::hash(&bytes[64..]);
        bytes[56..60].copy_from_slice(&crc.to_le_bytes());
    }
    let (parsed, most) = memory::most(|| Tile::open(&bytes));
    assert!(most <= 16 * bytes.len() + 1024, "{most} bytes to parse {}", bytes.len());
    let Ok(tile) = parsed else { return };
    let head = tile.head();
    if head.nnz() > MOST_NONZEROS {
        return;
    }

    let mut whole = Csr::<i32>::new();
    let mut decoder = Decoder::new().unwrap().round_counts(true);
    let (result, most) = memory::most(|| tile.decode(&mut decoder, &mut whole));
    // Declared: the output of 8 bytes a nonzero, and as much again for planes and exceptions.
    let declared = if result.is_ok() { 16 * head.nnz() } else { 28 * head.nnz() };
    assert!(most <= 16 * bytes.len() + declared + 1024, "{most} bytes to decode {}", bytes.len());

    let mut plain = Csr::<i32>::new();
    let mut scalar = Decoder::new().unwrap().scalar();
    assert_eq!(tile.decode(&mut scalar, &mut plain), result);
    assert_eq!(plain, whole);

    let mut floats = Csr::<f32>::new();
    assert_eq!(tile.decode(&mut decoder, &mut floats), result);

    let mut cells = Csr::<i32>::new();
    let by_cell = (0..head.n_cells()).try_for_each(|cell| {
        tile.append_cells(&mut decoder, cell..cell + 1, None, &mut cells)
    });
    if head.n_genes() <= MOST_GENES {
        let map: Vec<i32> = (0..head.n_genes().cast_signed()).collect();
        let mut mapped = Csr::<i32>::new();
        let result = tile.append_cells(&mut decoder, 0..head.n_cells(), Some(&map), &mut mapped);
        assert_eq!(result.is_ok(), by_cell.is_ok());
        if result.is_ok() {
            assert_eq!(mapped, cells);
        }
    }
    let faults = verify_strict(&tile);
    match result {
        Ok(()) => {
            assert_eq!(by_cell, Ok(()));
            assert_eq!(cells, whole);
        }
        Err(_) => assert!(!faults.is_empty()),
    }
});
