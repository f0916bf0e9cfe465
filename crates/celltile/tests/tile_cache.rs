//! Tiles kept on disk: found again, never wrong, never more than allowed, and no obstacle when they cannot be kept.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a test fails by panicking; its numbers are small"
)]

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use celltile::Result;
use celltile::digest::Sha256;
use celltile::keys;
use celltile::storage::{
    CachedStorage, Entry, MemoryStorage, Object, ObjectWriter, ReadRequest, Storage, TileCache, TileKey,
};

const SIZE: usize = 10_000;

fn tile(index: u64) -> Vec<u8> {
    (0..SIZE as u64).map(|i| ((i + index * 77).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

/// Counts whole reads, and says versions.
#[derive(Debug, Default)]
struct Counting {
    inner: MemoryStorage,
    reads: AtomicUsize,
    versions: AtomicUsize,
}

impl Storage for Counting {
    fn locate(&self, key: &str) -> String {
        format!("test://{key}")
    }
    fn is_remote(&self) -> bool {
        true
    }
    fn open(&self, key: &str) -> Result<Box<dyn Object>> {
        self.inner.open(key)
    }
    fn version(&self, key: &str) -> Result<Option<String>> {
        self.versions.fetch_add(1, Ordering::Relaxed);
        Ok(Some(Sha256::of(&self.inner.read(key)?).to_string()))
    }
    fn read(&self, key: &str) -> Result<Bytes> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.inner.read(key)
    }
    fn read_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.inner.read_range(key, range)
    }
    fn list(&self, folder: &str) -> Result<Vec<Entry>> {
        self.inner.list(folder)
    }
    fn create(&self, key: &str) -> Result<Box<dyn ObjectWriter>> {
        self.inner.create(key)
    }
    fn remove(&self, key: &str) -> Result<()> {
        self.inner.remove(key)
    }
}

fn source(tiles: u64) -> Arc<Counting> {
    let source = Counting::default();
    for i in 0..tiles {
        source.write(&keys::tile(i), &tile(i)).unwrap();
    }
    source.write("manifest.json", b"{}").unwrap();
    Arc::new(source)
}

fn cached(source: &Arc<Counting>, folder: &Path, limit: u64, tiles: u64, digests: bool) -> CachedStorage {
    CachedStorage::new(
        Arc::clone(source) as _,
        Arc::new(TileCache::new(folder, limit)),
        vec![SIZE as u64; tiles as usize],
        digests.then(|| (0..tiles).map(|i| Sha256::of(&tile(i))).collect()),
    )
}

fn kept(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "dct"))
        .collect();
    found.sort();
    found
}

#[test]
fn test_tiles_are_fetched_once() {
    for digests in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let source = source(3);
        for _ in 0..3 {
            // Another process would find the same.
            let storage = cached(&source, folder.path(), 1 << 20, 3, digests);
            for i in 0..3 {
                assert_eq!(storage.read(&keys::tile(i)).unwrap(), tile(i));
                assert_eq!(storage.read_range(&keys::tile(i), 10..20).unwrap(), tile(i)[10..20]);
                let many = storage.read_many(&[ReadRequest { key: &keys::tile(i), range: 5..9 }]);
                assert_eq!(many[0].as_ref().unwrap(), &tile(i)[5..9]);
                assert!(storage.read_range(&keys::tile(i), 0..SIZE as u64 + 1).is_err());
                let mut buffer = [0; 4];
                storage.open(&keys::tile(i)).unwrap().read_at(3, &mut buffer).unwrap();
                assert_eq!(buffer, tile(i)[3..7]);
            }
            assert_eq!(storage.read("manifest.json").unwrap(), "{}");
        }
        // Nine reads past the end and three of the manifest are not the cache's.
        assert_eq!(source.reads.load(Ordering::Relaxed), 3 + 9 + 3);
        assert_eq!(kept(folder.path()).len(), 3);
    }
}

#[test]
fn test_damaged_files_are_fetched_again() {
    let folder = tempfile::tempdir().unwrap();
    let source = source(1);
    let key = keys::tile(0);
    let storage = || cached(&source, folder.path(), 1 << 20, 1, true);
    storage().read(&key).unwrap();
    let file = kept(folder.path()).remove(0);
    let good = fs::read(&file).unwrap();
    let damages: [fn(&mut Vec<u8>); 5] = [
        |b| b.truncate(100),
        |b| b.clear(),
        |b| b[0] ^= 1,
        |b| b.extend_from_slice(b"more"),
        |b| b[SIZE + 3] ^= 0x80,
    ];
    for (i, damage) in damages.iter().enumerate() {
        let mut bytes = good.clone();
        damage(&mut bytes);
        fs::write(&file, bytes).unwrap();
        assert_eq!(storage().read_range(&key, 0..50).unwrap(), tile(0)[..50], "range, damage {i}");
        assert_eq!(storage().read(&key).unwrap(), tile(0), "damage {i}");
        assert_eq!(fs::read(&file).unwrap(), good, "kept again after damage {i}");
    }
}

