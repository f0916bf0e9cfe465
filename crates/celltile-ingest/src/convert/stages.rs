use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use celltile::Manifest;
use celltile::storage::Storage;
use celltile::writer::prepare;
use rayon::prelude::*;
use serde_json::Value;

use super::apart;
use super::copies::Copies;
use super::encode::encode;
use super::finish::finish;
use super::lock::{Lock, Others};
use super::options::ConvertOptions;
use super::order;
use super::pass::{Room, Todo, check_memory, pass};
use super::summary::Summary;
use super::supply::{Cache, Supply};
use super::work::{Counted, Work, clear_temporaries};
use crate::error::{Error, Result};
use crate::plan::{Plan, PlannedInput};
use crate::source::SourceOptions;

/// Converts what a plan looked at to a dataset in `storage`. The same inputs and options give the same bytes, whatever
/// the number of threads and the memory, and however often it was stopped and resumed.
///
/// # Errors
///
/// Whatever is wrong with a cell: of several faults in an input the first in cell order. [`Error::Cancelled`] if asked to stop.
/// [`Error::Options`] if there is a conversion that this one does not go on with. [`Error::Dataset`] if the storage refuses. There is no
/// complete dataset then.
#[allow(clippy::needless_pass_by_value, reason = "a storage is shared by those who write to it")]
pub fn convert(plan: &Plan, storage: Arc<dyn Storage>, options: &ConvertOptions) -> Result<Summary> {
    let started = Instant::now();
    on_threads(options, || {
        let mut summary = match Stages::begin(plan, &storage, options)? {
            Begun::Complete(summary) => *summary,
            Begun::Work(work) => run(plan, &work, options).inspect_err(|error| {
                if !can_go_on(error) {
                    let _ = work.clear();
                }
            })?,
        };
        summary.time = started.elapsed();
        Ok(summary)
    })
}

/// Whether a conversion that ended with this error can be taken up again: with what a disk or a network says, later; with
/// what is wrong in an input, never.
pub(super) fn can_go_on(error: &Error) -> bool {
    matches!(error, Error::Cancelled | Error::Io { .. } | Error::Dataset(_))
}

fn on_threads<T: Send>(options: &ConvertOptions, what: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let threads = options.writer.threads.max(1);
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|at| format!("celltile-read-{at}"))
        .build()
        .map_err(|error| Error::Options(format!("cannot start {threads} threads: {error}")))?;
    pool.install(what)
}

/// What there is at the output.
enum Begun {
    /// The dataset, finished.
    Complete(Box<Summary>),
    /// The stages' folder.
    Work(Work),
}

/// All stages, in memory as far as it goes.
fn run(plan: &Plan, work: &Work, options: &ConvertOptions) -> Result<Summary> {
    check_memory(plan, options)?;
    let (counted, scattered, encoded) = (work.counted()?, work.scattered()?, work.encoded()?);
    let all_encoded = encoded.len() as u64 >= plan.n_tiles();
    let shuffled = plan.joining.shuffle.is_some();
    let transposed = plan.inputs.iter().any(PlannedInput::transposed);
    let keeping = options.keeping(transposed);
    let packed = plan.inputs.iter().map(PlannedInput::packed).fold(0, u64::saturating_add);
    let has = |list: &[u64], input: usize| list.binary_search(&(input as u64)).is_ok();
    let mut cache = Cache::new();
    let mut room = Room { left: keeping, whole: true };
    // Where all fits, nothing is put aside; and what was put aside before is used.
    let in_memory = packed <= keeping && scattered.is_empty();
    let aside = |input: &PlannedInput| !in_memory && (shuffled || input.transposed());
    let total = plan.cells();
    let mut done = 0;
    let skipped = Copies::skipped(plan, options)?;
    let first = |input: usize| skipped.get(input).copied().unwrap_or(0);
    for (number, input) in plan.inputs.iter().enumerate() {
        let scatter = aside(input) && !has(&scattered, number) && !all_encoded;
        let keep = !aside(input) && !all_encoded;
        let count = !has(&counted, number);
        if count || scatter || (keep && shuffled) {
            let todo = Todo { count, scatter, keep };
            pass(plan, work, options, number, first(number), todo, &mut cache, &mut room, &mut done, total)?;
        } else {
            room.whole = false;
            done += input.cells;
        }
    }
    if shuffled && in_memory && !room.whole && !all_encoded {
        // It was more than the headers said: put it aside after all.
        cache.clear();
        done = 0;
        for number in 0..plan.inputs.len() {
            let todo = Todo { count: false, scatter: true, keep: false };
            pass(plan, work, options, number, 0, todo, &mut cache, &mut room, &mut done, total)?;
        }
    }
    let mut counted = read_counts(plan, work)?;
    let order = gene_order(plan, work, &counted)?;
    let whole = shuffled && in_memory && room.whole;
    let mut supply = Supply::new(plan, options, work, cache, whole)?;
    encode(plan, work, options, &mut supply, &order, 0..plan.n_tiles())?;
    let read_again = supply.read_again;
    drop(supply);
    let written = finish(plan, work, options, &order, &mut counted)?;
    work.clear()?;
    let mut summary = Summary::new(plan, &counted, written.manifest.n_tiles(), written.manifest.bytes());
    summary.cells_read_twice = read_again;
    Ok(summary)
}

