//! When a failed request is tried again, and when it is given up.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::time::Instant;

use super::super::RemoteOptions;
use super::fault::Fault;

/// Tries where there is no connection: enough for a restart, soon over for a wrong name.
const FEW: u32 = 5;

/// The tries of one request: how many have failed in a row, and how much time is left.
#[derive(Debug)]
pub(super) struct Pace {
    retries: u32,
    first_pause: Duration,
    longest_pause: Duration,
    stall: Duration,
    budget: Duration,
    started: Instant,
    failures: u32,
    tries: u32,
}

impl Pace {
    /// For a request of so many bytes.
    pub(super) fn new(options: &RemoteOptions, bytes: u64) -> Self {
        Self {
            retries: options.retries,
            first_pause: options.first_pause,
            longest_pause: options.longest_pause,
            stall: options.stall_timeout,
            budget: options.budget(bytes),
            started: Instant::now(),
            failures: 0,
            tries: 0,
        }
    }

    /// A transfer turns out to be of so many bytes.
    pub(super) fn extend(&mut self, options: &RemoteOptions, bytes: u64) {
        self.budget = self.budget.max(options.budget(bytes));
    }

    /// Something new has arrived: failures are counted from here.
    pub(super) fn progress(&mut self) {
        self.failures = 0;
    }

    /// How long to wait for an answer or its next bytes.
    pub(super) fn patience(&self) -> Duration {
        self.stall.min(self.left())
    }

    /// How long to wait for the end of an upload of so many bytes.
    pub(super) fn upload_patience(&self, bytes: u64) -> Duration {
        self.stall.saturating_add(Duration::from_secs(bytes >> 19)).min(self.left())
    }

    fn left(&self) -> Duration {
        self.budget.saturating_sub(self.started.elapsed())
    }

    /// Waits before the next try.
    ///
    /// # Errors
    /// The fault, if another try is not worth it or there is no time for one.
    pub(super) async fn pause(&mut self, fault: Fault) -> Result<(), Fault> {
        let limit = match &fault {
            Fault::Passing(..) => self.retries,
            Fault::NoConnection(_) => self.retries.min(FEW),
            _ => return Err(fault),
        };
        let pause = self.next_pause();
        self.failures = self.failures.saturating_add(1);
        self.tries = self.tries.saturating_add(1);
        if self.failures > limit || pause >= self.left() {
            return Err(self.give_up(fault));
        }
        tokio::time::sleep(pause).await;
        Ok(())
    }

    /// Doubles with each failure in a row; between half of that and all of it, so that many clients that failed
    /// together do not come back together.
    fn next_pause(&self) -> Duration {
        let doubled = self.first_pause.saturating_mul(1u32.checked_shl(self.failures).unwrap_or(u32::MAX));
        let half = doubled.min(self.longest_pause) / 2;
        // A hasher's random keys are randomness enough, without another dependency.
        let thousandths = u32::try_from(RandomState::new().hash_one(self.failures) % 1000).unwrap_or(0);
        half.saturating_add(half.saturating_mul(thousandths) / 1000)
    }

    fn give_up(&self, fault: Fault) -> Fault {
        let seconds = self.started.elapsed().as_secs_f64();
        let note =
            |reason: String| format!("{reason}; given up after {} tries in {seconds:.1} s", self.tries);
        match fault {
            Fault::Passing(kind, reason) => Fault::Passing(kind, note(reason)),
            Fault::NoConnection(reason) => Fault::NoConnection(note(reason)),
            other => other,
        }
    }
}
