//! The genes that are delivered.

use crate::error::{Error, Result};

/// New numbers of the dataset's genes.
#[derive(Debug, Clone)]
pub(crate) struct GeneMap {
    /// One a gene of the dataset: its column, or -1.
    pub(crate) map: Vec<i32>,
    pub(crate) n_genes: u64,
    /// Whether columns are in the dataset's order, so that rows come out sorted.
    pub(crate) ascends: bool,
}

impl GeneMap {
    pub(crate) fn new(genes: &[u64], n_genes: u64) -> Result<Self> {
        let most = usize::try_from(n_genes).ok().filter(|n| i32::try_from(*n).is_ok());
        let most = most.ok_or_else(|| {
            Error::option("genes", format!("a dataset of {n_genes} genes"), "fewer than 2^31")
        })?;
        if genes.is_empty() {
            return Err(Error::option("genes", "none", "at least one"));
        }
        let mut map = vec![-1; most];
        for (column, &gene) in (0..).zip(genes) {
            let slot = usize::try_from(gene).ok().and_then(|gene| map.get_mut(gene));
            match slot {
                None => return Err(Error::option("genes", gene, format!("genes below {n_genes}"))),
                Some(slot) if *slot >= 0 => {
                    return Err(Error::option("genes", format!("gene {gene} twice"), "each gene once"));
                }
                Some(slot) => *slot = column,
            }
        }
        Ok(Self { map, n_genes: genes.len() as u64, ascends: genes.is_sorted() })
    }
}
