//! Simulated cells -> an h5ad file.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::{ArrayRef, Int64Array};
use celltile::table::{Categorical, Categories, Codes, Column, Index, Numeric, Table, Text};

use super::{CellFacts, Simulation};
use crate::error::{Error, Result};
use crate::export::{ExportSummary, H5adFile, H5adOptions};
use crate::hdf5::Element;

/// Cells made at a time.
const BATCH: u64 = 2048;

/// Writes all cells of a simulation as an h5ad file: `X` (CSR, float32 as most tools write counts), obs with `cell_type`,
/// `donor`, `batch`, `total_counts` and `n_genes`, var with `gene_ids`.
///
/// Memory stays bounded but for obs. The file appears when it is complete.
///
/// # Errors
///
/// [`Error::Write`] and [`Error::Io`] for what the file refuses, [`Error::Cancelled`].
pub fn write_simulation(
    simulation: &Simulation,
    target: &Path,
    options: &H5adOptions<'_>,
) -> Result<ExportSummary> {
    let (cells, genes) = (simulation.options().cells, u64::from(simulation.options().genes));
    let file = H5adFile::create(target, options.level)?;
    let mut x = file.x(cells, genes, Element::Float32)?;
    let mut facts = Vec::new();
    let (mut totals, mut n_genes) = (Vec::new(), Vec::new());
    let mut start = 0;
    while start < cells {
        if options.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
            return Err(Error::Cancelled);
        }
        let end = start.saturating_add(BATCH).min(cells);
        let counts = simulation.cells(start..end)?;
        for bounds in counts.indptr.windows(2) {
            let [from, to] =
                [0, 1].map(|i| bounds.get(i).and_then(|&x| usize::try_from(x).ok()).unwrap_or(0));
            let of_cell = counts.counts.get(from..to).unwrap_or_default();
            totals.push(of_cell.iter().map(|&count| i64::from(count)).sum::<i64>());
            n_genes.push(i64::try_from(of_cell.len()).unwrap_or(i64::MAX));
        }
        for cell in start..end {
            facts.push(simulation.facts(cell)?);
        }
        x.push(&counts)?;
        if let Some(progress) = options.progress {
            progress(end, cells);
        }
        start = end;
    }
    let nonzeros = x.finish()?;
    let bytes = file.finish(&obs(&facts, totals, n_genes)?, &var(simulation)?)?;
    Ok(ExportSummary {
        cells,
        genes,
        nonzeros,
        bytes,
        dtype: Element::Float32.name(),
        source_order: true,
        not_carried: Vec::new(),
    })
}

fn obs(facts: &[CellFacts], totals: Vec<i64>, n_genes: Vec<i64>) -> Result<Table> {
    let labels = |name: &str, names: Vec<&str>, of: fn(&CellFacts) -> usize| -> Result<Column> {
        let codes = facts.iter().map(|facts| i64::try_from(of(facts)).unwrap_or(-1));
        let codes = Codes::collect(codes, names.len())?;
        Ok(Column::new(name, Categorical::new(codes, Categories::from_text(names)?, false)?))
    };
    let numbers = |name: &str, values: Vec<i64>| -> Result<Column> {
        let array: ArrayRef = Arc::new(Int64Array::from(values));
        Ok(Column::new(name, Numeric::new(array, false)?))
    };
    let columns = vec![
        labels("cell_type", Simulation::cell_types(), |facts| facts.cell_type)?,
        labels("donor", Simulation::donors(), |facts| facts.donor)?,
        labels("batch", Simulation::batches(), |facts| facts.batch)?,
        numbers("total_counts", totals)?,
        numbers("n_genes", n_genes)?,
    ];
    let barcodes: Text = facts.iter().map(|facts| Some(facts.barcode.as_str())).collect();
    Ok(Table::new(facts.len(), Some(Index::new(None, barcodes)), columns)?)
}

fn var(simulation: &Simulation) -> Result<Table> {
    let genes = simulation.genes();
    let names: Text = genes.iter().map(|gene| Some(gene.name.as_str())).collect();
    let ids: Text = genes.iter().map(|gene| Some(gene.id.as_str())).collect();
    Ok(Table::new(genes.len(), Some(Index::new(None, names)), vec![Column::new("gene_ids", ids)])?)
}
