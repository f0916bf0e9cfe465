use celltile_zarr::{Compression, Cut, StoreOptions};
use clap::{Args, ValueEnum};

/// How a dataset is seen as a Zarr store.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Zarr store")]
pub(crate) struct StoreArgs {
    /// Where the matrix is cut into grid chunks.
    #[arg(long, value_enum, default_value_t, value_name = "WHERE")]
    grid: Grid,
    /// Nonzeros of a grid chunk, at most; what tile chunks are joined up to.
    #[arg(long, value_name = "N", default_value_t = 1 << 20, value_parser = clap::value_parser!(u64).range(1..))]
    grid_nnz: u64,
    /// Compression of chunks: none, zstd or zstd:LEVEL.
    #[arg(long, value_name = "HOW", default_value_t)]
    compress: Compression,
    /// Counts as float32 in place of int32; those above 2^24 are an error then.
    #[arg(long)]
    float32: bool,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Grid {
    /// Between tile chunks.
    #[default]
    TileChunk,
    /// Between tiles.
    Tile,
    /// Every so many nonzeros, for readers that know no other grid.
    Regular,
}

impl StoreArgs {
    pub(crate) fn get(self) -> StoreOptions {
        let cut = match self.grid {
            Grid::TileChunk => Cut::TileChunk { nonzeros: self.grid_nnz },
            Grid::Tile => Cut::Tile,
            Grid::Regular => Cut::Regular { nonzeros: self.grid_nnz },
        };
        StoreOptions::default().cut(cut).compression(self.compress).float32(self.float32)
    }
}
