//! `gene_order.npy`: which column of the source each output column was.

use super::npy::{self, Problem};
use crate::error::{Error, Result};
use crate::keys;
use crate::storage::Storage;

/// The source column of each output column: distinct, none negative.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneOrder(Vec<i32>);

impl GeneOrder {
    /// Checks that the columns are distinct and not negative.
    ///
    /// # Errors
    /// [`Error::Argument`] with the first column that is.
    pub fn new(columns: Vec<i32>) -> Result<Self> {
        match first_bad(&columns) {
            None => Ok(Self(columns)),
            Some(p) => Err(Error::Argument { what: "gene order", found: p.found, expected: p.expected }),
        }
    }

    /// Source column of each output column.
    #[must_use]
    pub fn columns(&self) -> &[i32] {
        &self.0
    }

    /// The file's content: NPY version 1.0, int32.
    #[must_use]
    pub fn to_npy(&self) -> Vec<u8> {
        npy::write(&self.0)
    }

    /// Reads the file of a dataset of `n_genes` genes. Any integer type and NPY version is accepted.
    ///
    /// # Errors
    /// [`Error::File`] with what is wrong with the file, or what the storage reports.
    pub fn read(storage: &dyn Storage, n_genes: u64) -> Result<Self> {
        Self::from_npy(&storage.read(keys::GENE_ORDER)?, n_genes, &storage.locate(keys::GENE_ORDER))
    }

    /// The content of a file, called `path` in messages.
    pub(crate) fn from_npy(file: &[u8], n_genes: u64, path: &str) -> Result<Self> {
        Self::parse(file, n_genes).map_err(|p| Error::File {
            path: path.to_owned(),
            what: p.what.to_owned(),
            found: p.found,
            expected: p.expected,
        })
    }

    fn parse(file: &[u8], n_genes: u64) -> Result<Self, Problem> {
        let numbers = npy::read(file)?;
        if u64::try_from(numbers.len()) != Ok(n_genes) {
            let (found, expected) =
                (numbers.len().to_string(), format!("{n_genes}, the genes of the manifest"));
            return Err(Problem { what: "length", found, expected });
        }
        let mut columns = Vec::with_capacity(numbers.len());
        for (at, number) in numbers.into_iter().enumerate() {
            match i32::try_from(number) {
                Ok(column) => columns.push(column),
                Err(_) => return Err(bad(format!("{number} at position {at}"))),
            }
        }
        first_bad(&columns).map_or(Ok(Self(columns)), Err)
    }
}

fn bad(found: String) -> Problem {
    Problem { what: "column", found, expected: "distinct numbers from 0 to 2147483647".to_owned() }
}

fn first_bad(columns: &[i32]) -> Option<Problem> {
    if let Some(at) = columns.iter().position(|column| *column < 0) {
        return Some(bad(format!("{} at position {at}", columns.get(at).copied().unwrap_or_default())));
    }
    let mut sorted = columns.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).find_map(|pair| match pair {
        [a, b] if a == b => Some(bad(format!("{a} twice"))),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::GeneOrder;
    use crate::error::Error;
    use crate::storage::{MemoryStorage, Storage};

    #[test]
    fn test_order_comes_back() {
        let storage = MemoryStorage::new();
        let order = GeneOrder::new(vec![3, 0, i32::MAX]).unwrap();
        storage.write("gene_order.npy", &order.to_npy()).unwrap();
        assert_eq!(GeneOrder::read(&storage, 3).unwrap(), order);
        let error = GeneOrder::read(&storage, 4).unwrap_err();
        assert_eq!(
            error.to_string(),
            "memory:gene_order.npy: length: found 3, expected 4, the genes of the manifest"
        );
    }

    #[test]
    fn test_repeated_and_negative_columns_are_refused() {
        for columns in [vec![1, 2, 1], vec![0, -1]] {
            assert!(matches!(GeneOrder::new(columns), Err(Error::Argument { .. })));
        }
    }
}
