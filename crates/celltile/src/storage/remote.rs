//! A prefix of a bucket, or a folder of a web server: S3, Google Cloud Storage, Azure Blob Storage, HTTP.
//!
//! Reads give exactly the bytes asked for, of one object, or an error that names it. Connections that break are
//! resumed, answers that are too short, too long or of another range are not used, and parts of an object are read
//! with the condition that it is still the object of which the first part was read. One loop (`pace.rs`) decides
//! about retries; `docs/decisions/remote-reads.md` has the rules.

mod connection;
mod fault;
mod get;
mod join;
mod location;
mod pace;
mod put;
mod runtime;
mod transport;
mod version;

use std::io;
use std::ops::Range;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::future::join_all;
use object_store::ObjectStoreExt;
use object_store::path::Path;
use tokio::time::timeout;

use self::connection::Connection;
use self::fault::Fault;
use self::location::Location;
use self::pace::Pace;
use self::transport::Counters;
use self::version::Version;
use super::{Entry, EntryKind, Object, ObjectWriter, Place, ReadRequest, RemoteOptions, Storage, check_key};
use crate::error::{Error, Result};

pub use self::transport::Traffic;

/// Objects up to this size are written by one request.
const ONE_PUT: usize = 64 << 20;

/// A prefix of a bucket, or a folder of a web server. Clones share connections and limits.
#[derive(Debug, Clone)]
pub struct RemoteStorage {
    inner: Arc<Inner>,
}

struct Inner {
    location: Location,
    options: RemoteOptions,
    counters: Arc<Counters>,
    connection: ArcSwap<Connection>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}, {:?}", self.location, self.options)
    }
}

impl RemoteStorage {
    /// Takes `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix` (or `az://container@account/prefix`),
    /// `http://` or `https://`. Credentials, endpoints and regions come from the environment and
    /// [`RemoteOptions::settings`]. Nothing is sent yet.
    ///
    /// # Errors
    /// If the URL is none of these, this build lacks its kind of bucket, or a setting is wrong.
    pub fn new(url: &str, options: RemoteOptions) -> Result<Self> {
        let location = Location::parse(url)?;
        let counters = Arc::default();
        let connection = ArcSwap::from_pointee(Connection::new(&location, &options, &counters)?);
        Ok(Self { inner: Arc::new(Inner { location, options, counters, connection }) })
    }

    /// What has been sent and received so far, by this process.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.inner.counters.traffic()
    }

    /// Runs a request for one object.
    fn run<T, F>(&self, key: &str, action: &'static str, wanted: u64, future: F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        runtime::run(future)
            .map_err(|e| Error::io(self.locate(key), action, e))?
            .map_err(|fault| self.inner.error(key, action, fault, wanted))
    }
}

impl Inner {
    /// The connections of this process.
    fn connection(&self) -> Result<Arc<Connection>> {
        let found = self.connection.load_full();
        if found.process == std::process::id() {
            return Ok(found);
        }
        let new = Arc::new(Connection::new(&self.location, &self.options, &self.counters)?);
        self.connection.store(Arc::clone(&new));
        // Its sockets and locks are the parent's.
        std::mem::forget(found);
        Ok(new)
    }

    fn path(&self, key: &str) -> Result<Path> {
        check_key(key)?;
        self.folder(key)
    }

    fn folder(&self, key: &str) -> Result<Path> {
        Path::parse(self.location.full_key(key))
            .map_err(|_| Error::Key { key: key.to_owned(), reason: "no bucket can hold it" })
    }

    /// `wanted` is the end of the range that was asked for.
    fn error(&self, key: &str, action: &'static str, fault: Fault, wanted: u64) -> Error {
        let path = self.location.show(key);
        match fault {
            Fault::NotFound => Error::NotFound { path },
            Fault::TooShort(found) => Error::Size { path, found, expected: wanted },
            Fault::Changed => Error::Changed { path },
            other => Error::Io { path, action, source: self.io_error(&other) },
        }
    }

    fn io_error(&self, fault: &Fault) -> io::Error {
        match fault {
            Fault::NotFound => io::Error::new(io::ErrorKind::NotFound, "no such bucket or object"),
            Fault::TooShort(_) | Fault::PastTheEnd => io::ErrorKind::UnexpectedEof.into(),
            Fault::Changed => io::Error::other("another object has taken its place"),
            Fault::NoConnection(reason) => {
                io::Error::new(io::ErrorKind::NotConnected, self.location.redact(reason))
            }
            Fault::Refused(kind, reason) | Fault::Passing(kind, reason) => {
                io::Error::new(*kind, self.location.redact(reason))
            }
        }
    }

    /// Reads a range, of the version of which the first range was read.
    async fn read_range(
        &self,
        connection: &Connection,
        key: &str,
        path: &Path,
        range: Range<u64>,
    ) -> Result<Bytes, Fault> {
        let pinned = connection.versions().get(key).cloned();
        let got = get::get(connection, &self.options, path, Some(range), pinned).await?;
        pin(connection, key, got.version)?;
        Ok(got.bytes)
    }
}

