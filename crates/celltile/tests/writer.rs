//! A writer that meets trouble: bad cells, occupied folders, storages that fail.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod common;

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use celltile::storage::{Entry, LocalStorage, MemoryStorage, Object, ObjectWriter, Storage};
use celltile::verify::{Level, VerifyOptions, verify};
use celltile::{ChunkCut, Csr, Dataset, DatasetWriter, Error, OpenOptions, WriterOptions};
use common::{matrix, options, select};

/// What happens at the chosen operation.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Trouble {
    /// The disk is full.
    Full,
    /// Fewer bytes are taken than given, again and again: no fault, writers must go on.
    Short,
    /// The write is said to be done, but less of it was.
    Lost,
    /// Everything from here on fails, as after a kill.
    Dead,
}

/// A storage whose operations are counted, and one of which goes wrong.
#[derive(Debug, Clone)]
struct Troubled {
    inner: MemoryStorage,
    trouble: Trouble,
    at: u64,
    operations: Arc<AtomicU64>,
}

impl Troubled {
    fn step(&self) -> Result<bool, io::Error> {
        let now = self.operations.fetch_add(1, Ordering::SeqCst);
        match self.trouble {
            Trouble::Full if now == self.at => Err(io::ErrorKind::StorageFull.into()),
            Trouble::Dead if now >= self.at => Err(io::ErrorKind::BrokenPipe.into()),
            _ => Ok(now == self.at),
        }
    }

    fn check(&self, key: &str) -> celltile::Result<bool> {
        self.step().map_err(|source| Error::Io { path: self.locate(key), action: "do", source })
    }
}

impl Storage for Troubled {
    fn locate(&self, key: &str) -> String {
        format!("troubled:{key}")
    }
    fn open(&self, key: &str) -> celltile::Result<Box<dyn Object>> {
        self.check(key)?;
        self.inner.open(key)
    }
    fn read(&self, key: &str) -> celltile::Result<Bytes> {
        self.check(key)?;
        self.inner.read(key)
    }
    fn read_range(&self, key: &str, range: Range<u64>) -> celltile::Result<Bytes> {
        self.check(key)?;
        self.inner.read_range(key, range)
    }
    fn list(&self, folder: &str) -> celltile::Result<Vec<Entry>> {
        self.check(folder)?;
        self.inner.list(folder)
    }
    fn create(&self, key: &str) -> celltile::Result<Box<dyn ObjectWriter>> {
        self.check(key)?;
        Ok(Box::new(TroubledWriter { inner: self.inner.create(key)?, of: self.clone(), key: key.to_owned() }))
    }
    fn remove(&self, key: &str) -> celltile::Result<()> {
        self.check(key)?;
        self.inner.remove(key)
    }
}

struct TroubledWriter {
    inner: Box<dyn ObjectWriter>,
    of: Troubled,
    key: String,
}

