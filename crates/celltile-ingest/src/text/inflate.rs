use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::hdf5::ByteSource;

/// How a file of text is compressed, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    Plain,
    Gzip,
    Zstd,
}

impl Packing {
    /// What the first bytes say; the name of a kind that is not read.
    pub(crate) fn of(start: &[u8]) -> Result<Self, &'static str> {
        match start {
            [0x1f, 0x8b, ..] => Ok(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Ok(Self::Zstd),
            [b'B', b'Z', b'h', ..] => Err("compressed with bzip2"),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Err("compressed with xz"),
            [b'P', b'K', 3 | 5, 4 | 6, ..] => Err("a zip archive"),
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Err("text in UTF-16"),
            _ => Ok(Self::Plain),
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// A file of text: it can be read from its start any number of times.
#[derive(Clone)]
pub(crate) struct TextFile {
    name: String,
    bytes: Arc<dyn ByteSource>,
    packing: Packing,
}

impl std::fmt::Debug for TextFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TextFile")
            .field("name", &self.name)
            .field("packing", &self.packing)
            .finish_non_exhaustive()
    }
}

/// The first bytes of a file, fewer where there are no more.
pub(crate) fn first_bytes(bytes: &dyn ByteSource, count: usize) -> io::Result<Vec<u8>> {
    let count = usize::try_from(bytes.len()).unwrap_or(usize::MAX).min(count);
    let mut start = vec![0; count];
    bytes.read_at(0, &mut start)?;
    Ok(start)
}

impl TextFile {
    /// The file of that name, whose bytes these are.
    pub(crate) fn new(name: String, bytes: Arc<dyn ByteSource>) -> Result<Self> {
        let start = first_bytes(bytes.as_ref(), 8).map_err(|source| Error::Io {
            path: name.clone().into(),
            action: "read",
            source,
        })?;
        let packing = Packing::of(&start).map_err(|found| Error::NotRecognised {
            file: name.clone(),
            found: found.into(),
            expected: "text, plain or compressed with gzip or zstd".into(),
        })?;
        Ok(Self { name, bytes, packing })
    }

    /// A local file.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let bytes = crate::hdf5::open_local(path)?;
        Self::new(path.display().to_string(), bytes)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn packing(&self) -> Packing {
        self.packing
    }

    /// Bytes in the file.
    pub(crate) fn size(&self) -> u64 {
        self.bytes.len()
    }

    /// Bytes of text that the file can hold at most.
    pub(crate) fn most_text(&self) -> u64 {
        match self.packing {
            Packing::Plain => self.size(),
            Packing::Gzip => self.size().saturating_mul(1032),
            // Repeats have no bound there that would help.
            Packing::Zstd => u64::MAX,
        }
    }

    /// Whether its last byte is a line end; of a file that is not compressed.
    pub(crate) fn ends_with_line_end(&self) -> Result<bool> {
        let Some(last) = self.size().checked_sub(1) else { return Ok(false) };
        let mut byte = [0];
        self.bytes.read_at(last, &mut byte).map_err(|error| self.error(last, error))?;
        Ok(byte == *b"\n")
    }

    /// Its text from the start.
    pub(crate) fn text(&self) -> Box<dyn Read + Send> {
        let raw = Positioned { bytes: Arc::clone(&self.bytes), at: 0 };
        match self.packing {
            Packing::Plain => Box::new(raw),
            Packing::Gzip => {
                Box::new(flate2::bufread::MultiGzDecoder::new(BufReader::with_capacity(1 << 18, raw)))
            }
            Packing::Zstd => Box::new(ZstdText::new(raw)),
        }
    }

    /// The start of its text.
    pub(crate) fn start_of_text(&self, most: usize) -> Result<Vec<u8>> {
        let mut start = Vec::new();
        let mut limited = self.text().take(most as u64);
        limited.read_to_end(&mut start).map_err(|error| self.error(start.len() as u64, error))?;
        Ok(start)
    }

    /// What went wrong while reading its text, `done` bytes of which were fine.
    pub(crate) fn error(&self, done: u64, error: io::Error) -> Error {
        let packing = self.packing.name();
        let what = match error.kind() {
            io::ErrorKind::UnexpectedEof if self.packing == Packing::Plain => {
                "shorter than when it was opened".to_owned()
            }
            io::ErrorKind::UnexpectedEof => {
                format!("its {packing} stream ends early: the file is truncated")
            }
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
                format!("its {packing} stream is damaged ({error})")
            }
            _ => return Error::Io { path: self.name.clone().into(), action: "read", source: error },
        };
        Error::Damaged { file: self.name.clone(), at: format!("after {done} bytes of text"), what }
    }
}

/// Bytes read one after the other.
struct Positioned {
    bytes: Arc<dyn ByteSource>,
    at: u64,
}

impl Read for Positioned {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.bytes.len().saturating_sub(self.at);
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let Some(buffer) = buffer.get_mut(..count) else { return Ok(0) };
        self.bytes.read_at(self.at, buffer)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// Zstandard frames, one after the other.
struct ZstdText {
    raw: Positioned,
    context: zstd_safe::DCtx<'static>,
    input: Vec<u8>,
    from: usize,
    /// Inside a frame.
    open: bool,
}

/// Largest window that is accepted: `zstd --long=27`.
const WINDOW_LOG: u32 = 27;

impl ZstdText {
    fn new(raw: Positioned) -> Self {
        let mut context = zstd_safe::DCtx::create();
        // The default is the same; said so that it stays.
        let _ = context.set_parameter(zstd_safe::DParameter::WindowLogMax(WINDOW_LOG));
        Self { raw, context, input: Vec::new(), from: 0, open: false }
    }
}

impl Read for ZstdText {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let mut at_end = false;
            if self.from >= self.input.len() {
                self.input.resize(1 << 18, 0);
                let count = self.raw.read(&mut self.input)?;
                self.input.truncate(count);
                self.from = 0;
                at_end = count == 0;
                if at_end && !self.open {
                    return Ok(0);
                }
            }
            let mut input = zstd_safe::InBuffer::around(self.input.get(self.from..).unwrap_or(&[]));
            let mut output = zstd_safe::OutBuffer::around(&mut *buffer);
            let hint = self.context.decompress_stream(&mut output, &mut input).map_err(|code| {
                io::Error::new(io::ErrorKind::InvalidData, zstd_safe::get_error_name(code))
            })?;
            let (read, written) = (input.pos(), output.pos());
            self.from += read;
            self.open = hint != 0;
            if written > 0 {
                return Ok(written);
            }
            if at_end {
                return if self.open { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(0) };
            }
        }
    }
}
