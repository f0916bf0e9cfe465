//! Looks at every input before anything is read or written: what will be converted, and what is wrong with it.

mod genes;
mod identity;
mod inputs;
mod joining;
mod look;
mod report;
mod settings;
mod sourced;

use std::sync::{Arc, OnceLock};

use celltile::digest::Sha256;
use celltile::storage::RemoteOptions;
use celltile::table::Table;
use celltile::table::unify::Union;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub(crate) use self::genes::{GeneMap, Genes};
pub use self::inputs::{InputName, find_inputs};
pub use self::joining::{DuplicateGenes, Join, Joining};
pub use self::look::Looked;
pub use self::report::{ColumnReport, InputReport, Report};
pub(crate) use self::settings::Settings;

use crate::convert::ConvertOptions;
use crate::error::{Error, Result};
use crate::source::{self, MatrixChoice, NotCarried, Source, SourceOptions};

/// The form of stored plans.
const VERSION: u32 = 1;

/// Differences that a message lists.
const LISTED: usize = 10;

/// Inputs that were looked at, and what becomes of them: their tables are read and fit, so that only their cells can still be wrong.
///
/// Everything that a conversion writes is a function of the plan and the inputs' cells (`docs/decisions/conversion-stages.md`).
#[derive(Serialize, Deserialize)]
pub struct Plan {
    pub(crate) version: u32,
    pub(crate) source_options: SourceOptions,
    pub(crate) settings: Settings,
    pub(crate) joining: Joining,
    pub(crate) spill: Spill,
    pub(crate) inputs: Vec<PlannedInput>,
    pub(crate) genes: Genes,
    /// The joined gene list's column of each gene of the dataset, if it is not decided by the counts.
    pub(crate) gene_order: Option<Vec<i32>>,
    /// The common schema of several inputs' obs.
    pub(crate) obs: Option<Value>,
    pub(crate) notes: Vec<String>,
    /// The gene table, in the order of the joined list; stored beside.
    #[serde(skip, default = "no_table")]
    pub(crate) var: Table,
    /// A single input is kept open.
    #[serde(skip)]
    pub(crate) opened: Option<Opened>,
    #[serde(skip)]
    known: KnownObs,
}

/// The union, read from its JSON form once.
#[derive(Default)]
struct KnownObs(OnceLock<Union>);

/// An input that stays open.
pub(crate) struct Opened {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) obs: Table,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened").field("info", self.source.info()).finish_non_exhaustive()
    }
}

fn no_table() -> Table {
    Table::empty()
}

/// How cells are put aside where their order is not that of the inputs. It changes nothing in the dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spill {
    /// Into how many buckets shuffled cells go.
    pub(crate) buckets: u32,
    /// A part ends with the cell that takes it past so many bytes.
    pub(crate) part_bytes: u64,
}

impl Spill {
    fn decide(inputs: &[PlannedInput], options: &ConvertOptions) -> Self {
        let packed: u64 = inputs.iter().map(PlannedInput::packed).fold(0, u64::saturating_add);
        let part_bytes = (options.memory / 16).clamp(1 << 12, 64 << 20);
        let buckets = packed.div_ceil((options.memory / 8).max(1 << 12)).clamp(1, 1 << 16);
        Self { buckets: u32::try_from(buckets).unwrap_or(u32::MAX), part_bytes }
    }
}

/// An input as it is converted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PlannedInput {
    /// Its path or URL.
    pub path: String,
    /// What it is called in the dataset.
    pub name: String,
    /// Bytes in it.
    pub bytes: u64,
    /// A hash of its headers.
    pub fingerprint: String,
    /// When it was last written, in words that compare: a time or a version. It is not in the dataset.
    #[serde(default)]
    pub stamp: Option<String>,
    /// Its kind.
    pub format: String,
    /// The matrix that is read.
    pub matrix: String,
    /// Why it was chosen, where there was a choice.
    pub why: String,
    /// How it is stored: `csr`, `csc`, `dense` and others.
    pub encoding: String,
    /// Whether its cells have to be put together from genes.
    #[serde(default)]
    pub by_gene: bool,
    /// Type of its values.
    pub dtype: String,
    /// Its cells.
    pub cells: u64,
    /// Its genes.
    pub genes: u64,
    /// Entries stored.
    pub stored: Option<u64>,
    /// Features left out, in words.
    pub dropped: Vec<String>,
    /// What people should know.
    pub notes: Vec<String>,
    /// Options that change what is read.
    pub options: Map<String, Value>,
    /// Metadata of its own that a dataset of this input alone carries on.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// What it holds and the dataset does not.
    pub not_carried: Vec<NotCarried>,
}

