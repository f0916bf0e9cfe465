//! The genes of several inputs as one list.

mod joiner;
mod var;

use std::collections::{HashMap, HashSet};

use celltile::table::{CategoryValue, Table, Values};
use serde::{Deserialize, Serialize};

pub(super) use self::joiner::{Joined, Joiner};
use super::joining::DuplicateGenes;
use crate::error::{Error, Result};
use crate::source::Source;

/// Names that a message lists.
const LISTED: usize = 5;

/// The genes of a dataset, in the order of the inputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Genes {
    /// What tells genes apart: a column of var, `identifiers` or `names`.
    pub(crate) key: String,
    /// Whether all inputs have the very list, so that nothing is matched.
    pub(crate) by_position: bool,
    /// The key of each, if they are matched.
    pub(crate) keys: Vec<String>,
    /// The name of each.
    pub(crate) names: Vec<String>,
    /// What becomes of repeated keys.
    pub(crate) duplicates: DuplicateGenes,
}

/// For each gene of an input its place among those of the dataset.
#[derive(Debug)]
pub(crate) struct GeneMap {
    /// The place; negative for a gene that is left out.
    pub(crate) places: Vec<i32>,
    /// Whether two genes can have one place.
    pub(crate) many: bool,
}

pub(super) const IDENTIFIERS: &str = "identifiers";
pub(super) const NAMES: &str = "names";

impl Genes {
    /// How an input's genes become the dataset's; nothing if they are the same.
    pub(crate) fn map(&self, source: &dyn Source) -> Result<Option<GeneMap>> {
        if self.by_position {
            return Ok(None);
        }
        let keys = match self.key.as_str() {
            NAMES | IDENTIFIERS => keys(source, None, &self.key)?,
            column => keys(source, Some(&source.var()?), column)?,
        };
        let keys = if self.duplicates == DuplicateGenes::Suffix { suffixed(&keys) } else { keys };
        let places: HashMap<&str, i32> = self.keys.iter().map(String::as_str).zip(0..).collect();
        let places = keys.iter().map(|key| places.get(key.as_str()).copied().unwrap_or(-1)).collect();
        Ok(Some(GeneMap { places, many: self.duplicates == DuplicateGenes::Sum }))
    }
}

/// What tells the genes of an input apart; empty for one that has none.
pub(super) fn keys(source: &dyn Source, var: Option<&Table>, key: &str) -> Result<Vec<String>> {
    let missing =
        |what: String| Error::Missing { file: source.info().file.clone(), at: what, hint: String::new() };
    match (key, var) {
        (NAMES, None) => Ok(source.gene_names().iter().map(str::to_owned).collect()),
        (IDENTIFIERS, None) => {
            let ids = source.gene_ids().ok_or_else(|| missing("identifiers of genes".into()))?;
            Ok(ids.iter().map(str::to_owned).collect())
        }
        (column, var) => {
            let column_of = |var: &Table| var.column(column).map(|c| c.values().clone());
            match var.and_then(column_of) {
                Some(Values::Text(text)) => {
                    Ok(text.values().iter().map(|v| v.unwrap_or_default().to_owned()).collect())
                }
                // The category 1 is not the text "1".
                Some(Values::Category(values))
                    if values.categories().iter().all(|value| matches!(value, CategoryValue::Text(_))) =>
                {
                    let categories = values.categories();
                    let text = |code: i32| match categories.get(usize::try_from(code).ok()?) {
                        Some(CategoryValue::Text(text)) => Some(text.to_owned()),
                        _ => None,
                    };
                    Ok(values.codes().iter().map(|code| text(code).unwrap_or_default()).collect())
                }
                Some(_) => Err(Error::Options(format!(
                    "{}: var[{column:?}] (--var-key) holds no text, which keys of genes are",
                    source.info().file
                ))),
                None => {
                    let there: Vec<&str> =
                        var.map(|var| var.columns().iter().map(|c| c.name()).collect()).unwrap_or_default();
                    Err(Error::Missing {
                        file: source.info().file.clone(),
                        at: format!("column {column:?} in var (--var-key)"),
                        hint: format!("; it has: {}", there.join(", ")),
                    })
                }
            }
        }
    }
}

/// Repeated names with `-1`, `-2`, ... behind them, none of which is there already.
pub(super) fn suffixed(keys: &[String]) -> Vec<String> {
    let mut taken: HashSet<String> = keys.iter().cloned().collect();
    let mut seen: HashMap<&str, u64> = HashMap::new();
    let mut out = Vec::with_capacity(keys.len());
    for key in keys {
        let number = seen.entry(key).or_insert(0);
        if *number == 0 {
            *number = 1;
            out.push(key.clone());
            continue;
        }
        loop {
            let name = format!("{key}-{number}");
            *number = number.saturating_add(1);
            if taken.insert(name.clone()) {
                out.push(name);
                break;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::suffixed;

    #[test]
    fn test_suffixes_never_meet_a_name_or_overflow() {
        let list = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        assert_eq!(suffixed(&list(&["A", "A-1", "A", "A"])), ["A", "A-1", "A-2", "A-3"]);
        let many = suffixed(&vec!["G".to_owned(); 300]);
        assert_eq!(many.first().map(String::as_str), Some("G"));
        assert_eq!(many.last().map(String::as_str), Some("G-299"));
        assert_eq!(many.iter().collect::<std::collections::HashSet<_>>().len(), 300);
    }
}
