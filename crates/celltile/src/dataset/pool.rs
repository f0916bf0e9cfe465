//! The threads that decode, and what each of them keeps from one tile chunk to the next.

use std::sync::{Mutex, OnceLock, PoisonError};

use celltile_tile::Decoder;

use crate::error::{Error, Result};

/// What a thread needs to decode: a zstd context and memory for frames.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) decoder: Decoder,
    pub(super) buffer: Vec<u8>,
}

impl Worker {
    pub(super) fn new() -> Result<Self> {
        let unavailable = |e: celltile_tile::Error| Error::Argument {
            what: "decoder",
            found: e.to_string(),
            expected: "memory for a zstd context".to_owned(),
        };
        Ok(Self { decoder: Decoder::new().map_err(unavailable)?, buffer: Vec::new() })
    }
}

/// Threads, made when they are first needed, and workers at rest.
#[derive(Debug)]
pub(super) struct Pool {
    n_threads: usize,
    threads: OnceLock<Option<rayon::ThreadPool>>,
    workers: Mutex<Vec<Worker>>,
}

impl Pool {
    pub(super) fn new(n_threads: usize) -> Self {
        Self { n_threads: n_threads.max(1), threads: OnceLock::new(), workers: Mutex::new(Vec::new()) }
    }

    pub(super) fn n_threads(&self) -> usize {
        self.n_threads
    }

    /// Runs every task, on as many threads as there are (the caller's alone if that is one). After an error no new task
    /// is begun; the error of the first of the failed tasks is returned.
    pub(super) fn run<T: Send>(
        &self,
        tasks: Vec<T>,
        run: impl Fn(&mut Worker, T) -> Result<()> + Sync,
    ) -> Result<()> {
        let n_threads = self.n_threads.min(tasks.len());
        let threads = (n_threads > 1).then(|| self.threads()).flatten();
        // Small tasks are taken several at a time.
        let several = (tasks.len() / n_threads.max(1) / 16).clamp(1, 32);
        let queue = Mutex::new((tasks.into_iter().enumerate(), None));
        let work = || {
            let mut worker = match self.take_worker() {
                Ok(worker) => worker,
                Err(error) => return keep_first(&queue, 0, error),
            };
            let mut own = Vec::with_capacity(several);
            while take(&queue, several, &mut own) {
                for (index, task) in own.drain(..) {
                    if let Err(error) = run(&mut worker, task) {
                        keep_first(&queue, index, error);
                        break;
                    }
                }
            }
            self.workers.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
        };
        match threads {
            None => work(),
            Some(threads) => threads.scope(|scope| {
                for _ in 0..n_threads {
                    scope.spawn(|_| work());
                }
            }),
        }
        match queue.into_inner().unwrap_or_else(PoisonError::into_inner).1 {
            None => Ok(()),
            Some((_, error)) => Err(error),
        }
    }

    fn take_worker(&self) -> Result<Worker> {
        let resting = self.workers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        resting.map_or_else(Worker::new, Ok)
    }

    /// The threads; none if the system will not make any, and then the caller's has to do.
    fn threads(&self) -> Option<&rayon::ThreadPool> {
        let make = || {
            let name = |index| format!("celltile-read-{index}");
            rayon::ThreadPoolBuilder::new().num_threads(self.n_threads).thread_name(name).build().ok()
        };
        self.threads.get_or_init(make).as_ref()
    }
}

type Queue<T> = Mutex<(std::iter::Enumerate<std::vec::IntoIter<T>>, Option<(usize, Error)>)>;

/// Takes tasks, up to `several`, and returns whether there were any.
fn take<T>(queue: &Queue<T>, several: usize, own: &mut Vec<(usize, T)>) -> bool {
    let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
    // Tasks begin in order, so those before the failed one have begun, or are a thread's that has not failed.
    if queue.1.is_none() {
        own.extend(queue.0.by_ref().take(several));
    }
    !own.is_empty()
}

fn keep_first<T>(queue: &Queue<T>, index: usize, error: Error) {
    let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
    if queue.1.as_ref().is_none_or(|(first, _)| index < *first) {
        queue.1 = Some((index, error));
    }
}
