//! Ctrl-C and termination.

/// From now on the process ends with exit code 130 when it is asked to.
pub(crate) fn install() {
    // Without a handler the system ends the process, as ever.
    let _ = ctrlc::set_handler(|| {
        eprintln!("interrupted");
        std::process::exit(130);
    });
}
