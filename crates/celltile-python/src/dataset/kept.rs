//! Memory of large results, used again: a loop over random cells would otherwise spend as long on having pages cleared as on
//! decoding.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use celltile::{Count, Csr};

/// Nonzeros whose memory is kept. Less is left to the allocator, more is given back to the system.
const NONZEROS: RangeInclusive<usize> = 1 << 19..=1 << 25;

/// The memory of the last large result that is gone, of either type of counts.
#[derive(Debug, Default)]
pub(super) struct Kept {
    integers: Mutex<Option<Csr<i32>>>,
    floats: Mutex<Option<Csr<f32>>>,
}

/// A type of counts.
pub(super) trait Keep: Count {
    fn slot(kept: &Kept) -> &Mutex<Option<Csr<Self>>>;
}

impl Keep for i32 {
    fn slot(kept: &Kept) -> &Mutex<Option<Csr<Self>>> {
        &kept.integers
    }
}

impl Keep for f32 {
    fn slot(kept: &Kept) -> &Mutex<Option<Csr<Self>>> {
        &kept.floats
    }
}

impl Kept {
    /// Memory for a result.
    pub(super) fn take<C: Keep>(&self) -> Csr<C> {
        C::slot(self).lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
    }
}

/// A result whose memory is kept when it is gone, if the dataset is still there.
#[derive(Debug)]
pub(super) struct Lent<C: Keep> {
    pub(super) x: Csr<C>,
    kept: Weak<Kept>,
}

impl<C: Keep> Lent<C> {
    pub(super) fn new(x: Csr<C>, kept: &Arc<Kept>) -> Self {
        Self { x, kept: Arc::downgrade(kept) }
    }
}

impl<C: Keep> Drop for Lent<C> {
    fn drop(&mut self) {
        if NONZEROS.contains(&self.x.genes.capacity())
            && let Some(kept) = self.kept.upgrade()
        {
            let old = C::slot(&kept)
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .replace(std::mem::take(&mut self.x));
            drop(old);
        }
    }
}
