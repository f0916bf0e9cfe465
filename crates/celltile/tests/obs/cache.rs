use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use celltile::obs::{Cache, ObsReader, cache_file_name};
use celltile::storage::{LocalStorage, MemoryStorage};
use celltile::{Error, Manifest};

use crate::tables::{Counting, ODD_NAMES, every_kind, wide, written, written_to};

fn files(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().unwrap().is_dir() {
            names.extend(files(&entry.path()));
        } else {
            names.push(entry.file_name().into_string().unwrap());
        }
    }
    names
}

fn counting(storage: MemoryStorage, manifest: &Manifest) -> (Arc<Counting<MemoryStorage>>, ObsReader) {
    let storage = Arc::new(Counting::new(storage));
    let reader = ObsReader::open(storage.clone(), manifest).unwrap().unwrap();
    (storage, reader)
}

#[test]
fn test_one_of_fifty_columns_costs_under_three_hundredths() {
    // Tiles of the default size.
    let table = wide(40_000, 50);
    let (storage, manifest) = written(&table, 10_000, 2);
    let obs = manifest.obs.as_ref().unwrap();
    let total: u64 = obs.shard_bytes.iter().sum();
    let (storage, reader) = counting(storage, &manifest);
    let before = storage.bytes();
    let column = reader.columns(&["column 17"], &Cache::memory()).unwrap();
    let fetched = storage.bytes() - before;
    assert_eq!(column.columns()[0].values().unwrap(), *table.column("column 17").unwrap().values());
    println!("{fetched} of {total} bytes ({:.2} %)", 100.0 * fetched as f64 / total as f64);
    assert!(fetched * 100 < total * 3, "{fetched} of {total}");
    // Neighbours are joined: three columns of 4 tiles are 4 ranges, with two reads a footer.
    let before = storage.reads();
    reader.columns(&["column 19", "column 17", "column 18"], &Cache::memory()).unwrap();
    assert_eq!(storage.reads() - before, 4 + 2 * 2);
}

#[test]
fn test_a_cached_column_is_not_fetched_again() {
    let (storage, manifest) = written(&every_kind(30), 10, 2);
    let (storage, reader) = counting(storage, &manifest);
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path().join("made").join("on demand"));
    reader.columns(&["int8", "uint32"], &cache).unwrap();
    let before = storage.reads();
    reader.columns(&["uint32", "int8"], &cache).unwrap();
    assert_eq!(storage.reads(), before);
    reader.columns(&["uint32", "bool"], &cache).unwrap();
    assert!(storage.reads() > before);
    let mut names = files(folder.path());
    names.sort();
    assert_eq!(names, ["bool.arrow", "int8.arrow", "obs.lock", "uint32.arrow"]);
    let place = format!("made/on demand/{}/obs/int8.arrow", manifest.obs.unwrap().fingerprint);
    assert!(folder.path().join(place).is_file());
}

#[test]
fn test_odd_names_stay_inside_and_apart() {
    let table = every_kind(12);
    let (storage, manifest) = written(&table, 5, 2);
    let reader = ObsReader::open(Arc::new(storage), &manifest).unwrap().unwrap();
    let outer = tempfile::tempdir().unwrap();
    let cache = Cache::at(outer.path().join("cache"));
    assert_eq!(reader.all(&cache).unwrap().to_table().unwrap(), table);
    // Nothing beside the cache, and a file a column.
    assert_eq!(fs::read_dir(outer.path()).unwrap().count(), 1);
    let mut names = files(outer.path());
    assert_eq!(names.len(), table.columns().len() + 2);
    names.iter_mut().for_each(|name| name.make_ascii_lowercase());
    names.sort();
    names.dedup();
    assert_eq!(names.len(), table.columns().len() + 2, "differ in more than case");
    assert_eq!(reader.columns(&ODD_NAMES, &cache).unwrap().columns().len(), ODD_NAMES.len());
}

