//! Ctrl-C and termination. What leaves nothing behind is ended at once; what has files to clear away is asked to stop, and
//! ended at the second request. A process that is killed leaves nothing half valid either, only files that are in the way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
static COOPERATING: AtomicBool = AtomicBool::new(false);

/// Listens for interrupts from now on.
pub(crate) fn install() {
    // Without a handler the system ends the process, as ever.
    let _ = ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::SeqCst) || !COOPERATING.load(Ordering::SeqCst) {
            eprintln!("interrupted");
            std::process::exit(130);
        }
    });
}

/// From now on interrupts only set the flag that is returned: the command looks at it often. A program that runs the command
/// in its own process has brought a flag.
pub(crate) fn cooperate() -> Arc<AtomicBool> {
    if let Some(hooks) = crate::host::hooks() {
        return hooks.cancel;
    }
    COOPERATING.store(true, Ordering::SeqCst);
    Arc::clone(&ASKED)
}
