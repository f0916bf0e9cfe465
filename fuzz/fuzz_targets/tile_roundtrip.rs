//! Any matrix, encoded in any way, is sound and comes back.

#![no_main]

use arbitrary::Arbitrary;
use celltile_tile::{
    ChunkCut, Compression, Csr, Decoder, EncodeOptions, Error, Preset, Tile, TileEncoder, verify_strict,
};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Arbitrary)]
struct Input {
    n_genes: Genes,
    /// Nonzeros of each cell: the gap to the gene before, less one, and the count, less one.
    cells: Vec<Vec<(Number, Number)>>,
    cut: Cut,
    compression: How,
}

#[derive(Debug, Arbitrary)]
enum Genes {
    Few(u8),
    Many(u32),
    Most,
}

/// Mostly small, sometimes at the edge of 16 bits, sometimes anything.
#[derive(Debug, Arbitrary)]
enum Number {
    Zero,
    Byte(u8),
    Edge(u8),
    Any(u32),
}

#[derive(Debug, Arbitrary)]
enum Cut {
    Default,
    Nonzeros(u16),
    Cells(u8),
    Count(u8),
}

#[derive(Debug, Arbitrary)]
enum How {
    Small,
    Balanced,
    Fast,
    Training,
    Level(u8),
}

impl Number {
    fn value(&self) -> u64 {
        match *self {
            Self::Zero => 0,
            Self::Byte(value) => value.into(),
            Self::Edge(value) => 65_530 + u64::from(value),
            Self::Any(value) => value.into(),
        }
    }
}

fuzz_target!(|input: Input| {
    let n_genes = match input.n_genes {
        Genes::Few(n) => u32::from(n) + 1,
        Genes::Many(n) => n.clamp(1, 1 << 31),
        Genes::Most => 1 << 31,
    };
    let mut csr = Csr::<i32>::new();
    for cell in &input.cells {
        let mut next = 0;
        for (gap, count) in cell {
            let gene = next + gap.value();
            if gene >= n_genes.into() {
                break;
            }
            csr.genes.push(i32::try_from(gene).unwrap());
            csr.counts.push(i32::try_from(count.value() + 1).unwrap_or(i32::MAX));
            next = gene + 1;
        }
        csr.indptr.push(i64::try_from(csr.genes.len()).unwrap());
    }
    let cut = match input.cut {
        Cut::Default => ChunkCut::default(),
        Cut::Nonzeros(n) => ChunkCut::Nonzeros(u64::from(n) + 1),
        Cut::Cells(n) => ChunkCut::Cells(u64::from(n) + 1),
        Cut::Count(n) => ChunkCut::Count(u32::from(n) + 1),
    };
    let compression = match input.compression {
        How::Small => Compression::Preset(Preset::Small),
        How::Balanced => Compression::Preset(Preset::Balanced),
        How::Fast => Compression::Preset(Preset::Fast),
        How::Training => Compression::Preset(Preset::Training),
        How::Level(level) => Compression::Level(i32::from(level % 12) + 1),
    };
    let encoded = TileEncoder::new(&EncodeOptions { compression, cut }).unwrap().encode(csr.view().unwrap(), n_genes);
    let bytes = match encoded {
        Err(Error::TooManyExceptions { found, allowed, .. }) => {
            assert!(found > allowed && allowed >= 1024);
            return;
        }
        encoded => encoded.unwrap(),
    };
    let tile = Tile::open(&bytes).unwrap();
    let mut decoded = Csr::<i32>::new();
    tile.decode(&mut Decoder::new().unwrap(), &mut decoded).unwrap();
    assert_eq!(decoded, csr);
    let mut plain = Csr::<i32>::new();
    tile.decode(&mut Decoder::new().unwrap().scalar(), &mut plain).unwrap();
    assert_eq!(plain, csr);
    assert_eq!(verify_strict(&tile), []);
});
