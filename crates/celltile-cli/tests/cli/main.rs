//! The built command, from the outside.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a test may fail, and its numbers are small"
)]

#[path = "../../../celltile/tests/support/http_server.rs"]
mod http_server;
#[path = "../../../celltile/tests/support/s3_server.rs"]
mod s3_server;

mod bench;
mod bucket;
mod bucket_stages;
mod convert;
mod frames;
mod in_place;
mod info;
mod inputs;
mod interop;
mod interrupt;
mod obs;
mod place;
mod real;
mod rows;
mod simulate;
mod stages;
mod support;
mod usage;
mod verify;
mod zarr;
