//! Properties of every tile that the format allows, held against a slow decoder that shares no code with the crate.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::single_range_in_vec_init,
    clippy::redundant_clone,
    reason = "a test may panic"
)]

#[path = "support/reference.rs"]
mod reference;
#[path = "support/strategies.rs"]
mod strategies;

use celltile_tile::{
    ChunkCut, Compression, Csr, Decoder, EncodeOptions, Error, Preset, Stores, Stream, Tile, TileEncoder,
    TileHead, frames_crc, verify_strict,
};
use proptest::prelude::*;
use reference::{Layout, Matrix};

fn csr(matrix: &Matrix) -> Csr {
    Csr { indptr: matrix.indptr.clone(), genes: matrix.genes.clone(), counts: matrix.counts.clone() }
}

fn options() -> impl Strategy<Value = EncodeOptions> {
    let compression = prop_oneof![
        prop::sample::select(&Preset::ALL[..]).prop_map(Compression::Preset),
        (1..7_i32).prop_map(Compression::Level),
    ];
    let cut = prop_oneof![
        Just(ChunkCut::default()),
        (1..2000_u64).prop_map(ChunkCut::Nonzeros),
        (1..8_u64).prop_map(ChunkCut::Cells),
        (1..12_u32).prop_map(ChunkCut::Count),
    ];
    (compression, cut).prop_map(|(compression, cut)| EncodeOptions { compression, cut })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// What the encoder writes is sound, and both decoders get back what went in.
    #[test]
    fn test_encoded_tiles_come_back(matrix in strategies::matrix(), options in options()) {
        let cells = csr(&matrix);
        let bytes = TileEncoder::new(&options).unwrap().encode(cells.view().unwrap(), matrix.n_genes as u32);
        let bytes = match bytes {
            Err(Error::TooManyExceptions { found, .. }) => {
                prop_assert!(found > 1024);
                return Ok(());
            }
            bytes => bytes.unwrap(),
        };
        prop_assert_eq!(reference::decode(&bytes), Ok(matrix));
        let tile = Tile::open(&bytes).unwrap();
        let mut decoded = Csr::<i32>::new();
        tile.decode(&mut Decoder::new().unwrap(), &mut decoded).unwrap();
        prop_assert_eq!(&decoded, &cells);
        prop_assert_eq!(verify_strict(&tile), []);
    }

    /// Any layout that the format allows is read, by whatever way, and the plain loops agree with the fast ones.
    #[test]
    fn test_tiles_of_any_layout_decode((matrix, layout) in strategies::tile(), low in 0..31_usize, high in 0..31_usize) {
        let bytes = reference::build(&matrix, &layout);
        prop_assert_eq!(reference::decode(&bytes), Ok(matrix.clone()));
        let tile = Tile::open(&bytes).unwrap();
        prop_assert_eq!(verify_strict(&tile), []);
        let cells = csr(&matrix);
        let head = tile.head();
        let n_cells = head.n_cells();
        for decoder in [Decoder::new().unwrap(), Decoder::new().unwrap().scalar()] {
            let mut decoder = decoder.round_counts(true);
            let mut whole = Csr::<i32>::new();
            tile.decode(&mut decoder, &mut whole).unwrap();
            prop_assert_eq!(&whole, &cells);

            let mut floats = Csr::<f32>::new();
            tile.decode(&mut decoder, &mut floats).unwrap();
            prop_assert_eq!(&floats.genes, &cells.genes);
            prop_assert!(floats.counts.iter().copied().eq(cells.counts.iter().map(|count| *count as f32)));

            let range = low.min(high).min(n_cells)..low.max(high).min(n_cells);
            let mut part = Csr::<i32>::new();
            tile.append_cells(&mut decoder, range.clone(), None, &mut part).unwrap();
            prop_assert_eq!(part, cells.view().unwrap().cells(range).unwrap().to_csr());
        }

        // Read in parts, as from a bucket: the head, and then only the bytes that hold a chunk's frames.
        let (table, indptr) = (head.header().table_range(), head.header().indptr_range());
        let cut = |range: std::ops::Range<u64>| &bytes[range.start as usize..range.end as usize];
        let parsed = TileHead::parse(cut(0..table.end), cut(indptr), bytes.len() as u64).unwrap();
        prop_assert_eq!(&parsed, head);
        for chunk in 0..parsed.n_chunks() {
            let span = parsed.frames_span(chunk).unwrap();
            let frames = parsed.frames(chunk, cut(span.clone()), span.start).unwrap();
            prop_assert_eq!(frames, tile.frames(chunk).unwrap());
            prop_assert_eq!(frames_crc(&frames), frames_crc(&tile.frames(chunk).unwrap()));
            let short = parsed.frames(chunk, cut(span.start..span.end - 1), span.start);
            prop_assert!(matches!(short, Err(Error::NotInBytes { .. })), "{:?}", short);
        }
        for cell in 0..n_cells {
            prop_assert!(head.chunk_cells(head.chunk_of_cell(cell).unwrap()).unwrap().contains(&cell));
        }
    }

    /// A gene map renumbers and drops in the same pass.
    #[test]
    fn test_gene_map_is_applied(matrix in strategies::matrix(), seed in any::<u32>()) {
        prop_assume!(matrix.n_genes < 100_000);
        let renumber = |gene: i32| -> i32 {
            let mixed = (gene as u32).wrapping_mul(2_654_435_761).wrapping_add(seed);
            if mixed % 3 == 0 { -1 } else { (mixed >> 8) as i32 }
        };
        let map: Vec<i32> = (0..matrix.n_genes as i32).map(renumber).collect();
        let layout = Layout::one_chunk(matrix.indptr.len() - 1);
        prop_assume!(matrix.indptr.len() > 1);
        let bytes = reference::build(&matrix, &layout);
        let tile = Tile::open(&bytes).unwrap();
        let mut mapped = Csr::<i32>::new();
        tile.append_cells(&mut Decoder::new().unwrap(), 0..tile.head().n_cells(), Some(&map), &mut mapped).unwrap();
        let mut expected = Csr::<i32>::new();
        for (genes, counts) in csr(&matrix).view().unwrap().iter() {
            for (gene, count) in genes.iter().zip(counts).filter(|(gene, _)| renumber(**gene) >= 0) {
                expected.genes.push(renumber(*gene));
                expected.counts.push(*count);
            }
            expected.indptr.push(expected.genes.len() as i64);
        }
        prop_assert_eq!(mapped, expected);
        let mut decoder = Decoder::new().unwrap();
        let open = decoder.open_chunk(tile.head(), 0, &tile.frames(0).unwrap()).unwrap();
        for (cell, (_, counts)) in csr(&matrix).view().unwrap().iter().enumerate() {
            let sum: u64 = counts.iter().map(|&count| u64::from(count.unsigned_abs())).sum();
            prop_assert_eq!(open.sum_counts(cell..cell + 1).unwrap(), sum);
        }
    }

    #[test]
    fn test_streamed_results_are_the_same(matrix in strategies::matrix(), before in 0..20_usize) {
        let cells = csr(&matrix);
        let options = EncodeOptions { cut: ChunkCut::Count(1), ..EncodeOptions::default() };
        let Ok(bytes) = TileEncoder::new(&options).unwrap().encode(cells.view().unwrap(), matrix.n_genes as u32) else {
            return Ok(());
        };
        let tile = Tile::open(&bytes).unwrap();
        prop_assume!(tile.head().n_chunks() == 1);
        let mut decoder = Decoder::new().unwrap();
        decoder.set_stores(Stores::Streamed, Stores::Streamed);
        // Wherever in its memory a result begins.
        let mut genes = vec![-1; before + cells.genes.len()];
        let mut counts = vec![-1; before + cells.counts.len()];
        let frames = tile.frames(0).unwrap();
        let (own_genes, own_counts) = (&mut genes[before..], &mut counts[before..]);
        decoder.decode_chunk(tile.head(), 0, &frames, own_genes, own_counts).unwrap();
        prop_assert_eq!(&genes[before..], &cells.genes[..]);
        prop_assert_eq!(&counts[before..], &cells.counts[..]);
    }
}

