//! Inputs that broke other tools, and what this crate makes of them: a module a section of the list of cases, a test a case.
//! `make.py` writes them with raw h5py and as text, in the Python that `CELLTILE_TEST_PYTHON` names; without it these tests
//! do nothing.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod containers;
mod conversion;
mod damage;
#[path = "../../../celltile/tests/support/http_server.rs"]
mod http_server;
mod matrices;
mod remote;
#[path = "../../../celltile/tests/support/s3_server.rs"]
mod s3_server;
mod support;
mod tables;
mod texts;
mod tiles;
mod values;
