//! The one thing the format asks of the host: that it is little-endian.

use crate::error::{Error, Result};

/// Byte order of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByteOrder {
    Little,
    #[cfg_attr(
        target_endian = "little",
        allow(dead_code, reason = "made only on a big-endian host and in tests")
    )]
    Big,
}

#[cfg(target_endian = "little")]
pub(crate) const HOST: ByteOrder = ByteOrder::Little;
#[cfg(not(target_endian = "little"))]
pub(crate) const HOST: ByteOrder = ByteOrder::Big;

/// Readers and writers refuse big-endian hosts ("File format", first paragraph).
pub(crate) fn check(order: ByteOrder) -> Result<()> {
    match order {
        ByteOrder::Little => Ok(()),
        ByteOrder::Big => Err(Error::BigEndianHost),
    }
}

#[cfg(test)]
mod tests {
    use super::{ByteOrder, check};
    use crate::error::Error;

    #[test]
    fn test_check_refuses_big_endian_only() {
        assert!(check(ByteOrder::Little).is_ok());
        assert!(matches!(check(ByteOrder::Big), Err(Error::BigEndianHost)));
    }
}
