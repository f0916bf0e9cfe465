use std::collections::BTreeMap;

use celltile::table::{Column, Index, Table, Text, Values};
use serde_json::{Map, Value, json};

use super::SourceOptions;
use crate::error::{Error, Result};
use crate::frame::ColumnChoice;
use crate::hdf5::StringColumn;

/// The type of features that are genes.
const GENE_EXPRESSION: &str = "Gene Expression";

/// The features of a file, and which of them are kept.
#[derive(Debug)]
pub(super) struct Features {
    /// Names of all that are stored.
    pub(super) all: StringColumn,
    /// Names of those kept.
    pub(super) names: StringColumn,
    /// Other columns of those kept.
    pub(super) columns: Vec<(String, StringColumn)>,
    /// For each stored feature its place among those kept; nothing if all are kept.
    pub(super) map: Option<Vec<Option<u32>>>,
    /// Types that were dropped, and how many features of each.
    pub(super) dropped: Vec<String>,
    /// Options that decided it.
    pub(super) options: Map<String, Value>,
}

impl Features {
    pub(super) fn new(
        file: &str,
        at: &str,
        names: StringColumn,
        columns: &[(String, StringColumn)],
        options: &SourceOptions,
    ) -> Result<Self> {
        if u32::try_from(names.len()).is_err() {
            let what = format!("{} features; a dataset has fewer than 2^31 genes", names.len());
            return Err(Error::Unsupported { file: file.to_owned(), at: at.to_owned(), what });
        }
        for (name, column) in columns {
            if column.len() != names.len() {
                return Err(Error::Length {
                    file: file.to_owned(),
                    at: format!("{at}: {name}"),
                    found: format!("{} entries", column.len()),
                    expected: format!("there are {} features", names.len()),
                });
            }
        }
        let mut dropped: BTreeMap<String, u64> = BTreeMap::new();
        let types = columns.iter().find(|(name, _)| name == "feature_types").map(|(_, types)| types);
        let genomes = columns.iter().find(|(name, _)| name == "genome").map(|(_, genomes)| genomes);
        let wanted = options.feature_types.as_deref();
        if let Some(genome) = options.genome.as_deref().filter(|genome| *genome != "all" && genomes.is_none())
        {
            return Err(Error::Options(format!(
                "{file}: {at} names no genomes; {genome:?} cannot be chosen"
            )));
        }
        let mut map = Vec::with_capacity(names.len());
        let mut next = 0_u32;
        for at in 0..names.len() {
            let kind = types.and_then(|types| types.get(at)).unwrap_or(GENE_EXPRESSION);
            let genome = genomes.and_then(|genomes| genomes.get(at)).unwrap_or_default();
            let typed = match wanted {
                None => kind == GENE_EXPRESSION,
                Some(wanted) => wanted.iter().any(|wanted| wanted == kind || wanted == "all"),
            };
            // Features that are no genes have no genome.
            let placed = options
                .genome
                .as_deref()
                .is_none_or(|wanted| wanted == genome || wanted == "all" || genome.is_empty());
            if typed && placed {
                map.push(Some(next));
                next = next.saturating_add(1);
            } else {
                let what = if typed { format!("genome {genome}") } else { kind.to_owned() };
                *dropped.entry(what).or_default() += 1;
                map.push(None);
            }
        }
        if next == 0 {
            let there: Vec<_> = dropped.iter().map(|(what, count)| format!("{count} of {what}")).collect();
            return Err(Error::Unsupported {
                file: file.to_owned(),
                at: at.to_owned(),
                what: format!("no feature is left to convert; there are: {}", there.join(", ")),
            });
        }
        let mut chosen = Map::new();
        if let Some(genome) = &options.genome {
            chosen.insert("genome".into(), json!(genome));
        }
        if let Some(types) = wanted {
            chosen.insert("feature_types".into(), json!(types));
        }
        let keep = |column: &StringColumn| -> StringColumn {
            map.iter().zip(column.iter()).filter(|(place, _)| place.is_some()).map(|(_, text)| text).collect()
        };
        Ok(Self {
            names: keep(&names),
            columns: columns.iter().map(|(name, column)| (name.clone(), keep(column))).collect(),
            all: names,
            dropped: dropped.into_iter().map(|(what, count)| format!("{count} features: {what}")).collect(),
            map: map.iter().any(Option::is_none).then_some(map),
            options: chosen,
        })
    }
}

impl Features {
    /// Identifiers of those kept.
    pub(super) fn ids(&self) -> Option<&StringColumn> {
        self.columns.iter().find(|(name, _)| name == "gene_ids").map(|(_, ids)| ids)
    }

    /// Those kept as a table of genes.
    pub(super) fn table(&self, file: &str, choice: &ColumnChoice) -> Result<Table> {
        let columns = self.columns.iter().map(|(name, column)| Column::new(name.clone(), text(column)));
        let index = Index::new(None, text(&self.names));
        choice.table(self.names.len(), index, columns.collect(), file, "var")
    }
}

/// Positions as names, where nobody gave any.
pub(super) fn numbered(count: usize) -> Values {
    Values::Text((0..count).map(|at| Some(at.to_string())).collect::<Text>())
}

pub(super) fn text(strings: &StringColumn) -> Values {
    Values::Text(strings.iter().map(Some).collect::<Text>())
}
