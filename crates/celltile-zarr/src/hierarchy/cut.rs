//! Where the nonzeros of a dataset are cut into grid chunks.

use std::ops::Range;

use celltile::Dataset;
use celltile_grid::{Axis, Grid};

use crate::error::{Result, ZarrError};
use crate::spec::GridForm;

/// How `data` and `indices` of the exported matrix are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// One grid chunk a tile.
    Tile,
    /// Neighbouring tile chunks joined while they hold at most so many nonzeros, never across a tile's end.
    TileChunk {
        /// Nonzeros a grid chunk.
        nonzeros: u64,
    },
    /// Chunks of equal length, for readers that know no other grid.
    Regular {
        /// Nonzeros a grid chunk.
        nonzeros: u64,
    },
}

impl Default for Cut {
    /// Tile chunks joined up to 1 Mi nonzeros: readers fetch whole chunks, so that larger ones make slices slow.
    fn default() -> Self {
        Self::TileChunk { nonzeros: 1 << 20 }
    }
}

/// Consecutive cells whose nonzeros are one grid chunk, or hold it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    /// The cells.
    pub(crate) cells: Range<u64>,
    /// Those of the cells' nonzeros that are the chunk's.
    pub(crate) within: Range<u64>,
}

/// All grid chunks of a dataset's nonzeros.
#[derive(Debug)]
pub(crate) struct Parts {
    cut: Cut,
    /// Cells of each grid chunk; none with [`Cut::Regular`].
    cells: Vec<Range<u64>>,
    /// Nonzeros before each tile, and of all.
    tile_starts: Vec<u64>,
    grid: Grid,
}

impl Parts {
    /// Reads the chunk tables of all tiles, if the cut follows them.
    pub(crate) fn new(dataset: &Dataset, cut: Cut) -> Result<Self> {
        let mut tile_starts = vec![0_u64];
        for &nnz in &dataset.manifest().tile_nnz {
            let start = tile_starts.last().copied().unwrap_or_default();
            tile_starts.push(start.checked_add(nnz).ok_or_else(|| fault("more than 2^64 - 1 nonzeros"))?);
        }
        let total = tile_starts.last().copied().unwrap_or_default();
        let mut cells = Vec::new();
        let mut edges = Vec::new();
        let mut add = |range: Range<u64>, nonzeros: u64| {
            if nonzeros > 0 {
                cells.push(range);
                edges.push(nonzeros);
            }
        };
        match cut {
            Cut::Tile => {
                for (tile, &nnz) in (0..).zip(&dataset.manifest().tile_nnz) {
                    add(dataset.tile_cells(tile)?, nnz);
                }
            }
            Cut::TileChunk { nonzeros } => {
                for tile in 0..dataset.n_tiles() {
                    join_chunks(dataset, tile, nonzeros, &mut add)?;
                }
            }
            Cut::Regular { .. } => {}
        }
        let edge = match cut {
            Cut::Tile => 1,
            Cut::TileChunk { nonzeros } | Cut::Regular { nonzeros } => nonzeros.max(1),
        };
        // Edges are at least 1, so a list of none cannot be written; the integer form can.
        let axis = if edges.is_empty() { Axis::regular(total, edge) } else { Axis::from_edges(edges) };
        let grid = Grid::new(vec![axis.map_err(ZarrError::grid("/X/data"))?]);
        Ok(Self { cut, cells, tile_starts, grid })
    }

    pub(crate) fn grid(&self) -> &Grid {
        &self.grid
    }

    pub(crate) fn form(&self) -> GridForm {
        match self.cut {
            Cut::Regular { .. } => GridForm::Regular,
            Cut::Tile | Cut::TileChunk { .. } => GridForm::Rectilinear,
        }
    }

    /// Nonzeros before each tile, and of all.
    pub(crate) fn tile_starts(&self) -> &[u64] {
        &self.tile_starts
    }

    /// Number of grid chunks.
    pub(crate) fn len(&self) -> u64 {
        self.grid.axes().first().map_or(0, Axis::n_active)
    }

    /// The cells of a grid chunk.
    pub(crate) fn part(&self, dataset: &Dataset, chunk: u64) -> Result<Part> {
        let axis = self.grid.axes().first().ok_or_else(|| fault("no axis"))?;
        let place = axis.chunk(chunk).map_err(ZarrError::grid("/X/data"))?;
        let cells = usize::try_from(chunk).ok().and_then(|chunk| self.cells.get(chunk));
        if let Some(cells) = cells {
            return Ok(Part { cells: cells.clone(), within: 0..place.clipped });
        }
        let nonzeros = place.origin..place.origin.saturating_add(place.clipped);
        let (first, before) = self.cell_of(dataset, nonzeros.start)?;
        let (last, _) = self.cell_of(dataset, nonzeros.end.saturating_sub(1))?;
        let skip = nonzeros.start.saturating_sub(before);
        Ok(Part { cells: first..last.saturating_add(1), within: skip..skip.saturating_add(place.clipped) })
    }

    /// The cell of a nonzero, and the number of nonzeros before that cell.
    fn cell_of(&self, dataset: &Dataset, nonzero: u64) -> Result<(u64, u64)> {
        let tile = self.tile_starts.partition_point(|&start| start <= nonzero).saturating_sub(1);
        let start = self.tile_starts.get(tile).copied().unwrap_or_default();
        let tile = tile as u64;
        let head = dataset.tile_head(tile)?;
        let local = i64::try_from(nonzero.saturating_sub(start)).unwrap_or(i64::MAX);
        let row = head.indptr().partition_point(|&offset| offset <= local).saturating_sub(1);
        let before = head.indptr().get(row).copied().unwrap_or_default().unsigned_abs();
        Ok((dataset.tile_cells(tile)?.start.saturating_add(row as u64), start.saturating_add(before)))
    }
}

/// Joins a tile's chunks.
fn join_chunks(dataset: &Dataset, tile: u64, most: u64, add: &mut impl FnMut(Range<u64>, u64)) -> Result<()> {
    let first = dataset.tile_cells(tile)?.start;
    let head = dataset.tile_head(tile)?;
    let (mut open, mut nonzeros) = (first..first, 0_u64);
    for chunk in 0..head.n_chunks() {
        let cells = head.chunk_cells(chunk).map_err(|error| fault(&error.to_string()))?;
        let offset = |row: usize| head.indptr().get(row).copied().unwrap_or_default().unsigned_abs();
        let more = offset(cells.end).saturating_sub(offset(cells.start));
        if nonzeros > 0 && nonzeros.saturating_add(more) > most {
            add(open.clone(), nonzeros);
            (open, nonzeros) = (open.end..open.end, 0);
        }
        open.end = first.saturating_add(cells.end as u64);
        nonzeros = nonzeros.saturating_add(more);
    }
    add(open, nonzeros);
    Ok(())
}

fn fault(reason: &str) -> ZarrError {
    ZarrError::metadata("/X", reason)
}
