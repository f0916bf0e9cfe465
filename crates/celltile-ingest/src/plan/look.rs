//! Looks at inputs, one after the other, and decides what becomes of them.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use celltile::table::unify::{Sketch, Union};
use celltile::table::{Table, TableError, Values};

use super::genes::{IDENTIFIERS, Joined, Joiner, NAMES, keys};
use super::report::{ColumnReport, InputReport, Report};
use super::sourced::with_source;
use super::{InputName, Opened, Plan, PlannedInput, Spill};
use crate::convert::{ConvertOptions, Stage};
use crate::error::{BadColumn, Error, Result};
use crate::source::{self, Source, SourceOptions};

/// Cell names of so many cells are looked through for repeats.
const NAMES_LOOKED_AT: u64 = 4_000_000;

/// What came of looking.
#[derive(Debug)]
#[non_exhaustive]
pub struct Looked {
    /// Everything that was found.
    pub report: Report,
    /// What is to be done, if nothing is wrong.
    pub plan: Option<Plan>,
    /// The first error, as it was met.
    pub(super) first: Option<Error>,
}

impl Looked {
    /// The plan.
    ///
    /// # Errors
    ///
    /// What is wrong: the very error where there is one only, else [`Error::Unfit`] with the report.
    pub fn plan(self) -> Result<Plan> {
        match (self.plan, self.first) {
            (Some(plan), _) => Ok(plan),
            (None, Some(error)) if self.report.all_problems().len() <= 1 => Err(error),
            (None, _) => Err(Error::Unfit(Box::new(self.report))),
        }
    }
}

/// What is gathered on the way.
struct Looking<'a> {
    options: &'a ConvertOptions,
    source_options: &'a SourceOptions,
    report: Report,
    planned: Vec<PlannedInput>,
    sketches: Vec<(String, Sketch)>,
    joiners: Vec<Joiner>,
    /// Identifiers of the first input's genes, if it has them.
    ids: Option<Vec<String>>,
    first: Option<Error>,
    cell_names: HashSet<u64>,
    repeated_names: u64,
    opened: Option<Opened>,
}

pub(super) fn look(
    inputs: &[InputName],
    sources: Option<Box<dyn Source>>,
    source_options: &SourceOptions,
    options: &ConvertOptions,
) -> Result<Looked> {
    let joining = &options.joining;
    let keys = joining.var_key.as_deref().map_or_else(|| vec![IDENTIFIERS, NAMES], |key| vec![key]);
    let mut looking = Looking {
        options,
        source_options,
        report: Report::default(),
        planned: Vec::new(),
        sketches: Vec::new(),
        joiners: keys.into_iter().map(|key| Joiner::new(key, joining)).collect(),
        ids: None,
        first: None,
        cell_names: HashSet::new(),
        repeated_names: 0,
        opened: None,
    };
    if let Some(like) = &options.obs_like {
        looking.sketches.push(("the dataset".to_owned(), Sketch::of(like, &[])?));
    }
    let mut sources = sources;
    for (at, input) in inputs.iter().enumerate() {
        options.step(Stage::Check, at as u64, inputs.len() as u64)?;
        let mut report = InputReport { path: input.path.clone(), ..InputReport::default() };
        let looked = match sources.take() {
            Some(source) => looking.input(input, source, &mut report, inputs.len() == 1),
            None => source::open_as(&input.path, &input.name, source_options)
                .and_then(|source| looking.input(input, source, &mut report, inputs.len() == 1)),
        };
        match looked {
            Ok(()) => {}
            Err(Error::Cancelled) => return Err(Error::Cancelled),
            Err(error) => {
                report.problems.push(error.to_string());
                looking.first.get_or_insert(error);
            }
        }
        looking.report.inputs.push(report);
    }
    options.step(Stage::Check, inputs.len() as u64, inputs.len() as u64)?;
    looking.decide(inputs)
}

