//! Conversions that are stopped wherever they can be, and resumed.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use celltile::Error as DatasetError;
use celltile::storage::{Entry, MemoryStorage, Object, ObjectWriter, Storage};
use celltile_ingest::convert::{ConvertOptions, convert_files};
use celltile_ingest::plan::Joining;

use crate::memory::{Input, Inputs, files, names, options, tight};

/// A storage that dies at a write: from then on nothing works. Or something else happens at that write.
#[derive(Clone)]
pub(crate) struct Dying {
    inner: MemoryStorage,
    left: Arc<AtomicU64>,
    instead: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl std::fmt::Debug for Dying {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} left", self.left)
    }
}

impl Dying {
    pub(crate) fn new(inner: &MemoryStorage, left: u64) -> Self {
        Self { inner: inner.clone(), left: Arc::new(AtomicU64::new(left)), instead: None }
    }

    /// At the write of that number something happens once.
    pub(crate) fn meddling(
        inner: &MemoryStorage,
        left: u64,
        what: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self { instead: Some(Arc::new(what)), ..Self::new(inner, left) }
    }

    /// Whether nothing has happened yet.
    pub(crate) fn is_left(&self) -> bool {
        self.left.load(Ordering::SeqCst) > 0
    }

    fn step(&self, key: &str) -> celltile::Result<()> {
        let step = |left: u64| left.checked_sub(1);
        if let Some(instead) = &self.instead {
            if self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, step) == Ok(1) {
                instead();
            }
            return Ok(());
        }
        match self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, step) {
            Ok(_) => Ok(()),
            Err(_) => Err(DatasetError::Io {
                path: key.to_owned(),
                action: "reach",
                source: io::ErrorKind::BrokenPipe.into(),
            }),
        }
    }
}

impl Storage for Dying {
    fn locate(&self, key: &str) -> String {
        self.inner.locate(key)
    }

    fn open(&self, key: &str) -> celltile::Result<Box<dyn Object>> {
        self.inner.open(key)
    }

    fn read(&self, key: &str) -> celltile::Result<Bytes> {
        self.inner.read(key)
    }

    fn read_range(&self, key: &str, range: Range<u64>) -> celltile::Result<Bytes> {
        self.inner.read_range(key, range)
    }

    fn list(&self, folder: &str) -> celltile::Result<Vec<Entry>> {
        self.inner.list(folder)
    }

    fn write(&self, key: &str, bytes: &[u8]) -> celltile::Result<()> {
        self.step(key)?;
        self.inner.write(key, bytes)
    }

    fn create(&self, key: &str) -> celltile::Result<Box<dyn ObjectWriter>> {
        self.step(key)?;
        self.inner.create(key)
    }

    fn remove(&self, key: &str) -> celltile::Result<()> {
        self.step(key)?;
        self.inner.remove(key)
    }
}

fn inputs() -> Inputs {
    Inputs::new([83, 2, 91].iter().zip(1..).map(|(&n, seed)| Input::random(seed, n, names("g", 30))))
}

fn shuffled(shuffle: Option<u64>) -> ConvertOptions {
    ConvertOptions { joining: Joining { shuffle, ..Joining::default() }, resume: true, ..options() }
}

#[test]
fn test_stopped_at_any_write_and_resumed_gives_the_same_bytes() {
    let inputs = inputs();
    for options in [shuffled(None), shuffled(Some(1)), tight(shuffled(Some(1)))] {
        let (whole, _) = inputs.converted(&ConvertOptions { resume: false, ..options.clone() });
        let whole = files(&whole);
        let mut stops = 0;
        for at in 0.. {
            let storage = MemoryStorage::new();
            let dying = Dying::new(&storage, at);
            if convert_files(&inputs.names(), Arc::new(dying), &inputs.source(), &options).is_ok() {
                break;
            }
            stops += 1;
            // With other memory and threads than before, as another machine has.
            let mut other = tight(options.clone());
            other.writer.threads = 1;
            inputs.convert(&storage, &other).unwrap();
            assert!(files(&storage) == whole, "stopped at write {at}");
        }
        assert!(stops > 20, "{stops}");
    }
}

#[test]
fn test_what_is_done_is_not_done_again() {
    let inputs = inputs();
    let options = tight(shuffled(Some(5)));
    let storage = MemoryStorage::new();
    let dying = Dying::new(&storage, 9);
    convert_files(&inputs.names(), Arc::new(dying), &inputs.source(), &options).unwrap_err();
    inputs.reads.store(0, Ordering::Relaxed);
    inputs.convert(&storage, &options).unwrap();
    assert!(inputs.reads.load(Ordering::Relaxed) < 3);
}

