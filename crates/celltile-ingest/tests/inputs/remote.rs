//! E8: inputs at URLs, from a server that is slow and fails now and then.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use celltile::storage::{LocalStorage, MemoryStorage};
use celltile_ingest::convert::{ConvertOptions, convert};
use celltile_ingest::plan::Plan;
use celltile_ingest::source::{self, CellAxis, SourceOptions};
use serde_json::Value;

use crate::http_server::{HttpServer, Spoil};
use crate::s3_server::{S3Server, quick, settings};
use crate::support::{inputs, open, run, triples};

/// How the server behaves.
#[derive(Clone, Copy)]
enum Mood {
    /// Every answer takes a moment, and one of four is "503".
    Flaky,
    /// "503" for ever.
    Down,
    /// Connections are accepted, and nothing is ever said.
    Silent,
}

/// Serves a folder over HTTP/1.1 with ranges; ends with the process.
fn serve(folder: PathBuf, mood: Mood) -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let sent = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&sent);
    std::thread::spawn(move || {
        let requests = Arc::new(AtomicU64::new(0));
        for stream in listener.incoming().flatten() {
            let (folder, requests, counter) = (folder.clone(), Arc::clone(&requests), Arc::clone(&counter));
            std::thread::spawn(move || answer(&stream, &folder, mood, &requests, &counter));
        }
    });
    (address, sent)
}

fn answer(
    stream: &TcpStream,
    folder: &Path,
    mood: Mood,
    requests: &AtomicU64,
    sent: &AtomicU64,
) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut out = stream;
    loop {
        let mut request = String::new();
        if reader.read_line(&mut request).ok()? == 0 {
            return None;
        }
        let mut range = None;
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).ok()?;
            let header = header.trim().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(text) = header.strip_prefix("range: bytes=") {
                range = Some(text.to_owned());
            }
        }
        if matches!(mood, Mood::Silent) {
            std::thread::sleep(Duration::from_secs(3600));
        }
        let number = requests.fetch_add(1, Ordering::Relaxed);
        if matches!(mood, Mood::Down) || number % 4 == 1 {
            out.write_all(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n").ok()?;
            continue;
        }
        std::thread::sleep(Duration::from_millis(2));
        let mut words = request.split(' ');
        let (method, path) = (words.next()?, words.next()?.trim_start_matches('/'));
        let Ok(bytes) = std::fs::read(folder.join(path)) else {
            out.write_all(b"HTTP/1.1 404 Missing\r\nContent-Length: 0\r\n\r\n").ok()?;
            continue;
        };
        let (status, first, end) = match range.as_deref().and_then(|range| range.split_once('-')) {
            Some(("", last)) => ("206 Part", bytes.len().saturating_sub(last.parse().ok()?), bytes.len()),
            Some((first, last)) => {
                let end = last.parse::<usize>().map_or(bytes.len(), |last| (last + 1).min(bytes.len()));
                ("206 Part", first.parse().ok()?, end)
            }
            None => ("200 Here", 0, bytes.len()),
        };
        let part = bytes.get(first..end)?;
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nContent-Range: bytes {first}-{}/{}\r\nAccept-Ranges: bytes\r\n\
             Last-Modified: Tue, 15 Nov 1994 12:45:26 GMT\r\nETag: \"1\"\r\n\r\n",
            part.len(),
            end.saturating_sub(1),
            bytes.len()
        );
        out.write_all(head.as_bytes()).ok()?;
        if method != "HEAD" {
            out.write_all(part).ok()?;
            sent.fetch_add(part.len() as u64, Ordering::Relaxed);
        }
    }
}

fn impatient() -> SourceOptions {
    let mut options = SourceOptions::default();
    options.remote.connect_timeout = Duration::from_millis(500);
    options.remote.stall_timeout = Duration::from_millis(500);
    options.remote.deadline = Duration::from_secs(2);
    options.remote.first_pause = Duration::from_millis(5);
    options.remote.longest_pause = Duration::from_millis(20);
    options
}

#[test]
fn e8_files_at_urls_are_read_in_ranges_from_a_slow_server_that_fails() {
    let Some(folder) = inputs() else { return };
    let (address, _) = serve(folder.clone(), Mood::Flaky);
    for (name, cells) in [
        ("a7_csc.h5ad", None),
        ("d5_mixed.h5", None),
        ("loom_chunked.loom", None),
        ("csv_wide.csv.gz", Some(CellAxis::Columns)),
    ] {
        let convert_to = |path: &Path| {
            let mut options = impatient();
            options.remote.deadline = Duration::from_secs(60);
            options.remote.stall_timeout = Duration::from_secs(20);
            options.cells = cells;
            let output = Arc::new(MemoryStorage::new());
            let convert_options = ConvertOptions::default();
            let opened = source::open(path, &options).unwrap();
            let plan = Plan::of_source(opened, &options, &convert_options).unwrap();
            convert(&plan, output.clone(), &convert_options).unwrap();
            triples(&open(&output))
        };
        let url = PathBuf::from(format!("{address}/{name}"));
        assert_eq!(convert_to(&url), convert_to(&folder.join(name)), "{name}");
    }
}

/// A matrix of a file with others is read without them.
#[test]
fn e8_only_what_is_needed_of_a_file_is_fetched() {
    let Some(folder) = inputs() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("padded.h5ad");
    let mut bytes = std::fs::read(folder.join("a7_csc.h5ad")).unwrap();
    let size = bytes.len() as u64;
    bytes.resize(bytes.len() + (16 << 20), 7);
    std::fs::write(&path, bytes).unwrap();
    let (address, sent) = serve(scratch.path().to_owned(), Mood::Flaky);
    let url = PathBuf::from(format!("{address}/padded.h5ad"));
    let source = source::open(&url, &SourceOptions::default()).unwrap();
    assert_eq!(source.info().shape.cells, 1000);
    assert!(sent.load(Ordering::Relaxed) < 8 * size + (1 << 20), "{}", sent.load(Ordering::Relaxed));
}