/// Remembers the version, or compares it with the one remembered.
fn pin(connection: &Connection, key: &str, version: Version) -> Result<(), Fault> {
    let mut versions = connection.versions();
    match versions.get(key) {
        Some(first) if *first != version => Err(Fault::Changed),
        Some(_) => Ok(()),
        None => {
            versions.insert(key.to_owned(), version);
            Ok(())
        }
    }
}

impl Storage for RemoteStorage {
    fn locate(&self, key: &str) -> String {
        self.inner.location.show(key)
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn open(&self, key: &str) -> Result<Box<dyn Object>> {
        check_key(key)?;
        Ok(Box::new(RemoteObject { storage: self.clone(), key: key.to_owned() }))
    }

    fn size(&self, key: &str) -> Result<u64> {
        Ok(self.head(key)?.size)
    }

    fn copy_in(&self, key: &str, from: &dyn Storage, from_key: &str) -> Result<bool> {
        let (Some((bucket, _)), Some((other, source))) = (self.bucket_of(key), from.bucket_of(from_key))
        else {
            return Ok(false);
        };
        if bucket != other {
            return Ok(false);
        }
        let (connection, path) = (self.inner.connection()?, self.inner.path(key)?);
        let source = Path::parse(source)
            .map_err(|_| Error::Key { key: from_key.to_owned(), reason: "no bucket can hold it" })?;
        self.run(key, "copy", 0, async move {
            use object_store::ObjectStoreExt as _;
            Ok(connection.store.copy(&source, &path).await)
        })
        // A server that does not copy is no error: whoever asks can move the bytes.
        .map(|copied| copied.is_ok())
    }

    fn bucket_of(&self, key: &str) -> Option<(String, String)> {
        let location = &self.inner.location;
        let settings = format!("{:?} {} {:?}", location.kind, location.bucket, self.inner.options.settings);
        Some((settings, location.full_key(key)))
    }

    fn place(&self) -> Option<Place> {
        Some(self.inner.location.place())
    }

    fn version(&self, key: &str) -> Result<Option<String>> {
        Ok(Some(self.head(key)?.text()))
    }

    fn read(&self, key: &str) -> Result<Bytes> {
        let (inner, connection) = (Arc::clone(&self.inner), self.inner.connection()?);
        let path = inner.path(key)?;
        self.run(key, "read", 0, async move {
            Ok(get::get(&connection, &inner.options, &path, None, None).await?.bytes)
        })
    }

    fn read_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        let mut found = self.read_many(&[ReadRequest { key, range }]);
        found.pop().unwrap_or_else(|| Ok(Bytes::new()))
    }

