//! Cells as arrays: decoded into memory that NumPy arrays then share.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use celltile::{Count, Csr, Dataset, ReadOptions};
use numpy::{Element, PyReadonlyArray1};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use super::kept::{Keep, Kept, Lent};
use crate::error::Result;
use crate::long::{READING, long};
use crate::shared::share;

/// Nonzeros of a local dataset that are decoded without a thread of their own: a few hundredths of a second.
const QUICK: u64 = 1 << 21;

/// Which cells.
pub(super) enum Read {
    Rows(Range<u64>),
    Gather(Vec<u64>),
}

impl Read {
    fn cells(&self) -> u64 {
        match self {
            Self::Rows(range) => range.end.saturating_sub(range.start),
            Self::Gather(cells) => u64::try_from(cells.len()).unwrap_or(u64::MAX),
        }
    }

    fn run<C: Count>(
        &self,
        dataset: &Dataset,
        options: &ReadOptions<'_>,
        out: &mut Csr<C>,
    ) -> celltile::Result<()> {
        match self {
            Self::Rows(range) => dataset.rows_into(range.clone(), options, out),
            Self::Gather(cells) => dataset.gather_into(cells, options, out),
        }
    }
}

/// Reads cells as `(indptr, indices, data)`.
pub(super) fn read(
    py: Python<'_>,
    dataset: Arc<Dataset>,
    kept: Arc<Kept>,
    what: Read,
    float32: bool,
    gene_map: Option<PyReadonlyArray1<'_, i32>>,
    round_counts: bool,
) -> Result<Py<PyAny>> {
    let gene_map = gene_map.map(|map| owned(&map));
    if float32 {
        read_as::<f32>(py, dataset, kept, what, gene_map, round_counts)
    } else {
        read_as::<i32>(py, dataset, kept, what, gene_map, round_counts)
    }
}

fn read_as<C: Keep + Element + Send + Sync + 'static>(
    py: Python<'_>,
    dataset: Arc<Dataset>,
    kept: Arc<Kept>,
    what: Read,
    gene_map: Option<Vec<i32>>,
    round_counts: bool,
) -> Result<Py<PyAny>> {
    let cancel = Arc::new(AtomicBool::new(false));
    let mean = dataset.manifest().nnz().checked_div(dataset.n_cells()).unwrap_or_default();
    let quick =
        what.cells().saturating_mul(mean.saturating_add(1)) <= QUICK && !dataset.storage().is_remote();
    let flag = Arc::clone(&cancel);
    let work = move || {
        let mut options = ReadOptions::default().round_counts(round_counts).cancel(&flag);
        if let Some(map) = &gene_map {
            options = options.gene_map(map);
        }
        let mut out = Lent::<C>::new(kept.take(), &kept);
        what.run(&dataset, &options, &mut out.x)?;
        Ok(out)
    };
    // On a thread of its own where it may take long.
    let out = if quick { py.detach(work)? } else { long(py, READING, &cancel, work, |_| Ok(()))? };
    let arrays = share(py, Box::new(out), |Lent { x, .. }| (&mut x.indptr, &mut x.genes, &mut x.counts))?;
    Ok(arrays.into_py_any(py)?)
}

/// The elements of an array of the caller's, who may change it.
pub(super) fn owned<T: Element + Copy>(array: &PyReadonlyArray1<'_, T>) -> Vec<T> {
    array.as_array().iter().copied().collect()
}
