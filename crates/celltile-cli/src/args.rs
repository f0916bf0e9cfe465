//! Values of arguments that more than one command takes.

mod reading;
mod store;

pub(crate) mod conversion;
pub(crate) mod dataset;

use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::Args;

pub(crate) use self::reading::{Reading, SpillArgs, openers};
pub(crate) use self::store::StoreArgs;
use crate::failure::Failure;

/// How many threads.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Threads {
    /// Threads to use, at most four for each of the machine's; as many as the machine has if not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    threads: Option<u32>,
}

impl Threads {
    /// The number asked for, or that of the machine. Results do not depend on it; some thousands would only wait for
    /// each other, or exhaust the system.
    pub(crate) fn get(self) -> usize {
        let machine = std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.map_or(machine, |threads| {
            usize::try_from(threads).unwrap_or(usize::MAX).min(machine.saturating_mul(4))
        })
    }

    /// As [`Threads::get`], if a number was asked for.
    pub(crate) fn number(self) -> Option<NonZeroUsize> {
        self.threads.and_then(|_| NonZeroUsize::new(self.get()))
    }

    /// Runs something that uses the current pool of threads, with a pool of that many.
    pub(crate) fn run<T: Send>(self, what: impl FnOnce() -> T + Send) -> Result<T, Failure> {
        Ok(rayon::ThreadPoolBuilder::new().num_threads(self.get()).build()?.install(what))
    }
}

/// The file or folder to write.
#[derive(Debug, Clone, Args)]
pub(crate) struct Target {
    /// The file to write; of an export to mtx the folder.
    #[arg(short, long, value_name = "FILE.h5ad")]
    output: PathBuf,
    /// Replace a file that is there already.
    #[arg(long)]
    overwrite: bool,
}

impl Target {
    /// The path.
    pub(crate) fn path(&self) -> &Path {
        &self.output
    }

    /// Whether what is there may be replaced.
    pub(crate) fn overwrites(&self) -> bool {
        self.overwrite
    }

    /// The path, if nothing is there that may not be replaced.
    pub(crate) fn free(&self) -> Result<&Path, Failure> {
        if !self.overwrite && std::fs::symlink_metadata(&self.output).is_ok() {
            let path = self.output.display();
            return Err(Failure::Bad(format!("{path}: is there already; --overwrite replaces it").into()));
        }
        Ok(&self.output)
    }
}

/// How the arrays of an h5ad file are compressed.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Deflate {
    /// Deflate level of the arrays, 1 to 9; 0 leaves those of an h5ad file as they are.
    #[arg(long, value_name = "LEVEL", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=9))]
    gzip: u32,
}

impl Deflate {
    pub(crate) fn get(self) -> Option<u32> {
        (self.gzip > 0).then_some(self.gzip)
    }
}

/// Some cells: `10:20`, `10:`, `:20`, `:`, or `7` for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cells {
    start: Option<u64>,
    end: Option<u64>,
}

impl Cells {
    /// The range it is among `n_cells` cells; not checked against them.
    pub(crate) fn range(self, n_cells: u64) -> Range<u64> {
        let end = self.end.unwrap_or(n_cells);
        self.start.unwrap_or(0)..end
    }
}

impl std::str::FromStr for Cells {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            text.parse::<u64>().map_err(|_| {
                format!("'{text}' is not the number of a cell; expected FIRST:END or one number")
            })
        };
        let optional = |text: &str| if text.is_empty() { Ok(None) } else { number(text).map(Some) };
        let Some((start, end)) = text.split_once(':') else {
            let cell = number(text)?;
            let end = cell.checked_add(1).ok_or("no such cell")?;
            return Ok(Self { start: Some(cell), end: Some(end) });
        };
        let (start, end) = (optional(start)?, optional(end)?);
        match (start, end) {
            (start, Some(end)) if start.unwrap_or(0) > end => {
                Err(format!("the range ends at {end}, before it starts"))
            }
            _ => Ok(Self { start, end }),
        }
    }
}

/// A number of bytes: `268435456`, `256MiB`, `1G` (a unit is a power of 1,024, as is usual for memory).
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a size; expected a number with K, M, G or T, as in 512MiB");
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().to_ascii_lowercase();
    let shift = match unit.strip_suffix("ib").or_else(|| unit.strip_suffix('b')).unwrap_or(&unit) {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(wrong()),
    };
    let factor = 1_u64 << shift;
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(wrong);
    }
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let bytes = number * factor as f64;
    if !(0.0..9e18).contains(&bytes) {
        return Err(wrong());
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within range, just checked")]
    Ok(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_cells() {
        let range = |text: &str| text.parse::<Cells>().map(|cells| cells.range(100));
        assert_eq!(range("10:20"), Ok(10..20));
        assert_eq!(range("7"), Ok(7..8));
        assert_eq!(range(":"), Ok(0..100));
        assert_eq!(range(":5"), Ok(0..5));
        assert_eq!(range("95:"), Ok(95..100));
        assert_eq!(range("5:5"), Ok(5..5));
        for wrong in ["", "a", "1:b", "-1:3", "5:4", "1:2:3", "18446744073709551615"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn test_bytes() {
        assert_eq!(bytes("0"), Ok(0));
        assert_eq!(bytes("1024"), Ok(1024));
        assert_eq!(bytes("1GiB"), Ok(1 << 30));
        assert_eq!(bytes("512 MB"), Ok(512 << 20));
        assert_eq!(bytes("1.5k"), Ok(1536));
        for wrong in ["", "x", "1X", "-1", "1e3", "99999999999999T", "nan"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
