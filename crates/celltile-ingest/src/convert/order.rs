use std::collections::HashMap;

use celltile::Dataset;

use crate::error::{Error, Result};
use crate::source::gene_ids;

/// Genes that a message lists of each kind.
const LISTED: usize = 5;

/// The genes of a dataset whose order is taken over.
#[derive(Debug, Clone)]
pub struct GeneOrderFrom {
    /// Where it is, for messages.
    name: String,
    /// Gene names in its order.
    names: Vec<String>,
    /// Their identifiers, if it has them.
    ids: Option<Vec<String>>,
    /// Its source's column of each gene.
    columns: Option<Vec<i32>>,
}

impl GeneOrderFrom {
    /// Takes the order from an open dataset, called `name` in messages.
    ///
    /// # Errors
    ///
    /// [`Error::Options`] if the dataset has no gene names; what its storage reports.
    pub fn dataset(dataset: &Dataset, name: &str) -> Result<Self> {
        let names = dataset.gene_names()?;
        let names = names.ok_or_else(|| {
            Error::Options(format!("{name}: has no gene names; its gene order cannot be taken over"))
        })?;
        let columns = dataset.gene_order()?.map(|order| order.columns().to_vec());
        let ids = dataset.var()?.as_ref().and_then(gene_ids);
        Ok(Self { name: name.to_owned(), names, ids, columns })
    }

    /// The column of each gene of the order among `genes`, which are those of `file`: by identifiers where both have them, else
    /// by names.
    pub(crate) fn columns(&self, genes: &[String], ids: Option<&[String]>, file: &str) -> Result<Vec<i32>> {
        match (&self.ids, ids) {
            (Some(own), Some(ids)) => self.places(own, ids, file),
            _ => self.places(&self.names, genes, file),
        }
    }

    fn places(&self, own: &[String], genes: &[String], file: &str) -> Result<Vec<i32>> {
        // The same genes in the same places, repeats and all.
        if let Some(columns) = &self.columns
            && columns.len() == genes.len()
            && columns.iter().zip(own).all(|(&column, name)| {
                usize::try_from(column).ok().and_then(|column| genes.get(column)) == Some(name)
            })
        {
            return Ok(columns.clone());
        }
        let mut places: HashMap<&str, Option<i32>> = HashMap::with_capacity(genes.len());
        for (at, name) in genes.iter().enumerate() {
            let place = i32::try_from(at).ok();
            places.entry(name.as_str()).and_modify(|place| *place = None).or_insert(place);
        }
        let mut columns = Vec::with_capacity(own.len());
        let (mut missing, mut repeated) = (Vec::new(), Vec::new());
        for name in own {
            match places.remove(name.as_str()) {
                Some(Some(place)) => columns.push(place),
                Some(None) => repeated.push(name.as_str()),
                None => missing.push(name.as_str()),
            }
        }
        let mut more: Vec<&str> = places.into_keys().collect();
        more.sort_unstable();
        if missing.is_empty() && repeated.is_empty() && more.is_empty() {
            return Ok(columns);
        }
        let list = |what: &str, names: &[&str]| {
            let shown: Vec<String> = names.iter().take(LISTED).map(|name| format!("{name:?}")).collect();
            match (shown.as_slice(), names.len()) {
                ([], _) => String::new(),
                (_, n) if n > LISTED => format!("; {n} {what} ({}, ...)", shown.join(", ")),
                (_, n) => format!("; {n} {what} ({})", shown.join(", ")),
            }
        };
        // With genes missing nothing but a new order helps.
        let way_out = if missing.is_empty() && repeated.is_empty() {
            "; --join inner leaves out what not all inputs have, and convert with --join outer makes a new order of all"
        } else {
            "; convert with --join outer or inner makes a new order"
        };
        Err(Error::Options(format!(
            "{}: its genes are not those of {}{}{}{}{way_out}",
            self.name,
            file,
            list("are missing from the input or repeated in the dataset", &missing),
            list("are repeated in the input", &repeated),
            list("are only in the input", &more),
        )))
    }
}

/// The column of each gene of the dataset: by falling totals, equal ones by column.
pub(super) fn decide(totals: &[u64]) -> Result<Vec<i32>> {
    let columns = i32::try_from(totals.len())
        .map_err(|_| Error::Options(format!("{} genes; at most 2^31 - 1 can be ordered", totals.len())))?;
    let mut order: Vec<i32> = (0..columns).collect();
    let total = |column: &i32| usize::try_from(*column).ok().and_then(|column| totals.get(column)).copied();
    order.sort_by_key(|column| std::cmp::Reverse(total(column)));
    Ok(order)
}
