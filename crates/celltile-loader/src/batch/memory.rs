//! Arrays of batches that are gone, for those to come.

use std::sync::{Mutex, PoisonError};

use celltile::Csr;

use super::Element;

/// A few matrices at rest. They keep their length, so that only what is new of a later batch is written twice.
#[derive(Debug)]
pub(crate) struct Memory<C> {
    resting: Mutex<Vec<Csr<C>>>,
    most: usize,
}

impl<C: Element> Memory<C> {
    /// Keeps at most so many matrices.
    pub(crate) fn new(most: usize) -> Self {
        Self { resting: Mutex::new(Vec::new()), most }
    }

    /// A matrix of no cells. Its `genes` and `counts` are longer than that.
    pub(crate) fn take(&self) -> Csr<C> {
        let resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut csr = resting.unwrap_or_default();
        csr.indptr.clear();
        csr.indptr.push(0);
        csr
    }

    pub(crate) fn put(&self, csr: Csr<C>) {
        let mut resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner);
        if resting.len() < self.most && csr.genes.capacity() > 0 {
            resting.push(csr);
        }
    }
}
