//! Reads the integers of an `.npz` file, as `numpy.savez_compressed` writes it. Enough for the test cases.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use zip::ZipArchive;

/// The values of the array `name`, in order.
pub(crate) fn integers(path: &Path, name: &str) -> Vec<i64> {
    let mut archive = ZipArchive::new(File::open(path).unwrap()).unwrap();
    let mut bytes = Vec::new();
    archive.by_name(&format!("{name}.npy")).unwrap().read_to_end(&mut bytes).unwrap();
    assert_eq!(&bytes[..7], b"\x93NUMPY\x01", "{}: {name} is not a version 1 npy", path.display());
    let header_end = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = std::str::from_utf8(&bytes[10..header_end]).unwrap();
    let data = &bytes[header_end..];
    if header.contains("'<i8'") {
        data.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b)).collect()
    } else if header.contains("'<i4'") {
        data.as_chunks().0.iter().map(|b| i64::from(i32::from_le_bytes(*b))).collect()
    } else {
        panic!("{}: {name} has another type: {header}", path.display());
    }
}
