//! Datasets in a bucket (a real S3 server, also behind a proxy that fails) and on a web server.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::http_server::{HttpServer, Request, Spoil};
use crate::s3_server::S3Server;
use crate::support::{Run, command, convert, dataset_with_obs, files, finish, python, run_on, simulated};

const URL: &str = "s3://bucket/some/cells";

/// The command with these words, and the server at an address as its S3.
fn at(address: SocketAddr, words: &str) -> Command {
    let mut command = command(words.split_whitespace());
    command
        .env("AWS_ENDPOINT_URL", format!("http://{address}"))
        .env("AWS_ACCESS_KEY_ID", "key")
        .env("AWS_SECRET_ACCESS_KEY", "secret");
    command
}

fn run_at(address: SocketAddr, words: &str) -> Run {
    finish(at(address, words))
}

/// Puts the files of a folder into the bucket, below `some/cells`.
fn upload(server: &S3Server, folder: &Path) {
    for (path, content) in files(folder) {
        let target = server.folder().join("some/cells").join(path);
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::write(target, content).unwrap();
    }
}

/// The files of a folder as a web server has them, below `/cells`.
fn serve(folder: &Path) -> HttpServer {
    let files: HashMap<String, Vec<u8>> = files(folder)
        .into_iter()
        .map(|(path, content)| (format!("/cells/{}", path.to_str().unwrap()), content))
        .collect();
    HttpServer::files(files)
}

/// What a run printed, without the place and times.
fn told(run: Run, place: &str) -> String {
    let out = run.ok().out.replace(place, "PLACE");
    let lines = out.lines().filter(|line| !line.starts_with("time") && !line.starts_with("note: "));
    lines
        .map(|line| {
            if line.starts_with("sound") { line.rsplit_once(',').unwrap().0 } else { line }.trim_end()
        })
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n")
        .collect()
}

#[test]
fn test_every_command_reads_urls_as_paths() {
    let (folder, path) = dataset_with_obs();
    let web = serve(&path);
    let s3 = S3Server::start();
    if let Some(s3) = &s3 {
        upload(s3, &path);
    }
    // Only for its environment, where there is no bucket.
    let address = s3.as_ref().map_or(web.address(), S3Server::address);
    let mut urls = vec![format!("http://{}/cells", web.address())];
    urls.extend(s3.as_ref().map(|_| URL.to_owned()));
    let cache = folder.path().join("cache");
    let local = path.to_str().unwrap();
    for url in &urls {
        for words in [
            "info {}",
            "info {} --json",
            "verify {}",
            "verify {} --strict",
            "rows {} 95:205 --format csv",
            "rows {} 7",
            "obs {}",
            "obs {} --columns flag,note",
        ] {
            let more = if words.starts_with("obs") {
                format!(" --cache-dir {}", cache.display())
            } else {
                String::new()
            };
            let expected = told(run_at(address, &words.replace("{}", local)), local);
            let found = told(run_at(address, &(words.replace("{}", url) + &more)), url);
            assert_eq!(found, expected, "{words} {url}");
        }
        let back = folder.path().join("back.h5ad");
        run_at(address, &format!("export {url} -o {} --overwrite", back.display())).ok();
        let again = folder.path().join("again");
        convert(&back, &again, &format!("--tile-size 100 --overwrite --gene-order-from {local}"));
        assert!(run_at(address, &format!("bench {url} --rounds 1")).ok().out.contains("over_zstd"));
        // What is not there is named, whatever is asked.
        for words in ["info {}x", "verify {}x", "rows {}x 1", "obs {}x", "bench {}x", "export {}x -o x.h5ad"]
        {
            let run = run_at(address, &words.replace("{}", url)).fails(1, &format!("{url}x"));
            assert_eq!(run.err.lines().count(), 1, "{}", run.err);
        }
    }
    run_at(address, "info ftp://host/cells").fails(1, "ftp://host/cells");
}

