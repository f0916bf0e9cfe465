//! Converts what other tools write to deltacells datasets, and back.