fn encode(cells: &Csr, n_genes: u32) -> Result<Vec<u8>, Error> {
    TileEncoder::new(&EncodeOptions { cut: ChunkCut::Cells(1), ..EncodeOptions::default() })?
        .encode(cells.view()?, n_genes)
}

#[test]
fn test_encoder_names_cell_and_gene_of_bad_input() {
    let good = Csr { indptr: vec![0, 2, 4], genes: vec![0, 5, 1, 3], counts: vec![1, 2, 3, 4] };
    assert!(encode(&good, 6).is_ok());
    let error = encode(&good, 5).unwrap_err();
    assert_eq!(error, Error::InputGene { cell: 0, gene: 5, n_genes: 5 });
    let with = |change: fn(&mut Csr)| {
        let mut cells = good.clone();
        change(&mut cells);
        encode(&cells, 6).unwrap_err()
    };
    assert_eq!(with(|c| c.genes[3] = 1), Error::InputOrder { cell: 1, previous: 1, gene: 1 });
    assert_eq!(with(|c| c.genes[3] = 0), Error::InputOrder { cell: 1, previous: 1, gene: 0 });
    assert_eq!(with(|c| c.genes[2] = -1), Error::InputGene { cell: 1, gene: -1, n_genes: 6 });
    assert_eq!(with(|c| c.counts[3] = 0), Error::InputCount { cell: 1, gene: 3, count: 0 });
    assert_eq!(with(|c| c.counts[2] = -7), Error::InputCount { cell: 1, gene: 1, count: -7 });
    assert!(matches!(with(|c| c.indptr[1] = 9), Error::NotCsr(_)));
    assert!(matches!(with(|c| c.counts.truncate(3)), Error::NotCsr(_)));
    assert!(matches!(encode(&good, 0), Err(Error::Option { option: "n_genes", .. })));
    assert!(matches!(encode(&good, u32::MAX), Err(Error::Option { option: "n_genes", .. })));
}

