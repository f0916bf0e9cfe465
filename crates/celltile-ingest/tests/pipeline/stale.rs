//! E4: a file system that tells sizes of a moment ago, as some of clusters do right after a write.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use celltile::storage::{Entry, EntryKind, MemoryStorage, Object, ObjectWriter, Storage};
use celltile_ingest::convert::{ConvertOptions, Stages, append_in_place, convert_files};
use celltile_ingest::plan::Joining;

use crate::memory::{Input, Inputs, files, names, options, tight};

/// Whoever asks by name for the size of what was written here hears one that is too short; whoever has it open, or has
/// written it, knows better.
#[derive(Debug, Clone, Default)]
struct Stale {
    inner: MemoryStorage,
    written: Arc<Mutex<HashSet<String>>>,
}

impl Stale {
    fn told(&self, key: &str, size: u64) -> u64 {
        if self.written.lock().unwrap().contains(key) { size / 2 } else { size }
    }

    /// The same objects, when they have been there for long.
    fn later(&self) -> Self {
        Self { inner: self.inner.clone(), ..Self::default() }
    }
}

impl Storage for Stale {
    fn locate(&self, key: &str) -> String {
        self.inner.locate(key)
    }

    fn open(&self, key: &str) -> celltile::Result<Box<dyn Object>> {
        self.inner.open(key)
    }

    fn size(&self, key: &str) -> celltile::Result<u64> {
        Ok(self.told(key, self.inner.size(key)?))
    }

    fn read(&self, key: &str) -> celltile::Result<Bytes> {
        self.inner.read(key)
    }

    fn read_range(&self, key: &str, range: Range<u64>) -> celltile::Result<Bytes> {
        self.inner.read_range(key, range)
    }

    fn list(&self, folder: &str) -> celltile::Result<Vec<Entry>> {
        let mut entries = self.inner.list(folder)?;
        for entry in &mut entries {
            if let EntryKind::Object(size) = &mut entry.kind {
                *size = self.told(&entry.key, *size);
            }
        }
        Ok(entries)
    }

    fn create(&self, key: &str) -> celltile::Result<Box<dyn ObjectWriter>> {
        self.written.lock().unwrap().insert(key.to_owned());
        self.inner.create(key)
    }

    fn remove(&self, key: &str) -> celltile::Result<()> {
        self.inner.remove(key)
    }
}

#[test]
fn e4_sizes_are_those_of_what_was_written() {
    let inputs = Inputs::new([
        Input::random(1, 40, names("g", 30)),
        Input::random(2, 60, names("g", 30)),
        Input::random(3, 20, names("g", 30)),
    ]);
    let list = inputs.names();
    let mut sharded = options();
    sharded.obs.tiles_per_file = 2;
    let shuffled =
        ConvertOptions { joining: Joining { shuffle: Some(1), ..Joining::default() }, ..tight(options()) };
    for options in [sharded, shuffled] {
        let (whole, stale) = (MemoryStorage::new(), Stale::default());
        let append = |storage: Arc<dyn Storage>| {
            if options.joining.shuffle.is_none() {
                append_in_place(storage, &list[2..], &inputs.source(), &options).unwrap();
            }
        };
        convert_files(&list[..2], Arc::new(whole.clone()), &inputs.source(), &options).unwrap();
        append(Arc::new(whole.clone()));
        convert_files(&list[..2], Arc::new(stale.clone()), &inputs.source(), &options).unwrap();
        append(Arc::new(stale.later()));
        assert!(files(&whole) == files(&stale.inner));
        // The same in stages.
        let (plan, again) = (inputs.look(&options).plan().unwrap(), Stale::default());
        let (all, _) = inputs.converted(&options);
        let storage: Arc<dyn Storage> = Arc::new(again.clone());
        Stages::plan(&plan, &storage, &options).unwrap();
        let stages = Stages::open(storage, &inputs.source(), &options).unwrap();
        stages.count(0..3).unwrap();
        stages.scatter(0..3).unwrap();
        stages.encode(0..12).unwrap();
        stages.finish().unwrap();
        assert!(files(&all) == files(&again.inner));
    }
}
