//! How our grid gets into an array of zarrs.
//!
//! Every constructor of zarrs' `Array`, the builder's `new_with_chunk_grid` included, makes a grid anew from the metadata and its
//! registry of plugins, where zarrs' own rectilinear grid lists every edge of every run: `[1, 10^12]` ends the process. So
//! the registry holds a plugin of ours that answers to no name at all, except on a thread that is inside [`with_grid`], and
//! then hands out the very grid that was parsed and checked before. Other users of zarrs in the process see no change.

use std::cell::RefCell;
use std::sync::Once;

use zarrs::array::ChunkGrid;
use zarrs::array::chunk_grid::api::{ChunkGridRuntimePlugin, register_chunk_grid};
use zarrs::plugin::PluginCreateError;

use super::RectilinearGrid;

thread_local! {
    static NEXT: RefCell<Option<RectilinearGrid>> = const { RefCell::new(None) };
}

/// Runs `make`, which makes one array of zarrs with a rectilinear grid; that array gets the grid given.
pub(crate) fn with_grid<T>(grid: RectilinearGrid, make: impl FnOnce() -> T) -> T {
    static REGISTER: Once = Once::new();
    REGISTER.call_once(|| {
        let matches = |name: &str| name == "rectilinear" && NEXT.with_borrow(Option::is_some);
        register_chunk_grid(ChunkGridRuntimePlugin::new(matches, |_, _| {
            let grid = NEXT.with_borrow(Clone::clone);
            grid.map(ChunkGrid::new).ok_or_else(|| PluginCreateError::from("no grid was handed over"))
        }));
    });
    let before = NEXT.replace(Some(grid));
    let _restore = Restore(before);
    make()
}

/// Puts the former grid back, also when `make` panics.
struct Restore(Option<RectilinearGrid>);

impl Drop for Restore {
    fn drop(&mut self) {
        NEXT.set(self.0.take());
    }
}
