//! Files of our own cache, mapped into memory.
//!
//! Only those: they are written under a temporary name, renamed and never changed, while a tile that somebody
//! shortens under a reader would kill the process.

#![allow(unsafe_code, reason = "mapping a file has no safe form")]

use std::fs::File;
use std::io;

use bytes::Bytes;
use memmap2::Mmap;

/// The file's bytes, read from the disk as they are used. They stay valid after the file is closed or removed.
///
/// # Errors
/// What the system reports.
pub(crate) fn map(file: &File) -> io::Result<Bytes> {
    if file.metadata()?.len() == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY: the file is one of our cache. This crate never writes to or shortens a file that has its final name,
    // it replaces it by renaming, which leaves the mapped one as it is.
    let map = unsafe { Mmap::map(file) }?;
    Ok(Bytes::from_owner(map))
}