#[test]
fn e8_a_server_that_is_down_or_silent_is_told_soon() {
    let Some(folder) = inputs() else { return };
    for (mood, name) in
        [(Mood::Down, "a7_csc.h5ad"), (Mood::Silent, "a7_csc.h5ad"), (Mood::Flaky, "gone.h5ad")]
    {
        let (address, _) = serve(folder.clone(), mood);
        let url = format!("{address}/{name}");
        let started = Instant::now();
        let said = source::open(&url, &impatient()).err().unwrap().to_string();
        assert!(said.contains(name), "{said}");
        assert!(started.elapsed() < Duration::from_secs(60), "{said}");
    }
    let said = source::open("https://host/file.h5ad?signature=x", &impatient()).err().unwrap().to_string();
    assert!(said.contains("download the file first"), "{said}");
    // A folder of a bucket is asked what it is; a Matrix Market file alone lacks its lists.
    let (address, _) = serve(folder, Mood::Flaky);
    let said = source::open(format!("{address}/mtx_v3/matrix.mtx"), &SourceOptions::default());
    let said = said.err().unwrap().to_string();
    assert!(said.contains("download the matrix and its lists"), "{said}");
}

#[test]
fn a_local_file_url_is_a_path() {
    let Some(folder) = inputs() else { return };
    let url = PathBuf::from(format!("file://{}", folder.join("a7_csc.h5ad").display()));
    let output = Arc::new(MemoryStorage::new());
    run(&url, &Value::Null, 1 << 30, &output).unwrap();
}

/// The counts that an input becomes.
fn converted(path: &Path, options: &SourceOptions) -> Vec<(u64, i64, i64)> {
    let output = Arc::new(MemoryStorage::new());
    let convert_options =
        ConvertOptions { inputs_remote: options.remote.clone(), ..ConvertOptions::default() };
    let plan = Plan::of_source(source::open(path, options).unwrap(), options, &convert_options).unwrap();
    convert(&plan, output.clone(), &convert_options).unwrap();
    triples(&open(&output))
}

/// Every kind of input that may lie in a bucket, from a real server behind a network that fails: each request the first time, and
/// every third answer is late.
#[test]
fn e8_inputs_in_a_bucket_are_read_over_a_network_that_fails() {
    let Some(folder) = inputs() else { return };
    let Some(server) = S3Server::start() else { return };
    let proxy = HttpServer::proxy(server.address());
    let seen = Mutex::new(HashSet::new());
    proxy.plan(move |request, number| {
        let range = request.header("range").unwrap_or_default();
        if seen.lock().unwrap().insert(format!("{} {} {range}", request.method, request.target)) {
            Spoil::Status(503)
        } else if number % 3 == 0 {
            Spoil::Late(Duration::from_millis(30))
        } else {
            Spoil::Nothing
        }
    });
    let dataset = server.folder().join("dataset");
    run_to(&folder.join("a7_csc.h5ad"), &dataset);
    for (name, cells, genome) in [
        ("c22_unused.h5ad", None, None),
        ("a7_csc.h5ad", None, None),
        ("a8_tall.h5ad", None, None),
        ("d5_mixed.h5", None, None),
        ("d2_genomes.h5", None, Some("hg19")),
        ("loom_chunked.loom", None, None),
        ("h5mu_one.h5mu", None, None),
        ("csv_wide.csv.gz", Some(CellAxis::Columns), None),
        ("csv_rows.csv.zst", Some(CellAxis::Rows), None),
        ("dataset", None, None),
    ] {
        let mut options = SourceOptions { cells, ..SourceOptions::default() };
        options.genome = genome.map(str::to_owned);
        let local = if name == "dataset" { dataset.clone() } else { folder.join(name) };
        if name != "dataset" {
            std::fs::copy(&local, server.folder().join(name)).unwrap();
        }
        let expected = converted(&local, &options);
        options.remote = quick();
        options.remote.stall_timeout = Duration::from_secs(10);
        options.remote.deadline = Duration::from_secs(60);
        options.remote.settings = settings(proxy.address());
        assert_eq!(converted(Path::new(&format!("s3://bucket/{name}")), &options), expected, "{name}");
    }
    let asked = proxy.log();
    assert!(asked.iter().any(|request| request.header("range").is_some()));
    // What fails for ever is told with the URL, and soon.
    for fault in [Spoil::Status(503), Spoil::Close, Spoil::Hang] {
        proxy.plan(move |_, _| fault);
        let mut options = SourceOptions { remote: quick(), ..SourceOptions::default() };
        options.remote.settings = settings(proxy.address());
        let started = Instant::now();
        let said = source::open("s3://bucket/a7_csc.h5ad", &options).err().unwrap().to_string();
        assert!(said.contains("s3://bucket/a7_csc.h5ad"), "{fault:?}: {said}");
        assert!(started.elapsed() < Duration::from_secs(60), "{fault:?}: {said}");
    }
}

/// A dataset on disk.
fn run_to(input: &Path, target: &Path) {
    let options = ConvertOptions::default();
    let source = SourceOptions::default();
    let plan = Plan::of_source(source::open(input, &source).unwrap(), &source, &options).unwrap();
    convert(&plan, Arc::new(LocalStorage::new(target)), &options).unwrap();
}
