//! What is in memory of a Python process, as a source of cells.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use celltile::table::{Table, Values};
use celltile_ingest::hdf5::StringColumn;
use celltile_ingest::matrix::{CellBlock, CellBlocks, ReadOptions, Rounding, Shape};
use celltile_ingest::source::{NotCarried, Source, SourceInfo};
use celltile_ingest::{Error, ValueError, ValueFault};
use numpy::{Element, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Map;

use crate::error::{Failure, Result};
use crate::frame;

/// Nonzeros that a block aims at: converted under the interpreter's lock in about a hundredth of a second.
const BLOCK: u64 = 1 << 21;

/// An exception of the caller's code, which the conversion itself cannot carry.
#[derive(Debug, Clone, Default)]
pub(super) struct Raised(Arc<Mutex<Option<PyErr>>>);

impl Raised {
    pub(super) fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, error: PyErr) -> Error {
        let message = error.to_string();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        Error::Options(message)
    }
}

/// Cells that a callable hands out.
pub(super) struct MemorySource {
    info: SourceInfo,
    genes: StringColumn,
    obs: Table,
    var: Table,
    not_carried: Vec<NotCarried>,
    block: Py<PyAny>,
    cells_a_block: u64,
    raised: Raised,
}

impl MemorySource {
    pub(super) fn new(parts: &Bound<'_, PyDict>, block: Py<PyAny>, raised: Raised) -> Result<Self> {
        let item = |key: &str| {
            parts.get_item(key)?.ok_or_else(|| Failure::Argument(format!("a source without {key:?}")))
        };
        let table = |key: &str| -> Result<Table> {
            frame::from_python(item(key)?.cast::<PyDict>().map_err(PyErr::from)?)
        };
        let (cells, genes): (u64, u64) = item("shape")?.extract()?;
        let stored: u64 = item("stored")?.extract()?;
        let names: Vec<String> = item("genes")?.extract()?;
        let not_carried: Vec<(String, Vec<u64>, String)> = item("not_carried")?.extract()?;
        let mean = stored.checked_div(cells).unwrap_or_default().max(1);
        let info = SourceInfo {
            file: item("name")?.extract()?,
            bytes: item("bytes")?.extract()?,
            format: "anndata",
            matrix: item("matrix")?.extract()?,
            why: item("why")?.extract()?,
            encoding: "csr",
            dtype: item("dtype")?.extract()?,
            shape: Shape { cells, genes },
            stored: Some(stored),
            dropped: Vec::new(),
            notes: Vec::new(),
            options: Map::new(),
        };
        Ok(Self {
            info,
            genes: names.iter().map(String::as_str).collect(),
            obs: table("obs")?,
            var: table("var")?,
            not_carried: not_carried
                .into_iter()
                .map(|(path, shape, what)| NotCarried { path, shape, what })
                .collect(),
            block,
            cells_a_block: (BLOCK / mean).clamp(1, 1 << 16),
            raised,
        })
    }

    fn damaged(&self, what: String) -> Error {
        Error::Damaged { file: self.info.file.clone(), at: self.info.matrix.clone(), what }
    }

    fn fault(&self, cell: u64, gene: u32, kind: ValueFault, value: String) -> Error {
        let note =
            if kind == ValueFault::Fractional { "; round=\"nearest\" or \"floor\" takes them" } else { "" };
        let gene_at = usize::try_from(gene).unwrap_or(usize::MAX);
        Error::Value(Box::new(ValueError {
            file: self.info.file.clone(),
            matrix: self.info.matrix.clone(),
            cell,
            cell_name: self.cell_name(cell),
            gene: u64::from(gene),
            gene_name: self.genes.get(gene_at).map(str::to_owned),
            kind,
            value,
            note: note.to_owned(),
        }))
    }
}

impl Source for MemorySource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn gene_names(&self) -> &StringColumn {
        &self.genes
    }

    fn var(&self) -> celltile_ingest::Result<Table> {
        Ok(self.var.clone())
    }

    fn obs(&self) -> celltile_ingest::Result<Table> {
        Ok(self.obs.clone())
    }

    fn not_carried(&self) -> &[NotCarried] {
        &self.not_carried
    }

    fn by_gene(&self, _: &ReadOptions) -> bool {
        false
    }

    fn cells(
        &self,
        range: Range<u64>,
        options: &ReadOptions,
    ) -> celltile_ingest::Result<Box<dyn CellBlocks + '_>> {
        Ok(Box::new(Blocks { source: self, range, rounding: options.rounding }))
    }

    fn cell_name(&self, cell: u64) -> Option<String> {
        let at = usize::try_from(cell).ok()?;
        match self.obs.index()?.values() {
            Values::Text(names) => names.values().iter().nth(at).flatten().map(str::to_owned),
            _ => None,
        }
    }
}

struct Blocks<'a> {
    source: &'a MemorySource,
    range: Range<u64>,
    rounding: Rounding,
}

impl CellBlocks for Blocks<'_> {
    fn next_block(&mut self, block: &mut CellBlock) -> celltile_ingest::Result<bool> {
        let (start, end) = (self.range.start, self.range.end);
        if start >= end {
            return Ok(false);
        }
        let stop = end.min(start.saturating_add(self.source.cells_a_block));
        Python::attach(|py| {
            let arrays = self.source.block.bind(py).call1((start, stop));
            let arrays = arrays.and_then(|arrays| arrays.extract::<Arrays<'_>>());
            let (indptr, indices, data) = arrays.map_err(|error| self.source.raised.put(error))?;
            self.fill(start, stop, &indptr, &indices, &data, block)
        })?;
        self.range.start = stop;
        Ok(true)
    }
}

