//! Things with threads and locks, of which each process has its own.

use std::sync::{Arc, OnceLock};

use crate::error::{Failure, Result};

/// Something that a forked child makes anew.
///
/// Threads do not survive a fork, and locks that other threads held at that moment are held for ever in the child. So the
/// child never touches what it inherited, not even to drop it, and makes its own.
#[derive(Debug)]
pub(crate) struct PerProcess<T> {
    process: u32,
    value: Option<Arc<T>>,
    in_child: OnceLock<Box<Self>>,
}

impl<T> PerProcess<T> {
    /// Of this process.
    pub(crate) fn new(value: T) -> Self {
        Self { process: std::process::id(), value: Some(Arc::new(value)), in_child: OnceLock::new() }
    }

    /// This process's own; made now if this process was forked off since.
    pub(crate) fn get(&self, make: impl Fn() -> Result<T>) -> Result<Arc<T>> {
        let process = std::process::id();
        let mut own = self;
        while own.process != process {
            own = match own.in_child.get() {
                Some(next) => next,
                None => {
                    let new = Box::new(Self::new(make()?));
                    // Another thread's is as good.
                    own.in_child.get_or_init(|| new)
                }
            };
        }
        own.value.clone().ok_or(Failure::Panic)
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.value.take());
        }
    }
}