impl io::Write for TroubledWriter {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let now = self.of.step()?;
        match self.of.trouble {
            Trouble::Short if buffer.len() > 1 => self.inner.write(&buffer[..buffer.len() / 2]),
            Trouble::Lost if now => {
                let _ = self.inner.write(&buffer[..buffer.len() / 2])?;
                Ok(buffer.len())
            }
            _ => self.inner.write(buffer),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl ObjectWriter for TroubledWriter {
    fn finish(self: Box<Self>) -> celltile::Result<u64> {
        self.of.check(&self.key)?;
        self.inner.finish()
    }
}

fn how(threads: usize) -> WriterOptions {
    options(30, ChunkCut::Nonzeros(300), threads)
}

fn write(storage: Arc<dyn Storage>, cells: &Csr, options: &WriterOptions) -> celltile::Result<()> {
    let mut writer = DatasetWriter::create(storage, 300, options)?;
    writer.push(cells.view().unwrap())?;
    writer.finish().map(|_| ())
}

fn strict(storage: &dyn Storage) -> celltile::verify::Report {
    verify(storage, &VerifyOptions::default().level(Level::Strict), &|_| {}).unwrap()
}

#[test]
fn test_trouble_at_any_operation_leaves_old_new_or_refused() {
    let (old, new) = (matrix(1, 70, 300, 40), matrix(2, 95, 300, 40));
    for trouble in [Trouble::Full, Trouble::Lost, Trouble::Dead] {
        for threads in [1, 3] {
            let (mut complete, mut refused, mut untouched) = (0, 0, 0);
            for at in 0.. {
                let inner = MemoryStorage::new();
                write(Arc::new(inner.clone()), &old, &how(1)).unwrap();
                let operations = Arc::new(AtomicU64::new(0));
                let storage =
                    Troubled { inner: inner.clone(), trouble, at, operations: Arc::clone(&operations) };
                let mut options = how(threads);
                options.overwrite = true;
                let result = write(Arc::new(storage), &new, &options);
                if let Err(error) = &result {
                    assert!(error.to_string().contains("troubled:"), "{error}");
                }
                match Dataset::open_storage(Arc::new(inner.clone()), &OpenOptions::default()) {
                    Ok(dataset) if dataset.n_cells() == 70 => {
                        assert_eq!(dataset.rows(0..70).unwrap(), old, "{trouble:?} at {at}");
                        assert!(result.is_err() && strict(&inner).is_sound());
                        untouched += 1;
                    }
                    Ok(dataset) => {
                        assert_eq!(dataset.rows(0..95).unwrap(), new, "{trouble:?} at {at}");
                        assert!(strict(&inner).is_sound());
                        complete += 1;
                    }
                    Err(Error::NotADataset { .. }) => {
                        assert!(result.is_err());
                        refused += 1;
                        // The next run goes through, without being told to overwrite.
                        write(Arc::new(inner.clone()), &new, &how(2)).unwrap();
                        assert!(strict(&inner).is_sound());
                    }
                    // A storage that takes a manifest and keeps half of it.
                    Err(Error::Manifest { .. }) if trouble == Trouble::Lost => {
                        assert!(result.is_err());
                        refused += 1;
                        write(Arc::new(inner.clone()), &new, &options).unwrap();
                        assert!(strict(&inner).is_sound());
                    }
                    Err(error) => panic!("{trouble:?} at {at}: {error}"),
                }
                if operations.load(Ordering::SeqCst) <= at {
                    break;
                }
            }
            assert!(complete >= 1 && refused > 4, "{trouble:?}: {complete} {refused} {untouched}");
        }
    }
}

#[test]
fn test_short_writes_are_gone_on_with() {
    let cells = matrix(3, 50, 300, 40);
    let inner = MemoryStorage::new();
    let storage =
        Troubled { inner: inner.clone(), trouble: Trouble::Short, at: 0, operations: Arc::default() };
    write(Arc::new(storage), &cells, &how(2)).unwrap();
    assert!(strict(&inner).is_sound());
}

#[test]
fn test_bad_cells_are_named_whatever_the_threads() {
    let cells = matrix(4, 90, 300, 40);
    let cases: [(&[i32], &[i32], &str); 5] = [
        (&[5, 4], &[1, 1], "cell 45: gene 4 comes after gene 5, but genes must increase"),
        (&[5, 5], &[1, 2], "cell 45: gene 5 occurs more than once (counts 1 and 2)"),
        (&[5, 300], &[1, 1], "cell 45: gene 300 is out of range: there are 300 genes"),
        (&[5, 6], &[1, 0], "cell 45: gene 6 has count 0, expected 1 to 2147483647"),
        (&[5, 6], &[-1, 1], "cell 45: gene 5 has count -1, expected 1 to 2147483647"),
    ];
    for (genes, counts, expected) in cases {
        for (threads, cut) in [(1, ChunkCut::Cells(3)), (4, ChunkCut::Cells(3)), (4, ChunkCut::Count(5))] {
            let storage = Arc::new(MemoryStorage::new());
            let mut writer = DatasetWriter::create(storage.clone(), 300, &options(30, cut, threads)).unwrap();
            let bad = Csr { indptr: vec![0, 2], genes: genes.to_vec(), counts: counts.to_vec() };
            let worse = Csr { indptr: vec![0, 1], genes: vec![-9], counts: vec![1] };
            let all = cells.view().unwrap();
            let push = |writer: &mut DatasetWriter| {
                writer.push(all.cells(0..45).unwrap())?;
                writer.push(bad.view().unwrap())?;
                writer.push(all.cells(45..60).unwrap())?;
                writer.push(worse.view().unwrap())?;
                writer.push(all.cells(60..90).unwrap())
            };
            let error = match push(&mut writer) {
                Err(error) => {
                    let again = writer.push(all).unwrap_err();
                    assert!(matches!(again, Error::WriterStopped(_)), "{again}");
                    assert!(writer.finish().is_err());
                    error
                }
                Ok(()) => writer.finish().unwrap_err(),
            };
            assert_eq!(error.to_string(), expected);
            assert!(matches!(
                Dataset::open_storage(storage, &OpenOptions::default()),
                Err(Error::NotADataset { .. })
            ));
        }
    }
}

#[test]
fn test_too_many_exceptions_are_refused() {
    let n = 2000;
    let cells = Csr {
        indptr: vec![0, n],
        genes: (0..i32::try_from(n).unwrap()).collect(),
        counts: vec![70_000; usize::try_from(n).unwrap()],
    };
    let storage = Arc::new(MemoryStorage::new());
    let mut writer = DatasetWriter::create(storage, 2000, &how(1)).unwrap();
    writer.push(cells.view().unwrap()).unwrap();
    let error = writer.finish().unwrap_err();
    assert!(matches!(&error, Error::Tile { tile: 0, .. }), "{error}");
    assert!(error.to_string().contains("exceptions"), "{error}");
}

#[test]
fn test_folders_that_are_not_ours_are_left_alone() {
    let cells = matrix(5, 10, 300, 40);
    let mut overwrite = how(1);
    overwrite.overwrite = true;
    for (key, content) in
        [("notes.txt", "x"), ("manifest.json", "{}"), ("tiles/tile_000000.dct.bak", "x"), ("sub/a", "x")]
    {
        let storage = MemoryStorage::new();
        storage.write(key, content.as_bytes()).unwrap();
        storage.write("tiles/tile_000000.dct", b"x").unwrap();
        for options in [&how(1), &overwrite] {
            let error = write(Arc::new(storage.clone()), &cells, options).unwrap_err();
            assert!(matches!(error, Error::Occupied { .. }), "{key}: {error}");
            assert_eq!(storage.read(key).unwrap(), content);
            assert_eq!(storage.read("tiles/tile_000000.dct").unwrap(), "x");
        }
    }
}

#[test]
fn test_a_dataset_is_replaced_only_when_asked_and_foreign_files_stay() {
    let folder = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(folder.path()));
    let (old, new) = (matrix(6, 70, 300, 40), matrix(7, 20, 300, 40));
    write(storage.clone(), &old, &how(2)).unwrap();
    storage.write("README.txt", b"mine").unwrap();
    let error = write(storage.clone(), &new, &how(1)).unwrap_err();
    assert!(error.to_string().contains("it is replaced only with --overwrite"), "{error}");
    assert_eq!(Dataset::open(folder.path()).unwrap().n_cells(), 70);
    let mut overwrite = how(1);
    overwrite.overwrite = true;
    // Leftovers of a writer that was killed.
    std::fs::write(folder.path().join("tiles/.tile_000009.dct.77-0.celltile-tmp"), b"x").unwrap();
    write(storage.clone(), &new, &overwrite).unwrap();
    assert_eq!(Dataset::open(folder.path()).unwrap().rows(0..20).unwrap(), select(&new, 0..20));
    assert_eq!(storage.list("tiles").unwrap().len(), 1);
    assert_eq!(storage.read("README.txt").unwrap(), "mine");
    assert!(strict(storage.as_ref()).is_sound());
}

#[test]
fn test_a_dropped_writer_leaves_an_incomplete_dataset() {
    let folder = tempfile::tempdir().unwrap();
    let cells = matrix(8, 100, 300, 40);
    let mut writer = DatasetWriter::create_at(folder.path(), 300, &how(2)).unwrap();
    writer.push(cells.view().unwrap()).unwrap();
    drop(writer);
    let error = Dataset::open(folder.path()).map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::NotADataset { .. }), "{error}");
    write(Arc::new(LocalStorage::new(folder.path())), &cells, &how(2)).unwrap();
    assert_eq!(Dataset::open(folder.path()).unwrap().rows(0..100).unwrap(), cells);
}

