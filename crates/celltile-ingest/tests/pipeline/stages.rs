//! Stages run one by one, in any order that they allow, more than once.

use std::sync::Arc;

use celltile::storage::MemoryStorage;
use celltile_ingest::Result;
use celltile_ingest::convert::{ConvertOptions, Stages};
use celltile_ingest::plan::Joining;

use crate::memory::{Input, Inputs, files, names, options, tight};

fn stages(inputs: &Inputs, storage: &MemoryStorage) -> Result<Stages> {
    let storage = Arc::new(storage.clone());
    let mut options = ConvertOptions { memory: 1 << 13, ..ConvertOptions::default() };
    options.writer.threads = 2;
    Stages::open(storage, &inputs.source(), &options)
}

fn begin(inputs: &Inputs, storage: &MemoryStorage, options: &ConvertOptions) {
    let plan = inputs.look(options).plan().unwrap();
    let storage: Arc<dyn celltile::storage::Storage> = Arc::new(storage.clone());
    Stages::plan(&plan, &storage, options).unwrap();
}

#[test]
fn test_stages_make_the_dataset_that_convert_makes() {
    let list: Vec<Input> =
        [70, 5, 110].iter().zip(1..).map(|(&n, seed)| Input::random(seed, n, names("g", 40))).collect();
    for shuffle in [None, Some(4)] {
        let options =
            ConvertOptions { joining: Joining { shuffle, ..Joining::default() }, ..tight(options()) };
        let inputs = Inputs::new(list.clone());
        let (whole, summary) = inputs.converted(&options);
        let storage = MemoryStorage::new();
        assert!(stages(&inputs, &storage).unwrap_err().to_string().contains("celltile plan"));
        begin(&inputs, &storage, &options);
        // Every stage is a process of its own, and knows only what is stored.
        let run = |stage: &dyn Fn(&Stages) -> Result<()>| stage(&stages(&inputs, &storage).unwrap());
        let told = |result: Result<()>| result.unwrap_err().to_string();
        assert!(told(run(&|s| s.encode(0..1))).contains("count --inputs 0:1"));
        run(&|s| s.count(2..3)).unwrap();
        run(&|s| s.count(0..1)).unwrap();
        assert!(told(run(&|s| s.encode(0..1))).contains("count --inputs 1:2"));
        run(&|s| s.count(0..3)).unwrap();
        run(&|s| s.count(1..2)).unwrap();
        assert!(told(run(&|s| s.count(2..4))).contains("there are 3"));
        if shuffle.is_some() {
            assert!(told(run(&|s| s.encode(0..1))).contains("scatter --inputs 0:1"));
        }
        run(&|s| s.scatter(1..3)).unwrap();
        run(&|s| s.scatter(0..2)).unwrap();
        run(&|s| s.encode(9..19)).unwrap();
        assert!(told(run(&|s| s.finish().map(|_| ()))).contains("encode --tiles 0:1"));
        run(&|s| s.encode(0..3)).unwrap();
        run(&|s| s.encode(0..19)).unwrap();
        assert!(told(run(&|s| s.encode(0..20))).contains("there are 19"));
        let finished = stages(&inputs, &storage).unwrap().finish().unwrap();
        assert_eq!(
            (finished.cells, finished.sum, &finished.inputs),
            (summary.cells, summary.sum, &summary.inputs)
        );
        assert!(files(&whole) == files(&storage));
        // Every stage may run twice, the last one too.
        run(&|s| s.count(0..3)).unwrap();
        run(&|s| s.scatter(0..3)).unwrap();
        run(&|s| s.encode(0..19)).unwrap();
        let again = stages(&inputs, &storage).unwrap().finish().unwrap();
        assert!(again.was_complete && !finished.was_complete);
        assert_eq!((again.cells, again.nonzeros, again.sum), (summary.cells, summary.nonzeros, summary.sum));
        assert!(files(&whole) == files(&storage));
    }
}

#[test]
fn test_an_input_that_changed_since_is_refused() {
    let inputs = Inputs::new([Input::random(1, 30, names("g", 9)), Input::random(2, 30, names("g", 9))]);
    let storage = MemoryStorage::new();
    begin(&inputs, &storage, &options());
    inputs.inputs.lock().unwrap()[1] = Input::random(3, 31, names("g", 9));
    let stages = stages(&inputs, &storage).unwrap();
    stages.count(0..1).unwrap();
    let error = stages.count(1..2).unwrap_err().to_string();
    assert!(error.contains("memory/1: has changed") && error.contains("31 cells"), "{error}");
}

#[test]
fn test_counts_that_changed_between_stages_are_seen() {
    // Same headers, another count: only the totals tell.
    let change = |cells: &mut Vec<Vec<(u32, u32)>>| {
        let cell = cells.iter_mut().find(|cell| !cell.is_empty()).unwrap();
        cell[0].1 += 1;
    };
    let inputs = Inputs::new([Input::random(1, 30, names("g", 9)), Input::random(2, 30, names("g", 9))]);
    let storage = MemoryStorage::new();
    begin(&inputs, &storage, &options());
    stages(&inputs, &storage).unwrap().count(0..2).unwrap();
    change(&mut inputs.inputs.lock().unwrap()[1].cells);
    let stages = stages(&inputs, &storage).unwrap();
    stages.encode(0..6).unwrap();
    let error = stages.finish().unwrap_err().to_string();
    assert!(error.contains("memory/1: has changed"), "{error}");
}

#[test]
fn test_what_is_scattered_is_counted_in_the_same_pass() {
    let inputs = Inputs::new([Input::random(1, 30, names("g", 9)), Input::random(2, 30, names("g", 9))]);
    let options =
        ConvertOptions { joining: Joining { shuffle: Some(1), ..Joining::default() }, ..tight(options()) };
    let (whole, _) = inputs.converted(&options);
    let storage = MemoryStorage::new();
    begin(&inputs, &storage, &options);
    let stages = stages(&inputs, &storage).unwrap();
    inputs.reads.store(0, std::sync::atomic::Ordering::SeqCst);
    stages.scatter(0..2).unwrap();
    stages.count(0..2).unwrap();
    stages.encode(0..6).unwrap();
    assert_eq!(inputs.reads.load(std::sync::atomic::Ordering::SeqCst), 2);
    stages.finish().unwrap();
    assert!(files(&whole) == files(&storage));
}

#[test]
fn test_a_finish_that_dies_anywhere_is_run_again() {
    use crate::resume::Dying;
    let inputs = Inputs::new([Input::random(1, 30, names("g", 9)), Input::random(2, 30, names("g", 9))]);
    let (whole, _) = inputs.converted(&options());
    let whole = files(&whole);
    let mut stops = 0;
    for at in 0.. {
        let storage = MemoryStorage::new();
        begin(&inputs, &storage, &options());
        let at_work = stages(&inputs, &storage).unwrap();
        at_work.count(0..2).unwrap();
        at_work.encode(0..6).unwrap();
        let dying = Arc::new(Dying::new(&storage, at));
        let done = Stages::open(dying, &inputs.source(), &options()).unwrap().finish().is_ok();
        stages(&inputs, &storage).unwrap().finish().unwrap();
        assert!(files(&storage) == whole, "died at write {at}");
        stages(&inputs, &storage).unwrap().finish().unwrap();
        if done {
            break;
        }
        stops += 1;
    }
    assert!(stops > 10, "{stops}");
}
