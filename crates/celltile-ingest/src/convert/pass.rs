//! The first pass over an input: checks every cell, adds up the genes, keeps or puts aside the cells.

use super::cells::{Input, Part, Totals};
use super::clean::Findings;
use super::options::{ConvertOptions, Stage};
use super::packed::Packed;
use super::scatter::Scatter;
use super::supply::Cache;
use super::tally::Tally;
use super::work::{Counted, Work};
use crate::error::{Error, Result, human_bytes};
use crate::plan::Plan;

/// What is to be done with an input.
#[derive(Debug, Clone, Copy)]
pub(super) struct Todo {
    /// Its genes are not added up yet.
    pub(super) count: bool,
    /// Its cells have to be put aside.
    pub(super) scatter: bool,
    /// Its cells may be kept in memory.
    pub(super) keep: bool,
}

/// Room for packed cells.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) left: u64,
    /// Whether everything has fitted so far.
    pub(super) whole: bool,
}

/// Memory that the sums of genes take has to be a small share.
pub(super) fn check_memory(plan: &Plan, options: &ConvertOptions) -> Result<()> {
    let threads = rayon::current_num_threads() as u64 + 1;
    let needed = plan.n_genes().saturating_mul(8).saturating_mul(threads);
    if needed <= options.memory / 4 {
        return Ok(());
    }
    let input = plan.inputs.first();
    Err(Error::Memory {
        file: input.map(|input| input.path.clone()).unwrap_or_default(),
        at: format!(
            "{}: the totals of {} genes",
            input.map(|i| i.matrix.as_str()).unwrap_or_default(),
            plan.n_genes()
        ),
        needed: human_bytes(needed.saturating_mul(4)),
        allowed: human_bytes(options.memory),
    })
}

/// Reads an input once, from the cell `first` on. `done` cells of `total` were read before.
#[allow(clippy::too_many_arguments, reason = "one pass does three things at once")]
pub(super) fn pass(
    plan: &Plan,
    work: &Work,
    options: &ConvertOptions,
    input: usize,
    first: u64,
    todo: Todo,
    cache: &mut Cache,
    room: &mut Room,
    done: &mut u64,
    total: u64,
) -> Result<()> {
    let open = Input::open(plan, input, options)?;
    let cells = plan.inputs.get(input).map_or(0, |input| input.cells);
    let genes = usize::try_from(plan.n_genes()).unwrap_or(usize::MAX);
    let totals = todo.count.then(|| Totals::new(genes));
    let stage = if todo.scatter && !todo.count { Stage::Scatter } else { Stage::Count };
    let mut scatter = todo.scatter.then(|| Scatter::new(work, plan, input));
    let (mut tally, mut findings) = (Tally::default(), Findings::default());
    *done += first;
    options.step(stage, *done, total)?;
    let mut after = |tally_of: Tally, findings_of: Findings, done: &mut u64| {
        tally += tally_of;
        findings += findings_of;
        *done += tally_of.cells;
    };
    if todo.scatter || (todo.keep && room.left > 0) {
        open.read(first..cells, options, totals.as_ref(), &mut |parts: Vec<Part<Packed>>| {
            for part in parts {
                after(part.tally, part.findings, done);
                if let Some(scatter) = &mut scatter {
                    scatter.push(&part.cells)?;
                } else if part.cells.memory() <= room.left {
                    room.left -= part.cells.memory();
                    cache.entry(input).or_default().insert(part.first_cell, part.cells);
                } else {
                    // Without gaps: what follows is read again in one go.
                    (room.left, room.whole) = (0, false);
                }
            }
            options.step(stage, *done, total)
        })?;
    } else {
        if cells > first {
            room.whole = false;
        }
        open.read(first..cells, options, totals.as_ref(), &mut |parts: Vec<Part<()>>| {
            for part in parts {
                after(part.tally, part.findings, done);
            }
            options.step(stage, *done, total)
        })?;
    }
    if let Some(scatter) = scatter {
        scatter.finish()?;
    }
    if let Some(totals) = totals {
        work.write_count(input, &Counted { tally, findings, totals: totals.sum() })?;
    }
    Ok(())
}
