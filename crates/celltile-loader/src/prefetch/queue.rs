//! Finished batches, waiting to be taken.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Delivered;
use crate::batch::Element;

/// What [`Queue::take`] finds.
#[derive(Debug)]
pub(crate) enum Taken<C: Element> {
    Batch(Box<Delivered<C>>),
    /// The time is up.
    Waiting,
    /// There are no more.
    End,
}

#[derive(Debug)]
struct State<C: Element> {
    batches: VecDeque<Delivered<C>>,
    bytes: u64,
    /// No more will come.
    ended: bool,
    /// No more are wanted.
    closed: bool,
}

#[derive(Debug)]
pub(crate) struct Queue<C: Element> {
    state: Mutex<State<C>>,
    changed: Condvar,
}

impl<C: Element> Queue<C> {
    pub(crate) fn new() -> Self {
        let state = State { batches: VecDeque::new(), bytes: 0, ended: false, closed: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'g>(&self, guard: MutexGuard<'g, State<C>>) -> MutexGuard<'g, State<C>> {
        self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until so many bytes more stay within the limit, or nothing is waiting at all. Says whether they are wanted.
    pub(crate) fn wait_for_room(&self, bytes: u64, limit: u64) -> bool {
        let mut state = self.lock();
        while !state.closed && !state.batches.is_empty() && state.bytes.saturating_add(bytes) > limit {
            state = self.wait(state);
        }
        !state.closed
    }

    pub(crate) fn push(&self, batch: Delivered<C>) {
        let mut state = self.lock();
        if !state.closed {
            state.bytes = state.bytes.saturating_add(size(&batch));
            state.batches.push_back(batch);
        }
        drop(state);
        self.changed.notify_all();
    }

    pub(crate) fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
    }

    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let batches = std::mem::take(&mut state.batches);
        state.bytes = 0;
        drop(state);
        drop(batches);
        self.changed.notify_all();
    }

    pub(crate) fn take(&self, timeout: Option<Duration>) -> Taken<C> {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut state = self.lock();
        loop {
            if let Some(batch) = state.batches.pop_front() {
                state.bytes = state.bytes.saturating_sub(size(&batch));
                drop(state);
                self.changed.notify_all();
                return Taken::Batch(Box::new(batch));
            }
            if state.ended || state.closed {
                return Taken::End;
            }
            match until {
                None => state = self.wait(state),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Taken::Waiting;
                    }
                    state = self
                        .changed
                        .wait_timeout(state, left)
                        .map_or_else(|e| e.into_inner().0, |(state, _)| state);
                }
            }
        }
    }
}

fn size<C: Element>(batch: &Delivered<C>) -> u64 {
    batch.as_ref().map_or(0, crate::batch::Batch::bytes)
}
