//! The live view over HTTP: read only, one URL a key.

mod request;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    ACCEPT_RANGES, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ALLOW, CACHE_CONTROL, CONTENT_LENGTH,
    CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_NONE_MATCH, IF_RANGE, RANGE,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;
use celltile::keys;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use sha2::{Digest, Sha256};
use tokio::sync::{Semaphore, watch};

use crate::error::{Result, ZarrError};
use crate::view::LiveView;

use request::{Span, key_of, span_of};

/// Connections held at once; more wait to be accepted.
const CONNECTIONS: usize = 512;
/// How long a client may take to send the head of a request.
const HEADERS: Duration = Duration::from_secs(10);
/// Bytes of a request's head, at most.
const HEADER_BYTES: usize = 64 << 10;

/// What is told of requests that could not be answered: key and error.
pub type OnError = Box<dyn Fn(&str, &ZarrError) + Send + Sync>;

/// A live view, bound to an address.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
}

/// Stops a [`Server`].
#[derive(Debug, Clone)]
pub struct StopHandle(watch::Sender<bool>);

impl StopHandle {
    /// Lets running requests end, and takes no more.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

struct Shared {
    view: LiveView,
    /// Stands for the dataset and how it is seen; the same as long as every key has the same bytes.
    identity: String,
    decoders: Semaphore,
    on_error: OnError,
}

impl Server {
    /// Binds to an address; port 0 takes a free one.
    ///
    /// Whoever reaches the address reads the dataset. On a loopback address those are the programs of this machine and, since
    /// answers allow any origin, the pages open in its browsers.
    ///
    /// # Errors
    ///
    /// If the address cannot be bound, or the dataset's manifest cannot be read.
    pub fn bind(view: LiveView, address: SocketAddr, on_error: OnError) -> Result<Self> {
        let fault =
            |error: io::Error| ZarrError::metadata(&address.to_string(), format!("cannot listen: {error}"));
        let identity = identity(&view)?;
        let listener = TcpListener::bind(address).map_err(fault)?;
        listener.set_nonblocking(true).map_err(fault)?;
        let address = listener.local_addr().map_err(fault)?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let decoders = Semaphore::new(threads);
        let shared = Arc::new(Shared { view, identity, decoders, on_error });
        Ok(Self { listener, address, shared, stop: watch::Sender::new(false) })
    }

    /// The store's URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// A handle that ends [`run`](Self::run).
    #[must_use]
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle(self.stop.clone())
    }

    /// Answers requests until stopped.
    ///
    /// # Errors
    ///
    /// If threads cannot be made.
    pub fn run(self) -> Result<()> {
        let fault = |error: io::Error| ZarrError::metadata(&self.address.to_string(), error.to_string());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(fault)?;
        let mut stop = self.stop.subscribe();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(self.listener).map_err(fault)?;
            let app = axum::Router::new().fallback(answer).with_state(Arc::clone(&self.shared));
            let graceful = GracefulShutdown::new();
            let connections = Arc::new(Semaphore::new(CONNECTIONS));
            // An error means that all handles are gone, this server's own included.
            let stopped = async move { stop.wait_for(|stop| *stop).await.map(|_| ()).unwrap_or_default() };
            tokio::pin!(stopped);
            loop {
                let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { break };
                let stream = tokio::select! {
                    accepted = listener.accept() => accepted,
                    () = &mut stopped => break,
                };
                let Ok((stream, _)) = stream else {
                    // Out of file descriptors, or a client that is gone: others may fare better in a moment.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                };
                let service = TowerToHyperService::new(app.clone());
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEADERS)
                    .max_buf_size(HEADER_BYTES)
                    .serve_connection(TokioIo::new(stream), service);
                let connection = graceful.watch(connection);
                tokio::spawn(async move {
                    // What a client does to its own connection is its own affair.
                    let _ = connection.await;
                    drop(permit);
                });
            }
            // A client that reads its answer too slowly does not hold up the end.
            let _ = tokio::time::timeout(HEADERS, graceful.shutdown()).await;
            Ok(())
        })
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

/// A digest of what decides the bytes of every key.
fn identity(view: &LiveView) -> Result<String> {
    let manifest = view.hierarchy().dataset().storage().read(keys::MANIFEST)?;
    let mut digest = Sha256::new();
    digest.update(env!("CARGO_PKG_VERSION"));
    digest.update(format!("{:?}", view.hierarchy().options()));
    digest.update(&manifest);
    Ok(hex::encode(digest.finalize()))
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    // The body of a request is never read.
    let (request, _) = request.into_parts();
    let mut response = respond(&shared, &request).await;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(
        ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static("ETag, Content-Length, Content-Range, Accept-Ranges"),
    );
    response
}

