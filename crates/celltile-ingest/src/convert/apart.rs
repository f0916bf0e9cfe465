use std::path::Path;

use celltile::storage::{Storage, is_url, open_storage};

use super::options::ConvertOptions;
use crate::error::Result;

/// Refuses an output that is an input, lies in one or holds one: clearing the place for it, or clearing it away later, would
/// take from what is read.
pub(super) fn check<'a>(
    storage: &dyn Storage,
    inputs: impl IntoIterator<Item = &'a str>,
    options: &ConvertOptions,
) -> Result<()> {
    let Some(output) = storage.place() else { return Ok(()) };
    for input in inputs {
        // What is no file (a table in memory, say) is nothing that an output could be.
        if !is_url(input) && !Path::new(input).exists() {
            continue;
        }
        let place = open_storage(input, &options.inputs_remote).ok().and_then(|input| input.place());
        if place.is_some_and(|input| input.overlaps(&output)) {
            let reason = format!("{input} is an input, and the output would be it, in it or around it");
            return Err(celltile::Error::Occupied { path: storage.locate(""), reason }.into());
        }
    }
    Ok(())
}