impl PlannedInput {
    fn of(input: &InputName, source: &dyn Source, remote: &RemoteOptions, options: &ConvertOptions) -> Self {
        let info = source.info();
        Self {
            path: input.path.clone(),
            name: input.name.clone(),
            bytes: info.bytes,
            fingerprint: identity::fingerprint(&input.path, source),
            stamp: identity::stamp(&input.path, source, remote),
            format: info.format.to_owned(),
            matrix: info.matrix.clone(),
            why: info.why.clone(),
            encoding: info.encoding.to_owned(),
            by_gene: source.by_gene(&options.reading(source)),
            dtype: info.dtype.clone(),
            cells: info.shape.cells,
            genes: info.shape.genes,
            stored: info.stored,
            dropped: info.dropped.clone(),
            notes: info.notes.clone(),
            options: info.options.clone(),
            metadata: source.metadata(),
            not_carried: source.not_carried().to_vec(),
        }
    }

    /// From what a finished dataset says of it; where it was, it does not say.
    pub(crate) fn of_source(source: &Value, genes: u64) -> Self {
        let text = |key: &str| source.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let number = |key: &str| source.get(key).and_then(Value::as_u64).unwrap_or(0);
        let list = |key: &str| source.get(key).cloned().unwrap_or_default();
        Self {
            path: text("name"),
            name: text("name"),
            bytes: number("bytes"),
            fingerprint: text("fingerprint"),
            stamp: None,
            format: text("format"),
            matrix: text("matrix"),
            why: String::new(),
            encoding: text("encoding"),
            by_gene: false,
            dtype: text("dtype"),
            cells: number("cells"),
            genes,
            stored: None,
            dropped: serde_json::from_value(list("features_dropped")).unwrap_or_default(),
            notes: Vec::new(),
            options: serde_json::from_value(list("options")).unwrap_or_default(),
            metadata: Map::new(),
            not_carried: serde_json::from_value(list("not_carried")).unwrap_or_default(),
        }
    }

    /// Whether somebody has written to it since this was found, as far as that can be told.
    fn written_since(&self, now: Option<&String>) -> bool {
        matches!((&self.stamp, now), (Some(before), Some(now)) if before != now)
    }

    /// Bytes of its cells when packed, about.
    pub(crate) fn packed(&self) -> u64 {
        let entries = self.stored.unwrap_or_else(|| self.cells.saturating_mul(self.genes) / 4);
        entries.saturating_mul(9).saturating_div(4).saturating_add(self.cells.saturating_mul(8))
    }

    /// Whether its cells have to be put together from genes.
    pub(crate) fn transposed(&self) -> bool {
        self.by_gene
    }
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan")
            .field("inputs", &self.inputs)
            .field("joining", &self.joining)
            .finish_non_exhaustive()
    }
}

impl Plan {
    /// Looks at inputs: opens each, reads its tables, joins genes and columns. What is wrong with them is in the report, all of it.
    ///
    /// # Errors
    ///
    /// [`Error::Cancelled`]; options that contradict each other.
    pub fn look(
        inputs: &[InputName],
        source_options: &SourceOptions,
        options: &ConvertOptions,
    ) -> Result<Looked> {
        look::look(inputs, None, source_options, options)
    }

    /// Looks at one input that is open already.
    ///
    /// # Errors
    ///
    /// As [`look`](Self::look).
    pub fn of_source(
        source: Box<dyn Source>,
        source_options: &SourceOptions,
        options: &ConvertOptions,
    ) -> Result<Self> {
        let path = source.info().file.clone();
        let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
        look::look(&[InputName { path, name }], Some(source), source_options, options)?.plan()
    }

