//! Threads that decode ahead: one plans the next fill of the buffer (and fetches it, from a remote storage), one has
//! fills decoded, by as many threads as asked for, and puts finished batches into a queue of bounded size.

mod decode;
mod genes;
mod near;
mod picked;
mod plan;
mod queue;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use celltile::Dataset;

use self::decode::Decoding;
pub(crate) use self::genes::GeneMap;
use self::plan::{Plan, Planner};
use self::queue::Queue;
pub(crate) use self::queue::Taken;
use crate::batch::{Batch, Element, Memory};
use crate::error::{Error, Result};
use crate::obs::Columns;
use crate::options::{OnDamage, Seat, Transform};
use crate::order::{Deal, Order};
use crate::state::Segment;
use crate::stats::Counters;

/// What stays the same from epoch to epoch.
#[derive(Debug)]
pub(crate) struct Setup<C: Element> {
    pub(crate) dataset: Arc<Dataset>,
    pub(crate) order: Order,
    pub(crate) columns: Columns,
    pub(crate) genes: Option<GeneMap>,
    pub(crate) totals: bool,
    pub(crate) transform: Transform,
    pub(crate) round_counts: bool,
    pub(crate) on_damage: OnDamage,
    /// Bytes of decoded cells.
    pub(crate) memory: u64,
    pub(crate) threads: usize,
    pub(crate) counters: Counters,
    pub(crate) resting: Arc<Memory<C>>,
}

/// Which part of which epoch is to be delivered.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    pub(crate) epoch: u64,
    pub(crate) before: Vec<Segment>,
    pub(crate) now: Segment,
    pub(crate) deal: Deal,
    pub(crate) seat: Seat,
    /// Batches of the lane that were delivered before.
    pub(crate) lane_steps: u64,
}

/// Running threads. They end when this is dropped, which waits for them unless they may wait for a network.
#[derive(Debug)]
pub(crate) struct Prefetch<C: Element> {
    remote: bool,
    queue: Arc<Queue<C>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl<C: Element> Prefetch<C> {
    pub(crate) fn start(setup: &Arc<Setup<C>>, start: Start) -> Result<Self> {
        let queue = Arc::new(Queue::new());
        let stop = Arc::new(AtomicBool::new(false));
        let remote = setup.dataset.storage().is_remote();
        let mut running =
            Self { remote, queue: Arc::clone(&queue), stop: Arc::clone(&stop), threads: Vec::new() };
        let (plans, planned) = sync_channel(0);
        let batch_size = start.now.batch_size.max(1);
        running.spawn("plan", {
            let (setup, stop) = (Arc::clone(setup), Arc::clone(&stop));
            move || plan_fills(&setup, &start, &stop, &plans)
        })?;
        running.spawn("decode", {
            let setup = Arc::clone(setup);
            move || {
                // Whatever happens to this thread, the one that waits for batches is told.
                let _end = EndGuard(&queue);
                decode_fills(&setup, batch_size, &stop, &planned, &queue);
            }
        })?;
        Ok(running)
    }

    fn spawn(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = std::thread::Builder::new().name(format!("celltile-{name}")).spawn(run);
        self.threads.push(thread.map_err(|e| Error::Thread(format!("could not be started: {e}")))?);
        Ok(())
    }

    /// The next batch, waited for no longer than that.
    pub(crate) fn take(&self, timeout: Option<Duration>) -> Taken<C> {
        self.queue.take(timeout)
    }
}

impl<C: Element> Drop for Prefetch<C> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.queue.close();
        if self.remote {
            // A server may be silent for long. The threads see that they are to stop when it answers, or is given up;
            // nobody looks at what they find then.
            return;
        }
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so; the queue's end was the answer to that.
            let _ = thread.join();
        }
    }
}

struct EndGuard<'q, C: Element>(&'q Queue<C>);

impl<C: Element> Drop for EndGuard<'_, C> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.push(Err(Error::Thread("ended unexpectedly".to_owned())));
        }
        self.0.end();
    }
}

/// A planned fill, and the lane's length.
type Planned = Result<(Plan, u64)>;

fn plan_fills<C: Element>(setup: &Setup<C>, start: &Start, stop: &AtomicBool, plans: &SyncSender<Planned>) {
    let lane = setup.order.lane(start.epoch, &start.before, &start.now, start.seat);
    let len = lane.len(&start.deal);
    let mut place = start.lane_steps.saturating_mul(start.deal.batch());
    let planner = Planner { setup, lane: &lane, len };
    while place < len && !stop.load(Ordering::Acquire) {
        let plan = planner.plan(place, stop);
        let failed = plan.is_err();
        if let Ok(plan) = &plan {
            place = plan.end();
        }
        if plans.send(plan.map(|plan| (plan, len))).is_err() || failed {
            break;
        }
    }
}

fn decode_fills<C: Element>(
    setup: &Setup<C>,
    batch_size: u64,
    stop: &AtomicBool,
    planned: &Receiver<Planned>,
    queue: &Queue<C>,
) {
    let mut decoding = Decoding::new(setup, batch_size, stop);
    while let Ok(planned) = planned.recv() {
        let result = planned.and_then(|(plan, len)| {
            if !queue.wait_for_room(plan.bytes(), setup.memory) {
                return Ok(());
            }
            for open in decoding.decode(&plan, len)? {
                let batch = open.finish(setup.totals, &setup.resting, |cells| setup.columns.take(cells))?;
                Counters::add(&setup.counters.lost_cells, batch.lost());
                queue.push(Ok(batch));
            }
            Ok(())
        });
        if let Err(error) = result {
            queue.push(Err(error));
            break;
        }
        if stop.load(Ordering::Acquire) {
            break;
        }
    }
}

/// What a queue holds.
pub(crate) type Delivered<C> = Result<Batch<C>>;