    fn read_many(&self, requests: &[ReadRequest<'_>]) -> Vec<Result<Bytes>> {
        let mut found: Vec<Result<Bytes>> =
            requests.iter().map(|request| check_key(request.key).map(|()| Bytes::new())).collect();
        let connection = match self.inner.connection() {
            Ok(connection) => connection,
            Err(error) => {
                let text = error.to_string();
                let fault = Fault::Refused(io::ErrorKind::Other, text);
                return requests
                    .iter()
                    .map(|r| Err(self.inner.error(r.key, "read", fault.clone(), 0)))
                    .collect();
            }
        };
        let joined = join::join(requests, self.inner.options.join_gap);
        let transfers: Vec<_> = joined
            .iter()
            .filter_map(|j| Some((j.key.to_owned(), self.inner.path(j.key).ok()?, j.range.clone(), j)))
            .collect();
        let futures: Vec<_> = transfers
            .iter()
            .map(|(key, path, range, _)| {
                let (inner, connection) = (Arc::clone(&self.inner), Arc::clone(&connection));
                let (key, path, range) = (key.clone(), path.clone(), range.clone());
                async move { inner.read_range(&connection, &key, &path, range).await }
            })
            .collect();
        let answers = match runtime::run(join_all(futures)) {
            Ok(answers) => answers,
            Err(error) => {
                let fault = Fault::from(error);
                transfers.iter().map(|_| Err(fault.clone())).collect()
            }
        };
        for ((key, _, range, joined), answer) in transfers.iter().zip(answers) {
            for &member in &joined.members {
                let (Some(slot), Some(request)) = (found.get_mut(member), requests.get(member)) else {
                    continue;
                };
                *slot = match &answer {
                    Ok(bytes) => part(bytes, range, &request.range).ok_or_else(|| {
                        self.inner.error(key, "read", Fault::TooShort(range.end), request.range.end)
                    }),
                    // A range that was joined with one past the end may itself be inside: it is asked for alone.
                    Err(Fault::TooShort(size)) if joined.members.len() > 1 && request.range.end <= *size => {
                        self.read_range(request.key, request.range.clone())
                    }
                    Err(fault) => Err(self.inner.error(key, "read", fault.clone(), request.range.end)),
                };
            }
        }
        found
    }

    fn list(&self, folder: &str) -> Result<Vec<Entry>> {
        let (inner, connection) = (Arc::clone(&self.inner), self.inner.connection()?);
        if !folder.is_empty() {
            check_key(folder)?;
        }
        let path = self.inner.folder(folder)?;
        let prefix = (!path.as_ref().is_empty()).then(|| path.clone());
        let listed = self.run(folder, "list", 0, async move {
            let _permit = get::permit(&connection).await?;
            let mut pace = Pace::new(&inner.options, 0);
            loop {
                // A long listing comes in pages, so only the whole of it has a limit.
                let request = connection.store.list_with_delimiter(prefix.as_ref());
                match timeout(inner.options.deadline, request).await {
                    Ok(Ok(listed)) => return Ok(listed),
                    Ok(Err(error)) => pace.pause(error.into()).await?,
                    Err(_) => pace.pause(Fault::stalled("the listing")).await?,
                }
            }
        })?;
        let key = |found: &Path| {
            let name = found.filename().unwrap_or_default();
            if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
        };
        let folders = listed.common_prefixes.iter().map(|p| Entry { key: key(p), kind: EntryKind::Folder });
        let objects = listed
            .objects
            .iter()
            // Some tools make an empty object for the folder itself.
            .filter(|o| o.location != path)
            .map(|o| Entry { key: key(&o.location), kind: EntryKind::Object(o.size) });
        let mut entries: Vec<_> = folders.chain(objects).collect();
        entries.sort();
        entries.dedup();
        Ok(entries)
    }

    fn write(&self, key: &str, bytes: &[u8]) -> Result<()> {
        let (inner, connection) = (Arc::clone(&self.inner), self.inner.connection()?);
        if bytes.len() > ONE_PUT && connection.parts.is_some() {
            let mut writer = self.create(key)?;
            io::Write::write_all(&mut writer, bytes).map_err(|e| Error::io(self.locate(key), "write", e))?;
            return writer.finish().map(|_| ());
        }
        let path = inner.path(key)?;
        let bytes = Bytes::copy_from_slice(bytes);
        let ours = Arc::clone(&connection);
        let result = self.run(key, "write", 0, async move { put::put(&inner, &ours, &path, bytes).await });
        connection.versions().remove(key);
        result
    }

    fn write_if(&self, key: &str, bytes: &[u8], expected: Option<&[u8]>) -> Result<bool> {
        let (inner, connection) = (Arc::clone(&self.inner), self.inner.connection()?);
        let path = inner.path(key)?;
        let (bytes, expected) = (Bytes::copy_from_slice(bytes), expected.map(Bytes::copy_from_slice));
        let ours = Arc::clone(&connection);
        let result = self
            .run(key, "write", 0, async move { put::put_if(&inner, &ours, &path, bytes, expected).await });
        connection.versions().remove(key);
        result
    }

    fn create(&self, key: &str) -> Result<Box<dyn ObjectWriter>> {
        check_key(key)?;
        Ok(Box::new(put::RemoteWriter::new(&self.inner, key)?))
    }

    fn remove(&self, key: &str) -> Result<()> {
        let (inner, connection) = (Arc::clone(&self.inner), self.inner.connection()?);
        let path = inner.path(key)?;
        let ours = Arc::clone(&connection);
        let result = self.run(key, "remove", 0, async move {
            let _permit = get::permit(&ours).await?;
            let mut pace = Pace::new(&inner.options, 0);
            loop {
                match timeout(pace.patience(), ours.store.delete(&path)).await {
                    Ok(Ok(())) => return Ok(()),
                    Ok(Err(error)) => match Fault::from(error) {
                        Fault::NotFound => return Ok(()),
                        fault => pace.pause(fault).await?,
                    },
                    Err(_) => pace.pause(Fault::stalled("the answer")).await?,
                }
            }
        });
        connection.versions().remove(key);
        result
    }
}

impl RemoteStorage {
    /// The object's version: the one remembered, if parts of it have been read.
    fn head(&self, key: &str) -> Result<Version> {
        let (inner, connection) = (Arc::clone(&self.inner), self.inner.connection()?);
        if let Some(version) = connection.versions().get(key) {
            return Ok(version.clone());
        }
        let path = inner.path(key)?;
        self.run(key, "read", 0, async move { get::head(&connection, &inner.options, &path).await })
    }
}

/// The bytes of a range within those of a wider one.
fn part(bytes: &Bytes, wide: &Range<u64>, range: &Range<u64>) -> Option<Bytes> {
    let start = usize::try_from(range.start.checked_sub(wide.start)?).ok()?;
    let end = usize::try_from(range.end.checked_sub(wide.start)?).ok()?;
    (start <= end && end <= bytes.len()).then(|| bytes.slice(start..end))
}

/// An object of a bucket. The storage sees to it that all reads are of one version.
#[derive(Debug)]
struct RemoteObject {
    storage: RemoteStorage,
    key: String,
}

impl Object for RemoteObject {
    fn size(&self) -> Result<u64> {
        self.storage.size(&self.key)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let length = u64::try_from(buffer.len()).unwrap_or(u64::MAX);
        let bytes = self.storage.read_range(&self.key, offset..offset.saturating_add(length))?;
        // The storage gives exactly the bytes asked for.
        if bytes.len() != buffer.len() {
            let found = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            return Err(Error::Size { path: self.storage.locate(&self.key), found, expected: length });
        }
        buffer.copy_from_slice(&bytes);
        Ok(())
    }
}
