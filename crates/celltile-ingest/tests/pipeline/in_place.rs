//! Cells appended to a dataset where it stands, while others read it.

use std::sync::Arc;

use celltile::storage::{LocalStorage, MemoryStorage, Storage};
use celltile::verify::{Level, VerifyOptions, verify};
use celltile::{Dataset, OpenOptions};
use celltile_ingest::convert::{ConvertOptions, append_in_place, convert_files};
use celltile_ingest::plan::InputName;

use crate::memory::{Input, Inputs, cells, files, names, open, options, reference};
use crate::resume::Dying;

fn sharded() -> ConvertOptions {
    let mut options = options();
    options.obs.tiles_per_file = 2;
    options
}

fn name(at: usize) -> InputName {
    InputName { path: format!("memory/{at}"), name: format!("in{at}") }
}

#[test]
fn test_readers_see_the_old_dataset_or_the_new_one() {
    let list: Vec<Input> =
        [40, 60, 25].iter().zip(1..).map(|(&n, seed)| Input::random(seed, n, names("g", 30))).collect();
    let inputs = Inputs::new(list.clone());
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("cells");
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(&place));
    convert_files(&[name(0)], Arc::clone(&storage), &inputs.source(), &sharded()).unwrap();
    let open = || Dataset::open_storage(Arc::clone(&storage), &OpenOptions::default()).unwrap();
    let old = open();
    let append = |at| append_in_place(Arc::clone(&storage), &[name(at)], &inputs.source(), &options());
    let done = std::sync::atomic::AtomicBool::new(false);
    let reading = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = Vec::new();
            while !done.load(std::sync::atomic::Ordering::SeqCst) {
                let dataset = open();
                let n = cells(&dataset).len();
                assert!(n == 40 || n == 100, "{n}");
                seen.push(n);
            }
            seen
        });
        append(1).unwrap();
        done.store(true, std::sync::atomic::Ordering::SeqCst);
        reader.join().unwrap()
    });
    assert!(!reading.is_empty() && reading.is_sorted());
    assert_eq!(cells(&old), reference(&list[..1]));
    assert_eq!(cells(&open()), reference(&list[..2]));
    let faults =
        || verify(storage.as_ref(), &VerifyOptions::default().level(Level::Strict), &|_| {}).unwrap().faults;
    assert_eq!(faults(), []);
    append(2).unwrap();
    assert_eq!(cells(&open()), reference(&list));
    assert_eq!(faults(), []);
    assert!(!place.join(".work").exists());
    // Now the last tile has 5 cells.
    let error = append(0).unwrap_err().to_string();
    assert!(error.contains("its last tile has 5 of 10 cells"), "{error}");
}

