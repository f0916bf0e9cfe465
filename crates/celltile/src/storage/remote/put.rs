//! Writes objects: in one request, or in parts.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use object_store::multipart::PartId;
use object_store::path::Path;
use object_store::{ObjectStoreExt as _, PutMode, PutOptions, PutPayload, UpdateVersion};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::timeout;

use super::super::ObjectWriter;
use super::connection::{Connection, Parts};
use super::fault::Fault;
use super::get::{get, head, permit};
use super::pace::Pace;
use super::{Inner, runtime};
use crate::error::Result;

/// Parts of one object under way at once: so much memory, times a part's size.
const PARTS_AT_ONCE: usize = 4;

/// How long dropping an unfinished upload waits for the parts under way, and for its end.
const ABORT_PATIENCE: Duration = Duration::from_secs(10);

/// Writes an object in one request.
pub(super) async fn put(
    inner: &Inner,
    connection: &Connection,
    path: &Path,
    bytes: Bytes,
) -> Result<(), Fault> {
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let payload = PutPayload::from_bytes(bytes);
    let _permit = permit(connection).await?;
    let mut pace = Pace::new(&inner.options, size);
    loop {
        let request = connection.store.put_opts(path, payload.clone(), PutOptions::default());
        match timeout(pace.upload_patience(size), request).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => pace.pause(error.into()).await?,
            Err(_) => pace.pause(Fault::stalled("the upload")).await?,
        }
    }
}

/// Writes an object in one request, if what is there is `expected`; whether it was.
pub(super) async fn put_if(
    inner: &Inner,
    connection: &Connection,
    path: &Path,
    bytes: Bytes,
    expected: Option<Bytes>,
) -> Result<bool, Fault> {
    use object_store::Error as E;
    let there = || async {
        match get(connection, &inner.options, path, None, None).await {
            Ok(got) => Ok(Some(got.bytes)),
            Err(Fault::NotFound) => Ok(None),
            Err(fault) => Err(fault),
        }
    };
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let mut pace = Pace::new(&inner.options, size);
    let mut conditions = true;
    loop {
        // Asked for before the object is read: what is put takes the place of what was read, or of nothing.
        let mode = match &expected {
            _ if !conditions => PutMode::Overwrite,
            None => PutMode::Create,
            Some(_) => match timeout(pace.patience(), connection.store.head(path)).await {
                Ok(Ok(meta)) => PutMode::Update(UpdateVersion { e_tag: meta.e_tag, version: meta.version }),
                Ok(Err(E::NotFound { .. })) => return Ok(false),
                Ok(Err(error)) => {
                    pace.pause(error.into()).await?;
                    continue;
                }
                Err(_) => {
                    pace.pause(Fault::stalled("the answer")).await?;
                    continue;
                }
            },
        };
        match there().await? {
            // By an earlier try whose answer was lost, or by somebody who wrote the same.
            Some(found) if found == bytes => return Ok(true),
            found if found != expected => return Ok(false),
            _ => {}
        }
        let options = PutOptions { mode, ..PutOptions::default() };
        let request = connection.store.put_opts(path, bytes.clone().into(), options);
        let fault = match timeout(pace.upload_patience(size), request).await {
            Ok(Ok(_)) => return Ok(true),
            // Looked at again: of two who come at once a server may refuse both.
            Ok(Err(E::AlreadyExists { .. } | E::Precondition { .. } | E::NotModified { .. })) => {
                Fault::passing(ErrorKind::Other, "others write this object at the same time")
            }
            Ok(Err(error)) => Fault::from(error),
            Err(_) => Fault::stalled("the upload"),
        };
        match fault {
            // Some servers cannot put on a condition: then it has just been looked at.
            Fault::Refused(ErrorKind::Unsupported, _) if conditions => conditions = false,
            fault => pace.pause(fault).await?,
        }
    }
}

/// An object being written. It is kept in memory until it is larger than a part.
pub(super) struct RemoteWriter {
    inner: Arc<Inner>,
    connection: Arc<Connection>,
    key: String,
    path: Path,
    buffer: Vec<u8>,
    written: u64,
    upload: Option<Upload>,
}

/// An upload in parts that has begun.
struct Upload {
    parts: Arc<Parts>,
    id: String,
    begun: usize,
    under_way: VecDeque<JoinHandle<Result<PartId, Fault>>>,
    done: Vec<PartId>,
}

impl RemoteWriter {
    pub(super) fn new(inner: &Arc<Inner>, key: &str) -> Result<Self> {
        Ok(Self {
            connection: inner.connection()?,
            path: inner.path(key)?,
            inner: Arc::clone(inner),
            key: key.to_owned(),
            buffer: Vec::new(),
            written: 0,
            upload: None,
        })
    }

    fn part_bytes(&self) -> usize {
        self.inner.options.part_bytes.max(1)
    }

    /// Sends what is in the buffer as the next part.
    fn send_part(&mut self, parts: &Arc<Parts>) -> Result<(), Fault> {
        let upload = match &mut self.upload {
            Some(upload) => upload,
            None => {
                let id = begin(&self.inner, &self.connection, parts, &self.path)?;
                self.upload.insert(Upload {
                    parts: Arc::clone(parts),
                    id,
                    begun: 0,
                    under_way: VecDeque::new(),
                    done: Vec::new(),
                })
            }
        };
        while upload.under_way.len() >= PARTS_AT_ONCE {
            upload.wait_for_one()?;
        }
        let bytes = Bytes::from(std::mem::take(&mut self.buffer));
        let task = send(
            Arc::clone(&self.inner),
            Arc::clone(&self.connection),
            Arc::clone(&upload.parts),
            self.path.clone(),
            upload.id.clone(),
            upload.begun,
            bytes,
        );
        upload.begun = upload.begun.saturating_add(1);
        upload.under_way.push_back(runtime::spawn(task).map_err(Fault::from)?);
        Ok(())
    }

