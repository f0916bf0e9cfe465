//! Measurements on this machine, always beside a reference that is measured in the same run.

pub(crate) mod clock;
pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod gather;