#[test]
fn test_conversion_into_a_bucket() {
    let Some(s3) = S3Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (source, local) = (simulated(folder.path(), 250), folder.path().join("local"));
    convert(&source, &local, "--tile-size 100").ok();
    let proxy = HttpServer::proxy(s3.address());
    let words = format!("convert {} -o {URL} --tile-size 100", source.display());
    run_at(proxy.address(), &words).ok();
    assert!(files(&local) == files(&s3.folder().join("some/cells")), "the same bytes as in a folder");
    let puts: Vec<_> = proxy.log().into_iter().filter(|request| request.method == "PUT").collect();
    assert!(puts.last().unwrap().target.ends_with("/manifest.json"), "the manifest comes last");
    assert!(run_at(s3.address(), &format!("verify {URL} --strict")).ok().out.starts_with("sound: 3 tiles"));
    run_at(s3.address(), &words).fails(1, "--overwrite");
    for (input, output) in [("", "/"), ("/", ""), ("", "/new"), ("", "/../cells")] {
        let words = format!("convert {URL}{input} -o {URL}{output} --overwrite");
        let failed = run_at(s3.address(), &words);
        assert!(output.contains("..") || failed.err.contains("is an input"), "{}", failed.err);
        assert_eq!(failed.code, Some(1));
    }
    assert!(run_at(s3.address(), &format!("verify {URL} --strict")).ok().out.starts_with("sound: 3 tiles"));
    run_at(s3.address(), &format!("{words}0 --overwrite")).ok();
    assert!(run_at(s3.address(), &format!("verify {URL}")).ok().out.starts_with("sound: 1 tiles"));
}

/// Writes an h5ad file of few genes whose cell names are long and random.
const LONG_NAMES: &str = r#"
import sys
import h5py, numpy as np
n = 160_000
text = h5py.string_dtype()
names = np.random.default_rng(1).bytes(100 * n).hex()
with h5py.File(sys.argv[1], "w") as f:
    f.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
    x = f.create_group("X")
    x.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": [n, 2]})
    x["indptr"], x["indices"], x["data"] = np.arange(n + 1), np.arange(n) % 2, np.ones(n, "f4")
    for frame, index in (("obs", [names[200 * i : 200 * (i + 1)] for i in range(n)]), ("var", ["a", "b"])):
        g = f.create_group(frame)
        g.attrs.update({"encoding-type": "dataframe", "encoding-version": "0.2.0", "_index": "_index"})
        g.attrs["column-order"] = np.array([], dtype=text)
        g.create_dataset("_index", data=index, dtype=text)
"#;

