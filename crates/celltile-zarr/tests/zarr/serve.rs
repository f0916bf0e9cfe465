//! The live view over HTTP.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::dataset::{cells, dataset};
use celltile::obs::Cache;
use celltile_zarr::server::{Server, StopHandle};
use celltile_zarr::{Cut, Hierarchy, LiveView, StoreOptions};

const GENES: u64 = 30;
const TILE: u64 = 20;

struct Running {
    address: SocketAddr,
    stop: StopHandle,
    thread: Option<JoinHandle<()>>,
    view: LiveView,
}

impl Running {
    fn start() -> Self {
        let csr = cells(1, 6 * TILE, GENES, TILE, &[2]);
        let options = StoreOptions::default().cut(Cut::Tile);
        let view =
            LiveView::new(Hierarchy::open(dataset(&csr, GENES, TILE), &Cache::memory(), options).unwrap());
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::bind(view.clone(), address, Box::new(|_, _| {})).unwrap();
        let (url, stop) = (server.url(), server.stop_handle());
        let address = url.trim_start_matches("http://").trim_end_matches('/').parse().unwrap();
        let thread = Some(std::thread::spawn(move || server.run().unwrap()));
        Self { address, stop, thread, view }
    }

    fn raw(&self, request: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.address).unwrap();
        // The server may hang up on what it does not like before it has all of it.
        let _ = stream.write_all(request);
        if !request.ends_with(b"\r\n\r\n") {
            let _ = stream.shutdown(Shutdown::Write);
        }
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        Answer::parse(&bytes)
    }

    fn ask(&self, method: &str, path: &str, headers: &str) -> Answer {
        self.raw(
            format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n").as_bytes(),
        )
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(bytes.len());
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Self { status, head, body: bytes.get(end + 4..).unwrap_or_default().to_vec() }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

#[test]
fn every_key_is_answered_with_its_bytes() {
    let running = Running::start();
    for key in running.view.hierarchy().keys() {
        let expected = running.view.value(&key).unwrap().unwrap();
        let answer = running.ask("GET", &format!("/{key}"), "");
        assert_eq!((answer.status, answer.body.as_slice()), (200, expected.as_ref()), "{key}");
        let head = running.ask("HEAD", &format!("/{key}"), "");
        assert_eq!((head.status, head.body.len()), (200, 0));
        assert_eq!(head.header("content-length"), Some(expected.len().to_string().as_str()), "{key}");
        assert_eq!(head.header("etag"), answer.header("etag"));
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    }
}

#[test]
fn ranges_give_parts_and_bad_ones_416() {
    let running = Running::start();
    let whole = running.view.value("X/data/c/0").unwrap().unwrap();
    let n = whole.len();
    for (range, start, end) in [
        ("bytes=0-3".to_owned(), 0, 4),
        ("bytes=4-".to_owned(), 4, n),
        ("bytes=-8".to_owned(), n - 8, n),
        (format!("bytes=8-{}", n + 100), 8, n),
    ] {
        let answer = running.ask("GET", "/X/data/c/0", &format!("Range: {range}\r\n"));
        assert_eq!((answer.status, answer.body.as_slice()), (206, &whole[start..end]), "{range}");
        assert_eq!(answer.header("content-range"), Some(format!("bytes {start}-{}/{n}", end - 1).as_str()));
    }
    for range in [
        "bytes=5-2",
        "bytes=99999999-",
        "bytes=0-1,4-5",
        "bytes=x-y",
        "bytes=-0",
        "nonsense",
        "bytes=18446744073709551616-",
    ] {
        let answer = running.ask("GET", "/X/data/c/0", &format!("Range: {range}\r\n"));
        assert_eq!(answer.status, 416, "{range}");
        assert_eq!(answer.header("content-range"), Some(format!("bytes */{n}").as_str()));
    }
    let etag = running.ask("HEAD", "/X/data/c/0", "").header("etag").unwrap().to_owned();
    let same = running.ask("GET", "/X/data/c/0", &format!("Range: bytes=0-3\r\nIf-Range: {etag}\r\n"));
    let other = running.ask("GET", "/X/data/c/0", "Range: bytes=0-3\r\nIf-Range: \"other\"\r\n");
    assert_eq!((same.status, other.status), (206, 200));
}

#[test]
fn a_client_that_has_the_value_is_told_so() {
    let running = Running::start();
    let etag = running.ask("HEAD", "/X/data/c/0", "").header("etag").unwrap().to_owned();
    for value in [etag.clone(), format!("\"x\", {etag}"), format!("W/{etag}"), "*".to_owned()] {
        let answer = running.ask("GET", "/X/data/c/0", &format!("If-None-Match: {value}\r\n"));
        assert_eq!((answer.status, answer.body.len()), (304, 0), "{value}");
    }
    assert_eq!(running.ask("GET", "/X/data/c/0", "If-None-Match: \"x\"\r\n").status, 200);
    let other = running.ask("HEAD", "/X/indices/c/0", "").header("etag").unwrap().to_owned();
    assert_ne!(other, etag);
}

#[test]
fn hostile_requests_are_refused() {
    let running = Running::start();
    for path in [
        "/../Cargo.toml",
        "/X/../../x",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/X//data",
        "/X/data/c/%00",
        "/%ff",
        "/%",
        "/X\\data",
        "/",
    ] {
        let answer = running.ask("GET", path, "");
        assert_eq!(answer.status, 400, "{path}");
    }
    for path in [
        "/manifest.json",
        "/tiles/tile_000000.dct",
        "/X/data/c/99",
        "/X/data/c/-1",
        "/X/data/c/00",
        "/X/data/c/+0",
        "/X/data/c/0/0",
        "/X/data/c/18446744073709551616",
        "/X/data/c",
        "/X/data",
        "/obs/..%2fmanifest.json",
        "/zarr.json/",
        "/azarr.json",
    ] {
        let answer = running.ask("GET", path, "");
        assert!(matches!(answer.status, 400 | 404), "{path} {}", answer.status);
        assert!(answer.body.len() < 100);
    }
    for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE"] {
        assert_eq!(running.ask(method, "/zarr.json", "Content-Length: 0\r\n").status, 405, "{method}");
    }
    for request in [&b"\0\0\0\0\r\n\r\n"[..], b"GET / HTTP/9.9\r\n\r\n", b"GET  \r\n\r\n", &[b'A'; 100_000]] {
        let answer = running.raw(request);
        assert!(
            answer.status == 0 || (400..500).contains(&answer.status) || answer.status == 505,
            "{answer:?}"
        );
    }
    let huge = running.ask("GET", "/zarr.json", &format!("X-Big: {}\r\n", "x".repeat(1 << 20)));
    assert!(huge.status == 0 || (400..500).contains(&huge.status), "{huge:?}");
    assert_eq!(running.ask("OPTIONS", "/zarr.json", "").status, 204);
    assert_eq!(running.ask("GET", "/zarr.json", "").status, 200);
}

