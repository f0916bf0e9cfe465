mod kind;

use std::fmt;
use std::path::PathBuf;

pub use kind::ErrorKind;

/// What went wrong while looking at, reading or writing a file of another tool.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused to open, read or write.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
    /// Another process holds the file's lock for writing.
    #[error(
        "{}: another process has the file open for writing (its lock is held); wait for it, or turn locking off",
        path.display()
    )]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The file is none that this crate reads.
    #[error("{file}: {found}; expected {expected}")]
    NotRecognised {
        /// The file.
        file: String,
        /// What it is.
        found: String,
        /// What would have been read.
        expected: String,
    },
    /// The file is shorter than it says it is.
    #[error("{file}: truncated: {actual} bytes long, but its header says {expected}")]
    Truncated {
        /// The file.
        file: String,
        /// Bytes that the file's own header declares.
        expected: u64,
        /// Bytes that are there.
        actual: u64,
    },
    /// Bytes that contradict the file's format or each other.
    #[error("{file}: {at}: {what}")]
    Damaged {
        /// The file.
        file: String,
        /// The object in it.
        at: String,
        /// What was found and what was expected.
        what: String,
    },
    /// Valid, but nothing this crate can read or the format can hold.
    #[error("{file}: {at}: {what}")]
    Unsupported {
        /// The file.
        file: String,
        /// The object in it.
        at: String,
        /// What was found, and what would be read instead.
        what: String,
    },
    /// An object that has to be there is not.
    #[error("{file}: no {at}{hint}")]
    Missing {
        /// The file.
        file: String,
        /// The object.
        at: String,
        /// What there is instead; empty or starting with `; `.
        hint: String,
    },
    /// Two things that describe the same axis differ in length.
    #[error("{file}: {at} has {found}, but {expected}")]
    Length {
        /// The file.
        file: String,
        /// The object in it.
        at: String,
        /// Its length, with the unit.
        found: String,
        /// What it should agree with.
        expected: String,
    },
    /// A stored value is no count.
    #[error(transparent)]
    Value(#[from] Box<ValueError>),
    /// A cell holds a gene twice.
    #[error(transparent)]
    Repeated(#[from] Box<RepeatedError>),
    /// Columns of obs or var that the format cannot hold.
    #[error("{file}: {}", ColumnList(.columns))]
    Columns {
        /// The file.
        file: String,
        /// Every such column, with the reason.
        columns: Vec<BadColumn>,
    },
    /// The memory allowed does not suffice.
    #[error("{file}: {at}: needs {needed} of memory, {allowed} allowed; raise the limit")]
    Memory {
        /// The file.
        file: String,
        /// The object in it.
        at: String,
        /// Bytes needed, for people.
        needed: String,
        /// Bytes allowed, for people.
        allowed: String,
    },
    /// A file could not be written.
    #[error("{}: {at}: {why}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The object in it.
        at: String,
        /// What stood in the way.
        why: String,
    },
    /// The dataset being read or written.
    #[error(transparent)]
    Dataset(#[from] celltile::Error),
    /// Something that cannot be simulated.
    #[error(transparent)]
    Simulate(#[from] crate::simulate::SimulateError),
    /// A table of cells or genes does not hold together.
    #[error(transparent)]
    Table(#[from] celltile::table::TableError),
    /// Options that contradict each other or the inputs.
    #[error("{0}")]
    Options(String),
    /// Inputs with which something is wrong: all of it.
    #[error("{0}")]
    Unfit(Box<crate::plan::Report>),
    /// An input is not what it was when it was looked at.
    #[error("{file}: has changed: {what}")]
    Changed {
        /// The file.
        file: String,
        /// What was found, and what was expected.
        what: String,
    },
    /// The caller asked to stop.
    #[error("stopped on request")]
    Cancelled,
}

/// A result with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A stored value that is no count, and where it is.
#[derive(Debug, thiserror::Error)]
#[error(
    "{file}: {matrix}: cell {cell}{}, gene {gene}{}: {kind} ({value}); counts are integers from 0 to 2147483647{note}",
    Name(.cell_name), Name(.gene_name)
)]
pub struct ValueError {
    /// The file.
    pub file: String,
    /// The matrix in it.
    pub matrix: String,
    /// The cell's position in the matrix.
    pub cell: u64,
    /// The cell's name, if it could be read.
    pub cell_name: Option<String>,
    /// The gene's position in the matrix.
    pub gene: u64,
    /// The gene's name, if it could be read.
    pub gene_name: Option<String>,
    /// What is wrong with it.
    pub kind: ValueFault,
    /// The value as stored.
    pub value: String,
    /// Advice; empty or starting with `; `.
    pub note: String,
}

/// Why a stored value is no count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueFault {
    /// Below zero.
    Negative,
    /// Not an integer.
    Fractional,
    /// Not a number.
    NotANumber,
    /// Positive or negative infinity.
    Infinite,
    /// Above 2^31 - 1.
    TooLarge,
}

impl fmt::Display for ValueFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Negative => "negative value",
            Self::Fractional => "fractional value",
            Self::NotANumber => "not a number",
            Self::Infinite => "infinite value",
            Self::TooLarge => "value too large",
        })
    }
}

/// A cell that holds a gene more than once, and where.
#[derive(Debug, thiserror::Error)]
#[error(
    "{file}: {matrix}: cell {cell}{} holds gene {gene}{} more than once (values {values}); duplicates=sum adds them up",
    Name(.cell_name), Name(.gene_name)
)]
pub struct RepeatedError {
    /// The file.
    pub file: String,
    /// The matrix in it.
    pub matrix: String,
    /// The cell's position in the matrix.
    pub cell: u64,
    /// The cell's name, if it could be read.
    pub cell_name: Option<String>,
    /// The gene's position in the matrix.
    pub gene: u64,
    /// The gene's name, if it could be read.
    pub gene_name: Option<String>,
    /// The values found for that gene.
    pub values: String,
}

/// A column that the format cannot hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadColumn {
    /// `obs` or `var`.
    pub frame: String,
    /// The column's name.
    pub name: String,
    /// Why it cannot be held, and which option would let the rest through.
    pub why: String,
}

struct Name<'a>(&'a Option<String>);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(name) => write!(f, " ({name})"),
            None => Ok(()),
        }
    }
}

struct ColumnList<'a>(&'a [BadColumn]);

impl fmt::Display for ColumnList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("columns that a dataset cannot hold")?;
        let mut options = Vec::new();
        for (frame, option) in [("obs", "--obs-exclude"), ("var", "--var-exclude")] {
            // There is no doing without the index.
            let own = self.0.iter().filter(|column| column.frame == frame && column.name != "index");
            let names: Vec<&str> = own.map(|column| column.name.as_str()).collect();
            if !names.is_empty() {
                options.push(format!("{option} '{}'", names.join(",")));
            }
        }
        if !options.is_empty() {
            write!(f, " (the rest can be converted with {})", options.join(" "))?;
        }
        f.write_str(":")?;
        for column in self.0 {
            write!(f, "\n  {}[{:?}]: {}", column.frame, column.name, column.why)?;
        }
        Ok(())
    }
}

/// A number of bytes for people: two digits after the point at most, binary units.
pub(crate) fn human_bytes(bytes: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    for (unit, size) in UNITS {
        if bytes >= size {
            let hundredths = u128::from(bytes) * 100 / u128::from(size);
            return format!("{}.{:02} {unit}", hundredths / 100, hundredths % 100);
        }
    }
    format!("{bytes} bytes")
}
