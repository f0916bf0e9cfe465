//! What the user sees: progress on standard error, numbers that people can read.

mod number;
mod progress;
mod table;

pub(crate) use number::{bytes, count, decimal, duration, percent};
pub(crate) use progress::{Progress, ProgressMode, Stages};
pub(crate) use table::Table;
