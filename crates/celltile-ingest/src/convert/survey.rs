use std::sync::Mutex;

use rayon::prelude::*;

use super::clean::{Cleaner, Fault, Findings, fault_error, parts};
use super::options::{ConvertOptions, Stage};
use super::packed::Packed;
use crate::error::{Error, Result, human_bytes};
use crate::matrix::CellBlock;
use crate::source::Source;

/// Entries of a part of a block that one thread takes.
const PART_ENTRIES: usize = 1 << 16;

/// What the first pass found.
#[derive(Debug)]
pub(super) struct Survey {
    /// Sum of the counts of each gene, in the source's order.
    pub(super) totals: Vec<u64>,
    /// Cells.
    pub(super) cells: u64,
    /// Nonzeros.
    pub(super) nonzeros: u64,
    /// Sum of all counts.
    pub(super) sum: u64,
    pub(super) findings: Findings,
    /// The first cells, packed, as many as fit.
    pub(super) packed: Vec<Packed>,
    /// Number of the cells that are packed.
    pub(super) packed_cells: u64,
}

/// What one thread made of a part of a block.
struct Part {
    packed: Packed,
    nonzeros: u64,
    findings: Findings,
    fault: Option<(usize, Fault)>,
}

/// Sums by gene, one a thread that is at work.
struct Totals {
    genes: usize,
    idle: Mutex<Vec<Vec<u64>>>,
}

impl Totals {
    fn with<R>(&self, f: impl FnOnce(&mut [u64]) -> R) -> R {
        let idle = self.idle.lock().ok().and_then(|mut idle| idle.pop());
        let mut totals = idle.unwrap_or_else(|| vec![0; self.genes]);
        let result = f(&mut totals);
        if let Ok(mut idle) = self.idle.lock() {
            idle.push(totals);
        }
        result
    }
}

/// Reads all cells once: checks them, adds them up, and keeps as many as fit.
pub(super) fn survey(source: &dyn Source, options: &ConvertOptions) -> Result<Survey> {
    let shape = source.info().shape;
    let genes = usize::try_from(shape.genes).unwrap_or(usize::MAX);
    let threads = rayon::current_num_threads() as u64 + 1;
    let needed = shape.genes.saturating_mul(8).saturating_mul(threads);
    if needed > options.memory / 4 {
        return Err(Error::Memory {
            file: source.info().file.clone(),
            at: format!("{}: the totals of {} genes", source.info().matrix, shape.genes),
            needed: human_bytes(needed.saturating_mul(4)),
            allowed: human_bytes(options.memory),
        });
    }
    let reading = options.reading(source);
    let mut room = options.keeping(source);
    let totals = Totals { genes, idle: Mutex::default() };
    let mut survey = Survey {
        totals: Vec::new(),
        cells: 0,
        nonzeros: 0,
        sum: 0,
        findings: Findings::default(),
        packed: Vec::new(),
        packed_cells: 0,
    };
    let mut keeping = true;
    let mut blocks = source.cells(0..shape.cells, &reading)?;
    let mut block = CellBlock::default();
    options.step(Stage::Count, 0, shape.cells)?;
    while blocks.next_block(&mut block)? {
        let parts = parts(&block.indptr, PART_ENTRIES);
        let made: Vec<Part> = parts
            .into_par_iter()
            .map_init(Cleaner::default, |cleaner, cells| {
                totals.with(|totals| make_part(&block, cells, cleaner, totals, options, keeping))
            })
            .collect();
        for part in made {
            if let Some((cell, fault)) = part.fault {
                return Err(fault_error(&fault, block.first_cell + cell as u64, source));
            }
            survey.nonzeros += part.nonzeros;
            survey.findings += part.findings;
            // Only the first cells without a gap: the others are read again from where these end.
            keeping &= part.packed.memory() <= room;
            if keeping {
                room -= part.packed.memory();
                survey.packed_cells += part.packed.cells() as u64;
                survey.packed.push(part.packed);
            }
        }
        survey.cells += block.cells() as u64;
        options.step(Stage::Count, survey.cells, shape.cells)?;
    }
    if survey.cells != shape.cells {
        return Err(Error::Damaged {
            file: source.info().file.clone(),
            at: source.info().matrix.clone(),
            what: format!("{} cells were read; expected {}", survey.cells, shape.cells),
        });
    }
    survey.totals = vec![0; genes];
    for one in totals.idle.into_inner().unwrap_or_default() {
        for (total, more) in survey.totals.iter_mut().zip(one) {
            *total += more;
        }
    }
    survey.sum = survey.totals.iter().sum();
    Ok(survey)
}

fn make_part(
    block: &CellBlock,
    cells: std::ops::Range<usize>,
    cleaner: &mut Cleaner,
    totals: &mut [u64],
    options: &ConvertOptions,
    keeping: bool,
) -> Part {
    cleaner.findings = Findings::default();
    let bound = |at: usize| block.indptr.get(at).copied().unwrap_or(0);
    let entries = bound(cells.end) - bound(cells.start);
    let mut packed = if keeping { Packed::with_room(cells.len(), entries) } else { Packed::default() };
    let (mut nonzeros, mut fault) = (0, None);
    for cell in cells {
        let Some((genes, counts)) = block.cell(cell) else { continue };
        match cleaner.clean(genes, counts, options.duplicates) {
            Ok((genes, counts)) => {
                nonzeros += genes.len() as u64;
                for (&gene, &count) in genes.iter().zip(counts) {
                    if let Some(total) = totals.get_mut(gene as usize) {
                        *total += u64::from(count);
                    }
                }
                if keeping {
                    packed.push(genes, counts);
                }
            }
            Err(found) => {
                fault = Some((cell, found));
                break;
            }
        }
    }
    Part { packed, nonzeros, findings: cleaner.findings, fault }
}
