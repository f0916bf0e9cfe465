use std::collections::HashMap;

use celltile::Dataset;

use crate::error::{Error, Result};

/// The genes of a dataset whose order is taken over.
#[derive(Debug, Clone)]
pub struct GeneOrderFrom {
    /// Where it is, for messages.
    name: String,
    /// Gene names in its order.
    names: Vec<String>,
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
        Ok(Self { name: name.to_owned(), names, columns })
    }

    /// The column of each gene of the order among `genes`, which are those of `file`.
    pub(crate) fn columns(&self, genes: &[String], file: &str) -> Result<Vec<i32>> {
        // The same genes in the same places, repeats and all.
        if let Some(columns) = &self.columns
            && columns.len() == genes.len()
            && columns.iter().zip(&self.names).all(|(&column, name)| {
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
        let mut columns = Vec::with_capacity(self.names.len());
        let (mut missing, mut repeated) = (Vec::new(), Vec::new());
        for name in &self.names {
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
        let list = |what: &str, names: &[&str]| match names {
            [] => String::new(),
            [first, ..] => format!("; {} {what}, {first:?} the first", names.len()),
        };
        Err(Error::Options(format!(
            "{}: its genes are not those of {}{}{}{}",
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
