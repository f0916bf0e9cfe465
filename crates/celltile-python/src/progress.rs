//! How far a long call is, for a callable of Python's.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;

/// What was last told: stage, unit, done, total.
type At = (String, String, u64, u64);

/// What a worker thread tells, and nobody has heard yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct Latest(Arc<Mutex<Vec<At>>>);

impl Latest {
    /// From any thread; costs no lock of the interpreter.
    pub(crate) fn tell(&self, stage: &str, unit: &str, done: u64, total: u64) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match told.last_mut() {
            Some(last) if last.0 == stage => (last.2, last.3) = (done.max(last.2), total),
            _ => told.push((stage.to_owned(), unit.to_owned(), done, total)),
        }
    }
}

/// A callable that hears of progress, on the thread that made the call.
#[derive(Debug)]
pub(crate) struct Progress {
    callable: Option<Py<PyAny>>,
    latest: Latest,
}

impl Progress {
    pub(crate) fn new(callable: Option<Py<PyAny>>) -> Self {
        Self { callable, latest: Latest::default() }
    }

    /// What the worker thread tells.
    pub(crate) fn latest(&self) -> Latest {
        self.latest.clone()
    }

    /// Calls the callable with what is new: the end of each stage, and how far the last one is.
    pub(crate) fn tick(&self, py: Python<'_>) -> PyResult<()> {
        let told = std::mem::take(&mut *self.latest.0.lock().unwrap_or_else(PoisonError::into_inner));
        let Some(callable) = &self.callable else { return Ok(()) };
        for at in told {
            callable.call1(py, at)?;
        }
        Ok(())
    }
}
