use std::collections::{HashMap, HashSet};

use celltile::table::{Index, Table, Text};

use super::var::{JoinedVar, Place};
use super::{Genes, LISTED, NAMES, suffixed};
use crate::error::Result;
use crate::plan::joining::{DuplicateGenes, Join, Joining};

/// Takes one input's genes after the other.
#[derive(Debug)]
pub(in crate::plan) struct Joiner {
    key: String,
    joining: Joining,
    inputs: usize,
    first_name: String,
    first: Vec<String>,
    /// Names of the first input's genes.
    names: Vec<String>,
    /// The joined list, and where each of its keys is in it; once an input's list differs from the first's.
    matched: Option<Matched>,
    /// Inputs whose list is the first one's.
    same: usize,
    /// What is wrong, by input.
    pub(in crate::plan) problems: Vec<(String, String)>,
    var: JoinedVar,
    renamed: Renamed,
    /// Keys that were matched, and whether a suffix made them.
    made: HashMap<String, bool>,
}

/// What became of the genes.
#[derive(Debug)]
pub(in crate::plan) struct Joined {
    pub(in crate::plan) genes: Genes,
    pub(in crate::plan) var: Table,
    /// What people should know.
    pub(in crate::plan) notes: Vec<String>,
}

#[derive(Debug)]
struct Matched {
    keys: Vec<String>,
    names: Vec<String>,
    /// Where the row of var is.
    at: Vec<Place>,
    /// Number of each key.
    places: HashMap<String, usize>,
    /// How many of the inputs that differ have it.
    inputs: Vec<usize>,
}

/// Genes that inputs call otherwise than the first one that has them.
#[derive(Debug, Default)]
struct Renamed {
    keys: HashSet<String>,
    example: String,
}

impl Renamed {
    fn found(&mut self, key: &str, stays: &str, input: &str, other: &str) {
        if stays == other {
            return;
        }
        if self.example.is_empty() {
            self.example = format!("{key:?} is {stays:?}, and {other:?} in {input}");
        }
        self.keys.insert(key.to_owned());
    }
}

impl Joiner {
    pub(in crate::plan) fn new(key: &str, joining: &Joining) -> Self {
        Self {
            key: key.to_owned(),
            joining: joining.clone(),
            inputs: 0,
            first_name: String::new(),
            first: Vec::new(),
            names: Vec::new(),
            matched: None,
            same: 0,
            problems: Vec::new(),
            var: JoinedVar::default(),
            renamed: Renamed::default(),
            made: HashMap::new(),
        }
    }

    pub(in crate::plan) fn key(&self) -> &str {
        &self.key
    }

