//! Who runs a command: a terminal, or a program that wants to be told of progress and may ask to stop.

use std::cell::RefCell;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::failure::Failure;

/// Is told how far a stage is: its name, what is counted, how many are done, and of how many.
pub type Told = Arc<dyn Fn(&str, &str, u64, u64) + Send + Sync>;

/// What a program that runs a command in its own process hangs on it.
#[derive(Clone)]
pub struct Hooks {
    /// Set by the program to stop the command.
    pub cancel: Arc<AtomicBool>,
    /// Told of progress, which is not shown then.
    pub told: Told,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").field("cancel", &self.cancel).finish_non_exhaustive()
    }
}

/// Why a command ended without a result.
#[derive(Debug)]
#[non_exhaustive]
pub enum Ended {
    /// Arguments that cannot be right, whatever the data.
    Usage(String),
    /// It was asked to stop.
    Interrupted,
    /// Bad input, damaged data, a full disk: an error of one of the library crates.
    Failed(Box<dyn Error + Send + Sync>),
}

impl Ended {
    pub(crate) fn of(failure: Failure) -> Self {
        match failure {
            Failure::Bad(error) => Self::Failed(error),
            Failure::Usage(message) => Self::Usage(message),
            Failure::Interrupted => Self::Interrupted,
            Failure::Told | Failure::ReaderGone => Self::Failed("the command says why".into()),
        }
    }
}

thread_local! {
    static HOOKS: RefCell<Option<Hooks>> = const { RefCell::new(None) };
}

/// Runs a command, or a part of one, with hooks.
pub(crate) fn with<T>(hooks: Hooks, run: impl FnOnce() -> T) -> T {
    /// Takes the hooks off, also where `run` panics.
    struct Off;
    impl Drop for Off {
        fn drop(&mut self) {
            HOOKS.take();
        }
    }
    HOOKS.replace(Some(hooks));
    let _off = Off;
    run()
}

/// The hooks of the command that this thread runs.
pub(crate) fn hooks() -> Option<Hooks> {
    HOOKS.with_borrow(Clone::clone)
}
