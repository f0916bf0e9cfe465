//! The HTTP client under every kind of bucket: counts what it moves, and makes do with servers that answer a ranged
//! request with the whole object.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, HeaderValue, LOCATION, RANGE};
use http::{Method, StatusCode};
use http_body::{Body, Frame};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService, ReqwestConnector,
};

use super::fault::Refusal;

/// What a storage has moved so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// HTTP requests sent, retries and requests for credentials included.
    pub requests: u64,
    /// Bytes of answers received, without headers.
    pub bytes: u64,
}

/// The counters behind [`Traffic`].
#[derive(Debug, Default)]
pub(super) struct Counters {
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl Counters {
    pub(super) fn traffic(&self) -> Traffic {
        Traffic { requests: self.requests.load(Ordering::Relaxed), bytes: self.bytes.load(Ordering::Relaxed) }
    }
}

/// Makes clients whose traffic is counted.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    pub(super) counters: Arc<Counters>,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        // Fails only if the process has chosen a provider already, and then that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let inner = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Transport { inner, counters: Arc::clone(&self.counters) }))
    }
}

#[derive(Debug)]
struct Transport {
    inner: HttpClient,
    counters: Arc<Counters>,
}

impl HttpService for Transport {
    // The trait's method is async through a boxed future.
    fn call<'a: 'b, 'b>(&'a self, request: HttpRequest) -> BoxFuture<'b, Result<HttpResponse, HttpError>>
    where
        Self: 'b,
    {
        Box::pin(async move {
            self.counters.requests.fetch_add(1, Ordering::Relaxed);
            let range = (request.method() == Method::GET)
                .then(|| request.headers().get(RANGE).and_then(parse_range))
                .flatten();
            let response = self.inner.execute(request).await?;
            let (mut head, body) = response.into_parts();
            let mut skip = 0;
            let mut take = u64::MAX;
            if let Some((start, end)) = range
                && head.status == StatusCode::OK
                && let Some(size) = content_length(&head.headers)
            {
                if start >= size {
                    let refusal = Refusal::new(StatusCode::RANGE_NOT_SATISFIABLE, "");
                    return Err(HttpError::new(HttpErrorKind::Decode, refusal));
                }
                // The whole object instead of the range: cut the range out of it.
                let end = end.min(size);
                skip = start;
                take = end.saturating_sub(start);
                let text = format!("bytes {start}-{}/{size}", end.saturating_sub(1));
                if let Ok(value) = HeaderValue::from_str(&text) {
                    head.status = StatusCode::PARTIAL_CONTENT;
                    head.headers.insert(CONTENT_RANGE, value);
                    head.headers.insert(CONTENT_LENGTH, HeaderValue::from(take));
                }
            }
            if Refusal::applies(head.status, head.headers.contains_key(LOCATION)) {
                // Nobody looks at an answer of which even this cannot be read.
                let text = body.bytes().await.unwrap_or_default();
                self.counters.bytes.fetch_add(length(&text), Ordering::Relaxed);
                let refusal = Refusal::new(head.status, &String::from_utf8_lossy(&text));
                return Err(HttpError::new(HttpErrorKind::Decode, refusal));
            }
            let body = Counted { inner: body, counters: Arc::clone(&self.counters), skip, take };
            Ok(HttpResponse::from_parts(head, HttpResponseBody::new(body)))
        })
    }
}

/// The first and one past the last byte of a range `bytes=a-b`.
fn parse_range(value: &HeaderValue) -> Option<(u64, u64)> {
    let (first, last) = value.to_str().ok()?.strip_prefix("bytes=")?.split_once('-')?;
    Some((first.parse().ok()?, last.parse::<u64>().ok()?.checked_add(1)?))
}

fn content_length(headers: &http::HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A body whose bytes are counted, and of which only a part is handed on.
struct Counted {
    inner: HttpResponseBody,
    counters: Arc<Counters>,
    skip: u64,
    take: u64,
}

impl Body for Counted {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        loop {
            if self.take == 0 {
                return Poll::Ready(None);
            }
            let frame = match std::task::ready!(Pin::new(&mut self.inner).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                other => return Poll::Ready(other),
            };
            let mut data = match frame.into_data() {
                Ok(data) => data,
                Err(other) => return Poll::Ready(Some(Ok(other))),
            };
            self.counters.bytes.fetch_add(length(&data), Ordering::Relaxed);
            let skipped = self.skip.min(length(&data));
            self.skip = self.skip.saturating_sub(skipped);
            // Never more than the data's own length, so both conversions are exact.
            let _ = data.split_to(usize::try_from(skipped).unwrap_or(usize::MAX));
            data.truncate(usize::try_from(self.take).unwrap_or(usize::MAX));
            if data.is_empty() {
                continue;
            }
            self.take = self.take.saturating_sub(length(&data));
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
    }

    fn is_end_stream(&self) -> bool {
        self.take == 0 || self.inner.is_end_stream()
    }
}

fn length(bytes: &Bytes) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
