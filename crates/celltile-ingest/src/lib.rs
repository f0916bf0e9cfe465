//! Converts what other tools write to deltacells datasets, and back.

pub mod simulate;
