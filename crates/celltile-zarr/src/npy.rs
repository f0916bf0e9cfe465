//! Elements in NumPy's NPY files.

use zarrs::plugin::ExtensionName as _;

use crate::array::ZarrArray;
use crate::error::{Result, ZarrError};

/// The elements of an NPY file, in C order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Npy<'a> {
    /// NumPy's name of their type, with its byte order: `<i4`.
    pub(crate) descr: String,
    pub(crate) shape: Vec<u64>,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Npy<'a> {
    /// Reads versions 1.0 to 3.0, or says what is wrong.
    pub(crate) fn parse(file: &'a [u8]) -> std::result::Result<Self, String> {
        let rest = file.strip_prefix(b"\x93NUMPY").ok_or("not an NPY file")?;
        let (version, rest) = rest.split_first_chunk::<2>().ok_or("cut short")?;
        let (length, rest) = match version {
            [1, _] => {
                let (length, rest) = rest.split_first_chunk::<2>().ok_or("cut short")?;
                (usize::from(u16::from_le_bytes(*length)), rest)
            }
            [2 | 3, _] => {
                let (length, rest) = rest.split_first_chunk::<4>().ok_or("cut short")?;
                (usize::try_from(u32::from_le_bytes(*length)).map_err(|_| "a header too long")?, rest)
            }
            [major, minor] => return Err(format!("version {major}.{minor}, expected 1.0 to 3.0")),
        };
        let (header, bytes) = rest.split_at_checked(length).ok_or("cut short")?;
        let header = std::str::from_utf8(header).map_err(|_| "a header that is not text")?;
        let descr = value(header, "descr").and_then(quoted).ok_or("no descr in the header")?;
        let order = value(header, "fortran_order").ok_or("no fortran_order in the header")?;
        if !order.starts_with("False") {
            return Err("Fortran order; save it with numpy.ascontiguousarray".to_owned());
        }
        let shape = value(header, "shape").and_then(tuple).ok_or("no shape in the header")?;
        Ok(Self { descr, shape, bytes })
    }

    /// The bytes, if they are elements of an array's type, every edge but that of `axis` its own; and that edge.
    pub(crate) fn block<S: ?Sized>(&self, array: &ZarrArray<S>, axis: usize) -> Result<(u64, &'a [u8])> {
        let mismatch = |what, found: String, expected: String| ZarrError::Mismatch {
            node: array.path().to_owned(),
            what,
            found,
            expected,
        };
        let name = array.array().data_type().name_v3().unwrap_or_default();
        let wanted = descr(&name).ok_or_else(|| {
            ZarrError::metadata(
                array.path(),
                format!("has elements of type {name}, which no NPY file of ours holds"),
            )
        })?;
        if !wanted.contains(&self.descr.as_str()) {
            let expected = format!("{} ({name})", wanted.join(" or "));
            return Err(mismatch("the block's type", self.descr.clone(), expected));
        }
        let mut shape = array.grid().shape();
        let length = self.shape.get(axis).copied();
        if let (Some(edge), Some(length)) = (shape.get_mut(axis), length) {
            *edge = length;
        }
        match length {
            Some(length) if shape == self.shape => Ok((length, self.bytes)),
            _ => {
                let expected = format!("{:?} but for axis {axis}", array.grid().shape());
                Err(mismatch("the block's shape", format!("{:?}", self.shape), expected))
            }
        }
    }
}

/// NumPy's names of a type of Zarr, this machine's byte order.
fn descr(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        "bool" => &["|b1"],
        "int8" => &["|i1"],
        "int16" => &["<i2"],
        "int32" => &["<i4"],
        "int64" => &["<i8"],
        "uint8" => &["|u1"],
        "uint16" => &["<u2"],
        "uint32" => &["<u4"],
        "uint64" => &["<u8"],
        "float16" => &["<f2"],
        "float32" => &["<f4"],
        "float64" => &["<f8"],
        _ => return None,
    })
}

/// What follows a key of the header's dict.
fn value<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    let quoted = [format!("'{key}'"), format!("\"{key}\"")];
    let (at, length) =
        quoted.iter().find_map(|quoted| Some((header.find(quoted.as_str())?, quoted.len())))?;
    Some(header.get(at.checked_add(length)?..)?.trim_start().strip_prefix(':')?.trim_start())
}

fn quoted(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let inner = text.strip_prefix(quote)?;
    Some(inner.split_once(quote)?.0.to_owned())
}

fn tuple(text: &str) -> Option<Vec<u64>> {
    let (inner, _) = text.strip_prefix('(')?.split_once(')')?;
    let parts = inner.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, bytes: &[u8]) -> Vec<u8> {
        let mut file = b"\x93NUMPY\x01\x00".to_vec();
        file.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
        file.extend(header.as_bytes());
        file.extend(bytes);
        file
    }

    #[test]
    fn headers_are_read_and_wrong_ones_refused() {
        let good = file("{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }   \n", &[0; 24]);
        let npy = Npy::parse(&good).unwrap();
        assert_eq!(
            (npy.descr.as_str(), npy.shape.as_slice(), npy.bytes.len()),
            ("<i4", [2, 3].as_slice(), 24)
        );
        let scalar = file("{'descr': '<i4', 'fortran_order': False, 'shape': (), }\n", &[0; 4]);
        assert_eq!(Npy::parse(&scalar).unwrap().shape, [] as [u64; 0]);
        for wrong in [
            file("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }\n", &[0; 24]),
            file("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (2,), }\n", &[0; 8]),
            file("{'descr': '<i4', 'fortran_order': False, 'shape': (2, -3), }\n", &[]),
            file("{'fortran_order': False}\n", &[]),
            b"\x93NUMPY\x01\x00\xff\xff{".to_vec(),
            b"\x93NUMPY\x09\x00".to_vec(),
            b"PK".to_vec(),
            Vec::new(),
        ] {
            assert!(Npy::parse(&wrong).is_err(), "{wrong:?}");
        }
        for at in 0..good.len() - 24 {
            assert!(Npy::parse(&good[..at]).is_err(), "cut at {at}");
        }
    }
}