#[test]
fn silent_clients_do_not_keep_the_server_from_stopping() {
    let running = Running::start();
    let mut silent = TcpStream::connect(running.address).unwrap();
    let mut halfway = TcpStream::connect(running.address).unwrap();
    halfway.write_all(b"GET /zarr.json HTTP/1.1\r\nHost").unwrap();
    assert_eq!(running.ask("GET", "/zarr.json", "").status, 200);
    let start = std::time::Instant::now();
    drop(running);
    assert!(start.elapsed() < std::time::Duration::from_secs(20), "{:?}", start.elapsed());
    assert_eq!(silent.read(&mut [0; 1]).unwrap_or(0), 0);
}

#[test]
fn sixty_four_clients_are_held_at_once() {
    let running = Arc::new(Running::start());
    let keys: Vec<String> = running.view.hierarchy().keys().collect();
    // All of them are connected before one asks.
    let mut streams: Vec<TcpStream> = (0..64).map(|_| TcpStream::connect(running.address).unwrap()).collect();
    std::thread::scope(|scope| {
        for (client, stream) in streams.iter_mut().enumerate() {
            let (keys, running) = (&keys, &running);
            scope.spawn(move || {
                let key = &keys[client % keys.len()];
                let request = format!("GET /{key} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
                stream.write_all(request.as_bytes()).unwrap();
                let mut bytes = Vec::new();
                stream.read_to_end(&mut bytes).unwrap();
                let answer = Answer::parse(&bytes);
                assert_eq!(answer.status, 200);
                assert_eq!(answer.body, running.view.value(key).unwrap().unwrap());
            });
        }
    });
}
