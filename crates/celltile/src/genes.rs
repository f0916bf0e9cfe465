//! What a dataset says of its genes: where each column came from, and what it is called.
//!
//! The gene table, `var.parquet`, is a table like obs and read with it.

mod npy;
mod order;
mod var_names;
pub mod var_table;

pub use self::order::GeneOrder;
pub use self::var_names::VarNames;
