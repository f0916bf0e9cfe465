//! Files of text, plain or compressed, read as lines in large batches: nothing is held whole, and positions have 64 bits.

mod inflate;
mod lines;
mod list;
mod number;

pub(crate) use inflate::{Packing, TextFile};
pub(crate) use lines::{Batch, Lines};
pub(crate) use list::read_list;
pub(crate) use number::{Number, digits, number};
