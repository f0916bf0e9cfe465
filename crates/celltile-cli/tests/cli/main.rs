//! The built command, from the outside.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "a test may fail, and its numbers are small"
)]

mod bench;
mod convert;
mod info;
mod interop;
mod interrupt;
mod real;
mod rows;
mod simulate;
mod support;
mod usage;
mod verify;
