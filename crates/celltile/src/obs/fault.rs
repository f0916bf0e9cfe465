//! Short ways to this module's errors.

use crate::error::Error;

/// A part of a file that is not as it should be.
#[allow(clippy::needless_pass_by_value, reason = "numbers and texts alike, as they come")]
pub(super) fn file_fault(
    path: &str,
    what: impl Into<String>,
    found: impl ToString,
    expected: impl ToString,
) -> Error {
    Error::File {
        path: path.to_owned(),
        what: what.into(),
        found: found.to_string(),
        expected: expected.to_string(),
    }
}

/// An argument that makes no sense.
#[allow(clippy::needless_pass_by_value, reason = "numbers and texts alike, as they come")]
pub(super) fn argument(what: &'static str, found: impl ToString, expected: impl ToString) -> Error {
    Error::Argument { what, found: found.to_string(), expected: expected.to_string() }
}