#[test]
fn test_damaged_files_are_fetched_again() {
    let table = every_kind(30);
    let (storage, manifest) = written(&table, 10, 2);
    let (storage, reader) = counting(storage, &manifest);
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    let columns = ["object", "int32", "cat_text", "bool"];
    reader.columns(&columns, &cache).unwrap();
    let obs = folder.path().join(&manifest.obs.as_ref().unwrap().fingerprint).join("obs");
    let original: Vec<_> =
        columns.iter().map(|name| fs::read(obs.join(format!("{name}.arrow"))).unwrap()).collect();
    let read = |name: &str| {
        let found = reader.columns(&[name], &cache).unwrap();
        assert_eq!(&found.columns()[0].values().unwrap(), table.column(name).unwrap().values());
    };
    for (name, whole) in columns.iter().zip(&original) {
        let path = obs.join(format!("{name}.arrow"));
        for length in (0..whole.len()).step_by(whole.len() / 16 + 1) {
            fs::write(&path, &whole[..length]).unwrap();
            let before = storage.reads();
            read(name);
            assert!(storage.reads() > before, "{name} cut to {length}");
            assert_eq!(&fs::read(&path).unwrap(), whole);
        }
        // Another column's file, one of other rows, and no Arrow file at all.
        for other in &original {
            fs::write(&path, other).unwrap();
            read(name);
        }
        fs::write(&path, vec![0x41; 5000]).unwrap();
        read(name);
    }
    let (more, other) = written(&every_kind(31), 10, 2);
    let other = ObsReader::open(Arc::new(more), &other).unwrap().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    other.columns(&["int32"], &Cache::at(elsewhere.path())).unwrap();
    let foreign =
        fs::read_dir(elsewhere.path()).unwrap().next().unwrap().unwrap().path().join("obs/int32.arrow");
    fs::copy(foreign, obs.join("int32.arrow")).unwrap();
    read("int32");
}