    fn complete(&mut self) -> Result<(), Fault> {
        let connection = Arc::clone(&self.connection);
        let inner = Arc::clone(&self.inner);
        let path = self.path.clone();
        let Some(parts) = self.upload.as_ref().map(|u| Arc::clone(&u.parts)) else {
            let bytes = Bytes::from(std::mem::take(&mut self.buffer));
            return runtime::run(async move { put(&inner, &connection, &path, bytes).await })
                .map_err(Fault::from)?;
        };
        if !self.buffer.is_empty() {
            self.send_part(&parts)?;
        }
        let Some(upload) = &mut self.upload else { return Ok(()) };
        while !upload.under_way.is_empty() {
            upload.wait_for_one()?;
        }
        let (id, done, size) = (upload.id.clone(), upload.done.clone(), self.written);
        runtime::run(async move { end(&inner, &connection, &parts, &path, id, done, size).await })
            .map_err(Fault::from)??;
        self.upload = None;
        Ok(())
    }
}

impl Upload {
    fn wait_for_one(&mut self) -> Result<(), Fault> {
        let Some(task) = self.under_way.pop_front() else { return Ok(()) };
        let ended = runtime::run(task).map_err(Fault::from)?;
        let part = ended.map_err(|e| Fault::Refused(ErrorKind::Other, e.to_string()))??;
        self.done.push(part);
        Ok(())
    }
}

impl Write for RemoteWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let parts = self.connection.parts.clone();
        let room = if parts.is_some() {
            self.part_bytes().saturating_sub(self.buffer.len())
        } else {
            // A server without uploads in parts gets the object as a whole.
            bytes.len()
        };
        let taken = bytes.get(..room).unwrap_or(bytes);
        self.buffer.extend_from_slice(taken);
        self.written = self.written.saturating_add(u64::try_from(taken.len()).unwrap_or(u64::MAX));
        if let Some(parts) = parts
            && self.buffer.len() >= self.part_bytes()
        {
            self.send_part(&parts).map_err(|fault| self.inner.io_error(&fault))?;
        }
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ObjectWriter for RemoteWriter {
    fn finish(mut self: Box<Self>) -> Result<u64> {
        let result = self.complete();
        self.connection.versions().remove(&self.key);
        result.map_err(|fault| self.inner.error(&self.key, "write", fault, self.written))?;
        Ok(self.written)
    }
}

impl Drop for RemoteWriter {
    fn drop(&mut self) {
        let Some(upload) = self.upload.take() else { return };
        let path = self.path.clone();
        // A failure here leaves parts that nobody sees; buckets have rules that remove them.
        let _ = runtime::run(async move {
            // A part that arrives after the end of its upload would stay.
            let aborts: Vec<_> = upload.under_way.iter().map(JoinHandle::abort_handle).collect();
            if timeout(ABORT_PATIENCE, join_all(upload.under_way)).await.is_err() {
                aborts.iter().for_each(AbortHandle::abort);
            }
            let _ = timeout(ABORT_PATIENCE, upload.parts.0.abort_multipart(&path, &upload.id)).await;
        });
    }
}

fn begin(
    inner: &Arc<Inner>,
    connection: &Arc<Connection>,
    parts: &Arc<Parts>,
    path: &Path,
) -> Result<String, Fault> {
    let (inner, connection) = (Arc::clone(inner), Arc::clone(connection));
    let (parts, path) = (Arc::clone(parts), path.clone());
    let begun = runtime::run(async move {
        let _permit = permit(&connection).await?;
        let mut pace = Pace::new(&inner.options, 0);
        loop {
            match timeout(pace.patience(), parts.0.create_multipart(&path)).await {
                Ok(Ok(id)) => return Ok(id),
                Ok(Err(error)) => pace.pause(error.into()).await?,
                Err(_) => pace.pause(Fault::stalled("the answer")).await?,
            }
        }
    });
    begun.map_err(Fault::from)?
}

async fn send(
    inner: Arc<Inner>,
    connection: Arc<Connection>,
    parts: Arc<Parts>,
    path: Path,
    id: String,
    index: usize,
    bytes: Bytes,
) -> Result<PartId, Fault> {
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let payload = PutPayload::from_bytes(bytes);
    let _permit = permit(&connection).await?;
    let mut pace = Pace::new(&inner.options, size);
    loop {
        let request = parts.0.put_part(&path, &id, index, payload.clone());
        match timeout(pace.upload_patience(size), request).await {
            Ok(Ok(part)) => return Ok(part),
            Ok(Err(error)) => pace.pause(error.into()).await?,
            Err(_) => pace.pause(Fault::stalled("the upload of a part")).await?,
        }
    }
}

async fn end(
    inner: &Inner,
    connection: &Connection,
    parts: &Parts,
    path: &Path,
    id: String,
    done: Vec<PartId>,
    size: u64,
) -> Result<(), Fault> {
    // Servers put large objects together before they answer.
    let mut pace = Pace::new(&inner.options, size);
    let before = head(connection, &inner.options, path).await.ok();
    let mut unsure = false;
    loop {
        let request = parts.0.complete_multipart(path, &id, done.clone());
        let fault = match timeout(pace.upload_patience(size), request).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => Fault::from(error),
            Err(_) => Fault::stalled("the end of the upload"),
        };
        // An earlier try may have succeeded although its answer was lost: then the upload is gone, and the object there.
        if unsure && !fault.is_passing() {
            let after = head(connection, &inner.options, path).await.ok();
            if after != before && after.is_some_and(|version| version.size == size) {
                return Ok(());
            }
        }
        unsure = true;
        pace.pause(fault).await?;
    }
}
