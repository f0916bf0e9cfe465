//! The genes of several inputs as one list.

use std::collections::{HashMap, HashSet};

use celltile::table::unify::Union;
use celltile::table::{Index, Table, Text, Values};
use serde::{Deserialize, Serialize};

use super::joining::{DuplicateGenes, Join, Joining};
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

/// What tells the genes of an input apart.
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
                Some(Values::Category(values)) => {
                    let categories = values.categories();
                    let text = |code: i32| usize::try_from(code).ok().and_then(|code| categories.get(code));
                    Ok(values
                        .codes()
                        .iter()
                        .map(|code| text(code).map(|v| v.to_string()).unwrap_or_default())
                        .collect())
                }
                Some(_) => Err(Error::Options(format!(
                    "{}: column {column:?} of var is no text",
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

/// Takes one input's genes after the other.
#[derive(Debug)]
pub(super) struct Joiner {
    key: String,
    joining: Joining,
    inputs: usize,
    first_name: String,
    first: Vec<String>,
    /// The first list as it is matched, and where each of its keys is in it; once an input differs.
    matched: Option<Matched>,
    /// Inputs whose list is the first one's.
    same: usize,
    /// What is wrong, by input.
    pub(super) problems: Vec<(String, String)>,
    var: Option<Table>,
    /// Columns of var that differ between inputs.
    pub(super) dropped: Vec<String>,
    /// Rows of var of genes that the first input does not have.
    added: Vec<(String, Table)>,
    added_names: Vec<String>,
    names: Vec<String>,
}

#[derive(Debug)]
struct Matched {
    keys: Vec<String>,
    /// Row in the first input's var.
    rows: Vec<u64>,
    places: HashMap<String, usize>,
    /// How many of the inputs that differ have it.
    inputs: Vec<usize>,
}

impl Joiner {
    pub(super) fn new(key: &str, joining: &Joining) -> Self {
        Self {
            key: key.to_owned(),
            joining: joining.clone(),
            inputs: 0,
            first_name: String::new(),
            first: Vec::new(),
            matched: None,
            same: 0,
            problems: Vec::new(),
            var: None,
            dropped: Vec::new(),
            added: Vec::new(),
            added_names: Vec::new(),
            names: Vec::new(),
        }
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// The next input's genes.
    pub(super) fn add(
        &mut self,
        name: &str,
        keys: Vec<String>,
        names: Vec<String>,
        var: &Table,
    ) -> Result<()> {
        self.inputs += 1;
        if self.inputs == 1 {
            self.first_name = name.to_owned();
            self.first = keys;
            self.names = names;
            self.var = Some(var.clone());
            self.same = 1;
            return Ok(());
        }
        if keys == self.first {
            self.same += 1;
            self.compare(var, None)?;
            return Ok(());
        }
        if self.matched.is_none() {
            let (keys, rows) = self.resolve(&self.first_name.clone(), &self.first.clone());
            let places = keys.iter().cloned().zip(0..).collect();
            self.matched = Some(Matched { inputs: vec![0; keys.len()], keys, rows, places });
        }
        let (own, rows) = self.resolve(name, &keys);
        let (mut shared, mut new) = (Vec::new(), Vec::new());
        let Some(matched) = &mut self.matched else { return Ok(()) };
        let first_len = matched.rows.len();
        for (key, &row) in own.iter().zip(&rows) {
            match matched.places.get(key) {
                Some(&place) => {
                    if let Some(inputs) = matched.inputs.get_mut(place) {
                        *inputs += 1;
                    }
                    if let Some(&first_row) = matched.rows.get(place) {
                        shared.push((first_row, row));
                    }
                }
                None => new.push((key.clone(), row)),
            }
        }
        match self.joining.join {
            Join::Exact => {
                let own: HashSet<&String> = own.iter().collect();
                let less: Vec<&str> =
                    matched.keys.iter().filter(|key| !own.contains(key)).map(String::as_str).collect();
                let more: Vec<&str> = new.iter().map(|(key, _)| key.as_str()).collect();
                if !less.is_empty() || !more.is_empty() {
                    let text = format!(
                        "its genes are not those of {} (by {}){}{}; --join inner or outer joins them",
                        self.first_name,
                        self.key,
                        some("does not have", &less),
                        some("has besides", &more),
                    );
                    self.problems.push((name.to_owned(), text));
                }
            }
            Join::Inner => {}
            Join::Outer => {
                let new_rows: Vec<u64> = new.iter().map(|(_, row)| *row).collect();
                for (key, row) in new {
                    matched.places.insert(key.clone(), matched.keys.len());
                    matched.keys.push(key);
                    matched.inputs.push(1);
                    let at = usize::try_from(row).unwrap_or(usize::MAX);
                    self.added_names.push(names.get(at).cloned().unwrap_or_default());
                }
                if !new_rows.is_empty() {
                    self.added.push((name.to_owned(), var.take(&new_rows)?));
                }
            }
        }
        debug_assert!(first_len <= self.first.len());
        self.compare(var, Some(&shared))
    }

    /// Columns of var that are not the same for genes that this input shares with the first.
    fn compare(&mut self, var: &Table, shared: Option<&[(u64, u64)]>) -> Result<()> {
        let Some(first) = &self.var else { return Ok(()) };
        let cut = match shared {
            None => None,
            Some(pairs) => {
                let (a, b): (Vec<u64>, Vec<u64>) = pairs.iter().copied().unzip();
                Some((first.take(&a)?, var.take(&b)?))
            }
        };
        let (a, b) = cut.as_ref().map_or((first, var), |(a, b)| (a, b));
        for column in a.columns() {
            let same = b.column(column.name()).is_some_and(|other| alike(column.values(), other.values()));
            if !same && !self.dropped.iter().any(|name| name == column.name()) {
                self.dropped.push(column.name().to_owned());
            }
        }
        Ok(())
    }

    /// Keys without repeats, with the row that each is from; repeats that are refused become a problem.
    fn resolve(&mut self, name: &str, keys: &[String]) -> (Vec<String>, Vec<u64>) {
        if self.joining.duplicate_genes == DuplicateGenes::Suffix {
            return (suffixed(keys), (0..keys.len() as u64).collect());
        }
        let mut seen = HashSet::new();
        let (mut out, mut rows, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
        for (key, row) in keys.iter().zip(0..) {
            if seen.insert(key) {
                out.push(key.clone());
                rows.push(row);
            } else {
                repeated.push(key.as_str());
            }
        }
        if self.joining.duplicate_genes == DuplicateGenes::Error && !repeated.is_empty() {
            repeated.dedup();
            let text = format!(
                "genes have to be matched by {}, but some are there more than once{}; --var-key names a column that tells them apart, \
                 --duplicate-genes sum or suffix lets them through",
                self.key,
                some("repeated", &repeated)
            );
            self.problems.push((name.to_owned(), text));
        }
        (out, rows)
    }

    /// The dataset's genes and their table.
    pub(super) fn finish(self) -> Result<(Genes, Table)> {
        let var = match self.var {
            Some(var) => without(var, &self.dropped)?,
            None => Table::new(0, None, Vec::new())?,
        };
        let key = self.key.clone();
        let duplicates = self.joining.duplicate_genes;
        let Some(matched) = self.matched else {
            let genes = Genes { key, by_position: true, keys: Vec::new(), names: self.names, duplicates };
            return Ok((genes, var));
        };
        let mut table = var.take(&matched.rows)?;
        let row_name = |row: &u64| {
            usize::try_from(*row).ok().and_then(|row| self.names.get(row)).cloned().unwrap_or_default()
        };
        let mut names: Vec<String> = matched.rows.iter().map(row_name).collect();
        if !self.added.is_empty() {
            names.extend(self.added_names);
            let added = self.added.into_iter().map(|(name, var)| Ok((name, without(var, &self.dropped)?)));
            let mut parts = vec![(self.first_name.clone(), table)];
            parts.extend(added.collect::<Result<Vec<_>>>()?);
            let inputs: Vec<(&str, &Table)> =
                parts.iter().map(|(name, table)| (name.as_str(), table)).collect();
            let tables: Vec<&Table> = parts.iter().map(|(_, table)| table).collect();
            table = Union::of(&inputs)?.concat(&tables)?;
        }
        let mut keys = matched.keys;
        if self.joining.join == Join::Inner {
            let differing = self.inputs - self.same;
            let kept: Vec<u64> =
                matched.inputs.iter().zip(0..).filter(|(n, _)| **n == differing).map(|(_, at)| at).collect();
            table = table.take(&kept)?;
            let pick = |list: &[String]| -> Vec<String> {
                kept.iter().filter_map(|&at| list.get(usize::try_from(at).ok()?)).cloned().collect()
            };
            (keys, names) = (pick(&keys), pick(&names));
        }
        if duplicates == DuplicateGenes::Suffix && key == NAMES {
            names.clone_from(&keys);
            let index = keys.iter().map(|key| Some(key.as_str())).collect::<Text>();
            let (rows, old, columns) = table.into_parts();
            let name = old.and_then(|index| index.name().map(str::to_owned));
            table = Table::new(rows, Some(Index::new(name, index)), columns)?;
        }
        Ok((Genes { key, by_position: false, keys, names, duplicates }, table))
    }
}

/// Whether two columns say the same: categories by their values, whatever their codes.
fn alike(a: &Values, b: &Values) -> bool {
    match (a, b) {
        (Values::Category(a), Values::Category(b)) => {
            let value = |of: &celltile::table::Categorical, code: i32| {
                usize::try_from(code).ok().and_then(|code| of.categories().get(code)).map(|v| v.to_string())
            };
            a.codes().len() == b.codes().len()
                && a.codes().iter().zip(b.codes().iter()).all(|(x, y)| value(a, x) == value(b, y))
        }
        (a, b) => a == b,
    }
}

fn without(table: Table, dropped: &[String]) -> Result<Table> {
    let (rows, index, columns) = table.into_parts();
    let columns = columns.into_iter().filter(|c| !dropped.iter().any(|name| name == c.name())).collect();
    Ok(Table::new(rows, index, columns)?)
}

/// Some of a list, for a message.
fn some(what: &str, list: &[&str]) -> String {
    if list.is_empty() {
        return String::new();
    }
    let shown: Vec<String> = list.iter().take(LISTED).map(|name| format!("{name:?}")).collect();
    let more = if list.len() > LISTED { ", ..." } else { "" };
    format!("; {what} {} ({}{more})", list.len(), shown.join(", "))
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