#[test]
fn test_options_out_of_range_are_refused_before_anything_is_written() {
    let storage = MemoryStorage::new();
    let create = |n_genes, options: &WriterOptions| {
        DatasetWriter::create(Arc::new(storage.clone()), n_genes, options).map(|_| ()).unwrap_err()
    };
    let mut level = how(1);
    level.encode.compression = celltile::Compression::Level(99);
    for error in [
        create(0, &how(1)),
        create((1 << 31) + 1, &how(1)),
        create(1, &options(0, ChunkCut::default(), 1)),
        create(1, &options(1, ChunkCut::Cells(0), 1)),
        create(1, &level),
    ] {
        assert!(matches!(error, Error::Argument { .. }), "{error}");
    }
    assert!(storage.list("").unwrap().is_empty());
}

#[test]
fn test_tiles_written_in_any_order_make_the_same_dataset() {
    let cells = matrix(9, 95, 300, 40);
    let options = options(10, ChunkCut::Nonzeros(100), 2);
    let whole = MemoryStorage::new();
    write(Arc::new(whole.clone()), &cells, &options).unwrap();

    let parts = MemoryStorage::new();
    let mut records = std::collections::BTreeMap::new();
    for tiles in [4..10, 0..1, 1..4, 2..3_u64] {
        let told = Arc::new(std::sync::Mutex::new(Vec::new()));
        let on_tile = {
            let told = Arc::clone(&told);
            Arc::new(move |tile: u64, record: &celltile::writer::TileRecord| {
                told.lock().unwrap().push((tile, record.clone()));
                Ok(())
            })
        };
        let storage = Arc::new(parts.clone());
        let mut writer =
            DatasetWriter::some_tiles(storage, 300, &options, tiles.start, Some(on_tile)).unwrap();
        let part = select(&cells, tiles.start * 10..(tiles.end * 10).min(95));
        writer.push(part.view().unwrap()).unwrap();
        let written = writer.finish_tiles().unwrap();
        assert_eq!(written.len() as u64, tiles.end - tiles.start);
        for (tile, record) in tiles.zip(written) {
            assert!(told.lock().unwrap().contains(&(tile, record.clone())));
            records.insert(tile, record);
        }
    }
    let storage = Arc::new(parts.clone());
    let rest = DatasetWriter::of_tiles(storage, 300, &options, records.into_values().collect()).unwrap();
    rest.finish().unwrap();
    for folder in ["", "tiles"] {
        for entry in whole.list(folder).unwrap() {
            if let celltile::storage::EntryKind::Object(_) = entry.kind {
                assert_eq!(whole.read(&entry.key).unwrap(), parts.read(&entry.key).unwrap(), "{}", entry.key);
            }
        }
    }
}