    /// The inputs.
    pub fn inputs(&self) -> &[PlannedInput] {
        &self.inputs
    }

    /// Cells of all inputs.
    pub fn cells(&self) -> u64 {
        self.inputs.iter().map(|input| input.cells).fold(0, u64::saturating_add)
    }

    /// Genes of the dataset.
    pub fn n_genes(&self) -> u64 {
        self.genes.names.len() as u64
    }

    /// The gene table, in the order of the joined list.
    pub fn var(&self) -> &Table {
        &self.var
    }

    /// Tiles of the dataset.
    pub fn n_tiles(&self) -> u64 {
        self.cells().div_ceil(self.settings.tile_size.max(1))
    }

    /// Number of an input's first cell among those of all inputs.
    pub(crate) fn first_cell(&self, input: usize) -> u64 {
        self.inputs.iter().take(input).map(|input| input.cells).fold(0, u64::saturating_add)
    }

    /// Opens an input, which must be as it was.
    pub(crate) fn open(&self, input: usize, options: &ConvertOptions) -> Result<Arc<dyn Source>> {
        if let Some(opened) = &self.opened {
            return Ok(Arc::clone(&opened.source));
        }
        let planned =
            self.inputs.get(input).ok_or_else(|| Error::Options(format!("there is no input {input}")))?;
        let mut source_options = self.source_options.clone();
        // What was chosen by looking at samples is not looked for again.
        if planned.format == "h5ad" && source_options.matrix == MatrixChoice::Auto {
            source_options.matrix = MatrixChoice::Path(planned.matrix.clone());
        }
        source_options.read = options.read.clone();
        source_options.remote = options.inputs_remote.clone();
        source_options.openers.clone_from(&options.openers);
        let source = source::open_as(&planned.path, &planned.name, &source_options)?;
        let found = identity::fingerprint(&planned.path, source.as_ref());
        if found != planned.fingerprint {
            return Err(Error::Changed {
                file: planned.path.clone(),
                what: format!(
                    "{} bytes, {} cells and {} genes now, {} bytes, {} cells and {} genes when it was looked at",
                    source.info().bytes,
                    source.info().shape.cells,
                    source.info().shape.genes,
                    planned.bytes,
                    planned.cells,
                    planned.genes
                ),
            });
        }
        let stamp = identity::stamp(&planned.path, source.as_ref(), &options.inputs_remote);
        if planned.written_since(stamp.as_ref()) {
            return Err(Error::Changed {
                file: planned.path.clone(),
                what: "it was written to after it was looked at; --overwrite begins anew".into(),
            });
        }
        Ok(source.into())
    }

    /// The obs table of an input, in the common schema.
    pub(crate) fn obs_of(&self, input: usize, options: &ConvertOptions) -> Result<Table> {
        let obs = match &self.opened {
            Some(opened) => opened.obs.clone(),
            None => {
                let source = self.open(input, options)?;
                let name = self.inputs.get(input).map(|input| input.name.as_str()).unwrap_or_default();
                sourced::with_source(source.obs()?, source.as_ref(), name, &self.joining)?
            }
        };
        match self.union()? {
            None => Ok(obs),
            Some(union) => {
                let file = self.inputs.get(input).map(|input| input.path.clone()).unwrap_or_default();
                union.conform_any(&obs).map_err(|error| Error::Changed { file, what: error.to_string() })
            }
        }
    }

    /// The common schema of obs, where there are several inputs.
    pub(crate) fn union(&self) -> Result<Option<&Union>> {
        let Some(json) = &self.obs else { return Ok(None) };
        if self.known.0.get().is_none() {
            // Whoever comes first; the others' are the same.
            let _ = self.known.0.set(Union::from_json(json)?);
        }
        Ok(self.known.0.get())
    }