#[test]
fn test_large_shards_are_uploaded_in_parts() {
    let (Some(s3), Some(python)) = (S3Server::start(), python()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("names.h5ad");
    assert!(Command::new(python).args(["-c", LONG_NAMES]).arg(&source).status().unwrap().success());
    let proxy = HttpServer::proxy(s3.address());
    run_at(proxy.address(), &format!("convert {} -o {URL}", source.display())).ok();
    let log = proxy.log();
    let parts = log.iter().filter(|r| r.method == "PUT" && r.target.contains("partNumber=")).count();
    assert!(parts >= 2, "{parts} parts");
    assert!(log.iter().rev().find(|r| r.method == "PUT").unwrap().target.ends_with("/manifest.json"));
    run_at(s3.address(), &format!("verify {URL} --strict")).ok();
}

#[test]
fn test_a_conversion_into_a_bucket_that_is_killed_is_refused() {
    let Some(s3) = S3Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let source = simulated(folder.path(), 250);
    let proxy = HttpServer::proxy(s3.address());
    let words = format!("convert {} -o {URL} --tile-size 25 --overwrite", source.display());
    for put in [1, 4, 9, 12] {
        // All answers from the n-th object on are late, so that it is known where the end comes.
        let seen = std::sync::atomic::AtomicUsize::new(0);
        proxy.plan(move |request, _| {
            let late =
                request.method == "PUT" && seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= put;
            if late { Spoil::Late(Duration::from_secs(5)) } else { Spoil::Nothing }
        });
        let mut child =
            at(proxy.address(), &words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        while proxy.log().iter().filter(|r| r.method == "PUT").count() <= put {
            assert!(begun.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        for words in ["info {}", "verify {}", "rows {} 1", "obs {}"] {
            run_at(s3.address(), &words.replace("{}", URL)).fails(1, URL);
        }
    }
    proxy.plan(|_, _| Spoil::Nothing);
    run_at(proxy.address(), &words).ok();
    assert!(run_at(s3.address(), &format!("verify {URL} --strict")).ok().out.starts_with("sound: 10 tiles"));
}

/// Spoils each request when it comes for the first time, in turn with each fault.
fn first_time(faults: &'static [Spoil]) -> impl Fn(&Request, usize) -> Spoil + Send + Sync {
    let seen = Mutex::new(HashSet::new());
    move |request, _| {
        let mut seen = seen.lock().unwrap();
        let range = request.header("range").unwrap_or_default().to_owned();
        let count = seen.len();
        let new = seen.insert((request.method.clone(), request.target.clone(), range));
        if new { faults[count % faults.len()] } else { Spoil::Nothing }
    }
}

#[test]
fn test_commands_overcome_faults_of_the_network() {
    let Some(s3) = S3Server::start() else { return };
    let (folder, path) = dataset_with_obs();
    upload(&s3, &path);
    let proxy = HttpServer::proxy(s3.address());
    const FAULTS: &[Spoil] = &[
        Spoil::Status(503),
        Spoil::Close,
        Spoil::Cut(100),
        Spoil::Late(Duration::from_millis(300)),
        Spoil::Lost,
    ];
    for (at, words) in ["rows {} 95:205 --format csv", "obs {}", "verify {} --strict", "info {} --json"]
        .into_iter()
        .enumerate()
    {
        proxy.plan(first_time(FAULTS));
        let cache = folder.path().join(format!("cache{at}"));
        let more = if words.starts_with("obs") {
            format!(" --cache-dir {}", cache.display())
        } else {
            String::new()
        };
        let local = path.to_str().unwrap();
        let found = told(run_at(proxy.address(), &(words.replace("{}", URL) + &more)), URL);
        assert_eq!(found, told(run_at(s3.address(), &words.replace("{}", local)), local), "{words}");
    }
    proxy.plan(first_time(FAULTS));
    let source = simulated(folder.path(), 250);
    run_at(proxy.address(), &format!("convert {} -o {URL} --tile-size 100 --overwrite", source.display()))
        .ok();
    proxy.plan(|_, _| Spoil::Nothing);
    run_at(s3.address(), &format!("verify {URL} --strict")).ok();
    // Refused for good: an error that names the object.
    proxy.plan(
        |request, _| if request.target.contains("tile_000001") { Spoil::Status(403) } else { Spoil::Nothing },
    );
    run_at(proxy.address(), &format!("rows {URL} 50:150"))
        .fails(1, "s3://bucket/some/cells/tiles/tile_000001.dct");
    run_at(proxy.address(), &format!("rows {URL} 50:90")).ok();
}

/// Requests for shards of the cell table, by object and range.
fn fetches(proxy: &HttpServer) -> BTreeMap<(String, String), usize> {
    let mut counts = BTreeMap::new();
    for request in proxy.log() {
        if request.target.contains("/obs/obs_") {
            let range = request.header("range").unwrap_or_default().to_owned();
            *counts.entry((request.target.clone(), range)).or_insert(0) += 1;
        }
    }
    counts
}

fn spawn_obs(proxy: &HttpServer, cache: &Path, columns: &str) -> Child {
    let words = format!("obs {URL} --columns {columns} --cache-dir {}", cache.display());
    at(proxy.address(), &words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn csv(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn test_sixteen_processes_fetch_each_column_once() {
    let Some(s3) = S3Server::start() else { return };
    let (folder, path) = dataset_with_obs();
    upload(&s3, &path);
    let proxy = HttpServer::proxy(s3.address());
    // Slow enough that all of them want the columns before the first has them.
    let plan = || {
        proxy.plan(|request, _| {
            let shard = request.target.contains("/obs/obs_");
            Spoil::Late(Duration::from_millis(if shard { 150 } else { 0 }))
        });
    };
    plan();
    let expected = csv(spawn_obs(&proxy, &folder.path().join("one"), "note,count"));
    let alone = fetches(&proxy);
    assert!(alone.len() >= 3, "{alone:?}");
    plan();
    let cache = folder.path().join("sixteen");
    let children: Vec<_> = (0..16).map(|_| spawn_obs(&proxy, &cache, "note,count")).collect();
    for child in children {
        assert!(csv(child) == expected);
    }
    assert_eq!(fetches(&proxy), alone);
    plan();
    assert!(csv(spawn_obs(&proxy, &cache, "count,note")).lines().count() == expected.lines().count());
    assert_eq!(fetches(&proxy).len(), 0);
}

#[test]
fn test_killed_readers_and_truncated_files_do_no_harm() {
    let Some(s3) = S3Server::start() else { return };
    let (folder, path) = dataset_with_obs();
    upload(&s3, &path);
    let proxy = HttpServer::proxy(s3.address());
    let cache = folder.path().join("cache");
    let expected = run_on(&path, "obs {} --columns note,count").ok().out;
    for n in 0..5 {
        // No answer from the n-th request for a shard on.
        let seen = std::sync::atomic::AtomicUsize::new(0);
        proxy.plan(move |request, _| {
            let shard = request.target.contains("/obs/obs_");
            let late = shard && seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= n;
            if late { Spoil::Late(Duration::from_secs(10)) } else { Spoil::Nothing }
        });
        let mut child = spawn_obs(&proxy, &cache, "note,count");
        let begun = Instant::now();
        while proxy.log().iter().filter(|r| r.target.contains("/obs/obs_")).count() <= n
            && child.try_wait().unwrap().is_none()
        {
            assert!(begun.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = child.kill();
        child.wait().unwrap();
    }
    proxy.plan(|_, _| Spoil::Nothing);
    assert!(csv(spawn_obs(&proxy, &cache, "note,count")) == expected);
    for cut in [0, 1, 8, 100, 500] {
        let mut truncated = 0;
        for path in files(&cache).into_keys().filter(|path| path.extension().is_some_and(|e| e == "arrow")) {
            let file = std::fs::OpenOptions::new().write(true).open(cache.join(path)).unwrap();
            file.set_len(cut).unwrap();
            truncated += 1;
        }
        assert!(truncated >= 3);
        assert!(csv(spawn_obs(&proxy, &cache, "note,count")) == expected, "cut to {cut}");
    }
    assert!(
        files(&cache).into_keys().all(|path| path.extension().is_none_or(|e| e != "tmp")),
        "nothing is left over"
    );
}

/// Bytes of a tile that were asked for, those before `from` apart.
fn asked_for(log: &[Request], from: usize) -> usize {
    let tiles = log.iter().filter(|request| request.target.contains("/tiles/") && request.method == "GET");
    tiles
        .map(|request| {
            let (start, end) = request.range().unwrap_or_else(|| panic!("all of {}", request.target));
            end.saturating_sub(start.max(from))
        })
        .sum()
}

#[test]
fn test_a_few_rows_of_a_large_tile_of_simulated_cells_cost_little() {
    let folder = tempfile::tempdir().unwrap();
    let (source, out) = (folder.path().join("cells.h5ad"), folder.path().join("out"));
    run_on(&source, "simulate -o {} --cells 10000 --gzip 0").ok();
    convert(&source, &out, "--preset fast").ok();
    let tile = std::fs::read(out.join("tiles/tile_000000.dct")).unwrap();
    let number = |at: usize| u32::from_le_bytes(tile[at..at + 4].try_into().unwrap()) as usize;
    let head = 64 + 96 * number(36) + 8 * 10_001;
    let expected = run_on(&out, "rows {} 0:64 --format csv").ok().out;
    let ask = |server: &HttpServer, run: Run| {
        assert!(run.ok().out == expected);
        let share = asked_for(&server.log(), head) as f64 / tile.len() as f64;
        eprintln!("rows(0..64): {:.2} % of a tile of {} bytes", 100.0 * share, tile.len());
        assert!(share > 0.0 && share < 0.03, "{share}");
    };
    let web = serve(&out);
    ask(&web, run_on(Path::new(&format!("http://{}/cells", web.address())), "rows {} 0:64 --format csv"));
    let Some(s3) = S3Server::start() else { return };
    upload(&s3, &out);
    let proxy = HttpServer::proxy(s3.address());
    ask(&proxy, run_at(proxy.address(), &format!("rows {URL} 0:64 --format csv")));
}

#[test]
fn test_tiles_are_kept_on_disk() {
    let (folder, path) = dataset_with_obs();
    let web = serve(&path);
    let url = format!("http://{}/cells", web.address());
    let cache = folder.path().join("cache");
    let tiles = || web.log().iter().filter(|request| request.target.contains("/tiles/")).count();
    let run = |words: &str, size: &str| {
        web.plan(|_, _| Spoil::Nothing);
        let keep = format!("--cache-tiles {size} --cache-dir {}", cache.display());
        run_on(Path::new(&url), &format!("{words} {keep}")).ok().out
    };
    let expected = run_on(&path, "rows {} 50:150 --format csv").ok().out;
    assert!(run("rows {} 50:150 --format csv", "1GiB") == expected);
    assert_eq!(tiles(), 2, "one request a tile");
    assert!(run("rows {} 50:150 --format csv", "1GiB") == expected);
    assert_eq!(tiles(), 0);
    let back = folder.path().join("back.h5ad");
    run(&format!("export {{}} -o {}", back.display()), "1GiB");
    assert_eq!(tiles(), 1, "the third");
    // Less room than a tile: nothing is kept, and nothing is wrong.
    assert!(run("rows {} 200:250 --format csv", "10").lines().count() > 1);
    assert!(run("rows {} 50:150 --format csv", "10") == expected);
}

#[test]
fn test_a_cache_folder_that_cannot_be_written_is_named() {
    let (folder, path) = dataset_with_obs();
    let web = serve(&path);
    let url = format!("http://{}/cells", web.address());
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let run = run_on(Path::new(&url), &format!("obs {{}} --cache-dir {}", file.display()));
    assert!(run.fails(1, file.to_str().unwrap()).err.contains("DELTACELLS_CACHE"));
    // Tiles are fetched nevertheless.
    run_on(Path::new(&url), &format!("rows {{}} 5 --cache-tiles 1G --cache-dir {}", file.display())).ok();
    full_disk(&folder, &url);
}

/// The same on a disk without room, where one can be made.
fn full_disk(folder: &TempDir, url: &str) {
    let small = folder.path().join("small");
    std::fs::create_dir(&small).unwrap();
    let mount = |words: &[&str]| {
        let run = Command::new("mount").args(words).arg(&small).output();
        run.is_ok_and(|output| output.status.success())
    };
    if !mount(&["-t", "tmpfs", "-o", "size=16k", "tmpfs"]) {
        return eprintln!("skipped: no file system may be mounted here");
    }
    let words = format!("obs {{}} --cache-dir {}", small.display());
    let full = run_on(Path::new(url), &words);
    let read_only = mount(&["-o", "remount,ro"]).then(|| run_on(Path::new(url), &words));
    Command::new("umount").arg(&small).output().unwrap();
    full.fails(1, "disk is full");
    read_only.unwrap().fails(1, "cannot be written");
}