async fn respond(shared: &Arc<Shared>, request: &Parts) -> Response {
    let head = match request.method {
        Method::GET => false,
        Method::HEAD => true,
        Method::OPTIONS => return preflight(),
        _ => {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "this store is read only");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD, OPTIONS"));
            return response;
        }
    };
    let Some(key) = key_of(request.uri.path()) else {
        return plain(StatusCode::BAD_REQUEST, "not a path of this store");
    };
    if !shared.view.hierarchy().contains(&key) {
        return plain(StatusCode::NOT_FOUND, "no such key");
    }
    let etag = shared.etag(&key);
    let headers = &request.headers;
    if lists(headers, &etag) {
        return finish(Response::builder().status(StatusCode::NOT_MODIFIED), &etag, &key, Body::empty());
    }
    if head {
        return match shared.blocking(&key, LiveView::size).await {
            Ok(size) => {
                let response = Response::builder().header(CONTENT_LENGTH, size.unwrap_or_default());
                finish(response, &etag, &key, Body::empty())
            }
            Err(failed) => failed,
        };
    }
    let value = match shared.blocking(&key, LiveView::value).await {
        Ok(value) => value.unwrap_or_default(),
        Err(failed) => return failed,
    };
    let fresh = headers.get(IF_RANGE).is_none_or(|wanted| wanted.as_bytes() == etag.as_bytes());
    let range = headers.get(RANGE).filter(|_| fresh);
    match range.map_or(Span::All, |range| span_of(range.as_bytes(), value.len())) {
        Span::All => finish(Response::builder(), &etag, &key, Body::from(value)),
        Span::Part(range) => {
            let content = format!("bytes {}-{}/{}", range.start, range.end.saturating_sub(1), value.len());
            let response =
                Response::builder().status(StatusCode::PARTIAL_CONTENT).header(CONTENT_RANGE, content);
            finish(response, &etag, &key, Body::from(value.slice(range)))
        }
        Span::Refused => {
            let mut response =
                plain(StatusCode::RANGE_NOT_SATISFIABLE, "one range of bytes inside the value, please");
            if let Ok(size) = HeaderValue::from_str(&format!("bytes */{}", value.len())) {
                response.headers_mut().insert(CONTENT_RANGE, size);
            }
            response
        }
    }
}

impl Shared {
    fn etag(&self, key: &str) -> String {
        let digest = hex::encode(Sha256::digest(format!("{}/{key}", self.identity)));
        format!("\"{}\"", digest.get(..32).unwrap_or_default())
    }

    /// Runs what decodes on a thread of its own; as many at once as there are cores.
    async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        key: &str,
        run: impl FnOnce(&LiveView, &str) -> Result<T> + Send + 'static,
    ) -> std::result::Result<T, Response> {
        let failed = || plain(StatusCode::INTERNAL_SERVER_ERROR, "the dataset cannot be read");
        let _permit = self.decoders.acquire().await.map_err(|_| failed())?;
        let (shared, owned) = (Arc::clone(self), key.to_owned());
        match tokio::task::spawn_blocking(move || run(&shared.view, &owned)).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => {
                (self.on_error)(key, &error);
                Err(failed())
            }
            Err(_) => Err(failed()),
        }
    }
}

/// Whether the client says that it has this very value.
fn lists(headers: &HeaderMap, etag: &str) -> bool {
    let values = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|value| value == "*" || value.strip_prefix("W/").unwrap_or(value) == etag)
}

fn finish(builder: axum::http::response::Builder, etag: &str, key: &str, body: Body) -> Response {
    let kind = if key.ends_with(".json") { "application/json" } else { "application/octet-stream" };
    builder
        .header(ETAG, etag)
        .header(ACCEPT_RANGES, "bytes")
        .header(CACHE_CONTROL, "no-cache")
        .header(CONTENT_TYPE, kind)
        .body(body)
        .unwrap_or_else(|_| plain(StatusCode::INTERNAL_SERVER_ERROR, "no answer could be made"))
}

fn preflight() -> Response {
    let mut response = plain(StatusCode::NO_CONTENT, "");
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD, OPTIONS"));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("Range, If-Range, If-None-Match"));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    response
}

fn plain(status: StatusCode, text: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
