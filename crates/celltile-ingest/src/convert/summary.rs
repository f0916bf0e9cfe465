use std::fmt;
use std::time::Duration;

use celltile::Written;

use super::survey::Survey;
use crate::error::human_bytes;
use crate::source::{NotCarried, Source};

/// What a conversion did.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// The input.
    pub input: String,
    /// Kind of the input.
    pub format: &'static str,
    /// The matrix that was read.
    pub matrix: String,
    /// Why that one.
    pub why: String,
    /// Type of its values.
    pub dtype: String,
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
    /// Bytes of the input.
    pub input_bytes: u64,
    /// Cells whose genes were out of order.
    pub unsorted_cells: u64,
    /// Stored zeros that were dropped.
    pub zeros_dropped: u64,
    /// Entries that were added to others of the same cell and gene.
    pub repeated_summed: u64,
    /// Features that were left out, in words.
    pub features_dropped: Vec<String>,
    /// What the input holds and the dataset does not.
    pub not_carried: Vec<NotCarried>,
    /// Cells that the second pass had to read again, since the memory did not hold them.
    pub cells_read_twice: u64,
    /// How long it took.
    pub time: Duration,
}

impl Summary {
    pub(super) fn new(source: &dyn Source, survey: &Survey, written: &Written, time: Duration) -> Self {
        let info = source.info();
        Self {
            input: info.file.clone(),
            format: info.format,
            matrix: info.matrix.clone(),
            why: info.why.clone(),
            dtype: info.dtype.clone(),
            cells: survey.cells,
            genes: info.shape.genes,
            nonzeros: survey.nonzeros,
            sum: survey.sum,
            tiles: written.manifest.n_tiles(),
            tile_bytes: written.manifest.bytes(),
            input_bytes: info.bytes,
            unsorted_cells: survey.findings.unsorted,
            zeros_dropped: survey.findings.zeros,
            repeated_summed: survey.findings.repeated,
            features_dropped: info.dropped.clone(),
            not_carried: source.not_carried().to_vec(),
            cells_read_twice: survey.cells - survey.packed_cells,
            time,
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
        write!(f, "{} ({}), matrix {} ({}", self.input, self.format, self.matrix, self.dtype)?;
        if self.why.is_empty() {
            writeln!(f, ")")?;
        } else {
            writeln!(f, "; {})", self.why)?;
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
        let notes = [
            (self.unsorted_cells, "cells had their genes out of order"),
            (self.zeros_dropped, "stored zeros were dropped"),
            (self.repeated_summed, "repeated entries were added up"),
        ];
        for (count, what) in notes.iter().filter(|(count, _)| *count > 0) {
            writeln!(f, "{count} {what}")?;
        }
        for dropped in &self.features_dropped {
            writeln!(f, "dropped {dropped}")?;
        }
        if !self.not_carried.is_empty() {
            writeln!(f, "not carried:")?;
            for part in &self.not_carried {
                writeln!(f, "  {} {:?} {}", part.path, part.shape, part.what)?;
            }
        }
        write!(f, "{:.2} s, {:.0} cells/s", self.time.as_secs_f64(), self.cells_a_second())
    }
}