#[test]
fn test_finished_begun_and_other_conversions() {
    let inputs = inputs();
    let storage = MemoryStorage::new();
    // On nothing it begins.
    assert!(!inputs.convert(&storage, &shuffled(None)).unwrap().was_complete);
    let whole = files(&storage);
    let again = inputs.convert(&storage, &shuffled(None)).unwrap();
    assert!(again.was_complete && files(&storage) == whole);
    assert_eq!(again.sum, inputs.inputs.lock().unwrap().iter().map(Input::sum).sum::<u64>());

    let refused = |storage: &MemoryStorage, options: &ConvertOptions| {
        inputs.convert(storage, options).unwrap_err().to_string()
    };
    let error = refused(&storage, &shuffled(Some(3)));
    assert!(
        error.contains("another conversion") && error.contains("joining.shuffle is 3 now, null before"),
        "{error}"
    );
    let mut other = shuffled(None);
    other.writer.tile_size = 11;
    assert!(refused(&storage, &other).contains("settings.tile_size is 11 now, 10 before"));
    assert!(refused(&storage, &options()).contains("--overwrite"));

    let begun = MemoryStorage::new();
    let dying = Dying::new(&begun, 4);
    convert_files(&inputs.names(), Arc::new(dying), &inputs.source(), &shuffled(None)).unwrap_err();
    assert!(refused(&begun, &other).contains("settings.tile_size is 11 now, 10 before"));
    assert!(refused(&begun, &options()).contains("--resume goes on with it"));
    inputs.inputs.lock().unwrap()[1] = Input::random(9, 2, names("g", 30));
    let error = refused(&begun, &shuffled(None));
    assert!(error.contains("input memory/1: has changed"), "{error}");
    let error = refused(&storage, &shuffled(None));
    assert!(error.contains("input memory/1: has changed"), "{error}");
    let mut over = options();
    over.writer.overwrite = true;
    inputs.convert(&begun, &over).unwrap();
    assert!(files(&begun).keys().all(|key| !key.starts_with(".work")));
}

#[test]
fn test_what_a_killed_process_was_writing_is_cleared_away() {
    use celltile::storage::LocalStorage;
    let inputs = inputs();
    let folder = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(folder.path()));
    let dying_options = tight(shuffled(None));
    convert_files(&inputs.names(), Arc::clone(&storage), &inputs.source(), &dying_options).unwrap();
    let list = || {
        let mut found = Vec::new();
        for name in ["", "tiles", "obs"] {
            found.extend(std::fs::read_dir(folder.path().join(name)).unwrap().map(|e| e.unwrap().path()));
        }
        found.sort();
        found
    };
    let whole = list();
    // As if it had been killed just before the end.
    for name in [
        "tiles/.tile_000001.dct.1-1.celltile-tmp",
        "obs/.x.1-2.celltile-tmp",
        ".manifest.json.1-3.celltile-tmp",
    ] {
        std::fs::write(folder.path().join(name), "half").unwrap();
    }
    convert_files(&inputs.names(), storage, &inputs.source(), &dying_options).unwrap();
    assert_eq!(list(), whole);
}

/// Same size, same ends, same headers: only the time of the file tells.
#[test]
fn test_an_input_that_was_written_to_in_the_middle_is_not_resumed() {
    use celltile_ingest::convert::convert_file;
    use celltile_ingest::source::SourceOptions;
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("cells.csv");
    let table = |count: u32| {
        let cells = (0..40_000).map(|at| format!("c{at},{}\n", if at == 20_000 { count } else { 1 }));
        std::iter::once(",g\n".to_owned()).chain(cells).collect::<String>()
    };
    let write = |count: u32, seconds: u64| {
        std::fs::write(&input, table(count)).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        std::fs::File::options().write(true).open(&input).unwrap().set_modified(time).unwrap();
    };
    write(5, 1);
    let source =
        SourceOptions { cells: Some(celltile_ingest::source::CellAxis::Rows), ..SourceOptions::default() };
    let storage = MemoryStorage::new();
    let options = ConvertOptions { resume: true, ..ConvertOptions::default() };
    let dying = Arc::new(Dying::new(&storage, 4));
    convert_file(&input, dying, &source, &options).unwrap_err();
    write(6, 2);
    let resume = || convert_file(&input, Arc::new(storage.clone()), &source, &options);
    let error = resume().unwrap_err().to_string();
    assert!(error.contains("cells.csv: has changed"), "{error}");
    write(5, 1);
    resume().unwrap();
}
