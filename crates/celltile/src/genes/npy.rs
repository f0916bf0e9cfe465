//! NPY files of one axis of integers, as NumPy's `save` writes them.

/// The first bytes of every NPY file.
const MAGIC: &[u8] = b"\x93NUMPY";
/// NumPy pads the header so that the numbers start on a multiple of this.
const ALIGNMENT: usize = 64;

/// What is wrong with a file: the part, what was found, what was expected.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) what: &'static str,
    pub(super) found: String,
    pub(super) expected: String,
}

fn problem<T>(
    what: &'static str,
    found: impl Into<String>,
    expected: impl Into<String>,
) -> Result<T, Problem> {
    Err(Problem { what, found: found.into(), expected: expected.into() })
}

/// A version 1.0 file of int32 numbers, as `numpy.save` writes it.
pub(super) fn write(numbers: &[i32]) -> Vec<u8> {
    let mut header = format!("{{'descr': '<i4', 'fortran_order': False, 'shape': ({},), }}", numbers.len());
    // Magic, version and length take 10 bytes, the final newline one.
    let unpadded = header.len().saturating_add(11);
    let padding = unpadded.next_multiple_of(ALIGNMENT).saturating_sub(unpadded);
    header.extend(std::iter::repeat_n(' ', padding));
    header.push('\n');
    let length = u16::try_from(header.len()).unwrap_or(u16::MAX);

    let mut file = MAGIC.to_vec();
    file.extend([1, 0]);
    file.extend(length.to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    file
}

/// The numbers of a file of one axis, of any integer type and version. Takes no more than a small multiple of the
/// file's own size.
pub(super) fn read(file: &[u8]) -> Result<Vec<i128>, Problem> {
    let (header, data) = split(file)?;
    let Some(fields) = Header::parse(header) else {
        return problem("header", shown(header), "a dict of 'descr', 'fortran_order' and 'shape'");
    };
    let Some(number) = Number::parse(&fields.descr) else {
        return problem("dtype", fields.descr, "an integer type, as '<i4'");
    };
    let [length] = fields.shape.as_slice() else {
        return problem("shape", format!("{} axes", fields.shape.len()), "one axis");
    };
    let expected = length.checked_mul(number.bytes as u64);
    if expected != u64::try_from(data.len()).ok() {
        return problem(
            "numbers",
            format!("{} bytes", data.len()),
            format!("{length} of {} bytes", number.bytes),
        );
    }
    Ok(data.chunks_exact(number.bytes).map(|bytes| number.read(bytes)).collect())
}

/// Header text and data.
fn split(file: &[u8]) -> Result<(&[u8], &[u8]), Problem> {
    let Some(rest) = file.strip_prefix(MAGIC) else {
        return problem("first bytes", shown(file.get(..6).unwrap_or(file)), "\\x93NUMPY");
    };
    let parts = match rest {
        [1, _, a, b, rest @ ..] => rest.split_at_checked(usize::from(u16::from_le_bytes([*a, *b]))),
        [2 | 3, _, a, b, c, d, rest @ ..] => usize::try_from(u32::from_le_bytes([*a, *b, *c, *d]))
            .ok()
            .and_then(|length| rest.split_at_checked(length)),
        _ => return problem("version", shown(rest.get(..2).unwrap_or(rest)), "1, 2 or 3"),
    };
    parts.map_or_else(|| problem("header", "the end of the file", "all of the header"), Ok)
}

fn shown(bytes: &[u8]) -> String {
    bytes.get(..80).unwrap_or(bytes).escape_ascii().to_string()
}

/// An integer type.
struct Number {
    bytes: usize,
    signed: bool,
    big_endian: bool,
}

impl Number {
    fn parse(descr: &str) -> Option<Self> {
        let mut characters = descr.chars();
        let order = characters.next()?;
        let signed = match characters.next()? {
            'i' => true,
            'u' => false,
            _ => return None,
        };
        let bytes = match characters.as_str() {
            "1" => 1,
            "2" => 2,
            "4" => 4,
            "8" => 8,
            _ => return None,
        };
        let big_endian = match order {
            '<' => false,
            '>' => true,
            '|' if bytes == 1 => false,
            _ => return None,
        };
        Some(Self { bytes, signed, big_endian })
    }

    fn read(&self, bytes: &[u8]) -> i128 {
        let push = |number: i128, byte: &u8| (number << 8) | i128::from(*byte);
        let number =
            if self.big_endian { bytes.iter().fold(0, push) } else { bytes.iter().rev().fold(0, push) };
        let sign_bit = 1_i128 << (8 * self.bytes - 1);
        if self.signed && number & sign_bit != 0 { number - 2 * sign_bit } else { number }
    }
}

/// The header: a Python dict with these three keys.
struct Header {
    descr: String,
    shape: Vec<u64>,
}

impl Header {
    fn parse(header: &[u8]) -> Option<Self> {
        let mut text = Text(std::str::from_utf8(header).ok()?);
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        text.eat("{")?;
        while !text.is_next("}") {
            let key = text.string()?;
            text.eat(":")?;
            let first = match key {
                "descr" => descr.replace(text.string()?.to_owned()).is_none(),
                "fortran_order" => fortran_order.replace(text.boolean()?).is_none(),
                "shape" => shape.replace(text.tuple()?).is_none(),
                _ => false,
            };
            if !first {
                return None;
            }
            if !text.is_next("}") {
                text.eat(",")?;
            }
        }
        text.eat("}")?;
        // With one axis both orders are the same.
        fortran_order?;
        text.0.trim().is_empty().then_some(Self { descr: descr?, shape: shape? })
    }
}

/// What is left of a header.
struct Text<'a>(&'a str);

