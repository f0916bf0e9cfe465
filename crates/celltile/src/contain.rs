use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Error, Result};

/// Runs a decoder of foreign bytes and turns a panic of it into an error.
///
/// The Parquet and Arrow IPC readers check most of what they read, but not all: a mutation test
/// (`tests/obs_hostile.rs`) finds slices and conversions in them that panic on damaged bytes. Everything that is
/// known to be wrong is refused before they see it; this is for the rest. The closures own what they change, so
/// nothing half-changed is seen afterwards.
pub(crate) fn contained<T>(path: &str, what: &str, decode: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|_| {
        Err(Error::File {
            path: path.to_owned(),
            what: what.to_owned(),
            found: "bytes that the decoder gave up on".to_owned(),
            expected: "undamaged data".to_owned(),
        })
    })
}