/// What was counted of each input; the totals of genes of all inputs together are in the first.
fn read_counts(plan: &Plan, work: &Work) -> Result<Vec<Counted>> {
    let sums = Mutex::new(Vec::new());
    let read = |input: usize| {
        let mut counted = work.read_count(input).map_err(|error| match error {
            Error::Dataset(error) if error.is_not_found() => Error::Options(format!(
                "input {input} is not counted yet: celltile count --inputs {input}:{}",
                input + 1
            )),
            error => error,
        })?;
        let totals = std::mem::take(&mut counted.totals);
        let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
        if sums.is_empty() {
            *sums = totals;
        } else {
            for (sum, more) in sums.iter_mut().zip(totals) {
                *sum = more.saturating_add(*sum);
            }
        }
        Ok(counted)
    };
    // In order, so that the first that is missing is the one told.
    let all: Vec<Result<Counted>> = (0..plan.inputs.len()).into_par_iter().map(read).collect();
    let mut all: Vec<Counted> = all.into_iter().collect::<Result<_>>()?;
    if let Some(first) = all.first_mut() {
        first.totals = sums.into_inner().unwrap_or_else(PoisonError::into_inner);
    }
    Ok(all)
}

fn gene_order(plan: &Plan, work: &Work, counted: &[Counted]) -> Result<Vec<i32>> {
    if let Some(order) = &plan.gene_order {
        return Ok(order.clone());
    }
    if let Some(order) = work.read_order()? {
        return Ok(order);
    }
    let totals = counted.first().map(|counted| counted.totals.as_slice()).unwrap_or_default();
    let order = order::decide(totals)?;
    work.write_order(&order)?;
    Ok(order)
}

/// A conversion in stages that any machine can run, each as often as it takes; they share the inputs and the output.
pub struct Stages {
    state: State,
    options: ConvertOptions,
}

enum State {
    Begun(Box<Plan>, Work),
    /// Nothing is left to do, but to clear away what is still there.
    Finished(Box<Manifest>, Arc<dyn Storage>, Option<Work>),
}

impl std::fmt::Debug for Stages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.state {
            State::Begun(plan, _) => f.debug_tuple("Stages").field(plan).finish(),
            State::Finished(..) => f.write_str("Stages(finished)"),
        }
    }
}

