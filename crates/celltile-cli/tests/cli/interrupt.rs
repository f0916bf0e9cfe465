//! Conversions that are killed, and such that are asked to stop.
#![cfg(unix)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{command, convert, run_on};

/// Cells whose conversion takes long enough to be killed in the middle.
fn source(folder: &Path, cells: u64) -> std::path::PathBuf {
    let path = folder.join("cells.h5ad");
    run_on(&path, &format!("simulate -o {{}} --cells {cells} --genes 5000 --nonzeros 400")).ok();
    path
}

fn start(input: &Path, out: &Path) -> Child {
    let args = ["convert".as_ref(), input.as_os_str(), "-o".as_ref(), out.as_os_str()];
    let words = ["--tile-size", "200", "--overwrite", "--level", "12"].map(AsRef::as_ref);
    let mut command = command(args.into_iter().chain(words));
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn signal(child: &Child, name: &str) {
    let _ =
        Command::new("kill").args([name, &child.id().to_string()]).stderr(Stdio::null()).status().unwrap();
}

/// Either a dataset that is sound to the last byte, or one that nobody opens. Whether it is the first.
fn complete_or_refused(out: &Path) -> bool {
    if out.join("manifest.json").exists() {
        run_on(out, "verify {} --strict").ok();
        return true;
    }
    for words in ["info {}", "verify {}", "rows {} :1"] {
        run_on(out, words).fails(1, "error: ");
    }
    false
}

/// Kills conversions after delays spread over their whole length, and converts once more over what is left.
fn kill_at_random(cells: u64, kills: impl Fn(u32) -> bool) {
    let folder = tempfile::tempdir().unwrap();
    let input = source(folder.path(), cells);
    let out = folder.path().join("out");
    let started = Instant::now();
    assert!(start(&input, &out).wait().unwrap().success());
    let whole = started.elapsed();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let (mut kill, mut complete) = (0, 0);
    while kills(kill) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let share = (state >> 33) as f64 / f64::from(1_u32 << 31);
        // Over a dataset that is there already half of the time.
        if kill % 2 == 0 {
            let _ = std::fs::remove_dir_all(&out);
        }
        let mut child = start(&input, &out);
        std::thread::sleep(whole.mul_f64(share * 1.1));
        let _ = child.kill();
        child.wait().unwrap();
        complete += u32::from(complete_or_refused(&out));
        kill += 1;
    }
    eprintln!("{kill} kills, {complete} of them left a complete dataset");
    convert(&input, &out, "--tile-size 200 --overwrite --level 12").ok();
    assert!(complete_or_refused(&out));
}

#[test]
fn test_a_killed_conversion_is_complete_or_refused() {
    kill_at_random(2000, |kill| kill < 12);
}

/// As long as `CELLTILE_SOAK_SECONDS` says.
#[test]
#[ignore = "takes as long as it is given: make soak"]
fn soak_killed_conversions() {
    let seconds =
        std::env::var("CELLTILE_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let end = Instant::now() + Duration::from_secs(seconds);
    kill_at_random(6000, |_| Instant::now() < end);
}

#[test]
fn test_an_interrupted_conversion_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let input = source(folder.path(), 4000);
    let out = folder.path().join("out");
    let mut interrupted = 0;
    for (number, name) in ["-INT", "-TERM", "-INT", "-TERM"].into_iter().enumerate() {
        let mut child = start(&input, &out);
        std::thread::sleep(Duration::from_millis(30 + 120 * number as u64));
        signal(&child, name);
        let status = child.wait().unwrap();
        match status.code() {
            Some(130) => {
                interrupted += 1;
                assert!(!out.join("manifest.json").exists());
            }
            // Too late, or before the command listened.
            Some(0) | None => {}
            other => panic!("{other:?}"),
        }
        complete_or_refused(&out);
        let _ = std::fs::remove_dir_all(&out);
    }
    eprintln!("{interrupted} of 4 interrupts came in time");
}

#[test]
fn test_an_interrupted_simulation_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.h5ad");
    let args = ["simulate".as_ref(), "-o".as_ref(), path.as_os_str(), "--cells".as_ref(), "1000000".as_ref()];
    let mut child = command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    signal(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
