//! A real S3 server: writing, listing and reading, also where the network between fails.

#![cfg(feature = "s3")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a test fails by panicking; its numbers are small"
)]

#[path = "support/http_server.rs"]
mod http_server;
#[path = "support/s3_server.rs"]
mod s3_server;

use std::collections::HashSet;
use std::io::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use celltile::storage::{EntryKind, RemoteStorage, Storage};

use http_server::{HttpServer, Request, Spoil};
use s3_server::{S3Server, quick, settings, storage_at};

/// The smallest part that S3 takes.
const PART: usize = 5 << 20;

fn object(size: usize) -> Vec<u8> {
    (0..size as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

fn write_in_parts(storage: &RemoteStorage, key: &str, bytes: &[u8]) -> celltile::Result<u64> {
    let mut writer = storage.create(key)?;
    // Pieces that no part's size is a multiple of.
    for piece in bytes.chunks(1_000_003) {
        writer.write_all(piece).map_err(|e| celltile::Error::Io {
            path: storage.locate(key),
            action: "write",
            source: e,
        })?;
    }
    writer.finish()
}

/// Spoils each request when it comes for the first time.
fn first_time(fault: Spoil) -> impl Fn(&Request, usize) -> Spoil + Send + Sync {
    let seen = Mutex::new(HashSet::new());
    move |request, _| {
        let new = seen.lock().unwrap().insert(format!("{} {}", request.method, request.target));
        if new { fault } else { Spoil::Nothing }
    }
}

#[test]
fn test_objects_in_parts_come_back() {
    let Some(server) = S3Server::start() else { return };
    let mut options = quick();
    options.part_bytes = PART;
    let storage = storage_at(server.address(), "a/b", options);
    for size in [0, 1, PART - 1, PART, PART + 1, 3 * PART + 17] {
        let bytes = object(size);
        assert_eq!(write_in_parts(&storage, "obs/x", &bytes).unwrap(), size as u64);
        assert!(storage.read("obs/x").unwrap() == bytes, "{size}");
        assert_eq!(storage.size("obs/x").unwrap(), size as u64);
    }
    let entries = storage.list("obs").unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].kind, EntryKind::Object(3 * PART as u64 + 17));
}

#[test]
fn test_dropped_upload_leaves_nothing() {
    let Some(server) = S3Server::start() else { return };
    let mut options = quick();
    options.part_bytes = PART;
    let storage = storage_at(server.address(), "p", options);
    let mut writer = storage.create("tiles/a").unwrap();
    writer.write_all(&object(2 * PART)).unwrap();
    drop(writer);
    assert!(storage.read("tiles/a").unwrap_err().is_not_found());
    assert!(storage.list("tiles").unwrap().is_empty());
    let mut left = Vec::new();
    let mut folders = vec![server.folder().parent().unwrap().to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { left.push(path) }
        }
    }
    assert!(left.iter().all(|p| std::fs::metadata(p).unwrap().len() < 1 << 20), "{left:?}");
}

#[test]
fn test_writing_overcomes_faults() {
    let Some(server) = S3Server::start() else { return };
    let proxy = HttpServer::proxy(server.address());
    let mut options = quick();
    options.part_bytes = PART;
    options.stall_timeout = Duration::from_secs(2);
    options.deadline = Duration::from_secs(30);
    let storage = storage_at(proxy.address(), "p", options);
    let bytes = object(PART + 5);
    for fault in [Spoil::Status(503), Spoil::Close, Spoil::Lost, Spoil::Hang] {
        // Every request fails the first time: the beginning, each part and the end.
        proxy.plan(first_time(fault));
        let begun = Instant::now();
        match write_in_parts(&storage, "a", &bytes) {
            Ok(size) => {
                assert_eq!(size, bytes.len() as u64);
                proxy.plan(|_, _| Spoil::Nothing);
                assert!(storage.read("a").unwrap() == bytes, "{fault:?}");
            }
            Err(error) => panic!("{fault:?}: {error}"),
        }
        proxy.plan(first_time(fault));
        storage.write("b", &bytes[..1_000]).unwrap();
        storage.remove("a").unwrap();
        proxy.plan(|_, _| Spoil::Nothing);
        assert_eq!(storage.read("b").unwrap(), bytes[..1_000]);
        assert!(storage.read("a").unwrap_err().is_not_found());
        assert!(begun.elapsed() < Duration::from_secs(60), "{fault:?}");
    }
}