impl Stages {
    /// Fails early where a conversion could not begin.
    pub(super) fn check_free<'a>(
        storage: &dyn Storage,
        inputs: impl IntoIterator<Item = &'a str>,
        options: &ConvertOptions,
    ) -> Result<()> {
        apart::check(storage, inputs, options)?;
        if options.writer.overwrite || options.resume {
            return Ok(());
        }
        let occupied = |reason: &str| {
            celltile::Error::Occupied { path: storage.locate(""), reason: reason.to_owned() }.into()
        };
        if storage.size(celltile::keys::MANIFEST).is_ok() {
            return Err(occupied("there is a dataset already; it is replaced only with --overwrite"));
        }
        if Work::load_plan(storage).ok().flatten().is_some() {
            return Err(occupied(
                "there is a conversion that was not finished; --resume goes on with it, --overwrite begins anew",
            ));
        }
        Ok(())
    }

    /// Begins or resumes.
    fn begin(plan: &Plan, storage: &Arc<dyn Storage>, options: &ConvertOptions) -> Result<Begun> {
        let paths = plan.inputs.iter().map(|input| input.path.as_str());
        Self::check_free(storage.as_ref(), paths, options)?;
        let lock = Lock::take(storage.as_ref(), Others::None)?;
        let work = |lock| Work::new(Arc::clone(storage), plan, options, lock);
        if options.resume {
            if storage.size(celltile::keys::MANIFEST).is_ok() {
                return complete(plan, storage, &work(lock)?)
                    .map(|summary| Begun::Complete(Box::new(summary)));
            }
            if let Some(stored) = Work::load_plan(storage.as_ref())? {
                let differences = plan.differences(&stored);
                if !differences.is_empty() {
                    return Err(Error::Options(format!(
                        "{}: the conversion that was begun here is another one:\n  {}",
                        storage.locate(""),
                        differences.join("\n  ")
                    )));
                }
                // What was put aside before was so by the stored plan.
                let mut work = work(lock)?;
                work.layout = stored.spill;
                return Ok(Begun::Work(work));
            }
        }
        prepare(storage.as_ref(), options.writer.overwrite)?;
        // The lock was in what has just been cleared away.
        let again = Lock::take(storage.as_ref(), Others::None)?;
        drop(lock);
        let work = work(again)?;
        work.store_plan(plan)?;
        Ok(Begun::Work(work))
    }

    /// Stores a plan where a dataset is to be, for other processes to go on with.
    ///
    /// # Errors
    ///
    /// As [`convert`].
    pub fn plan(plan: &Plan, storage: &Arc<dyn Storage>, options: &ConvertOptions) -> Result<()> {
        Self::begin(plan, storage, options).map(|_| ())
    }

    /// The conversion that was begun in a storage. Of the options only memory, threads, the place of what is put aside and
    /// how inputs are opened count: the rest is the plan's. Where it is finished, no stage has anything left to do.
    ///
    /// # Errors
    ///
    /// [`Error::Options`] if there is none.
    pub fn open(
        storage: Arc<dyn Storage>,
        sources: &SourceOptions,
        options: &ConvertOptions,
    ) -> Result<Self> {
        let mut options = options.clone();
        let plan = Work::load_plan(storage.as_ref())?;
        let finished = match Manifest::read(storage.as_ref()) {
            Ok(manifest) => Some(Box::new(manifest)),
            Err(_) if plan.is_some() => None,
            Err(celltile::Error::NotADataset { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let state = match (plan, finished) {
            // The process that finished it died before it had cleared away.
            (Some(plan), Some(manifest)) if made_by(&manifest).is_some_and(|made| made == plan.digest()) => {
                let work = Work::new(Arc::clone(&storage), &plan, &options, None)?;
                State::Finished(manifest, storage, Some(work))
            }
            (Some(plan), _) => {
                plan.settings.apply(&mut options)?;
                options.inputs_remote = sources.remote.clone();
                options.openers.clone_from(&sources.openers);
                let lock = Lock::take(storage.as_ref(), Others::Stages)?;
                let work = Work::new(storage, &plan, &options, lock)?;
                State::Begun(Box::new(plan), work)
            }
            (None, Some(manifest)) if made_by(&manifest).is_some() => {
                State::Finished(manifest, storage, None)
            }
            (None, found) => {
                let place = storage.locate("");
                return Err(Error::Options(if found.is_some() {
                    format!("{place}: there is a dataset, which does not say how it was converted")
                } else {
                    format!("{place}: no conversion was begun here: celltile plan begins one")
                }));
            }
        };
        Ok(Self { state, options })
    }

    /// How many inputs there are.
    pub fn n_inputs(&self) -> usize {
        match &self.state {
            State::Begun(plan, _) => plan.inputs.len(),
            State::Finished(manifest, ..) => sources(manifest).len(),
        }
    }

    /// How many tiles there are, or will be.
    pub fn n_tiles(&self) -> u64 {
        match &self.state {
            State::Begun(plan, _) => plan.n_tiles(),
            State::Finished(manifest, ..) => manifest.n_tiles(),
        }
    }

    /// Checks the cells of some inputs and adds up their genes. Those that are counted already are left alone.
    ///
    /// # Errors
    ///
    /// As [`convert`].
    pub fn count(&self, inputs: Range<usize>) -> Result<()> {
        let State::Begun(plan, work) = &self.state else { return Ok(()) };
        let counted = work.counted()?;
        self.each(plan, work, inputs, |number, _| {
            let count = counted.binary_search(&number).is_err();
            Todo { count, scatter: false, keep: false }
        })
    }

    /// Whether cells have to be scattered.
    pub fn needs_scatter(&self) -> bool {
        let State::Begun(plan, _) = &self.state else { return false };
        plan.joining.shuffle.is_some() || plan.inputs.iter().any(PlannedInput::transposed)
    }

    /// Puts the cells of some inputs aside, where the order of the dataset asks for it, and does for them what
    /// [`count`](Self::count) does, unless it is done.
    ///
    /// # Errors
    ///
    /// As [`convert`].
    pub fn scatter(&self, inputs: Range<usize>) -> Result<()> {
        let State::Begun(plan, work) = &self.state else { return Ok(()) };
        let (counted, scattered) = (work.counted()?, work.scattered()?);
        let shuffled = plan.joining.shuffle.is_some();
        self.each(plan, work, inputs, |number, input| {
            let aside = (shuffled || input.transposed()) && scattered.binary_search(&number).is_err();
            Todo { count: aside && counted.binary_search(&number).is_err(), scatter: aside, keep: false }
        })
    }

    /// One pass over each of some inputs of which anything is to be done.
    fn each(
        &self,
        plan: &Plan,
        work: &Work,
        inputs: Range<usize>,
        todo: impl Fn(u64, &PlannedInput) -> Todo + Sync,
    ) -> Result<()> {
        let options = &self.options;
        let n = plan.inputs.len();
        if inputs.end > n || inputs.start > inputs.end {
            return Err(Error::Options(format!("inputs {}:{}: there are {n}", inputs.start, inputs.end)));
        }
        on_threads(options, || {
            check_memory(plan, options)?;
            let chosen = plan.inputs.get(inputs.clone()).unwrap_or(&[]);
            let total = chosen.iter().map(|input| input.cells).sum();
            let skipped = Copies::skipped(plan, options)?;
            let (mut cache, mut room, mut done) = (Cache::new(), Room { left: 0, whole: false }, 0);
            for (number, input) in inputs.zip(chosen) {
                let todo = todo(number as u64, input);
                if !todo.count && !todo.scatter {
                    done += input.cells;
                    continue;
                }
                let first = skipped.get(number).copied().unwrap_or(0);
                pass(plan, work, options, number, first, todo, &mut cache, &mut room, &mut done, total)?;
            }
            Ok(())
        })
    }

    /// Encodes some tiles. Those that are there already are left alone.
    ///
    /// # Errors
    ///
    /// As [`convert`]; [`Error::Options`] if an earlier stage is not complete.
    pub fn encode(&self, tiles: Range<u64>) -> Result<()> {
        let (State::Begun(plan, work), options) = (&self.state, &self.options) else { return Ok(()) };
        let n = plan.n_tiles();
        if tiles.end > n || tiles.start > tiles.end {
            return Err(Error::Options(format!("tiles {}:{}: there are {n}", tiles.start, tiles.end)));
        }
        on_threads(options, || {
            let order = match (&plan.gene_order, work.read_order()?) {
                (None, Some(order)) => order,
                _ => gene_order(plan, work, &read_counts(plan, work)?)?,
            };
            if self.needs_scatter() {
                let there = work.scattered()?;
                let shuffled = plan.joining.shuffle.is_some();
                for (number, input) in plan.inputs.iter().enumerate() {
                    if (shuffled || input.transposed()) && there.binary_search(&(number as u64)).is_err() {
                        return Err(Error::Options(format!(
                            "input {number} is not scattered yet: celltile scatter --inputs {number}:{}",
                            number + 1
                        )));
                    }
                }
            }
            let mut supply = Supply::new(plan, options, work, Cache::new(), false)?;
            encode(plan, work, options, &mut supply, &order, tiles)
        })
    }

    /// Writes genes, obs and the manifest, and clears away what the stages left. Done before, it only says so.
    ///
    /// # Errors
    ///
    /// As [`convert`]; [`Error::Options`] if an earlier stage is not complete.
    pub fn finish(&self) -> Result<Summary> {
        let started = Instant::now();
        let (plan, work, options) = match &self.state {
            State::Begun(plan, work) => (plan.as_ref(), work, &self.options),
            State::Finished(manifest, storage, work) => {
                clear_temporaries(storage.as_ref())?;
                work.as_ref().map_or(Ok(()), Work::clear)?;
                storage.remove_folder(celltile::keys::WORK)?;
                return Ok(finished(manifest, None));
            }
        };
        on_threads(options, || {
            let mut counted = read_counts(plan, work)?;
            let order = gene_order(plan, work, &counted)?;
            let written = finish(plan, work, options, &order, &mut counted)?;
            work.clear()?;
            let mut summary =
                Summary::new(plan, &counted, written.manifest.n_tiles(), written.manifest.bytes());
            summary.time = started.elapsed();
            Ok(summary)
        })
    }
}

/// The plan that a dataset was made by, if it was converted.
fn made_by(manifest: &Manifest) -> Option<String> {
    let metadata = manifest.metadata();
    Some(metadata.get("celltile")?.get("conversion")?.get("plan")?.as_str()?.to_owned())
}

/// What a dataset says of its inputs.
fn sources(manifest: &Manifest) -> Vec<Value> {
    let metadata = manifest.metadata();
    let sources = metadata.get("celltile").and_then(|ours| ours.get("sources")).and_then(Value::as_array);
    sources.cloned().unwrap_or_default()
}

/// What the conversion of a finished dataset did, by its plan or, without one, by what it says of its inputs.
fn finished(manifest: &Manifest, plan: Option<&Plan>) -> Summary {
    let sources = sources(manifest);
    let counted: Vec<Counted> = sources.iter().map(Counted::of_source).collect();
    let (tiles, bytes) = (manifest.n_tiles(), manifest.bytes());
    let mut summary = match plan {
        Some(plan) => Summary::new(plan, &counted, tiles, bytes),
        None => {
            let inputs: Vec<PlannedInput> =
                sources.iter().map(|source| PlannedInput::of_source(source, manifest.n_genes)).collect();
            Summary::of_inputs(&inputs, &counted, manifest.n_genes, tiles, bytes)
        }
    };
    summary.was_complete = true;
    summary
}

/// The dataset is there already: if it is this plan's, nothing is left to do but to clear away.
fn complete(plan: &Plan, storage: &Arc<dyn Storage>, work: &Work) -> Result<Summary> {
    let manifest = Manifest::read(storage.as_ref())?;
    let place = storage.locate("");
    let Some(made) = made_by(&manifest) else {
        return Err(Error::Options(format!(
            "{place}: there is a dataset, which does not say how it was converted"
        )));
    };
    if made != plan.digest() {
        let metadata = manifest.metadata();
        let conversion = metadata.get("celltile").and_then(|ours| ours.get("conversion"));
        let before = conversion.and_then(|c| c.get("essence")).cloned().unwrap_or_default();
        let differences = plan.differences_from(&before, &sources(&manifest).into());
        return Err(Error::Options(format!(
            "{place}: there is a finished dataset of another conversion:\n  {}",
            differences.join("\n  ")
        )));
    }
    clear_temporaries(storage.as_ref())?;
    work.clear()?;
    Ok(finished(&manifest, Some(plan)))
}
