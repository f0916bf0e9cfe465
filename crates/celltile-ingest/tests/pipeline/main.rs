//! Conversions of many inputs, shuffled ones, in stages, stopped and resumed: of inputs in memory, held against a slow reference.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "a test fails by panicking"
)]

mod apart;
mod append;
mod in_place;
mod join;
mod memory;
mod order;
mod resume;
mod stages;
mod stale;
