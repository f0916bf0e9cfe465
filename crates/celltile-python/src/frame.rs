//! Tables as plain parts (lists, NumPy arrays, texts) and back: pandas is the business of the Python side.
//!
//! A column is a dictionary: `name`, `kind` (category, numeric, bool, string) and
//!
//! - category: `codes` (int8 to int32, -1 is missing), `categories` (a list), `dtype` of the categories, `ordered`;
//! - numeric, bool: `values`, `mask` (bool, true where missing; or none), `dtype`, `nullable`;
//! - string: `values` (a list of texts and `None`), `dtype` (object, string, str, fixed).

mod from_python;
mod to_python;

pub(crate) use from_python::from_python;
pub(crate) use to_python::to_python;
