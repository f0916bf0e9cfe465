//! What each preset costs and gives, beside zstd level 19 with 8 tile chunks, on one thread.

use celltile::{ChunkCut, Compression, Csr, EncodeOptions, Preset};
use celltile_tile::TileEncoder;

use super::clock::{Times, time};
use crate::failure::Failure;

/// One way to encode a tile.
pub(crate) struct Way {
    pub(crate) name: String,
    options: EncodeOptions,
    /// Bytes of the tile.
    pub(crate) bytes: u64,
    pub(crate) times: Times,
}

impl Way {
    fn new(name: &str, compression: Compression, cut: ChunkCut) -> Self {
        Self {
            name: name.to_owned(),
            options: EncodeOptions { compression, cut },
            bytes: 0,
            times: Times::default(),
        }
    }
}

/// Encodes a tile in each way. The first of the result is the reference, which is so slow that one round must do.
pub(crate) fn measure(cells: &Csr, n_genes: u32, rounds: usize) -> Result<Vec<Way>, Failure> {
    let mut ways = vec![Way::new("level 19, 8 chunks", Compression::Level(19), ChunkCut::Count(8))];
    ways.extend(
        Preset::ALL.map(|preset| Way::new(preset.name(), Compression::Preset(preset), ChunkCut::default())),
    );
    let balanced = Compression::Preset(Preset::Balanced);
    ways.push(Way::new("balanced, 1 cell a chunk", balanced, ChunkCut::Cells(1)));
    for round in 0..rounds {
        for way in ways.iter_mut().skip(usize::from(round > 0)) {
            let mut encoder = TileEncoder::new(&way.options)?;
            let (took, tile) = time(|| encoder.encode(cells.view()?, n_genes));
            way.bytes = tile?.len() as u64;
            way.times.push(took);
        }
    }
    Ok(ways)
}