impl Looking<'_> {
    fn input(
        &mut self,
        input: &InputName,
        source: Box<dyn Source>,
        report: &mut InputReport,
        only: bool,
    ) -> Result<()> {
        let source: Arc<dyn Source> = source.into();
        let remote = &self.source_options.remote;
        let planned = PlannedInput::of(input, source.as_ref(), remote, self.options);
        self.report.cells = self.report.cells.saturating_add(planned.cells);
        report.input = Some(planned.clone());
        let (obs, var) = tables(source.as_ref())?;
        let obs = with_source(obs, source.as_ref(), &input.name, &self.options.joining)?;
        if obs.rows() as u64 != planned.cells || var.rows() as u64 != planned.genes {
            return Err(Error::Length {
                file: planned.path,
                at: planned.matrix,
                found: format!("{} cells and {} genes", planned.cells, planned.genes),
                expected: format!("obs has {} rows and var {}", obs.rows(), var.rows()),
            });
        }
        self.columns(&obs, &var);
        if self.report.cells <= NAMES_LOOKED_AT
            && let Some(Values::Text(names)) = obs.index().map(|index| index.values())
        {
            for name in names.values().iter().flatten() {
                let mut hasher = DefaultHasher::new();
                name.hash(&mut hasher);
                self.repeated_names += u64::from(!self.cell_names.insert(hasher.finish()));
            }
        }
        let names: Vec<String> = source.gene_names().iter().map(str::to_owned).collect();
        if self.planned.is_empty() {
            self.ids = source.gene_ids().map(|ids| ids.iter().map(str::to_owned).collect());
        }
        if source.gene_ids().is_none() {
            self.joiners.retain(|joiner| joiner.key() != IDENTIFIERS);
        }
        for joiner in &mut self.joiners {
            let table = (joiner.key() != NAMES && joiner.key() != IDENTIFIERS).then_some(&var);
            let keys = keys(source.as_ref(), table, joiner.key())?;
            joiner.add(&input.path, keys, names.clone(), &var)?;
        }
        let sketch = Sketch::of(&obs, &[])?;
        if !self.sketches.iter().rev().any(|(_, known)| *known == sketch) {
            self.sketches.push((input.path.clone(), sketch));
        }
        self.planned.push(planned);
        if only {
            self.opened = Some(Opened { source, obs });
        }
        Ok(())
    }

    fn columns(&mut self, obs: &Table, var: &Table) {
        for (table, list) in [(obs, &mut self.report.obs), (var, &mut self.report.var)] {
            for column in table.columns() {
                let kind = column.values().kind().to_string();
                match list.iter_mut().find(|known| known.name == column.name()) {
                    Some(known) => {
                        known.inputs += 1;
                        if !known.kinds.contains(&kind) {
                            known.kinds.push(kind);
                        }
                    }
                    None => list.push(ColumnReport {
                        name: column.name().to_owned(),
                        kinds: vec![kind],
                        inputs: 1,
                    }),
                }
            }
        }
    }

    fn problem(&mut self, error: Error) {
        self.report.problems.push(error.to_string());
        self.first.get_or_insert(error);
    }

    fn decide(mut self, inputs: &[InputName]) -> Result<Looked> {
        let complete = self.planned.len() == inputs.len();
        let several = inputs.len() > 1;
        let Some(joiner) = self.joiners.drain(..).next().filter(|_| !self.planned.is_empty()) else {
            return Ok(Looked { report: self.report, plan: None, first: self.first });
        };
        for (path, problem) in &joiner.problems {
            if let Some(input) = self.report.inputs.iter_mut().find(|input| input.path == *path) {
                input.problems.push(problem.clone());
            }
            self.first.get_or_insert(Error::Options(format!("{path}: {problem}")));
        }
        let gene_problems = !joiner.problems.is_empty();
        let Joined { genes, var, notes } = joiner.finish()?;
        self.report.notes.extend(notes);
        self.report.genes = genes.names.len() as u64;
        if several {
            let how = if genes.by_position { "the same list in all inputs" } else { "matched" };
            self.report.joined_by = format!("{} ({how})", genes.key);
        }
        if genes.names.is_empty() && complete && !gene_problems {
            self.problem(Error::Options(
                "no gene is left: the inputs share none (--join outer keeps all)".into(),
            ));
        }
        if self.repeated_names > 0 {
            let n = self.repeated_names;
            self.report.notes.push(format!(
                "{n} cell names are there more than once: cells are told apart by position (--obs-names-prefix makes names differ)"
            ));
        }
        let union = if several || self.options.obs_like.is_some() { self.union(inputs) } else { None };
        let joining = &self.options.joining;
        let mut gene_order = None;
        if let Some(from) = &self.options.gene_order_from
            && complete
            && !gene_problems
        {
            let file = inputs.first().map(|input| input.path.as_str()).unwrap_or_default();
            let ids = match (genes.key.as_str(), genes.by_position) {
                (IDENTIFIERS, true) => self.ids.as_deref(),
                (IDENTIFIERS, false) => Some(genes.keys.as_slice()),
                _ => None,
            };
            match from.columns(&genes.names, ids, file) {
                Ok(order) => gene_order = Some(order),
                Err(error) => self.problem(error),
            }
        }
        if !complete || !self.report.is_fit() {
            return Ok(Looked { report: self.report, plan: None, first: self.first });
        }
        let plan = Plan {
            version: super::VERSION,
            source_options: self.source_options.clone(),
            settings: super::Settings::of(self.options)?,
            joining: joining.clone(),
            spill: Spill::decide(&self.planned, self.options),
            inputs: self.planned,
            genes,
            gene_order,
            obs: union.map(|union| union.to_json()),
            notes: self.report.notes.clone(),
            var,
            opened: self.opened,
            known: super::KnownObs::default(),
        };
        Ok(Looked { report: self.report, plan: Some(plan), first: None })
    }

    /// The common schema of obs.
    fn union(&mut self, inputs: &[InputName]) -> Option<Union> {
        let tables: Vec<&Table> = self.sketches.iter().map(|(_, sketch)| sketch.table()).collect();
        let mixed = Union::mixed_columns(&tables);
        if !mixed.is_empty()
            && let Err(error) = self.spell(inputs, &mixed)
        {
            self.problem(error);
            return None;
        }
        let sketches: Vec<(&str, &Sketch)> =
            self.sketches.iter().map(|(name, sketch)| (name.as_str(), sketch)).collect();
        match Union::of_sketches(&sketches) {
            Ok(union) => Some(union),
            Err(error) => {
                // All columns that do not fit, not the first.
                let errors = self.each_column(error);
                for error in errors {
                    self.problem(Error::Options(format!("obs: {error} (--obs-exclude)")));
                }
                None
            }
        }
    }

    fn each_column(&self, first: TableError) -> Vec<TableError> {
        let mut errors = Vec::new();
        for column in &self.report.obs {
            let parts: Vec<(String, Sketch)> = self
                .sketches
                .iter()
                .filter_map(|(name, sketch)| Some((name.clone(), sketch.only(&column.name)?)))
                .collect();
            let parts: Vec<(&str, &Sketch)> =
                parts.iter().map(|(name, sketch)| (name.as_str(), sketch)).collect();
            if let Err(error) = Union::of_sketches(&parts) {
                errors.push(error);
            }
        }
        if errors.is_empty() {
            errors.push(first);
        }
        errors
    }

    /// Reads obs once more, for the values of text that becomes categories.
    fn spell(&mut self, inputs: &[InputName], columns: &[String]) -> Result<()> {
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        self.sketches.clear();
        if let Some(like) = &self.options.obs_like {
            self.sketches.push(("the dataset".to_owned(), Sketch::of(like, &columns)?));
        }
        for input in inputs {
            self.options.read.check_cancelled()?;
            let Ok(source) = source::open_as(&input.path, &input.name, self.source_options) else { continue };
            let Ok(obs) = source.obs() else { continue };
            let obs = with_source(obs, source.as_ref(), &input.name, &self.options.joining)?;
            let sketch = Sketch::of(&obs, &columns)?;
            if !self.sketches.iter().rev().any(|(_, known)| *known == sketch) {
                self.sketches.push((input.path.clone(), sketch));
            }
        }
        Ok(())
    }
}

/// The tables of an input; columns that a dataset cannot hold are told all at once, those of obs and of var.
fn tables(source: &dyn Source) -> Result<(Table, Table)> {
    match (source.obs(), source.var()) {
        (Ok(obs), Ok(var)) => Ok((obs, var)),
        (Err(Error::Columns { file, mut columns }), Err(Error::Columns { columns: more, .. })) => {
            let more: Vec<BadColumn> = more;
            columns.extend(more);
            Err(Error::Columns { file, columns })
        }
        // Anything else is worse than a column that can be left out.
        (Err(Error::Columns { .. }), Err(error)) | (Err(error), _) | (_, Err(error)) => Err(error),
    }
}
