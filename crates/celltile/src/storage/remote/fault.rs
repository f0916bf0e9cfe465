//! Why a request failed, and whether another try is worth it.

use std::error::Error as StdError;
use std::fmt::Write as _;
use std::io::{self, ErrorKind};

use http::StatusCode;
use object_store::client::{HttpError, HttpErrorKind};

/// The longest answer of a server that is repeated in a message.
const LONGEST_ANSWER: usize = 300;

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// There is no such object.
    NotFound,
    /// The object ends before the range does: its size.
    TooShort(u64),
    /// The range begins past the object's end.
    PastTheEnd,
    /// Another object has taken this one's place.
    Changed,
    /// The server, or a setting, will not have it.
    Refused(ErrorKind, String),
    /// No connection: worth a few tries, since names and ports may be wrong as well as busy.
    NoConnection(String),
    /// Worth another try.
    Passing(ErrorKind, String),
}

impl Fault {
    /// A fault of the transfer, worth another try.
    pub(super) fn passing(kind: ErrorKind, reason: impl Into<String>) -> Self {
        Self::Passing(kind, reason.into())
    }

    /// Whether another try is worth it.
    pub(super) fn is_passing(&self) -> bool {
        matches!(self, Self::Passing(..) | Self::NoConnection(_))
    }

    /// Nothing arrived for too long.
    pub(super) fn stalled(what: &str) -> Self {
        Self::passing(ErrorKind::TimedOut, format!("{what} took too long"))
    }
}

/// An answer that ends a request. The transport makes an error of it, so that it is found among the causes of what the
/// client of each kind of bucket makes of that.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{text}")]
pub(super) struct Refusal {
    status: StatusCode,
    text: String,
}

impl Refusal {
    /// Whether the transport makes an error of such an answer. Others have a meaning to the clients: not found, not
    /// changed, not allowed.
    pub(super) fn applies(status: StatusCode, has_location: bool) -> bool {
        match status.as_u16() {
            304 | 401 | 403 | 404 | 405 | 409 | 412 => false,
            300..=399 => !has_location,
            _ => status.is_client_error() || status.is_server_error(),
        }
    }

    pub(super) fn new(status: StatusCode, body: &str) -> Self {
        Self { status, text: answer(&status.to_string(), body) }
    }

    fn fault(&self) -> Fault {
        let text = self.text.clone();
        match self.status {
            StatusCode::RANGE_NOT_SATISFIABLE => Fault::PastTheEnd,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => {
                Fault::Passing(ErrorKind::Other, text)
            }
            StatusCode::NOT_IMPLEMENTED => Fault::Refused(ErrorKind::Unsupported, text),
            status if status.is_server_error() => Fault::Passing(ErrorKind::Other, text),
            status if status.is_redirection() => Fault::Refused(
                ErrorKind::InvalidInput,
                format!("{text} (the bucket may be in another region: set AWS_REGION)"),
            ),
            _ => Fault::Refused(ErrorKind::Other, text),
        }
    }
}

/// No thread, or a request that ended without an answer.
impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Refused(error.kind(), error.to_string())
    }
}

impl From<object_store::Error> for Fault {
    fn from(error: object_store::Error) -> Self {
        use object_store::Error as E;
        match &error {
            E::NotFound { .. } => return Self::NotFound,
            E::Precondition { .. } | E::NotModified { .. } => return Self::Changed,
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => {
                let reason = answer("that this is not allowed", &chain(&error));
                let hint = "check the credentials in the environment; for a public bucket set \
                            AWS_SKIP_SIGNATURE, GOOGLE_SKIP_SIGNATURE or AZURE_SKIP_SIGNATURE to true";
                return Self::Refused(ErrorKind::PermissionDenied, format!("{reason}; {hint}"));
            }
            E::NotImplemented { .. } | E::NotSupported { .. } => {
                return Self::Refused(ErrorKind::Unsupported, chain(&error));
            }
            E::InvalidPath { .. } | E::UnknownConfigurationKey { .. } => {
                return Self::Refused(ErrorKind::InvalidInput, chain(&error));
            }
            _ => {}
        }
        if let Some(refusal) = cause::<Refusal>(&error) {
            return refusal.fault();
        }
        let Some(http) = cause::<HttpError>(&error) else {
            return Self::passing(ErrorKind::InvalidData, chain(&error));
        };
        let reason = chain(http);
        match http.kind() {
            HttpErrorKind::Connect | HttpErrorKind::Unknown => Self::NoConnection(reason),
            HttpErrorKind::Timeout => Self::passing(ErrorKind::TimedOut, reason),
            _ => Self::passing(ErrorKind::ConnectionReset, reason),
        }
    }
}

/// The first of an error's causes that is of a type.
fn cause<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// A server's answer on one line: the code and message of its XML, if that is what it sent.
fn answer(status: &str, body: &str) -> String {
    let mut text = format!("the server answered {status}");
    let element = |name: &str| {
        let (_, rest) = body.split_once(&format!("<{name}>"))?;
        Some(rest.split_once("</")?.0.trim())
    };
    let found = match (element("Code"), element("Message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code.to_owned(),
        _ => body.split_whitespace().collect::<Vec<_>>().join(" "),
    };
    if !found.is_empty() {
        let shown: String = found.chars().take(LONGEST_ANSWER).collect();
        // Writing to a string cannot fail.
        let _ = write!(text, " ({shown})");
    }
    text
}

/// An error and its causes on one line, without those that only repeat the one before.
fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let found = cause.to_string();
        if !text.contains(&found) {
            let _ = write!(text, ": {found}");
        }
        next = cause.source();
    }
    text.chars().take(2 * LONGEST_ANSWER).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_answer_shows_the_code_and_message_of_xml() {
        let body = "<?xml version=\"1.0\"?>\n<Error><Code>SlowDown</Code><Message>Reduce your rate.</Message></Error>";
        let text = answer("503 Service Unavailable", body);
        assert_eq!(text, "the server answered 503 Service Unavailable (SlowDown: Reduce your rate.)");
        assert!(answer("502", &"x".repeat(10_000)).len() < 400);
    }
}
