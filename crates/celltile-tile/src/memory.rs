//! Memory that is asked for, not assumed: a length from a file may be more than there is.

use crate::error::{Error, Result};

/// Takes memory for `more` elements, or says that there is not so much.
pub(crate) fn reserve<T>(buffer: &mut Vec<T>, more: usize) -> Result<()> {
    let bytes = (more as u64).saturating_mul(size_of::<T>() as u64);
    buffer.try_reserve(more).map_err(|_| Error::OutOfMemory { bytes })
}

/// Makes a buffer `len` long. Elements that were there stay, new ones are zero.
pub(crate) fn resize<T: Copy + Default>(buffer: &mut Vec<T>, len: usize) -> Result<()> {
    reserve(buffer, len.saturating_sub(buffer.len()))?;
    buffer.resize(len, T::default());
    Ok(())
}

/// Makes a buffer at least `len` long, and never shorter.
pub(crate) fn grow<T: Copy + Default>(buffer: &mut Vec<T>, len: usize) -> Result<()> {
    if buffer.len() < len { resize(buffer, len) } else { Ok(()) }
}