#[test]
fn test_what_would_change_a_file_that_readers_have_is_refused() {
    use celltile::table::{Column, Text};
    let word = [Some("w")].into_iter().cycle().take(20).collect::<Text>();
    let more = Input::random(3, 20, names("g", 30)).with_obs(Column::new("new", word));
    let inputs = Inputs::new([
        Input::random(1, 20, names("g", 30)),
        Input::random(2, 30, names("g", 30)),
        more,
        Input::random(4, 20, names("h", 30)),
    ]);
    let folder = tempfile::tempdir().unwrap();
    let refused = |first: usize, then: usize, part: &str| {
        let place = folder.path().join(format!("{first}"));
        let _ = std::fs::remove_dir_all(&place);
        let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(&place));
        convert_files(&[name(first)], Arc::clone(&storage), &inputs.source(), &sharded()).unwrap();
        let error =
            append_in_place(storage, &[name(then)], &inputs.source(), &options()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    refused(1, 0, "its last obs shard has 1 of 2 tiles");
    refused(0, 2, "obs/schema.json would change");
    refused(0, 3, "its genes are not those of");
}

fn append(
    inputs: &Inputs,
    storage: Arc<dyn Storage>,
    list: &[usize],
    options: &ConvertOptions,
) -> celltile_ingest::Result<celltile_ingest::convert::Summary> {
    let list: Vec<InputName> = list.iter().map(|&at| name(at)).collect();
    append_in_place(storage, &list, &inputs.source(), options)
}

fn three() -> (Inputs, Vec<Input>, MemoryStorage) {
    let list: Vec<Input> =
        [40, 60, 25].iter().zip(1..).map(|(&n, seed)| Input::random(seed, n, names("g", 30))).collect();
    let inputs = Inputs::new(list.clone());
    let storage = MemoryStorage::new();
    convert_files(&[name(0)], Arc::new(storage.clone()), &inputs.source(), &sharded()).unwrap();
    (inputs, list, storage)
}

/// A storage with the same objects.
fn copy(storage: &MemoryStorage) -> MemoryStorage {
    let copy = MemoryStorage::new();
    for (key, content) in files(storage) {
        copy.write(&key, &content).unwrap();
    }
    copy
}

#[test]
fn test_an_append_that_is_killed_anywhere_and_run_again_is_one_append() {
    let (inputs, list, base) = three();
    let whole = copy(&base);
    let once = append(&inputs, Arc::new(whole.clone()), &[1, 2], &options()).unwrap();
    let whole = files(&whole);
    let old = files(&base);
    let mut stops = 0;
    for at in 0.. {
        let storage = copy(&base);
        let done = append(&inputs, Arc::new(Dying::new(&storage, at)), &[1, 2], &options()).is_ok();
        // Whoever reads meanwhile has one or the other.
        let now = files(&storage);
        let replaced = now["manifest.json"] == whole["manifest.json"];
        let there = if replaced { &whole } else { &old };
        assert!(there.iter().all(|(key, content)| now.get(key) == Some(content)), "stopped at write {at}");
        // Also where it was killed after all was done.
        let again = append(&inputs, Arc::new(storage.clone()), &[1, 2], &options()).unwrap();
        assert_eq!((again.cells, again.sum, &again.inputs), (once.cells, once.sum, &once.inputs));
        assert_eq!(again.was_complete, replaced, "stopped at write {at}");
        assert!(files(&storage) == whole, "stopped at write {at}");
        if done {
            break;
        }
        stops += 1;
    }
    assert!(stops > 30, "{stops}");
    assert_eq!(cells(&open(&base)), reference(&list[..1]));
}

#[test]
fn test_another_append_waits_until_the_one_before_is_done_or_dropped() {
    let (inputs, list, base) = three();
    let mut anew = options();
    anew.writer.overwrite = true;
    let mut begun = 0;
    for at in 1.. {
        let storage = copy(&base);
        if append(&inputs, Arc::new(Dying::new(&storage, at)), &[1], &options()).is_ok() {
            break;
        }
        let done = cells(&open(&storage)).len() == 100;
        let other = append(&inputs, Arc::new(storage.clone()), &[2], &options());
        if done {
            other.unwrap();
            assert_eq!(cells(&open(&storage)), reference(&list));
            continue;
        }
        begun += 1;
        let error = other.unwrap_err().to_string();
        assert!(error.contains("in1") && error.contains("--in-place --overwrite"), "{error}");
        append(&inputs, Arc::new(storage.clone()), &[2], &anew).unwrap();
        let expected = [list[0].clone(), list[2].clone()];
        assert_eq!(cells(&open(&storage)), reference(&expected));
        let strict = VerifyOptions::default().level(Level::Strict);
        assert_eq!(verify(&storage, &strict, &|_| {}).unwrap().faults, []);
    }
    assert!(begun > 20, "{begun}");
}

#[test]
fn test_a_dataset_that_changes_meanwhile_is_left_alone() {
    let (inputs, _, base) = three();
    let other = copy(&base);
    append(&inputs, Arc::new(other.clone()), &[2], &options()).unwrap();
    // Another program, which knows nothing of claims, replaces the manifest at any of this one's writes.
    let theirs = files(&other);
    let mut refused = 0;
    for at in 1.. {
        let storage = copy(&base);
        let (place, written) = (storage.clone(), theirs.clone());
        let meddling = Dying::meddling(&storage, at, move || {
            for (key, content) in &written {
                place.write(key, content).unwrap();
            }
        });
        if append(&inputs, Arc::new(meddling.clone()), &[1], &options()).is_ok() {
            assert!(meddling.is_left() || cells(&open(&storage)).len() == 65);
            break;
        }
        refused += 1;
        let now = files(&storage);
        assert!(theirs.iter().all(|(key, content)| now.get(key) == Some(content)), "write {at}");
    }
    assert!(refused > 20, "{refused}");
}
