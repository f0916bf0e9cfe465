//! The loader: where in the epochs it is, and the threads at work for it.

mod setup;

use std::sync::Arc;
use std::time::{Duration, Instant};

use celltile::Dataset;
use celltile::obs::ObsColumn;

use crate::batch::{Batch, Element};
use crate::error::{Error, Result};
use crate::options::{LoaderOptions, Seat};
use crate::order::Deal;
use crate::prefetch::{Prefetch, Setup, Start, Taken};
use crate::state::{LaneState, Segment, State, VERSION, fault};
use crate::stats::{Counters, Stats};
use setup::Prepared;

/// What [`Loader::next_within`] finds.
#[derive(Debug)]
pub enum Next<C: Element> {
    /// A batch.
    Batch(Box<Batch<C>>),
    /// The time is up; nothing is lost.
    Waiting,
    /// The epoch is over. The next call begins the next one.
    End,
}

/// Hands out the batches of one epoch after the other.
///
/// Threads decode ahead from the first batch asked for on. Dropping the loader ends them and waits for that, or lets them
/// end by themselves where they may wait for a server.
#[derive(Debug)]
pub struct Loader<C: Element> {
    setup: Arc<Setup<C>>,
    options: LoaderOptions,
    /// Identifies what decides the order.
    id: String,
    /// Where the epoch was begun: from its start, or from a state.
    base: State,
    place: Place,
    running: Option<Running<C>>,
    since: Option<Instant>,
}

/// Where the loader is.
#[derive(Debug, Clone)]
struct Place {
    epoch: u64,
    before: Vec<Segment>,
    now: Segment,
    /// Which of the rank's lanes this loader delivers: the worker's, or one so many further on where an epoch goes on in
    /// the middle of a turn of the workers, since whoever collects their batches begins with worker 0 again.
    lane: u64,
    /// Batches of this lane delivered since the segment's start.
    lane_steps: u64,
}

#[derive(Debug)]
struct Running<C: Element> {
    prefetch: Prefetch<C>,
    /// Batches that this lane will have delivered at the end of the epoch.
    total: u64,
}

impl<C: Element> Loader<C> {
    /// A loader at the start of epoch 0. Reads the tiles' chunk tables (with [`Shuffle::Chunks`](crate::Shuffle::Chunks))
    /// and the obs columns asked for.
    ///
    /// # Errors
    /// [`Error::Option`] for options that make no sense, or not for this dataset; [`Error::Dataset`] if the dataset
    /// cannot be read.
    pub fn new(dataset: Arc<Dataset>, options: LoaderOptions) -> Result<Self> {
        let Prepared { setup, segment, id } = setup::prepare(dataset, &options)?;
        let base = State { version: VERSION, order: id.clone(), epoch: 0, segments: Vec::new(), lane: None };
        let lane = options.seat.worker;
        let place = Place { epoch: 0, before: Vec::new(), now: segment, lane, lane_steps: 0 };
        Ok(Self { setup: Arc::new(setup), options, id, base, place, running: None, since: None })
    }

