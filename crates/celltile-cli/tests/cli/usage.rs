//! Help, completions, exit codes of what is wrong before anything is read.

use std::process::Stdio;

use crate::support::{command, dataset, run, run_on};

#[test]
fn test_help_and_version_are_results() {
    let help = run(["--help"]).ok();
    for name in ["convert", "info", "verify", "rows", "obs", "export", "simulate", "bench", "completions"] {
        assert!(help.out.contains(name), "{name}");
        assert!(run([name, "--help"]).ok().out.contains("Usage"));
    }
    assert_eq!(run(["--version"]).ok().out, format!("celltile {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn test_wrong_usage_is_exit_code_2_on_standard_error() {
    for args in [
        &["frobnicate"][..],
        &["info"],
        &["info", "a", "b"],
        &["rows", "x", "5:4"],
        &["rows", "x", "a"],
        &["rows", "x", "1:2", "--format", "tsv"],
        &["verify", "x", "--threads", "0"],
        &["bench", "x", "--rounds", "0"],
    ] {
        let run = run(args).fails(2, "");
        assert!(run.out.is_empty() && run.err.contains("error:"), "{args:?}: {}", run.err);
    }
    assert_eq!(run([""; 0]).code, Some(2));
}

#[test]
fn test_any_number_of_threads_will_do() {
    let (_folder, path, _) = dataset();
    for threads in ["1", "64", "4294967295"] {
        run_on(&path, &format!("verify {{}} --strict --threads {threads}")).ok();
    }
}

#[test]
fn test_what_is_not_a_dataset_is_exit_code_1_with_one_line() {
    let folder = tempfile::tempdir().unwrap();
    for words in ["info {}", "verify {}", "rows {} 0:1", "bench {}"] {
        for path in [folder.path(), &folder.path().join("missing")] {
            let run = run_on(path, words).fails(1, "error: ");
            assert_eq!(run.err.lines().count(), 1, "{}", run.err);
            assert!(run.err.contains(path.to_str().unwrap()), "{}", run.err);
            assert!(run.out.is_empty());
        }
    }
}

#[test]
fn test_completions_name_every_command() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = run(["completions", shell]).ok().out;
        assert!(script.contains("completions") && script.contains("verify"), "{shell}");
    }
}

#[test]
fn test_a_reader_that_stops_reading_is_no_error() {
    let (_folder, path, _) = dataset();
    let mut child =
        command(["rows".as_ref(), path.as_os_str(), ":".as_ref(), "--format".as_ref(), "csv".as_ref()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[cfg(target_os = "linux")]
#[test]
fn test_paths_need_not_be_text() {
    use std::os::unix::ffi::OsStrExt;
    let (folder, path, _) = dataset();
    for name in [&b"caf\xe9 \xff"[..], b"-", b"a b'\"$\\", b"{}*?"] {
        let odd = folder.path().join(std::ffi::OsStr::from_bytes(name));
        std::fs::rename(&path, &odd).unwrap();
        run_on(&odd, "info {}").ok();
        run_on(&odd, "verify {} --strict").ok();
        assert!(run_on(&odd, "rows {} 3").ok().out.contains("nonzeros"));
        std::fs::rename(&odd, &path).unwrap();
    }
}