#[test]
fn test_encoder_refuses_a_tile_full_of_exceptions() {
    let cells = |large: usize| {
        let n = 250_000;
        let counts = (0..n).map(|i| if i < large { 70_000 } else { 1 }).collect();
        Csr { indptr: vec![0, n as i64], genes: (0..n as i32).collect(), counts }
    };
    assert!(encode(&cells(1250), 1 << 20).is_ok());
    let error = encode(&cells(1251), 1 << 20).unwrap_err();
    assert_eq!(
        error,
        Error::TooManyExceptions { stream: Stream::Vexc, found: 1251, nnz: 250_000, allowed: 1250 }
    );
}

#[test]
fn test_float_refuses_counts_that_it_would_round() {
    for count in [1 << 24, (1 << 24) + 1] {
        let cells = Csr { indptr: vec![0, 0, 2], genes: vec![3, 4], counts: vec![1, count] };
        let bytes = encode(&cells, 5).unwrap();
        let tile = Tile::open(&bytes).unwrap();
        let mut floats = Csr::<f32>::new();
        let strict = tile.decode(&mut Decoder::new().unwrap(), &mut floats);
        let mut mapped = Csr::<f32>::new();
        let map = tile.append_cells(&mut Decoder::new().unwrap(), 0..2, Some(&[0, 1, 2, 3, 4]), &mut mapped);
        let dropped = tile.append_cells(
            &mut Decoder::new().unwrap(),
            0..2,
            Some(&[0, 1, 2, 3, -1]),
            &mut Csr::<f32>::new(),
        );
        if count == 1 << 24 {
            assert_eq!((strict, map), (Ok(()), Ok(())));
        } else {
            let error = Err(Error::InexactCount { cell: 1, count: count as u32 });
            assert_eq!((strict, map), (error.clone(), error));
            // What is dropped need not be exact.
            assert_eq!(dropped, Ok(()));
            tile.decode(&mut Decoder::new().unwrap().round_counts(true), &mut floats).unwrap();
            assert_eq!(floats.counts, [1.0, 16_777_216.0]);
        }
    }
}