type Arrays<'py> = (PyReadonlyArray1<'py, i64>, Bound<'py, PyAny>, Bound<'py, PyAny>);

impl Blocks<'_> {
    fn fill(
        &self,
        start: u64,
        stop: u64,
        indptr: &PyReadonlyArray1<'_, i64>,
        indices: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        block: &mut CellBlock,
    ) -> celltile_ingest::Result<()> {
        block.first_cell = start;
        block.indptr.clear();
        for offset in indptr.as_array() {
            let offset = usize::try_from(*offset)
                .ok()
                .filter(|offset| block.indptr.last().map_or(*offset == 0, |last| offset >= last))
                .ok_or_else(|| self.source.damaged(format!("indptr goes to {offset}: offsets never fall")))?;
            block.indptr.push(offset);
        }
        let cells = stop.saturating_sub(start);
        if u64::try_from(block.cells()) != Ok(cells) || block.indptr.is_empty() {
            return Err(self.source.damaged(format!("{} cells, expected {cells}", block.cells())));
        }
        self.genes(indices, block)?;
        self.counts(data, block)?;
        let expected = block.indptr.last().copied().unwrap_or_default();
        for (what, found) in [("indices", block.genes.len()), ("data", block.counts.len())] {
            if found != expected {
                return Err(self.source.damaged(format!("{found} {what}, indptr ends at {expected}")));
            }
        }
        Ok(())
    }

    fn genes(&self, indices: &Bound<'_, PyAny>, block: &mut CellBlock) -> celltile_ingest::Result<()> {
        let limit = self.source.info.shape.genes;
        let wrong = |gene: i64| self.source.damaged(format!("gene {gene}, expected 0 to {}", limit - 1));
        block.genes.clear();
        let mut take = |gene: i64| match u32::try_from(gene) {
            Ok(index) if u64::from(index) < limit => {
                block.genes.push(index);
                Ok(())
            }
            _ => Err(wrong(gene)),
        };
        if let Ok(indices) = indices.extract::<PyReadonlyArray1<'_, i32>>() {
            indices.as_array().iter().try_for_each(|&gene| take(i64::from(gene)))
        } else {
            let indices = indices.extract::<PyReadonlyArray1<'_, i64>>();
            let indices = indices.map_err(|error| self.source.raised.put(error))?;
            indices.as_array().iter().try_for_each(|&gene| take(gene))
        }
    }

    fn counts(&self, data: &Bound<'_, PyAny>, block: &mut CellBlock) -> celltile_ingest::Result<()> {
        block.counts.clear();
        let taken = self.take::<i32>(data, block)?
            || self.take::<f32>(data, block)?
            || self.take::<i64>(data, block)?
            || self.take::<f64>(data, block)?
            || self.take::<u8>(data, block)?
            || self.take::<u16>(data, block)?
            || self.take::<u32>(data, block)?
            || self.take::<u64>(data, block)?
            || self.take::<i8>(data, block)?
            || self.take::<i16>(data, block)?;
        if taken { Ok(()) } else { Err(self.source.damaged("values that are no numbers".to_owned())) }
    }

    /// Takes the values, if they are of that type.
    fn take<T: Stored>(
        &self,
        data: &Bound<'_, PyAny>,
        block: &mut CellBlock,
    ) -> celltile_ingest::Result<bool> {
        let Ok(data) = data.extract::<PyReadonlyArray1<'_, T>>() else { return Ok(false) };
        for (at, &value) in data.as_array().iter().enumerate() {
            match value.count(self.rounding) {
                Ok(count) => block.counts.push(count),
                Err(kind) => {
                    let row = block.indptr.partition_point(|&offset| offset <= at).saturating_sub(1);
                    let cell = block.first_cell.saturating_add(u64::try_from(row).unwrap_or(u64::MAX));
                    let gene = block.genes.get(at).copied().unwrap_or_default();
                    return Err(self.source.fault(cell, gene, kind, format!("{value:?}")));
                }
            }
        }
        Ok(true)
    }
}

/// A number as the caller stores it.
trait Stored: Element + Copy + std::fmt::Debug {
    /// As a count.
    fn count(self, rounding: Rounding) -> std::result::Result<u32, ValueFault>;
}

macro_rules! stored_integer {
    ($($kind:ty),*) => {$(
        impl Stored for $kind {
            fn count(self, _: Rounding) -> std::result::Result<u32, ValueFault> {
                #[allow(unused_comparisons, reason = "unsigned types too")]
                if self < 0 {
                    return Err(ValueFault::Negative);
                }
                i32::try_from(self).map(i32::cast_unsigned).map_err(|_| ValueFault::TooLarge)
            }
        }
    )*};
}

stored_integer!(i8, i16, i32, i64, u8, u16, u32, u64);

impl Stored for f64 {
    fn count(self, rounding: Rounding) -> std::result::Result<u32, ValueFault> {
        if self.is_nan() {
            return Err(ValueFault::NotANumber);
        }
        if self.is_infinite() {
            return Err(ValueFault::Infinite);
        }
        let value = match rounding {
            Rounding::Refuse => self,
            Rounding::Nearest => self.round(),
            Rounding::Floor => self.floor(),
        };
        if value < 0.0 {
            return Err(ValueFault::Negative);
        }
        if value.fract() != 0.0 {
            return Err(ValueFault::Fractional);
        }
        if value >= 2_147_483_648.0 {
            return Err(ValueFault::TooLarge);
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number in range")]
        Ok(value as u32)
    }
}

impl Stored for f32 {
    fn count(self, rounding: Rounding) -> std::result::Result<u32, ValueFault> {
        f64::from(self).count(rounding)
    }
}