#[test]
fn test_flipped_bytes_in_the_cache_never_panic_out() {
    let table = every_kind(12);
    let (storage, manifest) = written(&table, 5, 2);
    let reader = ObsReader::open(Arc::new(storage), &manifest).unwrap().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    reader.columns(&["object"], &cache).unwrap();
    let path = folder.path().join(&manifest.obs.as_ref().unwrap().fingerprint).join("obs/object.arrow");
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        fs::write(&path, &bytes).unwrap();
        // Values may differ (a cache holds no hashes); rows and type do not.
        let found = reader.columns(&["object"], &cache).unwrap();
        assert_eq!(found.columns()[0].values().unwrap().len(), 12, "byte {at}");
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn test_a_cache_that_cannot_be_written_says_so() {
    let (storage, manifest) = written(&every_kind(12), 5, 2);
    let reader = ObsReader::open(Arc::new(storage), &manifest).unwrap().unwrap();
    let folder = tempfile::tempdir().unwrap();
    // A file where the folder should be: refused also for root, who may write anywhere.
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = reader.columns(&["int8"], &Cache::at(&file)).unwrap_err();
    assert!(matches!(error, Error::Cache { .. }), "{error}");
    assert!(error.to_string().contains("DELTACELLS_CACHE"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn test_a_full_disk_says_so_and_leaves_nothing() {
    let table = wide(400_000, 3);
    let (storage, manifest) = written(&table, 10_000, 100);
    let reader = ObsReader::open(Arc::new(storage), &manifest).unwrap().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mount = |options: &str| {
        Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(folder.path()).output()
    };
    match mount("size=1m") {
        Ok(output) if output.status.success() => {}
        _ => return println!("skipped: no file system may be mounted here"),
    }
    let full = reader.columns(&["column 1"], &Cache::at(folder.path()));
    let left = files(folder.path());
    let small = Command::new("mount").args(["-o", "remount,ro"]).arg(folder.path()).output();
    let read_only = reader.columns(&["column 1"], &Cache::at(folder.path()));
    Command::new("umount").arg(folder.path()).output().unwrap();
    assert!(full.unwrap_err().to_string().contains("disk is full"));
    assert_eq!(left, ["obs.lock"]);
    assert!(small.unwrap().status.success());
    let error = read_only.unwrap_err().to_string();
    assert!(error.contains("cannot be written"), "{error}");
}

#[test]
fn test_threads_fetch_each_column_once() {
    let (storage, manifest) = written(&wide(3000, 6), 500, 2);
    let mut storage = Counting::new(storage);
    storage.delay = Duration::from_millis(2);
    let storage = Arc::new(storage);
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let (storage, manifest, cache) = (storage.clone(), &manifest, &cache);
            scope.spawn(move || {
                let reader = ObsReader::open(storage, manifest).unwrap().unwrap();
                let name = format!("column {}", thread % 2);
                assert_eq!(reader.columns(&[&name], cache).unwrap().rows(), 3000);
            });
        }
    });
    // The schema once a thread; two columns of six tiles, each with two reads of each of three footers.
    assert_eq!(storage.reads(), 16 + 2 * (6 + 2 * 3));
}

/// What the processes of the next tests run: reads a column of the dataset that the environment names, slowly, and
/// prints how often it read.
#[test]
#[ignore = "run by other tests in processes of their own"]
fn child() {
    let dataset = std::env::var_os("CELLTILE_TEST_DATASET").unwrap();
    let mut storage = Counting::new(LocalStorage::new(&dataset));
    storage.delay = Duration::from_millis(std::env::var("CELLTILE_TEST_DELAY").unwrap().parse().unwrap());
    let storage = Arc::new(storage);
    let manifest = Manifest::read(&storage.inner).unwrap();
    let reader = ObsReader::open(storage.clone(), &manifest).unwrap().unwrap();
    let obs = reader.columns(&["column 3"], &Cache::from_env().unwrap()).unwrap();
    assert_eq!(obs.columns()[0].values().unwrap().len() as u64, obs.rows());
    println!("reads: {}", storage.reads() - 1);
}

fn spawn(dataset: &Path, cache: &Path, delay: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["cache::child", "--exact", "--ignored", "--nocapture"])
        .env("CELLTILE_TEST_DATASET", dataset)
        .env("CELLTILE_TEST_DELAY", delay.to_string())
        .env("DELTACELLS_CACHE", cache)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn reads(child: Child) -> u64 {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("reads: ")).unwrap_or_else(|| panic!("{text}"));
    line.parse().unwrap()
}

#[test]
fn test_processes_fetch_each_column_once() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = folder.path().join("dataset");
    written_to(&dataset, &wide(3000, 6), 500, 2);
    let children: Vec<_> = (0..16).map(|_| spawn(&dataset, &folder.path().join("cache"), 5)).collect();
    let counts: Vec<_> = children.into_iter().map(reads).collect();
    assert_eq!(counts.iter().sum::<u64>(), 6 + 2 * 3, "{counts:?}");
}

#[test]
fn test_killed_processes_do_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let (dataset, cache) = (folder.path().join("dataset"), folder.path().join("cache"));
    let manifest = written_to(&dataset, &wide(3000, 6), 500, 2);
    let obs = cache.join(&manifest.obs.as_ref().unwrap().fingerprint).join("obs");
    for round in 0..4 {
        let mut child = spawn(&dataset, &cache, 60);
        // Its temporary file says that it is in the middle; a little later each round.
        let start = Instant::now();
        while files(&obs).is_empty() && start.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_millis(60 * round));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let left = files(&obs);
    assert!(left.iter().any(|name| name.ends_with(".tmp")), "{left:?}");
    assert_eq!(reads(spawn(&dataset, &cache, 0)), 6 + 2 * 3);
    assert_eq!(files(&obs), ["column%203.arrow"], "leftovers are swept");
    assert_eq!(reads(spawn(&dataset, &cache, 0)), 0);
}

#[test]
fn test_file_names_are_those_of_the_reference() {
    assert_eq!(cache_file_name("cell type", ["cell type"]), "cell%20type.arrow");
}