#[test]
fn test_wrong_bytes_are_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let source = source(2);
    // The manifest says otherwise.
    source.write(&keys::tile(0), &tile(1)).unwrap();
    let storage = cached(&source, folder.path(), 1 << 20, 2, true);
    assert_eq!(storage.read(&keys::tile(0)).unwrap(), tile(1));
    assert!(!folder.path().exists() || kept(folder.path()).is_empty());
    // Replaced by another version: its own name.
    let plain = cached(&source, folder.path(), 1 << 20, 2, false);
    plain.read(&keys::tile(0)).unwrap();
    source.write(&keys::tile(0), &tile(0)).unwrap();
    let reopened = cached(&source, folder.path(), 1 << 20, 2, false);
    assert_eq!(reopened.read(&keys::tile(0)).unwrap(), tile(0));
}

#[test]
fn test_least_recently_used_go_first() {
    let folder = tempfile::tempdir().unwrap();
    let room = 4 * (SIZE as u64 + 4);
    let cache = TileCache::new(folder.path(), room);
    let key = |i: u64| TileKey::of_digest(&Sha256::of(&tile(i)), SIZE as u64);
    let age = |i: u64, seconds: u64| {
        let file = folder.path().join(format!("{}.dct", Sha256::of(&tile(i))));
        let time = SystemTime::now() - Duration::from_secs(seconds);
        fs::File::options().write(true).open(file).unwrap().set_modified(time).unwrap();
    };
    for i in 0..4 {
        cache.put(&key(i), &tile(i));
        age(i, 1000 - i);
    }
    assert!(cache.get(&key(0)).is_some(), "used now, whatever the mount keeps of access times");
    cache.put(&key(4), &tile(4));
    let there: Vec<bool> = (0..5).map(|i| cache.get(&key(i)).is_some()).collect();
    assert!(there[0] && there[4] && !there[1], "{there:?}");
    for i in 5..60 {
        cache.put(&key(i), &tile(i));
        let bytes: u64 = kept(folder.path()).iter().map(|p| fs::metadata(p).unwrap().len()).sum();
        assert!(bytes <= room);
    }
    assert!(kept(folder.path()).len() >= 3, "room is used");
    // Larger than the cache: not kept, and nothing evicted for it.
    let small = TileCache::new(folder.path(), 100);
    small.put(&key(99), &tile(99));
    assert!(kept(folder.path()).len() >= 3);
}

#[test]
fn test_cache_that_cannot_be_written_is_no_obstacle() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, b"in the way").unwrap();
    let source = source(1);
    for place in
        [file.clone(), file.join("below"), PathBuf::from("/proc/celltile"), PathBuf::from("/dev/null/x")]
    {
        let storage = cached(&source, &place, 1 << 20, 1, true);
        assert_eq!(storage.read(&keys::tile(0)).unwrap(), tile(0));
        assert_eq!(storage.read_range(&keys::tile(0), 1..3).unwrap(), tile(0)[1..3]);
    }
    // A disk without room. Linux has one for tests.
    if Path::new("/dev/full").exists() {
        let ours = tempfile::tempdir().unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink("/dev/full", ours.path().join("ledger")).unwrap();
        let storage = cached(&source, ours.path(), 1 << 20, 1, true);
        assert_eq!(storage.read(&keys::tile(0)).unwrap(), tile(0));
        assert!(fs::read_dir(ours.path()).unwrap().count() <= 2, "no temporary is left");
    }
    assert_eq!(fs::read(file).unwrap(), b"in the way");
}

#[test]
fn test_many_writers_keep_to_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let source = source(40);
    let room = 10 * (SIZE as u64 + 4);
    std::thread::scope(|scope| {
        for worker in 0..8u64 {
            let (source, folder) = (&source, folder.path());
            scope.spawn(move || {
                // Each has a cache of its own, like a process.
                let storage = cached(source, folder, room, 40, true);
                for n in 0..200 {
                    let i = (n * 7 + worker * 5) % 40;
                    assert_eq!(storage.read(&keys::tile(i)).unwrap(), tile(i));
                }
            });
        }
    });
    let bytes: u64 = kept(folder.path()).iter().map(|p| fs::metadata(p).unwrap().len()).sum();
    assert!(bytes <= room, "{bytes} of {room}");
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(names.iter().all(|n| !n.to_string_lossy().ends_with("tmp")), "{names:?}");
}
