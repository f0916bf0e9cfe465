//! How our grid gets into an array of zarrs.
//!
//! Every constructor of zarrs' `Array`, the builder's `new_with_chunk_grid` included, makes a grid anew from the metadata by asking its
//! registry of plugins, where zarrs' own rectilinear grid lists every edge of every run: `[1, 10^12]` ends the process. So,
//! for as long as one array is being made, the registry holds a plugin of ours that hands out the very grid that was
//! parsed and checked before. It answers on the thread that makes the array and on no other, and is gone afterwards:
//! other users of zarrs in the process see no change.

use std::cell::RefCell;

use zarrs::array::ChunkGrid;
use zarrs::array::chunk_grid::api::{
    ChunkGridRuntimePlugin, ChunkGridRuntimeRegistryHandle, register_chunk_grid, unregister_chunk_grid,
};
use zarrs::plugin::PluginCreateError;

use super::RectilinearGrid;

thread_local! {
    static NEXT: RefCell<Option<RectilinearGrid>> = const { RefCell::new(None) };
}

/// Runs `make`, which makes one array of zarrs with a rectilinear grid; that array gets the grid given.
pub(crate) fn with_grid<T>(grid: RectilinearGrid, make: impl FnOnce() -> T) -> T {
    let matches = |name: &str| name == "rectilinear" && NEXT.with_borrow(Option::is_some);
    let plugin = ChunkGridRuntimePlugin::new(matches, |_, _| {
        let grid = NEXT.with_borrow(Clone::clone);
        grid.map(ChunkGrid::new).ok_or_else(|| PluginCreateError::from("no grid was handed over"))
    });
    let before = NEXT.replace(Some(grid));
    let _restore = Restore { before, plugin: register_chunk_grid(plugin) };
    make()
}

/// Takes the plugin away and puts the former grid back, also when `make` panics.
struct Restore {
    before: Option<RectilinearGrid>,
    plugin: ChunkGridRuntimeRegistryHandle,
}

impl Drop for Restore {
    fn drop(&mut self) {
        unregister_chunk_grid(&self.plugin);
        NEXT.set(self.before.take());
    }
}
