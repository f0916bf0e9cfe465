//! The obs table: written, read back, cached, damaged.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::cast_lossless,
    clippy::cast_precision_loss,
    reason = "small numbers of the tests' own"
)]

mod cache;
mod dataset;
mod hostile;
mod measure;
mod python;
mod round_trip;
mod tables;
mod unify;
mod var_table;
mod verify;
