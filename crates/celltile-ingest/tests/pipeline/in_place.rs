//! Cells appended to a dataset where it stands, while others read it.

use std::sync::Arc;

use celltile::storage::{LocalStorage, Storage};
use celltile::verify::{Level, VerifyOptions, verify};
use celltile::{Dataset, OpenOptions};
use celltile_ingest::convert::{ConvertOptions, append_in_place, convert_files};
use celltile_ingest::plan::InputName;

use crate::memory::{Input, Inputs, cells, names, options, reference};

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
    let append = |at| append_in_place(place.to_str().unwrap(), &[name(at)], &inputs.source(), &options());
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
        convert_files(&[name(first)], storage, &inputs.source(), &sharded()).unwrap();
        let place = place.to_str().unwrap();
        let error =
            append_in_place(place, &[name(then)], &inputs.source(), &options()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    refused(1, 0, "its last obs shard has 1 of 2 tiles");
    refused(0, 2, "obs/schema.json would change");
    refused(0, 3, "its genes are not those of");
}
