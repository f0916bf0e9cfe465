//! A small HTTP/1.1 server for tests: answers from memory or from another server, and spoils the answers on demand.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request, as far as tests look at it.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    /// The first and one past the last byte asked for.
    pub(crate) fn range(&self) -> Option<(usize, usize)> {
        let (a, b) = self.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some((a.parse().ok()?, b.parse::<usize>().ok()?.saturating_add(1)))
    }
}

/// An answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// What Content-Length says, if not the body's length.
    pub(crate) length: Option<usize>,
}

impl Response {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, body: body.into(), ..Self::default() }
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        self.headers.push((name.into(), value.into()));
        self
    }
}

/// What is done to an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spoil {
    Nothing,
    /// Another status, with an XML body as S3 sends it.
    Status(u16),
    /// The answer comes late.
    Late(Duration),
    /// No answer ever.
    Hang,
    /// The connection is closed without an answer.
    Close,
    /// The request is carried out, but its answer is lost.
    Lost,
    /// The connection is closed after so many bytes of the body.
    Cut(usize),
    /// The body is only so long, and Content-Length agrees with it.
    Truncate(usize),
    /// So many bytes more than asked for.
    Lengthen(usize),
    /// A few bytes at a time.
    Drip(Duration),
    /// The whole object instead of the range.
    Whole,
    /// Another range than the one asked for.
    Shift,
    /// Another ETag.
    ETag(u32),
    /// The last bytes stop coming, the connection stays.
    Stall(usize),
}

type Answer = dyn Fn(&Request) -> Response + Send + Sync;
type Plan = dyn Fn(&Request, usize) -> Spoil + Send + Sync;

/// A running server; it ends with this value.
pub(crate) struct HttpServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    answer: Box<Answer>,
    plan: Mutex<Arc<Plan>>,
    log: Mutex<Vec<Request>>,
    ended: AtomicBool,
}