    /// The next batch; nothing at the end of an epoch. The call after that begins the next epoch.
    ///
    /// After an error the loader is where it was before; the next call tries again.
    pub fn next_batch(&mut self) -> Option<Result<Batch<C>>> {
        loop {
            match self.next_until(None) {
                Ok(Next::Batch(batch)) => return Some(Ok(*batch)),
                Ok(Next::Waiting) => {}
                Ok(Next::End) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// As [`next_batch`](Self::next_batch), but waits no longer than that.
    ///
    /// # Errors
    /// [`Error::Dataset`] naming the tile that is damaged or cannot be read, or [`Error::Thread`].
    pub fn next_within(&mut self, timeout: Duration) -> Result<Next<C>> {
        self.next_until(Some(timeout))
    }

    fn next_until(&mut self, timeout: Option<Duration>) -> Result<Next<C>> {
        if self.running.is_none() {
            self.running = Some(self.start()?);
        }
        let started = Instant::now();
        self.since.get_or_insert(started);
        let Some(running) = &self.running else { return Ok(Next::End) };
        let taken = running.prefetch.take(timeout);
        Counters::add_time(&self.setup.counters.wait, started);
        match taken {
            Taken::Waiting => Ok(Next::Waiting),
            Taken::Batch(delivered) => match *delivered {
                Ok(batch) => {
                    self.place.lane_steps = self.place.lane_steps.saturating_add(1);
                    Counters::add(&self.setup.counters.batches, 1);
                    Counters::add(&self.setup.counters.cells, batch.n_cells() as u64);
                    Ok(Next::Batch(Box::new(batch)))
                }
                Err(error) => {
                    self.running = None;
                    Err(error)
                }
            },
            Taken::End => {
                let total = running.total;
                self.running = None;
                if self.place.lane_steps < total {
                    return Err(Error::Thread(format!(
                        "ended after {} of {total} batches",
                        self.place.lane_steps
                    )));
                }
                self.set_epoch(self.place.epoch.saturating_add(1));
                Ok(Next::End)
            }
        }
    }

    fn start(&self) -> Result<Running<C>> {
        let Place { epoch, before, now, lane, lane_steps } = self.place.clone();
        let deal = self.deal();
        let rank_total = self.setup.order.rank_batches(epoch, &before, &now);
        let total = deal.lane_steps(rank_total, lane);
        let seat = Seat { worker: lane, ..self.options.seat };
        let start = Start { epoch, before, now, deal, seat, lane_steps };
        Ok(Running { prefetch: Prefetch::start(&self.setup, start)?, total })
    }

    fn deal(&self) -> Deal {
        Deal::new(&self.place.now, self.options.uneven, self.options.drop_last)
    }

    /// Goes back to where the epoch was begun: its start, or the state that was loaded.
    ///
    /// # Errors
    /// None in practice.
    pub fn restart(&mut self) -> Result<()> {
        let base = self.base.clone();
        self.load_state(&base)
    }

    /// Ends the threads that decode ahead, and forgets what they decoded. The next batch is the same as without that.
    pub fn stop(&mut self) {
        self.running = None;
    }

    /// The epoch that the next batch belongs to.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.place.epoch
    }

    /// Goes to the start of an epoch.
    pub fn set_epoch(&mut self, epoch: u64) {
        self.running = None;
        self.base.epoch = epoch;
        self.base.segments.clear();
        self.base.lane = None;
        self.place = Place {
            epoch,
            before: Vec::new(),
            now: Segment { steps: 0, ..self.place.now },
            lane: self.options.seat.worker,
            lane_steps: 0,
        };
    }

    /// Where the loader is: what [`load_state`](Self::load_state) takes here or elsewhere, with other seats too. Batches
    /// that were decoded ahead and not handed out do not count.
    ///
    /// Of a loader that is one worker of several, the state says so, and is good for that worker only; see
    /// [`state_after`](Self::state_after).
    #[must_use]
    pub fn state(&self) -> State {
        let seat = self.options.seat;
        let Place { epoch, before, now, lane, lane_steps } = &self.place;
        if seat.workers == 1 {
            return self.rank_state(*epoch, before, Segment { steps: *lane_steps, ..*now });
        }
        let mut segments = before.clone();
        segments.push(Segment { steps: 0, ..*now });
        let lane = Some(LaneState { worker: seat.worker, lane: *lane, steps: *lane_steps });
        State { version: VERSION, order: self.id.clone(), epoch: *epoch, segments, lane }
    }

    fn rank_state(&self, epoch: u64, before: &[Segment], now: Segment) -> State {
        let state =
            |epoch, segments| State { version: VERSION, order: self.id.clone(), epoch, segments, lane: None };
        let mut segments = before.to_vec();
        if now.steps > 0 {
            segments.push(now);
        }
        if !segments.is_empty() && now.steps >= self.setup.order.rank_batches(epoch, before, &now) {
            return state(epoch.saturating_add(1), Vec::new());
        }
        state(epoch, segments)
    }

    /// Where a rank is that began where this loader began (its last [`load_state`](Self::load_state), or the epoch's
    /// start), and has since been given so many batches by so many workers in turn: what a process that collects the
    /// batches of its workers counts.
    #[must_use]
    pub fn state_after(&self, workers: u64, steps: u64) -> State {
        let (before, now) = self.begun(workers);
        let now = Segment { steps: now.steps.saturating_add(steps), ..now };
        self.rank_state(self.base.epoch, &before, now)
    }

    /// Where the epoch was begun, if a rank has so many workers: the stretches that are over, and the one that goes on.
    fn begun(&self, workers: u64) -> (Vec<Segment>, Segment) {
        let now = Segment { workers: workers.max(1), steps: 0, ..self.place.now };
        let mut before = self.base.segments.clone();
        match before.pop() {
            Some(last) if last.deals_like(&now) => (before, last),
            last => {
                before.extend(last);
                (before, now)
            }
        }
    }

    /// Goes to where a state says: the next batch is the one after the last that was delivered. Nothing is read for that.
    ///
    /// With another number of ranks or workers, another batch size or buffer than before, the cells that are left of
    /// the epoch are dealt anew.
    ///
    /// # Errors
    /// [`Error::State`] if it is of another dataset or order, or of another worker.
    pub fn load_state(&mut self, state: &State) -> Result<()> {
        state.check(&self.id)?;
        let seat = self.options.seat;
        let now = Segment { steps: 0, ..self.place.now };
        let mut before = state.segments.clone();
        let last = before.last().copied().filter(|last| last.deals_like(&now));
        let (lane, lane_steps) = match (state.lane, last) {
            (None, None) => (seat.worker, 0),
            (None, Some(last)) => {
                let lane = (last.steps % seat.workers + seat.worker) % seat.workers;
                (lane, self.deal().lane_steps(last.steps, lane))
            }
            (Some(own), Some(_)) if own.worker == seat.worker && own.lane < seat.workers => {
                (own.lane, own.steps)
            }
            (Some(lane), _) => {
                let found = format!("worker {} of {:?}", lane.worker, before.last().map(|last| last.workers));
                let expected = format!("worker {} of {}, or a rank's", seat.worker, seat.workers);
                return Err(fault("place", found, expected));
            }
        };
        if last.is_some() {
            before.pop();
        }
        self.running = None;
        self.base = state.clone();
        self.place = Place { epoch: state.epoch, before, now, lane, lane_steps };
        Ok(())
    }

    /// Batches of each rank in this epoch: those that were delivered before a state was loaded, and those that are left.
    #[must_use]
    pub fn n_batches(&self) -> u64 {
        self.n_batches_of(self.options.seat.workers)
    }

    /// As [`n_batches`](Self::n_batches), if each rank has so many workers.
    #[must_use]
    pub fn n_batches_of(&self, workers: u64) -> u64 {
        let (before, now) = self.begun(workers);
        let left = self.setup.order.rank_batches(self.base.epoch, &before, &now);
        before.iter().fold(left, |sum, segment| sum.saturating_add(segment.steps))
    }

    /// Cells of an epoch over all ranks (draws, with weights).
    #[must_use]
    pub fn n_cells(&self) -> u64 {
        self.setup.order.len()
    }

    /// Number of columns of a batch.
    #[must_use]
    pub fn n_genes(&self) -> u64 {
        self.setup.genes.as_ref().map_or(self.setup.dataset.n_genes(), |genes| genes.n_genes)
    }

    /// The obs columns of a batch: names, kinds and categories.
    #[must_use]
    pub fn columns(&self) -> &[ObsColumn] {
        self.setup.columns.columns()
    }

    /// What the loader was asked for.
    #[must_use]
    pub fn options(&self) -> &LoaderOptions {
        &self.options
    }

    /// The dataset.
    #[must_use]
    pub fn dataset(&self) -> &Arc<Dataset> {
        &self.setup.dataset
    }

    /// What was done so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.setup.counters.stats(self.since)
    }
}