    /// The next input's genes.
    pub(in crate::plan) fn add(
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
            self.var = JoinedVar::first(name, var);
            self.same = 1;
            return Ok(());
        }
        if keys == self.first {
            self.same += 1;
            if names != self.names {
                for ((key, stays), other) in keys.iter().zip(&self.names).zip(&names) {
                    self.renamed.found(key, stays, name, other);
                }
            }
            return self.var.same(name, var);
        }
        let (own, rows) = self.resolve(name, &keys);
        let mut matched = match self.matched.take() {
            Some(matched) => matched,
            None => self.match_first(),
        };
        let name_of = |row: u64| at(&names, row);
        let (mut shared, mut new) = (Vec::new(), Vec::new());
        for (key, &row) in own.iter().zip(&rows) {
            let Some(&place) = matched.places.get(key) else {
                new.push((key.clone(), row));
                continue;
            };
            if let (Some(inputs), Some(&from), Some(stays)) =
                (matched.inputs.get_mut(place), matched.at.get(place), matched.names.get(place))
            {
                *inputs += 1;
                shared.push((from, row));
                // Names that are the key differ by their suffix only.
                if self.key != NAMES {
                    self.renamed.found(key, stays, name, &name_of(row));
                }
            }
        }
        self.var.compare(name, var, &shared)?;
        match self.joining.join {
            Join::Exact => self.tell_difference(name, &matched.keys, &own, &new),
            Join::Inner => {}
            Join::Outer if new.is_empty() => {}
            Join::Outer => {
                let new_rows: Vec<u64> = new.iter().map(|(_, row)| *row).collect();
                let part = self.var.add(name, var, &new_rows)?;
                for ((key, row), within) in new.into_iter().zip(0..) {
                    matched.places.insert(key.clone(), matched.keys.len());
                    matched.keys.push(key);
                    matched.names.push(name_of(row));
                    matched.at.push((part, within));
                    matched.inputs.push(1);
                }
            }
        }
        self.matched = Some(matched);
        Ok(())
    }

    /// The first input's list, to be matched with others.
    fn match_first(&mut self) -> Matched {
        let (keys, rows) = self.resolve(&self.first_name.clone(), &self.first.clone());
        let names = rows.iter().map(|&row| at(&self.names, row)).collect();
        let places = keys.iter().cloned().zip(0..).collect();
        let from = rows.into_iter().map(|row| (0, row)).collect();
        Matched { inputs: vec![0; keys.len()], keys, names, at: from, places }
    }

    fn tell_difference(&mut self, name: &str, keys: &[String], own: &[String], new: &[(String, u64)]) {
        let has: HashSet<&String> = own.iter().collect();
        let less: Vec<&str> = keys.iter().filter(|key| !has.contains(key)).map(String::as_str).collect();
        let more: Vec<&str> = new.iter().map(|(key, _)| key.as_str()).collect();
        if less.is_empty() && more.is_empty() {
            return;
        }
        let text = format!(
            "its genes are not those of {} (by {}){}{}; --join inner or outer joins them",
            self.first_name,
            self.key,
            some("does not have", &less),
            some("has besides", &more),
        );
        self.problems.push((name.to_owned(), text));
    }

    /// A key that a suffix made in one input, and that another has by itself, are two genes.
    fn tell_made(&mut self, name: &str, keys: &[String], unique: &[String]) {
        let mut both = Vec::new();
        for (key, unique) in keys.iter().zip(unique) {
            let made = key != unique;
            match self.made.insert(unique.clone(), made) {
                Some(before) if before != made => both.push(unique.as_str()),
                _ => {}
            }
        }
        if !both.is_empty() {
            let text = format!(
                "genes would be called by a suffix what other inputs call a gene without one{}; --var-key names a column that tells them apart",
                some("both", &both)
            );
            self.problems.push((name.to_owned(), text));
        }
    }

    /// Keys without repeats, with the row that each is from; repeats that are refused and genes without a key become problems.
    fn resolve(&mut self, name: &str, keys: &[String]) -> (Vec<String>, Vec<u64>) {
        let without: Vec<String> = keys
            .iter()
            .zip(0_u64..)
            .filter(|(key, _)| key.is_empty())
            .map(|(_, row)| row.to_string())
            .collect();
        if !without.is_empty() {
            // Two genes without a key are not the same gene.
            let rows: Vec<&str> = without.iter().map(String::as_str).collect();
            let text = format!(
                "genes have to be matched by {}, but some have none{}; --var-key names a column that all genes have a value in",
                self.key,
                some("empty or missing in rows of var, from 0:", &rows),
            );
            self.problems.push((name.to_owned(), text));
        }
        if self.joining.duplicate_genes == DuplicateGenes::Suffix {
            let unique = suffixed(keys);
            self.tell_made(name, keys, &unique);
            return (unique, (0..keys.len() as u64).collect());
        }
        let mut seen = HashSet::new();
        let (mut out, mut rows, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
        for (key, row) in keys.iter().zip(0..) {
            if seen.insert(key) {
                out.push(key.clone());
                rows.push(row);
            } else if !key.is_empty() {
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
    pub(in crate::plan) fn finish(self) -> Result<Joined> {
        let (key, duplicates, inner) =
            (self.key, self.joining.duplicate_genes, self.joining.join == Join::Inner);
        let by_position = self.matched.is_none();
        let (keys, mut names, places) = match self.matched {
            None => {
                let all = (0..self.first.len() as u64).map(|row| (0, row)).collect();
                (Vec::new(), self.names, all)
            }
            Some(matched) if inner => {
                let differing = self.inputs - self.same;
                let (mut keys, mut names, mut places) = (Vec::new(), Vec::new(), Vec::new());
                let genes = matched.keys.into_iter().zip(matched.names).zip(matched.at).zip(matched.inputs);
                for (((key, name), place), _) in genes.filter(|(_, inputs)| *inputs == differing) {
                    keys.push(key);
                    names.push(name);
                    places.push(place);
                }
                (keys, names, places)
            }
            Some(matched) => (matched.keys, matched.names, matched.at),
        };
        let (mut var, dropped) = self.var.finish(&places)?;
        if !by_position && duplicates == DuplicateGenes::Suffix && key == NAMES {
            names.clone_from(&keys);
            let index = keys.iter().map(|key| Some(key.as_str())).collect::<Text>();
            let (rows, old, columns) = var.into_parts();
            let name = old.and_then(|index| index.name().map(str::to_owned));
            var = Table::new(rows, Some(Index::new(name, index)), columns)?;
        }
        let mut notes: Vec<String> =
            dropped.iter().map(|(column, why)| format!("var[{column:?}] is left out: {why}")).collect();
        if !self.renamed.keys.is_empty() {
            notes.push(format!(
                "{} genes go by another name in some inputs than in the first one that has them, whose names stay ({})",
                self.renamed.keys.len(),
                self.renamed.example
            ));
        }
        Ok(Joined { genes: Genes { key, by_position, keys, names, duplicates }, var, notes })
    }
}

/// An element of a list of names.
fn at(list: &[String], row: u64) -> String {
    usize::try_from(row).ok().and_then(|row| list.get(row)).cloned().unwrap_or_default()
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
