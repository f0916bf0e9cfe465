//! One small tokio runtime for all requests of the process, started when first needed.
//!
//! Callers block on a channel, not inside the runtime, so they may themselves be on a thread of some other runtime.
//! A forked child has the runtime's memory but not its threads: it notices by the process's number and starts
//! another one. The old one is leaked there, since dropping it would wait for threads that do not exist.

use std::io;
use std::sync::{Arc, mpsc};

use arc_swap::ArcSwapOption;
use tokio::runtime::{Builder, Runtime};

/// Threads that move bytes and decrypt them; decoding happens elsewhere.
const THREADS: usize = 2;

#[derive(Debug)]
struct Shared {
    process: u32,
    runtime: Runtime,
}

static SHARED: ArcSwapOption<Shared> = ArcSwapOption::const_empty();

fn shared() -> io::Result<Arc<Shared>> {
    let process = std::process::id();
    let found = SHARED.load_full();
    if let Some(shared) = &found
        && shared.process == process
    {
        return Ok(Arc::clone(shared));
    }
    let runtime = Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("celltile-io")
        .enable_all()
        .build()?;
    let new = Arc::new(Shared { process, runtime });
    // Another thread may have been faster; then its runtime is used and ours ends here, without any task.
    let before = SHARED.compare_and_swap(&found, Some(Arc::clone(&new)));
    match before.as_ref() {
        Some(other) if other.process == process => {
            if let Some(unused) = Arc::into_inner(new) {
                unused.runtime.shutdown_background();
            }
            Ok(Arc::clone(other))
        }
        _ => {
            std::mem::forget(found);
            Ok(new)
        }
    }
}

/// Runs a future to its end and waits for it.
///
/// # Errors
/// If no threads can be started, or the future panicked.
pub(super) fn run<T, F>(future: F) -> io::Result<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let (sender, receiver) = mpsc::sync_channel(1);
    shared()?.runtime.spawn(async move {
        // The receiver waits below, whatever happens.
        let _ = sender.send(future.await);
    });
    receiver.recv().map_err(|_| io::Error::other("a request ended without an answer"))
}

/// Starts a future that nobody waits for.
pub(super) fn spawn<T, F>(future: F) -> io::Result<tokio::task::JoinHandle<T>>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    Ok(shared()?.runtime.spawn(future))
}

#[cfg(test)]
mod tests {
    use super::run;

    #[test]
    fn test_run_inside_another_runtime() {
        let outer = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        assert_eq!(outer.block_on(async { run(async { 7 }).unwrap() }), 7);
    }

    #[test]
    fn test_panic_in_a_request_is_an_error() {
        let error = run(async { panic!("as if a dependency panicked") }).unwrap_err();
        assert!(error.to_string().contains("without an answer"), "{error}");
    }
}
