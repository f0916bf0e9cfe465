//! Appends in place, killed and run again, while others read: on disk and in a bucket.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use celltile::Dataset;
use celltile::digest::Sha256;
use celltile::obs::Cache;

use crate::place::{Place, random};
use crate::support::run_on;

/// The first cells of a dataset, their rows and names, as a hash.
fn first_cells(dataset: &Dataset, n: u64) -> String {
    let cells = dataset.rows(0..n).unwrap();
    let obs = dataset.obs_reader().unwrap().unwrap().all(&Cache::memory()).unwrap().to_table().unwrap();
    assert_eq!(obs.rows() as u64, dataset.n_cells());
    let names = format!("{:?}", obs.slice(0, n as usize).unwrap().index().unwrap().values());
    let text = format!("{:?} {:?} {:?} {names}", cells.indptr, cells.genes, cells.counts);
    Sha256::of(text.as_bytes()).to_string()
}

/// Cells of the dataset before, and after each append.
const SIZES: [u64; 4] = [200, 500, 900, 1400];

fn check(place: &Place, folder: &Path) {
    // Whole tiles of 50 cells, and whole shards of two.
    let parts: Vec<String> = [200, 300, 400, 500]
        .into_iter()
        .map(|cells| {
            let path = folder.join(format!("part{cells}.h5ad"));
            let words = format!("simulate -o {{}} --cells {cells} --genes 300 --nonzeros 60 --seed 1");
            run_on(&path, &words).ok();
            path.display().to_string()
        })
        .collect();
    let begin = |place: &Place| {
        place.clear();
        let words = format!("convert {} -o OUT --tile-size 50 --tiles-per-shard 2 --preset fast", parts[0]);
        place.run(&words).ok();
    };
    let append = |part: usize| format!("append OUT {} --in-place --preset fast", parts[part]);
    // Undisturbed.
    begin(place);
    let begun = Instant::now();
    for part in 1..4 {
        place.run(&append(part)).ok();
    }
    let one = begun.elapsed() / 3;
    place.run("verify OUT --strict").ok();
    let whole = place.objects();
    let all = place.open();
    let expected: BTreeMap<u64, String> = SIZES.into_iter().map(|n| (n, first_cells(&all, n))).collect();

    begin(place);
    let before = place.open();
    let done = AtomicBool::new(false);
    let mut random = random();
    let (mut kills, mut during) = (0, Vec::new());
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut seen = Vec::new();
                    while !done.load(Ordering::SeqCst) {
                        let dataset = place.open();
                        let n = dataset.n_cells();
                        assert_eq!(Some(&first_cells(&dataset, n)), expected.get(&n), "{n} cells");
                        seen.push((n, dataset));
                    }
                    seen
                })
            })
            .collect();
        for (part, &cells) in SIZES.iter().enumerate().skip(1) {
            for _ in 0..4 {
                let mut child =
                    place.command(&append(part)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
                std::thread::sleep(one.mul_f64(random() * 1.2).max(Duration::from_millis(3)));
                let _ = child.kill();
                kills += u32::from(!child.wait().unwrap().success());
            }
            place.run(&append(part)).ok();
            assert_eq!(place.open().n_cells(), cells);
        }
        done.store(true, Ordering::SeqCst);
        for reader in readers {
            during.extend(reader.join().unwrap());
        }
    });
    eprintln!("{kills} kills of appends, {} readers meanwhile", during.len());
    assert!(kills > 0 && during.iter().any(|(n, _)| *n < SIZES[3]));
    // Who opened it before or meanwhile still reads what was there then.
    for (n, dataset) in [(200, before)].into_iter().chain(during) {
        assert_eq!(first_cells(&dataset, n), expected[&n]);
    }
    assert!(place.objects() == whole);
    // Once more.
    assert!(place.run(&append(2)).ok().out.contains("complete already"));
    assert_eq!(place.open().n_cells(), SIZES[3]);
}

#[test]
fn test_appends_in_place_are_whole_for_readers_and_killed_ones_happen_once_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    check(&Place::on_disk(folder.path()), folder.path());
}

#[test]
fn test_appends_in_place_are_whole_for_readers_and_killed_ones_happen_once_in_a_bucket() {
    let folder = tempfile::tempdir().unwrap();
    let Some(place) = Place::in_a_bucket() else { return };
    check(&place, folder.path());
}

#[test]
fn test_two_processes_do_not_work_in_one_folder() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::on_disk(folder.path());
    let input = folder.path().join("in.h5ad");
    run_on(&input, "simulate -o {} --cells 6000 --genes 2000 --nonzeros 500").ok();
    let words = format!("convert {} -o OUT --tile-size 100 --level 19 --resume", input.display());
    let mut child = place.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    while !place.folder.join(".work/plan.json").exists() {
        assert!(begun.elapsed() < Duration::from_secs(60) && child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(2));
    }
    for words in [
        words.clone(),
        words.replace("--resume", "--overwrite"),
        "count OUT".into(),
        format!("append OUT {} --in-place", input.display()),
    ] {
        place.run(&words).fails(1, "another process converts or appends here");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // Who dies lets go.
    place.run("count OUT").ok();
    place.run(&words).ok();
    assert!(!place.folder.join(".work").exists());
}
