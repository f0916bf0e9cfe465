//! Text as the metadata of a grid: raw, and as the `chunk_shapes` of a good object, since hardly any raw input gets past
//! the name.
//!
//! Nothing may panic, no input takes more memory than a small multiple of its size, and what is accepted comes back from its
//! canonical text as the same grid, whose look-ups agree with its runs.

#![no_main]

#[path = "../support/memory.rs"]
mod memory;

use celltile_grid::{Grid, GridMetadata};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&[axes, length, shift], text)) = input.split_first_chunk::<3>() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let shape = vec![u64::from(length) << (shift % 57); usize::from(axes % 5)];
    check(text, &shape);
    let object = |shapes: &str| {
        format!(r#"{{"name":"rectilinear","configuration":{{"kind":"inline","chunk_shapes":{shapes}}}}}"#)
    };
    check(&object(text), &shape);
    check(&object(&format!("[{text}]")), &shape);
    let older = format!(r#"{{"name":"rectangular","configuration":{{"chunk_shape":[{text}]}}}}"#);
    let (_, most) = memory::most(|| Grid::from_zep0003_json(&older, &shape));
    assert!(most <= limit(&older), "{most} bytes for {}", older.len());
});

/// Bytes that text may take: a run takes at least two characters (`1,`) and less than 24 bytes, and lists grow by an eighth; an
/// error repeats a part of the text.
fn limit(text: &str) -> usize {
    32 * text.len() + 4096
}

fn check(text: &str, shape: &[u64]) {
    let (metadata, most) = memory::most(|| GridMetadata::parse(text));
    assert!(most <= limit(text), "{most} bytes to parse {}", text.len());
    if let Ok(metadata) = metadata {
        let canonical = metadata.to_json();
        let again = GridMetadata::parse(&canonical).expect("canonical text is accepted");
        assert_eq!(again, metadata);
        assert_eq!(again.to_json(), canonical);
    }
    let (grid, most) = memory::most(|| Grid::from_json(text, shape));
    assert!(most <= limit(text), "{most} bytes to parse {}", text.len());
    let Ok(grid) = grid else { return };
    let again = Grid::from_json(&grid.to_json(), shape).expect("canonical text is accepted");
    assert_eq!(again, grid);
    for axis in grid.axes() {
        let Some(last) = axis.length().checked_sub(1) else {
            assert_eq!(axis.n_active(), 0);
            continue;
        };
        for index in [0, last / 2, last] {
            let found = axis.locate(index).expect("an index inside the array");
            let chunk = axis.chunk(found.chunk).expect("a chunk that holds an index");
            assert_eq!(chunk.origin + found.within, index);
            assert!(found.within < chunk.clipped && chunk.clipped <= chunk.edge);
        }
        assert_eq!(axis.locate(last).map(|found| found.chunk + 1).ok(), Some(axis.n_active()));
        assert!(axis.locate(last + 1).is_err() || last == u64::MAX);
    }
}