#[test]
fn test_conditional_writes_demand_what_was_seen_and_overcome_faults() {
    let Some(server) = S3Server::start() else { return };
    let proxy = HttpServer::proxy(server.address());
    let mut options = quick();
    options.deadline = Duration::from_secs(30);
    let storage = storage_at(proxy.address(), "p", options);
    for fault in [Spoil::Status(503), Spoil::Close, Spoil::Lost, Spoil::Status(409)] {
        server.storage("p").write("a", b"one").unwrap();
        server.storage("p").remove("b").unwrap();
        proxy.plan(first_time(fault));
        assert!(storage.write_if("a", b"two", Some(b"one")).unwrap(), "{fault:?}");
        assert!(storage.write_if("b", b"new", None).unwrap(), "{fault:?}");
        let puts: Vec<_> = proxy.log().into_iter().filter(|r| r.method == "PUT").collect();
        let demands = |name: &str| puts.iter().any(|r| r.header(name).is_some());
        assert!(demands("if-match") && demands("if-none-match"), "{fault:?}");
    }
    // Another writer comes between the look and the write.
    let other = server.storage("p");
    other.write("a", b"one").unwrap();
    proxy.plan(move |request, _| {
        if request.method == "PUT" {
            other.write("a", b"theirs").unwrap();
        }
        Spoil::Nothing
    });
    assert!(!storage.write_if("a", b"two", Some(b"one")).unwrap());
    assert_eq!(server.storage("p").read("a").unwrap(), b"theirs"[..]);
    // A server that knows no conditions: the object was looked at just before.
    proxy.plan(|request, _| {
        let condition = request.header("if-match").or(request.header("if-none-match"));
        if condition.is_some() && request.method == "PUT" { Spoil::Status(501) } else { Spoil::Nothing }
    });
    assert!(storage.write_if("a", b"three", Some(b"theirs")).unwrap());
    assert!(!storage.write_if("a", b"four", Some(b"theirs")).unwrap());
}

#[test]
fn test_lasting_fault_while_writing_is_an_error_that_names_the_object() {
    let Some(server) = S3Server::start() else { return };
    let proxy = HttpServer::proxy(server.address());
    let mut options = quick();
    options.part_bytes = PART;
    let storage = storage_at(proxy.address(), "p", options);
    let bytes = object(2 * PART);
    for fault in [Spoil::Status(503), Spoil::Close, Spoil::Status(403)] {
        proxy.plan(move |r, _| if r.method == "GET" { Spoil::Nothing } else { fault });
        for error in
            [storage.write("a", b"x").unwrap_err(), write_in_parts(&storage, "a", &bytes).unwrap_err()]
        {
            assert!(error.to_string().starts_with("s3://bucket/p/a: cannot write: "), "{error}");
        }
        assert!(storage.read("a").unwrap_err().is_not_found());
    }
    // Only the end fails.
    proxy.plan(|r, _| {
        if r.method == "POST" && r.target.contains("uploadId") { Spoil::Status(500) } else { Spoil::Nothing }
    });
    assert!(write_in_parts(&storage, "a", &bytes).is_err());
    proxy.plan(|_, _| Spoil::Nothing);
    assert!(storage.read("a").unwrap_err().is_not_found());
}

#[test]
fn test_bucket_that_is_not_there() {
    let Some(server) = S3Server::start() else { return };
    let storage = server.storage("");
    assert!(storage.read("manifest.json").unwrap_err().is_not_found());
    let mut options = quick();
    options.settings = settings(server.address());
    let nowhere = RemoteStorage::new("s3://other/x", options).unwrap();
    assert!(nowhere.read("manifest.json").unwrap_err().is_not_found());
    let mut options = quick();
    options.settings = settings(server.address());
    options.settings.push(("aws_secret_access_key".into(), "wrong".into()));
    let stranger = RemoteStorage::new("s3://bucket", options).unwrap();
    let text = stranger.write("manifest.json", b"{}").unwrap_err().to_string();
    assert!(text.contains("s3://bucket/manifest.json") && text.contains("credentials"), "{text}");
}

#[test]
fn test_unknown_setting_is_refused() {
    let mut options = quick();
    options.settings.push(("aws_endpiont_url".into(), "http://localhost".into()));
    let error = RemoteStorage::new("s3://b/x", options).unwrap_err();
    assert!(error.to_string().contains("aws_endpiont_url"), "{error}");
}