impl HttpServer {
    pub(crate) fn start(answer: impl Fn(&Request) -> Response + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            answer: Box::new(answer),
            plan: Mutex::new(Arc::new(|_, _| Spoil::Nothing)),
            log: Mutex::default(),
            ended: AtomicBool::new(false),
        });
        let ours = Arc::clone(&shared);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                if ours.ended.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(connection) = connection else { continue };
                let ours = Arc::clone(&ours);
                std::thread::spawn(move || while serve(&connection, &ours).is_some() {});
            }
        });
        Self { address, shared }
    }

    /// Passes everything on to another server.
    pub(crate) fn proxy(upstream: SocketAddr) -> Self {
        Self::start(move |request| forward(upstream, request).unwrap_or_else(|| Response::new(502, "")))
    }

    /// Serves objects from memory; their ETags are their CRCs.
    pub(crate) fn files(files: HashMap<String, Vec<u8>>) -> Self {
        Self::start(move |request| {
            let path = request.target.split('?').next().unwrap_or_default();
            let Some(body) = files.get(path) else { return Response::new(404, "") };
            ranged(request, body).with("ETag", format!("\"{:08x}\"", crc32fast::hash(body)))
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on the n-th request (from 0) is spoilt as the plan says.
    pub(crate) fn plan(&self, plan: impl Fn(&Request, usize) -> Spoil + Send + Sync + 'static) {
        *self.shared.plan.lock().unwrap() = Arc::new(plan);
        self.shared.log.lock().unwrap().clear();
    }

    /// The requests since the plan was made.
    pub(crate) fn log(&self) -> Vec<Request> {
        self.shared.log.lock().unwrap().clone()
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

/// The part of an object that a request asks for.
pub(crate) fn ranged(request: &Request, body: &[u8]) -> Response {
    match request.range() {
        None => Response::new(200, body),
        Some((start, _)) if start >= body.len() => Response::new(416, ""),
        Some((start, end)) => {
            let end = end.min(body.len());
            Response::new(206, &body[start..end])
                .with("Content-Range", format!("bytes {start}-{}/{}", end - 1, body.len()))
        }
    }
}

fn serve(connection: &TcpStream, shared: &Shared) -> Option<()> {
    let request = read_request(&mut BufReader::new(connection))?;
    let plan = Arc::clone(&shared.plan.lock().unwrap());
    let number = {
        let mut log = shared.log.lock().unwrap();
        log.push(request.clone());
        log.len() - 1
    };
    let spoil = plan(&request, number);
    let without_range = || {
        let mut whole = request.clone();
        whole.headers.retain(|(n, _)| !n.eq_ignore_ascii_case("range"));
        whole
    };
    let mut response = match spoil {
        Spoil::Whole => (shared.answer)(&without_range()),
        Spoil::Shift => {
            let mut other = without_range();
            let (a, b) = request.range().unwrap_or((0, 1));
            other.headers.push(("range".into(), format!("bytes={}-{b}", a + 1)));
            (shared.answer)(&other)
        }
        Spoil::Hang => {
            std::thread::sleep(Duration::from_secs(20));
            return None;
        }
        Spoil::Close => return None,
        Spoil::Status(code) => {
            let body =
                "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>";
            Response::new(code, body)
        }
        _ => (shared.answer)(&request),
    };
    let mut pieces = usize::MAX;
    let mut pause = Duration::ZERO;
    let mut then_hang = false;
    match spoil {
        Spoil::Lost => return None,
        Spoil::Late(delay) => std::thread::sleep(delay),
        Spoil::Cut(n) => {
            response.length.get_or_insert(response.body.len());
            response.body.truncate(n);
        }
        Spoil::Stall(n) => {
            response.length.get_or_insert(response.body.len());
            response.body.truncate(n);
            then_hang = true;
        }
        Spoil::Truncate(n) => response.body.truncate(n),
        Spoil::Lengthen(n) => response.body.extend(std::iter::repeat_n(b'x', n)),
        Spoil::Drip(delay) => {
            pieces = 8;
            pause = delay;
        }
        Spoil::ETag(n) => response = response.with("ETag", format!("\"changed-{n}\"")),
        _ => {}
    }
    write_response(connection, &request, &response, pieces, pause)?;
    if then_hang {
        std::thread::sleep(Duration::from_secs(20));
        return None;
    }
    // Whoever was promised more must see the end.
    (response.length.is_none_or(|n| n == response.body.len())).then_some(())
}

fn read_request(reader: &mut impl BufRead) -> Option<Request> {
    let (first, headers) = read_head(reader)?;
    let mut words = first.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut request = Request { method, target, headers, body: Vec::new() };
    if request.header("expect").is_some() {
        return None;
    }
    let length = request.header("content-length").and_then(|v| v.parse().ok()).unwrap_or(0usize);
    request.body = vec![0; length];
    reader.read_exact(&mut request.body).ok()?;
    Some(request)
}

fn read_head(reader: &mut impl BufRead) -> Option<(String, Vec<(String, String)>)> {
    let mut first = String::new();
    if reader.read_line(&mut first).ok()? == 0 {
        return None;
    }
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => headers.push((name.to_owned(), value.trim().to_owned())),
            None => return Some((first.trim_end().to_owned(), headers)),
        }
    }
}

fn write_response(
    mut to: &TcpStream,
    request: &Request,
    response: &Response,
    piece: usize,
    pause: Duration,
) -> Option<()> {
    let mut head = format!("HTTP/1.1 {} X\r\n", response.status);
    for (name, value) in &response.headers {
        let ours = ["content-length", "transfer-encoding", "connection"];
        if !ours.iter().any(|n| name.eq_ignore_ascii_case(n)) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    let length = response.length.unwrap_or(response.body.len());
    // 204 and 304 have no body and no length.
    if response.status != 204 && response.status != 304 {
        head.push_str(&format!("Content-Length: {length}\r\n"));
    }
    head.push_str("\r\n");
    to.write_all(head.as_bytes()).ok()?;
    if request.method == "HEAD" {
        return Some(());
    }
    for part in response.body.chunks(piece.min(1 << 20)) {
        to.write_all(part).ok()?;
        if pause > Duration::ZERO {
            std::thread::sleep(pause);
        }
    }
    Some(())
}

/// Asks another server, on a connection of its own.
pub(crate) fn forward(upstream: SocketAddr, request: &Request) -> Option<Response> {
    let mut connection = TcpStream::connect(upstream).ok()?;
    let mut head = format!("{} {} HTTP/1.1\r\n", request.method, request.target);
    for (name, value) in &request.headers {
        if !name.eq_ignore_ascii_case("connection") {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    head.push_str("connection: close\r\n\r\n");
    connection.write_all(head.as_bytes()).ok()?;
    connection.write_all(&request.body).ok()?;
    let mut reader = BufReader::new(connection);
    let (first, headers) = read_head(&mut reader)?;
    let status = first.split(' ').nth(1)?.parse().ok()?;
    let mut response = Response { status, headers, ..Response::default() };
    let header = |name: &str| {
        response.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.clone())
    };
    let length = header("content-length").and_then(|v| v.parse::<usize>().ok());
    if request.method == "HEAD" {
        response.length = length;
        return Some(response);
    }
    if header("transfer-encoding").is_some_and(|v| v.contains("chunked")) {
        loop {
            let mut size = String::new();
            reader.read_line(&mut size).ok()?;
            let size = usize::from_str_radix(size.trim(), 16).ok()?;
            let mut chunk = vec![0; size + 2];
            reader.read_exact(&mut chunk).ok()?;
            if size == 0 {
                break;
            }
            response.body.extend_from_slice(&chunk[..size]);
        }
    } else if let Some(length) = length {
        response.body = vec![0; length];
        reader.read_exact(&mut response.body).ok()?;
    } else {
        reader.read_to_end(&mut response.body).ok()?;
    }
    Some(response)
}
