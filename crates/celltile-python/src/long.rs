//! Calls that take long: off the interpreter's lock, and ended by Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::error::{Failure, Result};

/// How often the interpreter is asked for signals, and progress is told.
const TICK: Duration = Duration::from_millis(50);
/// How long reading that was asked to stop is waited for. What waits for a network may take longer and is left to end by
/// itself: nobody will look at its result.
pub(crate) const READING: Duration = Duration::from_secs(1);
/// How long writing is waited for, which has to clear away what it wrote.
pub(crate) const WRITING: Duration = Duration::from_secs(60);

/// Does work on a thread of its own. The calling thread holds no lock of the interpreter while it waits, looks for
/// signals, and calls `tick`; if either raises, `cancel` is set, the work is waited for up to `grace` (or until the next
/// signal), and the exception is what the call ends with.
pub(crate) fn long<T: Send + 'static>(
    py: Python<'_>,
    grace: Duration,
    cancel: &Arc<AtomicBool>,
    work: impl FnOnce() -> Result<T> + Send + 'static,
    mut tick: impl FnMut(Python<'_>) -> PyResult<()>,
) -> Result<T> {
    let (sender, receiver) = sync_channel(1);
    let thread = std::thread::Builder::new().name("celltile-call".to_owned());
    let spawned = thread.spawn(move || {
        // Whoever waits may have given up.
        let _ = sender.send(work());
    });
    spawned.map_err(|error| {
        Failure::Python(PyOSError::new_err(format!("celltile: cannot start a thread: {error}")))
    })?;
    let receiver = std::sync::Mutex::new(receiver);
    let wait = |py: Python<'_>, time| {
        py.detach(|| receiver.lock().unwrap_or_else(std::sync::PoisonError::into_inner).recv_timeout(time))
    };
    loop {
        match wait(py, TICK) {
            Ok(result) => {
                tick(py)?;
                return result;
            }
            Err(RecvTimeoutError::Disconnected) => return Err(Failure::Panic),
            Err(RecvTimeoutError::Timeout) => {
                if let Err(error) = py.check_signals().and_then(|()| tick(py)) {
                    cancel.store(true, Ordering::Relaxed);
                    let asked = Instant::now();
                    while asked.elapsed() < grace
                        && matches!(wait(py, TICK), Err(RecvTimeoutError::Timeout))
                        && py.check_signals().is_ok()
                    {}
                    return Err(error.into());
                }
            }
        }
    }
}
