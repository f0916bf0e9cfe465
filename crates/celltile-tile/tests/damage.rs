//! Damaged tiles: never a panic, never much memory, and refused exactly where the slow decoder refuses them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::single_range_in_vec_init,
    reason = "a test may panic"
)]

#[path = "support/reference.rs"]
mod reference;

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::cell::Cell;

use celltile_tile::{Csr, Decoder, Error, Tile, verify_strict};
use reference::{Layout, Matrix};

/// Counts the memory that each thread holds.
struct Counting;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

fn hold(bytes: usize) {
    let held = HELD.get() + bytes;
    HELD.set(held);
    MOST.set(MOST.get().max(held));
}

#[allow(unsafe_code, reason = "an allocator is unsafe by nature")]
// SAFETY: everything is handed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, memory: Memory) -> *mut u8 {
        hold(memory.size());
        // SAFETY: the caller keeps the rules of this function, which are the same.
        unsafe { System.alloc(memory) }
    }

    unsafe fn dealloc(&self, at: *mut u8, memory: Memory) {
        HELD.set(HELD.get().saturating_sub(memory.size()));
        // SAFETY: as above.
        unsafe { System.dealloc(at, memory) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Most bytes held at a time while working, above those held before.
fn most_memory<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    MOST.set(before);
    let result = work();
    (result, MOST.get() - before)
}

/// A tile with everything in it: both kinds of exception, empty cells, chunks without cells.
fn rich() -> (Matrix, Vec<u8>) {
    let mut matrix = Matrix { n_genes: 400_000, indptr: vec![0], genes: vec![], counts: vec![] };
    for cell in 0..12_i32 {
        if cell % 5 != 4 {
            for i in 0..20 + cell {
                matrix.genes.push(
                    i * (3 + cell) + if i > 10 { 70_000 } else { 0 } + if i > 15 { 131_072 } else { 0 },
                );
                matrix.counts.push(if (i + cell) % 13 == 0 { 65_535 + i } else { 1 + i % 3 });
            }
        }
        matrix.indptr.push(matrix.genes.len() as i64);
    }
    let layout =
        Layout { chunks: vec![0..3, 3..3, 3..5, 5..12], backwards: false, stray_offsets: false, level: 3 };
    let bytes = reference::build(&matrix, &layout);
    (matrix, bytes)
}

/// Decodes in every way. All ways must agree, with the slow decoder too.
fn decode_all_ways(bytes: &[u8]) -> Result<Csr, Error> {
    let ((whole, output), most) = most_memory(|| {
        let tile = match Tile::parse(bytes) {
            Ok(tile) => tile,
            Err(error) => return (Err(error), 0),
        };
        let output = 8 * tile.head().nnz();
        let mut whole = Csr::new();
        let result = tile.check_crc().and_then(|()| tile.decode(&mut Decoder::new()?, &mut whole));
        (result.map(|()| whole), output)
    });
    // Tables and messages, and for what is declared: the output and the planes.
    assert!(most <= 16 * bytes.len() + 2 * output + 4096, "{most} bytes for a tile of {}", bytes.len());
    if let Ok(tile) = Tile::parse(bytes) {
        let head = tile.head();
        let mut decoder = Decoder::new().unwrap();
        let mut cells = Csr::<i32>::new();
        let by_cell = (0..head.n_cells())
            .try_for_each(|cell| tile.append_cells(&mut decoder, cell..cell + 1, None, &mut cells));
        let faults = verify_strict(&tile);
        if tile.check_crc().is_ok() {
            // A chunk without cells is decoded by the whole tile only.
            if let (Ok(whole), true) =
                (&whole, head.chunks().iter().all(|chunk| chunk.cell_lo < chunk.cell_hi))
            {
                assert_eq!(by_cell, Ok(()));
                assert_eq!(whole, &cells);
            }
        }
        if whole.is_err() {
            assert_ne!(faults, []);
        }
    }
    let slow = reference::decode(bytes);
    match (&whole, &slow) {
        (Ok(whole), Ok(slow)) => {
            assert_eq!(whole.indptr, slow.indptr);
            assert_eq!(whole.genes, slow.genes);
            assert_eq!(whole.counts, slow.counts);
        }
        (Err(_), Err(_)) => {}
        _ => panic!("{whole:?} but the slow decoder says {slow:?}"),
    }
    whole
}

#[test]
fn test_rich_tile_is_sound() {
    let (matrix, bytes) = rich();
    assert_eq!(decode_all_ways(&bytes).unwrap().genes, matrix.genes);
    assert_eq!(verify_strict(&Tile::parse(&bytes).unwrap()), []);
}

#[test]
fn test_every_truncation_is_refused() {
    let (_, bytes) = rich();
    for len in 0..bytes.len() {
        assert!(decode_all_ways(&bytes[..len]).is_err(), "{len} bytes");
        // The same with a total_size and a CRC that fit.
        let mut cut = bytes[..len].to_vec();
        if len >= 64 {
            cut[48..56].copy_from_slice(&(len as u64).to_le_bytes());
            reference::patch_crc(&mut cut);
        }
        assert!(decode_all_ways(&cut).is_err(), "{len} bytes, patched");
    }
}

#[test]
fn test_every_damaged_byte_is_found_by_the_crc_or_the_header() {
    let (_, bytes) = rich();
    let mut unnoticed = Vec::new();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let found =
            Tile::open(&damaged).and_then(|tile| tile.decode(&mut Decoder::new()?, &mut Csr::<i32>::new()));
        if found.is_ok() {
            unnoticed.push(at);
        }
        // Strict verification finds what is left.
        assert!(
            Tile::parse(&damaged).map_or(true, |tile| !verify_strict(&tile).is_empty())
                || (32..36).contains(&at),
            "{at}"
        );
    }
    // The reserved field, and the bits of n_genes that only make it larger.
    assert!(unnoticed.iter().all(|at| (60..64).contains(at) || (32..36).contains(at)), "{unnoticed:?}");
}

