use super::numbers::{self, BAD, Rounding};
use super::sparse::share_note;
use super::{Shape, number_type};
use crate::error::{Error, Result, ValueError, ValueFault};
use crate::hdf5::NumberType;
use crate::tree::{Array, with_scratch};

/// Every value of a matrix in a grid of chunks, whichever of its axes the cells are.
#[derive(Debug, Clone)]
pub(super) struct Grid {
    values: Array,
    number: NumberType,
    /// Rows and columns of the storage.
    shape: (u64, u64),
    /// Rows and columns of a chunk.
    chunk: (u64, u64),
}

impl Grid {
    /// The grid of an array whose shape must be `shape`, which is said as `expected`; of one axis where there is only one row or
    /// one column.
    ///
    /// # Errors
    ///
    /// [`Error::Length`] if it has another shape, [`Error::Unsupported`] if it holds no numbers.
    pub(super) fn new(values: Array, shape: (u64, u64), expected: &str) -> Result<Self> {
        let number = number_type(values.dtype())
            .ok_or_else(|| values.unsupported(format!("{}; expected numbers", values.dtype())))?;
        let chunk = match (values.shape(), values.grid()) {
            (&[rows, columns], &[down, across]) if (rows, columns) == shape => (down, across),
            (&[len], &[edge]) if shape.0 == 1 && len == shape.1 => (1, edge),
            (&[len], &[edge]) if shape.1 == 1 && len == shape.0 => (edge, 1),
            (found, _) => {
                return Err(Error::Length {
                    file: values.file_name().to_owned(),
                    at: values.path().to_owned(),
                    found: format!("shape {found:?}"),
                    expected: expected.to_owned(),
                });
            }
        };
        if shape.0.checked_mul(shape.1).is_none() {
            return Err(values.unsupported(format!("{} x {}", shape.0, shape.1)));
        }
        Ok(Self { values, number, shape, chunk: (chunk.0.max(1), chunk.1.max(1)) })
    }

    /// Refuses more than 2^32 genes or cells, where there may be no more.
    pub(super) fn check_positions(&self, shape: Shape, cells: bool) -> Result<()> {
        if u32::try_from(shape.genes).is_err() || (cells && u32::try_from(shape.cells).is_err()) {
            return Err(self.values.unsupported(format!("{} x {}", self.shape.0, self.shape.1)));
        }
        Ok(())
    }

    pub(super) fn values(&self) -> &Array {
        &self.values
    }

    /// Rows and columns of a chunk.
    pub(super) fn chunk(&self) -> (u64, u64) {
        self.chunk
    }

    /// Chunks side by side.
    pub(super) fn across(&self) -> u64 {
        self.shape.1.div_ceil(self.chunk.1)
    }

    /// Chunks below each other.
    pub(super) fn down(&self) -> u64 {
        self.shape.0.div_ceil(self.chunk.0)
    }

    /// Chunks that may be decoded at once: a decoded value takes four bytes, an entry made of it at most eight more.
    pub(super) fn at_once(&self, memory: u64) -> u64 {
        let chunk = self.chunk.0.saturating_mul(self.chunk.1).saturating_mul(12).max(1);
        (memory / chunk).clamp(1, 1 << 12)
    }

    /// The values of a chunk as counts, in rows of a chunk's whole width; [`BAD`] where a value is none.
    pub(super) fn counts(&self, index: u64, rounding: Rounding) -> Result<Vec<u32>> {
        let mut counts = Vec::new();
        self.read(index, |bytes| {
            counts.resize(bytes.len() / self.number.size, 0);
            numbers::counts(bytes, self.number, rounding, &mut counts);
            Ok(())
        })?;
        Ok(counts)
    }

    /// The rows of a chunk's counts.
    pub(super) fn rows<'a>(&self, counts: &'a [u32]) -> impl Iterator<Item = &'a [u32]> + use<'a> {
        counts.chunks(usize::try_from(self.chunk.1).unwrap_or(usize::MAX))
    }

    /// What is wrong with the value of a cell and a gene that is stored at a row and column.
    pub(super) fn fault(
        &self,
        (cell, gene): (u64, u64),
        (row, column): (u64, u64),
    ) -> Result<Box<ValueError>> {
        let within = row % self.chunk.0 * self.chunk.1 + column % self.chunk.1;
        let at = usize::try_from(within).unwrap_or(usize::MAX).saturating_mul(self.number.size);
        let (kind, value) = self.read(self.index(row, column), |bytes| {
            let value = bytes.get(at..at.saturating_add(self.number.size));
            let value = value.ok_or_else(|| self.values.damaged("a chunk cut short"))?;
            Ok(numbers::fault(value, self.number))
        })?;
        Ok(Box::new(ValueError {
            file: self.values.file_name().to_owned(),
            matrix: self.values.path().to_owned(),
            cell,
            cell_name: None,
            gene,
            gene_name: None,
            kind,
            value,
            note: String::new(),
        }))
    }

    /// The same as an error, with the share of fractions in the chunk that holds it.
    pub(super) fn value_error(&self, names: (u64, u64), (row, column): (u64, u64)) -> Result<Error> {
        let mut error = self.fault(names, (row, column))?;
        if error.kind == ValueFault::Fractional {
            error.note = self.read(self.index(row, column), |bytes| {
                let fractional = bytes.chunks_exact(self.number.size).filter(|value| {
                    let mut count = [0];
                    numbers::counts(value, self.number, Rounding::Refuse, &mut count);
                    count == [BAD] && numbers::fault(value, self.number).0 == ValueFault::Fractional
                });
                Ok(share_note(fractional.count() as u64, (bytes.len() / self.number.size) as u64))
            })?;
        }
        Ok(error.into())
    }

    /// Number of the chunk that holds a value.
    fn index(&self, row: u64, column: u64) -> u64 {
        row / self.chunk.0 * self.across() + column / self.chunk.1
    }

    fn read<T>(&self, index: u64, what: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        with_scratch(|inflater, bytes| {
            self.values.read_chunk(index, inflater, bytes)?;
            what(bytes)
        })
    }
}
