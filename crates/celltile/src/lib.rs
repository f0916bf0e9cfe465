//! Single-cell count matrices in the deltacells format.

pub mod table;