    /// What makes this plan this plan: all that the dataset depends on, without paths, memory and threads.
    pub(crate) fn essence(&self) -> Value {
        let inputs: Vec<Value> = self
            .inputs
            .iter()
            .map(|input| {
                json!({"name": input.name, "bytes": input.bytes, "fingerprint": input.fingerprint, "matrix": input.matrix,
                       "cells": input.cells, "genes": input.genes})
            })
            .collect();
        let genes = serde_json::to_string(&self.genes).unwrap_or_default();
        let mut source = serde_json::to_value(&self.source_options).unwrap_or_default();
        if let Value::Object(source) = &mut source {
            source.remove("ignore_lock");
            // A default that becomes another one by being named is told by what was read.
            source.retain(|_, value| !value.is_null());
        }
        json!({
            "version": self.version,
            "reading": source,
            "settings": self.settings,
            "joining": self.joining,
            "inputs": inputs,
            "genes": Sha256::of(genes.as_bytes()).to_string(),
            "gene_order": self.gene_order.as_ref().map(|order| {
                let bytes: Vec<u8> = order.iter().flat_map(|column| column.to_le_bytes()).collect();
                Sha256::of(&bytes).to_string()
            }),
            "obs": self.obs.as_ref().map(|obs| Sha256::of(obs.to_string().as_bytes()).to_string()),
        })
    }

    /// The hash of the [essence](Self::essence).
    pub(crate) fn digest(&self) -> String {
        Sha256::of(self.essence().to_string().as_bytes()).to_string()
    }

    /// In what another plan differs; empty if it makes the same dataset.
    pub(crate) fn differences(&self, stored: &Self) -> Vec<String> {
        let mut found = Vec::new();
        if self.inputs.len() != stored.inputs.len() {
            found.push(format!("{} inputs now, {} before", self.inputs.len(), stored.inputs.len()));
        }
        for (now, before) in self.inputs.iter().zip(&stored.inputs) {
            let written = before.written_since(now.stamp.as_ref());
            if now.fingerprint != before.fingerprint || now.name != before.name || written {
                let what = if now.name == before.name {
                    "has changed".into()
                } else {
                    format!("was {}", before.path)
                };
                found.push(format!("input {}: {what}", now.path));
            }
        }
        differing("", &self.essence(), &stored.essence(), &mut found);
        found.truncate(LISTED);
        found
    }
}

impl Plan {
    /// In what a finished dataset's conversion differs, from what its metadata say.
    pub(crate) fn differences_from(&self, essence: &Value, sources: &Value) -> Vec<String> {
        let mut found = Vec::new();
        let sources = sources.as_array().map(Vec::as_slice).unwrap_or_default();
        if sources.len() != self.inputs.len() {
            found.push(format!("{} inputs now, {} before", self.inputs.len(), sources.len()));
        }
        for (now, before) in self.inputs.iter().zip(sources) {
            let text = |key: &str| before.get(key).and_then(Value::as_str).unwrap_or_default();
            if now.name != text("name") {
                found.push(format!("input {}: was {}", now.path, text("name")));
            } else if now.fingerprint != text("fingerprint") {
                found.push(format!("input {}: has changed", now.path));
            }
        }
        differing("", &self.essence(), essence, &mut found);
        found.truncate(LISTED);
        found
    }
}

/// Where two JSON values differ; inputs and hashes are told otherwise.
fn differing(at: &str, now: &Value, before: &Value, found: &mut Vec<String>) {
    match (now, before) {
        (Value::Object(now), Value::Object(before)) => {
            let keys = now.keys().chain(before.keys().filter(|key| !now.contains_key(*key)));
            for key in keys {
                let place = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                let null = Value::Null;
                let (a, b) = (now.get(key).unwrap_or(&null), before.get(key).unwrap_or(&null));
                match key.as_str() {
                    "inputs" if at.is_empty() => {}
                    "genes" | "obs" | "gene_order" if at.is_empty() => {
                        if a != b {
                            found.push(format!(
                                "{} now and before",
                                match key.as_str() {
                                    "genes" => "other genes",
                                    "obs" => "other columns of obs",
                                    _ => "another gene order",
                                }
                            ));
                        }
                    }
                    _ => differing(&place, a, b, found),
                }
            }
        }
        _ if now != before => found.push(format!("{at} is {now} now, {before} before")),
        _ => {}
    }
}
