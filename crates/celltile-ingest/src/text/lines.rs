use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use super::TextFile;
use crate::error::{Error, Result};
use crate::matrix::ReadOptions;

/// Bytes inflated at a time.
const PART: usize = 1 << 20;

/// Parts that may wait for whoever reads them.
const AHEAD: usize = 2;

/// The lines of a text, inflated on a thread of their own.
pub(crate) struct Lines {
    file: TextFile,
    parts: Receiver<std::io::Result<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
    /// Text that was not handed out yet.
    text: Vec<u8>,
    from: usize,
    ended: bool,
    /// Bytes of text before `text[from]`.
    offset: u64,
    /// Number of the line that starts at `text[from]`, counted from 1.
    line: u64,
    options: ReadOptions,
    target: usize,
    longest: usize,
}

/// Some complete lines.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) text: Vec<u8>,
    /// Bytes before it.
    pub(crate) offset: u64,
    /// Number of its first line, counted from 1.
    pub(crate) line: u64,
}

impl Lines {
    /// Reads a file from its start. Lines may take a quarter of the memory.
    pub(crate) fn open(file: &TextFile, options: &ReadOptions) -> Result<Self> {
        let (send, parts) = sync_channel(AHEAD);
        let mut text = file.text();
        let reader = std::thread::Builder::new()
            .name("celltile-inflate".into())
            .spawn(move || {
                loop {
                    let mut part = Vec::with_capacity(PART);
                    let result = std::io::Read::take(&mut text, PART as u64);
                    let mut result = result;
                    let result = std::io::Read::read_to_end(&mut result, &mut part);
                    // What came before an error is fine, and is read first.
                    let (ended, failed) = (part.is_empty(), result.err());
                    if !ended && send.send(Ok(part)).is_err() {
                        return;
                    }
                    if let Some(error) = failed {
                        let _ = send.send(Err(error));
                        return;
                    }
                    if ended {
                        return;
                    }
                }
            })
            .map_err(|source| Error::Io {
                path: file.name().into(),
                action: "start a thread for reading",
                source,
            })?;
        let memory = usize::try_from(options.memory).unwrap_or(usize::MAX);
        Ok(Self {
            file: file.clone(),
            parts,
            reader: Some(reader),
            text: Vec::new(),
            from: 0,
            ended: false,
            offset: 0,
            line: 1,
            options: options.clone(),
            target: (memory / 32).clamp(1 << 16, 4 << 20),
            longest: (memory / 4).max(1 << 16),
        })
    }

    /// Adds a part; `false` at the end of the text.
    fn fill(&mut self) -> Result<bool> {
        self.options.check_cancelled()?;
        if self.ended {
            return Ok(false);
        }
        match self.parts.recv() {
            Ok(Ok(part)) => {
                self.text.drain(..self.from);
                self.from = 0;
                self.text.extend_from_slice(&part);
                Ok(true)
            }
            Ok(Err(error)) => {
                self.ended = true;
                let done = self.offset + (self.text.len() - self.from) as u64;
                Err(self.file.error(done, error))
            }
            Err(_) => {
                self.ended = true;
                // A thread that ended in a panic has not read everything.
                if self.reader.take().is_some_and(|reader| reader.join().is_err()) {
                    let what = "the thread that reads the file has failed".into();
                    let at = format!("after {} bytes of text", self.offset);
                    return Err(Error::Damaged { file: self.file.name().to_owned(), at, what });
                }
                Ok(false)
            }
        }
    }

    fn rest(&self) -> &[u8] {
        self.text.get(self.from..).unwrap_or(&[])
    }

    fn too_long(&self, length: usize) -> Error {
        Error::Damaged {
            file: self.file.name().to_owned(),
            at: format!("line {} (byte {})", self.line, self.offset),
            what: format!("no line end in {length} bytes; more memory lets lines be longer"),
        }
    }

    /// The next line without its end: its text, its number and the bytes before it.
    pub(crate) fn next_line(&mut self) -> Result<Option<(Vec<u8>, u64, u64)>> {
        let mut searched = 0;
        loop {
            let found = self.rest().get(searched..).and_then(|rest| rest.iter().position(|&b| b == b'\n'));
            if let Some(at) = found {
                let end = searched + at;
                let line = self.rest().get(..end).unwrap_or(&[]);
                let line = line.strip_suffix(b"\r").unwrap_or(line).to_vec();
                let place = (self.line, self.offset);
                self.from += end + 1;
                self.offset += end as u64 + 1;
                self.line += 1;
                return Ok(Some((line, place.0, place.1)));
            }
            searched = self.rest().len();
            if searched > self.longest {
                return Err(self.too_long(searched));
            }
            if !self.fill()? {
                let line = std::mem::take(&mut self.text).split_off(self.from);
                self.from = 0;
                if line.is_empty() {
                    return Ok(None);
                }
                let place = (self.line, self.offset);
                self.offset += line.len() as u64;
                self.line += 1;
                let line = line.strip_suffix(b"\r").map_or(line.clone(), <[u8]>::to_vec);
                return Ok(Some((line, place.0, place.1)));
            }
        }
    }

    /// The next lines, whole, their ends included; the last one may lack it.
    pub(crate) fn next_batch(&mut self, batch: &mut Batch) -> Result<bool> {
        let mut more = true;
        while more && self.rest().len() < self.target {
            more = self.fill()?;
        }
        let mut end = loop {
            if let Some(at) = self.rest().iter().rposition(|&byte| byte == b'\n') {
                break at + 1;
            }
            if !more {
                break self.rest().len();
            }
            if self.rest().len() > self.longest {
                return Err(self.too_long(self.rest().len()));
            }
            more = self.fill()?;
        };
        if !more {
            end = self.rest().len();
        }
        batch.offset = self.offset;
        batch.line = self.line;
        batch.text.clear();
        batch.text.extend_from_slice(self.rest().get(..end).unwrap_or(&[]));
        self.from += end;
        self.offset += end as u64;
        self.line += count_lines(&batch.text);
        Ok(!batch.text.is_empty())
    }

    /// Bytes of text before the next line.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }
}

/// Line ends in a text.
pub(crate) fn count_lines(text: &[u8]) -> u64 {
    text.iter().fold(0, |lines, &byte| lines + u64::from(byte == b'\n'))
}

impl Batch {
    /// The batch in parts of whole lines, of about `target` bytes.
    pub(crate) fn parts(&self, target: usize) -> Vec<&[u8]> {
        let mut parts = Vec::new();
        let mut rest = self.text.as_slice();
        while !rest.is_empty() {
            let from = target.min(rest.len());
            let end = rest.get(from..).and_then(|after| after.iter().position(|&byte| byte == b'\n'));
            let (part, after) = rest.split_at(end.map_or(rest.len(), |end| from + end + 1));
            parts.push(part);
            rest = after;
        }
        parts
    }

    /// Number and position of the line that `part`, one of [`Batch::parts`], has at an offset.
    pub(crate) fn place(&self, parts: &[&[u8]], part: usize, at: usize) -> (u64, u64) {
        let before: usize = parts.iter().take(part).map(|part| part.len()).sum();
        let at = before + at;
        let lines = count_lines(self.text.get(..at).unwrap_or(&[]));
        (self.line + lines, self.offset + at as u64)
    }
}
