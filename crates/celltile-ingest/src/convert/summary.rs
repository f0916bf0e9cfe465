use std::fmt;
use std::time::Duration;

use super::work::Counted;
use crate::error::human_bytes;
use crate::plan::{Plan, PlannedInput};
use crate::source::NotCarried;

/// What a conversion did.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// The input; the first of several.
    pub input: String,
    /// Its kind.
    pub format: String,
    /// The matrix of it that was read.
    pub matrix: String,
    /// Why that one.
    pub why: String,
    /// Type of its values.
    pub dtype: String,
    /// Features of any input that were left out, in words.
    pub features_dropped: Vec<String>,
    /// What the inputs hold and the dataset does not.
    pub not_carried: Vec<NotCarried>,
    /// What was read and written of each input.
    pub inputs: Vec<InputSummary>,
    /// Cells.
    pub cells: u64,
    /// Genes.
    pub genes: u64,
    /// Nonzeros.
    pub nonzeros: u64,
    /// Sum of all counts.
    pub sum: u64,
    /// Tiles.
    pub tiles: u64,
    /// Bytes of all tiles.
    pub tile_bytes: u64,
    /// Bytes of the inputs.
    pub input_bytes: u64,
    /// Cells whose genes were out of order.
    pub unsorted_cells: u64,
    /// Stored zeros that were dropped.
    pub zeros_dropped: u64,
    /// Entries that were added to others of the same cell and gene.
    pub repeated_summed: u64,
    /// What should be known of the inputs together.
    pub notes: Vec<String>,
    /// Cells that the second pass had to read again, since the memory did not hold them.
    pub cells_read_twice: u64,
    /// Whether the dataset was finished before, so that nothing was to be done.
    pub was_complete: bool,
    /// How long it took.
    pub time: Duration,
}

/// What was read of an input, all of which was written.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct InputSummary {
    /// The input.
    pub input: PlannedInput,
    /// Cells.
    pub cells: u64,
    /// Nonzeros that were read; those of genes that the dataset does not have among them.
    pub read_nonzeros: u64,
    /// Sum of the counts that were read.
    pub read_sum: u64,
    /// Nonzeros that were written.
    pub nonzeros: u64,
    /// Sum of the counts that were written.
    pub sum: u64,
}

impl Summary {
    pub(super) fn new(plan: &Plan, counted: &[Counted], tiles: u64, tile_bytes: u64) -> Self {
        let notes = plan.notes.clone();
        Self { notes, ..Self::of_inputs(&plan.inputs, counted, plan.n_genes(), tiles, tile_bytes) }
    }

    pub(super) fn of_inputs(
        planned: &[PlannedInput],
        counted: &[Counted],
        genes: u64,
        tiles: u64,
        tile_bytes: u64,
    ) -> Self {
        let inputs: Vec<InputSummary> = planned
            .iter()
            .zip(counted)
            .map(|(input, counted)| InputSummary {
                input: input.clone(),
                cells: counted.tally.cells,
                read_nonzeros: counted.tally.read_nonzeros,
                read_sum: counted.tally.read_sum,
                nonzeros: counted.tally.nonzeros,
                sum: counted.tally.sum,
            })
            .collect();
        let all = |of: fn(&InputSummary) -> u64| inputs.iter().map(of).fold(0, u64::saturating_add);
        let found = |of: fn(&Counted) -> u64| counted.iter().map(of).fold(0, u64::saturating_add);
        let first = |of: fn(&PlannedInput) -> &String| planned.first().map(of).cloned().unwrap_or_default();
        let mut features_dropped: Vec<String> = Vec::new();
        let mut not_carried: Vec<NotCarried> = Vec::new();
        for input in planned {
            for dropped in &input.dropped {
                if !features_dropped.contains(dropped) {
                    features_dropped.push(dropped.clone());
                }
            }
            for part in &input.not_carried {
                // What many inputs have is said once.
                if !not_carried.iter().any(|known| known.path == part.path) {
                    not_carried.push(part.clone());
                }
            }
        }
        Self {
            input: first(|input| &input.path),
            format: first(|input| &input.format),
            matrix: first(|input| &input.matrix),
            why: first(|input| &input.why),
            dtype: first(|input| &input.dtype),
            features_dropped,
            not_carried,
            cells: planned.iter().map(|input| input.cells).fold(0, u64::saturating_add),
            genes,
            nonzeros: all(|input| input.nonzeros),
            sum: all(|input| input.sum),
            tiles,
            tile_bytes,
            input_bytes: all(|input| input.input.bytes),
            unsorted_cells: found(|counted| counted.findings.unsorted),
            zeros_dropped: found(|counted| counted.findings.zeros),
            repeated_summed: found(|counted| counted.findings.repeated),
            notes: Vec::new(),
            cells_read_twice: 0,
            was_complete: false,
            time: Duration::ZERO,
            inputs,
        }
    }

    /// Bytes of tiles a cell.
    pub fn bytes_a_cell(&self) -> f64 {
        ratio(self.tile_bytes, self.cells)
    }

    /// Bytes of tiles a nonzero.
    pub fn bytes_a_nonzero(&self) -> f64 {
        ratio(self.tile_bytes, self.nonzeros)
    }

    /// Bytes of the input for each byte of tiles.
    pub fn ratio_to_input(&self) -> f64 {
        ratio(self.input_bytes, self.tile_bytes)
    }

    /// Cells a second.
    pub fn cells_a_second(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
        let cells = self.cells as f64;
        cells / self.time.as_secs_f64().max(1e-9)
    }
}

#[allow(clippy::cast_precision_loss, reason = "a figure for people")]
fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for InputSummary { input, cells, nonzeros, sum, .. } in &self.inputs {
            write!(f, "{} ({}), matrix {} ({}", input.path, input.format, input.matrix, input.dtype)?;
            if !input.why.is_empty() {
                write!(f, "; {}", input.why)?;
            }
            writeln!(f, "): {cells} cells, {nonzeros} nonzeros, sum {sum}")?;
        }
        writeln!(f, "{} cells, {} genes, {} nonzeros", self.cells, self.genes, self.nonzeros)?;
        writeln!(
            f,
            "{} in {} tiles: {:.1} bytes a cell, {:.3} a nonzero, {:.2} times smaller than the input ({})",
            human_bytes(self.tile_bytes),
            self.tiles,
            self.bytes_a_cell(),
            self.bytes_a_nonzero(),
            self.ratio_to_input(),
            human_bytes(self.input_bytes)
        )?;
        write!(f, "{:.2} s, {:.0} cells/s", self.time.as_secs_f64(), self.cells_a_second())
    }
}
