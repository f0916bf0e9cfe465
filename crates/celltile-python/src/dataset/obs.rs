//! Columns of obs of some cells: only the tiles that hold them are looked at.

use celltile::Dataset;
use celltile::obs::Cache;
use celltile::table::Table;

use crate::error::Result;

/// The columns of the cells named, in their order.
pub(super) fn of_cells(
    dataset: &Dataset,
    columns: &[String],
    cache: &Cache,
    mut cells: Vec<u64>,
) -> Result<Table> {
    let obs = dataset.obs_from(columns, cache)?;
    // The categories of such a column are found in all of its values.
    let folded = obs.columns().iter().any(|column| column.meta().folded.is_some());
    let obs = if folded {
        obs
    } else {
        let mut tiles = Vec::with_capacity(cells.len());
        for &cell in &cells {
            tiles.push(dataset.locate(cell)?.0);
        }
        tiles.sort_unstable();
        tiles.dedup();
        let mut rows = 0_u64;
        let mut starts = Vec::with_capacity(tiles.len());
        let mut numbers = Vec::with_capacity(tiles.len());
        for &tile in &tiles {
            let range = dataset.tile_cells(tile)?;
            starts.push(rows);
            rows = rows.saturating_add(range.end.saturating_sub(range.start));
            numbers.push(usize::try_from(tile).unwrap_or(usize::MAX));
        }
        for cell in &mut cells {
            let (tile, within) = dataset.locate(*cell)?;
            let at = tiles.binary_search(&tile).unwrap_or_default();
            *cell = starts.get(at).copied().unwrap_or_default().saturating_add(within);
        }
        obs.of_tiles(&numbers, rows)?
    };
    let table = obs.to_table()?.take(&cells);
    Ok(table.map_err(|source| celltile::Error::Table { path: "obs".to_owned(), source: Box::new(source) })?)
}