impl<'a> Text<'a> {
    fn is_next(&self, token: &str) -> bool {
        self.0.trim_start().starts_with(token)
    }

    fn eat(&mut self, token: &str) -> Option<()> {
        self.0 = self.0.trim_start().strip_prefix(token)?;
        Some(())
    }

    fn string(&mut self) -> Option<&'a str> {
        let text = self.0.trim_start();
        let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
        let (string, rest) = text.strip_prefix(quote)?.split_once(quote)?;
        self.0 = rest;
        Some(string)
    }

    fn boolean(&mut self) -> Option<bool> {
        let value = self.is_next("True");
        self.eat(if value { "True" } else { "False" })?;
        Some(value)
    }

    fn tuple(&mut self) -> Option<Vec<u64>> {
        self.eat("(")?;
        let (inside, rest) = self.0.split_once(')')?;
        self.0 = rest;
        let inside = inside.trim();
        if inside.is_empty() {
            return Some(Vec::new());
        }
        let inside = inside.strip_suffix(',').unwrap_or(inside);
        // Python 2 wrote `3L`.
        inside.split(',').map(|n| n.trim().trim_end_matches('L').parse().ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{read, write};

    #[test]
    fn test_write_is_what_numpy_writes() {
        // numpy.save of numpy.array([2, 0, 1], dtype="<i4")
        let mut expected =
            b"\x93NUMPY\x01\x00v\x00{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }".to_vec();
        expected.extend(std::iter::repeat_n(b' ', 127 - expected.len()));
        expected.push(b'\n');
        expected.extend([2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(write(&[2, 0, 1]), expected);
    }

    #[test]
    fn test_read_takes_every_integer_type_and_version() {
        let file = |version: u8, descr: &str, data: &[u8]| {
            let header = format!("{{\"shape\": (2L,), 'fortran_order': True, 'descr': '{descr}'}}  \n");
            let mut file = b"\x93NUMPY".to_vec();
            file.extend([version, 0]);
            match version {
                1 => file.extend(u16::try_from(header.len()).unwrap().to_le_bytes()),
                _ => file.extend(u32::try_from(header.len()).unwrap().to_le_bytes()),
            }
            file.extend(header.as_bytes());
            file.extend(data);
            read(&file)
        };
        assert_eq!(
            file(1, "<i8", &[[254, 255, 255, 255, 255, 255, 255, 255], [1, 0, 0, 0, 0, 0, 0, 0]].concat())
                .unwrap(),
            [-2, 1]
        );
        assert_eq!(file(2, ">u2", &[1, 0, 255, 255]).unwrap(), [256, 65535]);
        assert_eq!(file(3, "|i1", &[128, 127]).unwrap(), [-128, 127]);
        assert_eq!(file(1, "<f4", &[0; 8]).unwrap_err().what, "dtype");
        assert_eq!(file(1, "<i4", &[0; 7]).unwrap_err().what, "numbers");
        assert_eq!(file(4, "<i4", &[0; 8]).unwrap_err().what, "version");
    }

    #[test]
    fn test_read_survives_every_damaged_and_cut_file() {
        let file = write(&[5, 6, 7]);
        for at in 0..file.len() {
            assert!(read(&file[..at]).is_err());
            for mask in [1, 0x20, 0x80] {
                let mut damaged = file.clone();
                damaged[at] ^= mask;
                let _ = read(&damaged);
            }
        }
    }
}
