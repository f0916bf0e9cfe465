//! Fetches an object or a range of it: exactly those bytes, of one object, or an error.

use std::io::ErrorKind;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{GetOptions, GetRange};
use tokio::time::timeout;

use super::super::RemoteOptions;
use super::connection::Connection;
use super::fault::Fault;
use super::pace::Pace;
use super::version::Version;

/// Memory taken before any byte has arrived; a header alone is not believed further.
const FIRST_BUFFER: u64 = 8 << 20;

/// The end of the largest object: servers do not take larger numbers than these.
const LARGEST: u64 = i64::MAX.unsigned_abs();

/// What was fetched.
#[derive(Debug)]
pub(super) struct Got {
    /// Exactly the bytes asked for.
    pub(super) bytes: Bytes,
    /// The object they are from.
    pub(super) version: Version,
}

/// A transfer that may take several tries. What has arrived is kept, and the rest fetched, as long as the server
/// lets us demand the same object.
struct Transfer<'a> {
    connection: &'a Connection,
    path: &'a Path,
    /// The bytes wanted; of a whole object, known from its first answer.
    range: Option<Range<u64>>,
    /// The only version that will do.
    pinned: Option<Version>,
    /// The version that the bytes so far are of.
    version: Option<Version>,
    body: BytesMut,
}

/// Fetches an object (`range` of `None`) or a range that is not empty. With `pinned` it must be that version.
///
/// # Errors
/// The last try's fault.
pub(super) async fn get(
    connection: &Connection,
    options: &RemoteOptions,
    path: &Path,
    range: Option<Range<u64>>,
    pinned: Option<Version>,
) -> Result<Got, Fault> {
    let bytes = range.as_ref().map_or(0, |r| r.end.saturating_sub(r.start));
    let _permit = permit(connection).await?;
    let mut pace = Pace::new(options, bytes);
    if range.as_ref().is_some_and(|r| r.end > LARGEST) {
        return Err(Fault::TooShort(head_within(connection, path, &mut pace).await?.size));
    }
    let mut transfer = Transfer { connection, path, range, pinned, version: None, body: BytesMut::new() };
    loop {
        let before = transfer.body.len();
        match transfer.attempt(options, &mut pace).await {
            Ok(got) => return Ok(got),
            Err(Fault::PastTheEnd) => {
                let version = head_within(connection, path, &mut pace).await?;
                return Err(Fault::TooShort(version.size));
            }
            Err(mut fault) => {
                if fault == Fault::Changed && transfer.pinned.is_none() && transfer.version.is_some() {
                    transfer.start_again();
                    fault = replaced();
                }
                transfer.prepare();
                if transfer.body.len() > before {
                    pace.progress();
                }
                pace.pause(fault).await?;
            }
        }
    }
}

impl Transfer<'_> {
    async fn attempt(&mut self, options: &RemoteOptions, pace: &mut Pace) -> Result<Got, Fault> {
        let have = length(self.body.len());
        let known = self.version.as_ref().or(self.pinned.as_ref());
        let condition = known.and_then(Version::condition);
        let wanted = match (&self.range, &self.version) {
            (Some(range), _) => Some(range.start.saturating_add(have)..range.end),
            (None, Some(version)) if have > 0 => Some(have..version.size),
            _ => None,
        };
        let request = GetOptions {
            if_match: condition,
            range: wanted.clone().map(GetRange::Bounded),
            ..GetOptions::default()
        };
        let answer = timeout(pace.patience(), self.connection.store.get_opts(self.path, request))
            .await
            .map_err(|_| Fault::stalled("the answer"))??;
        let version = Version::of(&answer.meta);
        if let Some(pinned) = &self.pinned
            && *pinned != version
        {
            return Err(Fault::Changed);
        }
        if self.version.as_ref().is_some_and(|v| *v != version) {
            self.start_again();
            return Err(replaced());
        }
        let wanted = match (wanted, &self.range) {
            (Some(wanted), _) => wanted,
            (None, _) => 0..version.size,
        };
        if answer.meta.size < wanted.end {
            return Err(Fault::TooShort(answer.meta.size));
        }
        if answer.range != wanted {
            let reason = format!("bytes {:?} were sent instead of {wanted:?}", answer.range);
            return Err(Fault::passing(ErrorKind::InvalidData, reason));
        }
        self.version = Some(version.clone());
        let total = have.saturating_add(wanted.end.saturating_sub(wanted.start));
        pace.extend(options, total);
        self.receive(answer.into_stream(), total, pace).await?;
        Ok(Got { bytes: std::mem::take(&mut self.body).freeze(), version })
    }

    async fn receive(
        &mut self,
        mut stream: futures_util::stream::BoxStream<'static, object_store::Result<Bytes>>,
        total: u64,
        pace: &mut Pace,
    ) -> Result<(), Fault> {
        if self.body.is_empty() {
            self.body.reserve(usize::try_from(total.min(FIRST_BUFFER)).unwrap_or(0));
        }
        loop {
            let next = timeout(pace.patience(), stream.next())
                .await
                .map_err(|_| Fault::stalled("the next bytes"))?;
            let Some(bytes) = next else { break };
            self.body.extend_from_slice(&bytes?);
            if length(self.body.len()) > total {
                self.start_again();
                return Err(Fault::passing(ErrorKind::InvalidData, "more bytes were sent than asked for"));
            }
        }
        let found = length(self.body.len());
        if found < total {
            let reason = format!("the connection ended after {found} of {total} bytes");
            return Err(Fault::passing(ErrorKind::UnexpectedEof, reason));
        }
        Ok(())
    }

    /// Without a condition that the server checks, bytes of two tries might be of two objects.
    fn prepare(&mut self) {
        if self.version.as_ref().and_then(Version::condition).is_none() {
            self.start_again();
        }
    }

    fn start_again(&mut self) {
        self.body.clear();
        self.version = None;
    }
}

/// While nobody has seen a byte of the old object, the new one will do.
fn replaced() -> Fault {
    Fault::passing(ErrorKind::Other, "the object was replaced while it was being read")
}

/// The object's version, by a HEAD request.
///
/// # Errors
/// The last try's fault.
pub(super) async fn head(
    connection: &Connection,
    options: &RemoteOptions,
    path: &Path,
) -> Result<Version, Fault> {
    let _permit = permit(connection).await?;
    head_within(connection, path, &mut Pace::new(options, 0)).await
}

async fn head_within(connection: &Connection, path: &Path, pace: &mut Pace) -> Result<Version, Fault> {
    loop {
        let request = GetOptions { head: true, ..GetOptions::default() };
        let answer = timeout(pace.patience(), connection.store.get_opts(path, request)).await;
        match answer {
            Ok(Ok(answer)) => return Ok(Version::of(&answer.meta)),
            Ok(Err(error)) => pace.pause(error.into()).await?,
            Err(_) => pace.pause(Fault::stalled("the answer")).await?,
        }
    }
}

/// Waits until fewer requests are under way than are allowed at once.
pub(super) async fn permit(connection: &Connection) -> Result<tokio::sync::SemaphorePermit<'_>, Fault> {
    let closed = |_| Fault::Refused(ErrorKind::Other, "the storage is closed".to_owned());
    connection.permits.acquire().await.map_err(closed)
}

fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
