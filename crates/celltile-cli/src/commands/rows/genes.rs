//! Genes chosen by name.

use std::collections::HashMap;

use celltile::{Csr, Dataset};

use crate::failure::Failure;

/// Some genes, in an order of their own.
pub(super) struct Chosen {
    /// The dataset's gene at each place.
    genes: Vec<i32>,
    /// For each of the dataset's genes its place, or -1.
    map: Vec<i32>,
}

impl Chosen {
    /// The genes of those names, in their order. A name that several genes have takes all of them, and says so.
    pub(super) fn new(
        dataset: &Dataset,
        names: Option<&[String]>,
        asked: &[String],
    ) -> Result<Self, Failure> {
        let names = names.ok_or_else(|| {
            let what = "the dataset has no gene names; genes cannot be chosen by name";
            Failure::Bad(what.into())
        })?;
        let mut places: HashMap<&str, Vec<i32>> = HashMap::with_capacity(names.len());
        for (gene, name) in (0..).zip(names) {
            places.entry(name).or_default().push(gene);
        }
        let (mut genes, mut missing): (Vec<i32>, Vec<&str>) = (Vec::new(), Vec::new());
        let mut seen: Vec<&str> = Vec::new();
        for name in asked.iter().map(String::as_str) {
            if seen.contains(&name) {
                return Err(Failure::Usage(format!("gene {name:?} is asked for twice")));
            }
            seen.push(name);
            match places.get(name) {
                Some(found) => {
                    if found.len() > 1 {
                        let list: Vec<String> = found.iter().map(i32::to_string).collect();
                        eprintln!(
                            "note: {} genes are called {name:?} (gene_index {}); all of them are printed",
                            found.len(),
                            list.join(", ")
                        );
                    }
                    genes.extend_from_slice(found);
                }
                None => missing.push(name),
            }
        }
        if !missing.is_empty() {
            return Err(Failure::Bad(format!("no genes of these names: {}", missing.join(", ")).into()));
        }
        let mut map = vec![-1; usize::try_from(dataset.n_genes()).unwrap_or(names.len())];
        for (place, &gene) in (0..).zip(&genes) {
            if let Some(to) = usize::try_from(gene).ok().and_then(|gene| map.get_mut(gene)) {
                *to = place;
            }
        }
        Ok(Self { genes, map })
    }

    pub(super) fn len(&self) -> usize {
        self.genes.len()
    }

    pub(super) fn map(&self) -> &[i32] {
        &self.map
    }

    /// The dataset's gene at a place.
    pub(super) fn gene(&self, place: i32) -> i32 {
        usize::try_from(place).ok().and_then(|place| self.genes.get(place)).copied().unwrap_or(place)
    }
}

/// Sorts the genes of each cell.
pub(super) fn sort(rows: &mut Csr) {
    let mut start = 0;
    for end in rows.indptr.iter().skip(1).map(|&end| usize::try_from(end).unwrap_or(0)) {
        let (Some(genes), Some(counts)) = (rows.genes.get_mut(start..end), rows.counts.get_mut(start..end))
        else {
            continue;
        };
        let mut pairs: Vec<(i32, i32)> = genes.iter().copied().zip(counts.iter().copied()).collect();
        pairs.sort_unstable();
        for ((gene, count), (to_gene, to_count)) in pairs.into_iter().zip(genes.iter_mut().zip(counts)) {
            (*to_gene, *to_count) = (gene, count);
        }
        start = end;
    }
}
