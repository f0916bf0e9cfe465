//! Arrays, grids and stores, without other readers.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::manual_is_multiple_of,
    clippy::needless_pass_by_value,
    clippy::print_stderr,
    clippy::single_range_in_vec_init,
    reason = "a test that panics has found something"
)]

mod arrays;
mod changes;
#[path = "../support/dataset.rs"]
mod dataset;
mod import;
mod inspect;
mod kill;
mod serve;
mod stores;
#[path = "../support/support.rs"]
mod support;