#[test]
fn test_damage_under_a_patched_crc_is_refused_where_the_slow_decoder_refuses_it() {
    let (_, bytes) = rich();
    for at in 0..bytes.len() {
        let old = bytes[at];
        for new in [0, 1, 0x7f, 0x80, 0xff, old ^ 1, old ^ 0x80, old.wrapping_add(1), old.wrapping_sub(8)] {
            let mut damaged = bytes.clone();
            damaged[at] = new;
            reference::patch_crc(&mut damaged);
            let _ = decode_all_ways(&damaged);
        }
    }
}

#[test]
fn test_fields_of_extreme_values_are_refused_where_the_slow_decoder_refuses_them() {
    let (_, bytes) = rich();
    let table_end = 64 + 4 * 96;
    let fields = (16..56).step_by(8).chain((64..table_end + 13 * 8).step_by(8)).map(|at| (at, 8));
    for (at, len) in fields.chain([(8, 4), (12, 4), (32, 4), (36, 4)]) {
        let old = bytes[at..at + len].iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
        for new in [
            0,
            1,
            7,
            8,
            64,
            1 << 31,
            (1 << 31) + 1,
            u64::from(u32::MAX),
            1 << 32,
            1 << 61,
            (1 << 61) - 1,
            1 << 62,
            i64::MAX as u64,
            1 << 63,
            u64::MAX,
            u64::MAX - 7,
            bytes.len() as u64,
            old.wrapping_add(1),
            old.wrapping_sub(1),
            old.wrapping_add(8),
            old.wrapping_sub(8),
            old * 2,
        ] {
            let mut damaged = bytes.clone();
            damaged[at..at + len].copy_from_slice(&new.to_le_bytes()[..len]);
            reference::patch_crc(&mut damaged);
            let _ = decode_all_ways(&damaged);
        }
    }
}

#[test]
fn test_conformance_cases_agree_with_the_slow_decoder() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "dct") {
            let _ = decode_all_ways(&std::fs::read(&path).unwrap());
        }
    }
}

#[test]
fn test_frames_that_claim_much_take_no_memory() {
    // One cell of 2^33 nonzeros in two chunks' worth of frames that hold next to nothing.
    for n in [1_u64 << 20, (1 << 32) - 1, 1 << 40] {
        let matrix = Matrix { n_genes: 1 << 31, indptr: vec![0, 0], genes: vec![], counts: vec![] };
        let layout = Layout::one_chunk(1);
        let mut bytes = reference::build(&matrix, &layout);
        let n_bytes = n.to_le_bytes();
        for at in [24, 64 + 24, 64 + 96 + 8] {
            bytes[at..at + 8].copy_from_slice(&n_bytes);
        }
        // A frame that states 2n bytes and holds an empty block.
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xe0];
        frame.extend((2 * n).to_le_bytes());
        frame.extend([1, 0, 0]);
        for field in [4, 6] {
            let at = 64 + 8 * field;
            let offset = bytes.len().next_multiple_of(8);
            bytes.resize(offset, 0);
            bytes.extend(&frame);
            bytes[at..at + 8].copy_from_slice(&(offset as u64).to_le_bytes());
            bytes[at + 8..at + 16].copy_from_slice(&(frame.len() as u64).to_le_bytes());
        }
        let len = bytes.len() as u64;
        bytes[48..56].copy_from_slice(&len.to_le_bytes());
        reference::patch_crc(&mut bytes);
        let (result, most) = most_memory(|| {
            let tile = Tile::open(&bytes)?;
            tile.decode(&mut Decoder::new()?, &mut Csr::<i32>::new())
        });
        let error = result.unwrap_err();
        println!("{error}");
        assert!(most < 16 * bytes.len(), "{most}");
    }
}

#[test]
fn test_a_loop_over_chunks_allocates_nothing() {
    let (_, bytes) = rich();
    let tile = Tile::open(&bytes).unwrap();
    let mut decoder = Decoder::new().unwrap();
    let (mut genes, mut counts, mut out) = ([0; 1000], [0_i32; 1000], Csr::<f32>::new());
    let map: Vec<i32> = (0..400_000).collect();
    let mut turn = || {
        for chunk in 0..tile.head().n_chunks() {
            let n = tile.head().chunk_nonzeros(chunk).unwrap().len();
            tile.decode_chunk(&mut decoder, chunk, &mut genes[..n], &mut counts[..n]).unwrap();
        }
        out.clear();
        tile.append_cells(&mut decoder, 2..9, None, &mut out).unwrap();
        tile.append_cells(&mut decoder, 0..12, Some(&map), &mut out).unwrap();
    };
    turn();
    let ((), most) = most_memory(turn);
    assert_eq!(most, 0);
}
