//! The same dataset over every kind of storage, and over servers that fail.

#![cfg(all(feature = "s3", feature = "http"))]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a test fails by panicking; its numbers are small"
)]

mod common;
#[path = "support/http_server.rs"]
mod http_server;
#[path = "support/s3_server.rs"]
mod s3_server;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use celltile::storage::{
    EntryKind, LocalStorage, MemoryStorage, RemoteOptions, RemoteStorage, Storage, TileCache,
};
use celltile::{ChunkCut, Csr, Dataset, Error, Manifest, OpenOptions, Verify};

use common::{Numbers, matrix, options, select, write};
use http_server::{HttpServer, Request, Response, Spoil, ranged};
use s3_server::{S3Server, quick, settings, storage_at};

fn cells() -> Csr {
    matrix(5, 230, 900, 40)
}

/// A dataset of five tiles.
fn write_small(storage: Arc<dyn Storage>) -> Csr {
    let cells = cells();
    write(storage, &cells, 900, &options(50, ChunkCut::Nonzeros(150), 2), 33);
    cells
}

fn all_objects(storage: &dyn Storage, folder: &str, found: &mut HashMap<String, Vec<u8>>) {
    for entry in storage.list(folder).unwrap() {
        match entry.kind {
            EntryKind::Folder => all_objects(storage, &entry.key, found),
            _ => drop(found.insert(format!("/ds/{}", entry.key), storage.read(&entry.key).unwrap().to_vec())),
        }
    }
}

/// A web server with a dataset from memory.
fn serve(storage: &dyn Storage) -> HttpServer {
    let mut objects = HashMap::new();
    all_objects(storage, "", &mut objects);
    HttpServer::files(objects)
}

fn remote(server: &HttpServer) -> RemoteStorage {
    RemoteStorage::new(&format!("http://{}/ds", server.address()), quick()).unwrap()
}

fn open(storage: impl Storage + 'static, verify: Verify) -> celltile::Result<Dataset> {
    Dataset::open_storage(Arc::new(storage), &OpenOptions::default().threads(2).verify(verify))
}

fn check(dataset: &Dataset, cells: &Csr) {
    assert_eq!(dataset.rows(0..dataset.n_cells()).unwrap(), *cells);
    assert_eq!(dataset.tile(3).unwrap(), select(cells, 150..200));
    assert_eq!(dataset.rows(45..105).unwrap(), select(cells, 45..105));
    let scattered = [229, 0, 17, 17, 120, 51];
    assert_eq!(dataset.gather(&scattered).unwrap(), select(cells, scattered));
}

#[test]
fn test_dataset_over_every_storage() {
    let folder = tempfile::tempdir().unwrap();
    let memory = MemoryStorage::new();
    let cells = write_small(Arc::new(memory.clone()));
    write_small(Arc::new(LocalStorage::new(folder.path())));
    let server = serve(&memory);
    for verify in [Verify::Full, Verify::Structure] {
        check(&open(memory.clone(), verify).unwrap(), &cells);
        check(&open(LocalStorage::new(folder.path()), verify).unwrap(), &cells);
        check(&open(remote(&server), verify).unwrap(), &cells);
    }
    assert!(
        server.log().iter().all(|r| r.method == "GET" || r.method == "HEAD"),
        "nothing is listed in order to read"
    );
    let Some(s3) = S3Server::start() else { return };
    write_small(Arc::new(s3.storage("some/ds")));
    for verify in [Verify::Full, Verify::Structure] {
        check(&open(s3.storage("some/ds"), verify).unwrap(), &cells);
    }
    // The same bytes as elsewhere.
    let mut written = HashMap::new();
    all_objects(&s3.storage("some/ds"), "", &mut written);
    let mut expected = HashMap::new();
    all_objects(&memory, "", &mut expected);
    assert!(written == expected);
}

#[test]
fn test_dataset_by_url() {
    let memory = MemoryStorage::new();
    let cells = write_small(Arc::new(memory.clone()));
    let server = serve(&memory);
    check(&Dataset::open(format!("http://{}/ds/", server.address())).unwrap(), &cells);
    let error = Dataset::open(format!("http://{}/none", server.address())).unwrap_err();
    assert!(error.to_string().contains(&format!("http://{}/none", server.address())), "{error}");
    let Some(s3) = S3Server::start() else { return };
    write_small(Arc::new(s3.storage("ds")));
    let mut options = OpenOptions::default();
    options.remote.settings = settings(s3.address());
    check(&Dataset::open_with("s3://bucket/ds", &options).unwrap(), &cells);
}

/// Objects behind the plain part of the protocols of Azure and Google: PUT, GET, HEAD, DELETE, and listings that are always empty.
/// It checks no signature, and is no more than a stand-in for either.
fn cloud() -> HttpServer {
    let objects: std::sync::Mutex<HashMap<String, Vec<u8>>> = std::sync::Mutex::default();
    HttpServer::start(move |request| {
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        let path = unquote(path);
        let tag = |body: &[u8]| format!("\"{:08x}\"", crc32fast::hash(body));
        let mut objects = objects.lock().unwrap();
        let answer = match request.method.as_str() {
            _ if query.contains("comp=list") => {
                Response::new(200, "<EnumerationResults><Blobs></Blobs><NextMarker/></EnumerationResults>")
            }
            _ if query.contains("list-type=2") => Response::new(200, "<ListBucketResult></ListBucketResult>"),
            "PUT" => {
                let answer = Response::new(201, "").with("ETag", tag(&request.body));
                objects.insert(path, request.body.clone());
                answer
            }
            "DELETE" => Response::new(if objects.remove(&path).is_some() { 202 } else { 404 }, ""),
            _ => match objects.get(&path) {
                Some(body) => ranged(request, body).with("ETag", tag(body)),
                None => Response::new(404, ""),
            },
        };
        answer.with("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
    })
}

fn unquote(text: &str) -> String {
    let mut parts = text.split('%');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push(char::from(u8::from_str_radix(&part[..2], 16).unwrap()));
        out.push_str(&part[2..]);
    }
    out
}

/// Written through Azure's protocol; Google's lets nobody write without credentials.
#[test]
fn test_dataset_by_the_protocols_of_azure_and_google() {
    let server = cloud();
    let mut written = None;
    for (url, names) in [
        (
            "az://bucket/some/ds",
            ["azure_storage_endpoint", "azure_skip_signature", "azure_storage_account_name"],
        ),
        ("gs://bucket/some/ds", ["google_base_url", "google_skip_signature", "google_bucket"]),
    ] {
        let values = [format!("http://{}", server.address()), "true".to_owned(), "bucket".to_owned()];
        let mut options = OpenOptions::default();
        options.remote = quick();
        options.remote.settings = names.iter().map(ToString::to_string).zip(values).collect();
        server.plan(|_, _| Spoil::Nothing);
        let storage = RemoteStorage::new(url, options.remote.clone()).unwrap();
        let cells = written.get_or_insert_with(|| write_small(Arc::new(storage)));
        for verify in [Verify::Full, Verify::Structure] {
            let mut options = options.clone();
            options.verify = verify;
            check(&Dataset::open_with(url, &options).unwrap(), cells);
        }
        server.plan(|_, n| if n % 3 == 0 { Spoil::Status(503) } else { Spoil::Nothing });
        check(&Dataset::open_with(url, &options).unwrap(), cells);
        let none = url.replace("some", "none");
        let error = Dataset::open_with(&none, &options).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(&none), "{error}");
    }
}

/// A plan that spoils some requests, differently for each seed.
fn now_and_then(seed: u64) -> impl Fn(&Request, usize) -> Spoil + Send + Sync {
    move |_, n| {
        let x = Numbers(seed.wrapping_add(n as u64)).next();
        let some = usize::try_from(x >> 20 & 0xfff).unwrap();
        match x % 24 {
            0 | 1 => Spoil::Status(503),
            2 => Spoil::Close,
            3 => Spoil::Cut(some),
            4 => Spoil::Truncate(some),
            5 => Spoil::Shift,
            6 => Spoil::Whole,
            7 => Spoil::Lengthen(3),
            8 => Spoil::ETag(1),
            9 => Spoil::Late(Duration::from_millis(20)),
            _ => Spoil::Nothing,
        }
    }
}

#[test]
fn test_faults_never_give_wrong_cells() {
    let memory = MemoryStorage::new();
    let cells = write_small(Arc::new(memory.clone()));
    let server = serve(&memory);
    let begun = Instant::now();
    let (mut right, mut wrong) = (0, 0);
    for seed in 0..40 {
        server.plan(now_and_then(seed * 1_000));
        let verify = if seed % 2 == 0 { Verify::Full } else { Verify::Structure };
        // A manifest that is cut short, with a length that agrees, is found to be no JSON.
        let Ok(dataset) = open(remote(&server), verify) else {
            wrong += 1;
            continue;
        };
        let scattered = [229, 0, 17, 17, 120, 51];
        for (found, expected) in [
            (dataset.rows(45..105), select(&cells, 45..105)),
            (dataset.gather(&scattered), select(&cells, scattered)),
            (dataset.tile(4), select(&cells, 200..230)),
        ] {
            match found {
                Ok(found) => {
                    assert_eq!(found, expected, "seed {seed}");
                    right += 1;
                }
                Err(error) => {
                    assert!(error.to_string().contains("http://"), "{error}");
                    wrong += 1;
                }
            }
        }
    }
    assert!(right > 40, "{right} reads came through, {wrong} did not");
    assert!(begun.elapsed() < Duration::from_secs(240));
}

#[test]
fn test_faults_of_s3_never_give_wrong_cells() {
    let Some(s3) = S3Server::start() else { return };
    let cells = write_small(Arc::new(s3.storage("ds")));
    let proxy = HttpServer::proxy(s3.address());
    let mut right = 0;
    for seed in 0..12 {
        proxy.plan(now_and_then(seed * 977 + 5));
        let Ok(dataset) = open(storage_at(proxy.address(), "ds", quick()), Verify::Full) else { continue };
        if let Ok(found) = dataset.rows(0..230) {
            assert_eq!(found, cells, "seed {seed}");
            right += 1;
        }
    }
    assert!(right > 2, "{right} reads came through");
}

#[test]
fn test_tile_replaced_under_an_open_dataset() {
    let Some(s3) = S3Server::start() else { return };
    let storage = s3.storage("ds");
    let cells = write_small(Arc::new(storage.clone()));
    for verify in [Verify::Full, Verify::Structure] {
        let mut options = OpenOptions::default().threads(1).verify(verify);
        // Nothing of a tile is kept between reads.
        options.head_cache = 0;
        let dataset = Dataset::open_storage(Arc::new(s3.storage("ds")), &options).unwrap();
        assert_eq!(dataset.rows(0..5).unwrap(), select(&cells, 0..5));
        // The same cells, compressed otherwise: another object of the same meaning.
        let before = storage.read("tiles/tile_000000.dct").unwrap();
        let mut after = before.to_vec();
        *after.last_mut().unwrap() ^= 1;
        storage.write("tiles/tile_000000.dct", &after).unwrap();
        match dataset.rows(0..50) {
            Err(Error::Changed { path }) => assert_eq!(path, "s3://bucket/ds/tiles/tile_000000.dct"),
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("a mixture of two objects"),
        }
        storage.write("tiles/tile_000000.dct", &before).unwrap();
    }
}

#[test]
fn test_a_few_rows_of_a_large_tile_cost_a_few_bytes() {
    // 10,000 cells of 2,000 nonzeros.
    let mut numbers = Numbers(9);
    let mut cells = Csr::new();
    for _ in 0..10_000 {
        let mut gene = -1;
        for _ in 0..500 {
            let mut bits = numbers.next();
            for _ in 0..4 {
                gene += 1 + i32::try_from(bits & 15).unwrap();
                cells.genes.push(gene);
                cells.counts.push(1 + i32::try_from((bits >> 4 & 0xff).leading_zeros() - 56).unwrap());
                bits >>= 16;
            }
        }
        cells.indptr.push(i64::try_from(cells.genes.len()).unwrap());
    }
    let memory = MemoryStorage::new();
    let mut options = options(10_000, ChunkCut::Nonzeros(1), 2);
    options.encode.cut = celltile::EncodeOptions::default().cut;
    write(Arc::new(memory.clone()), &cells, 33_000, &options, 1_000);
    let manifest = Manifest::read(&memory).unwrap();
    let head = 64 + 96 * manifest.n_chunks + 8 * 10_001;
    let server = serve(&memory);
    for verify in [Verify::Full, Verify::Structure] {
        let storage = remote(&server);
        let dataset = open(storage.clone(), verify).unwrap();
        let before = storage.traffic().bytes;
        assert_eq!(dataset.rows(0..64).unwrap(), select(&cells, 0..64));
        let fetched = storage.traffic().bytes - before - head;
        let share = fetched as f64 / manifest.tile_bytes[0] as f64;
        eprintln!(
            "rows(0..64): {fetched} bytes beside table and indptr, {:.2} % of the tile, {} requests",
            100.0 * share,
            storage.traffic().requests
        );
        assert!(share < 0.03, "{share}");
    }
}

#[test]
fn test_tile_cache_of_an_open_dataset() {
    let folder = tempfile::tempdir().unwrap();
    let memory = MemoryStorage::new();
    let cells = write_small(Arc::new(memory.clone()));
    let server = serve(&memory);
    let mut fetched = Vec::new();
    for _ in 0..2 {
        let mut options = OpenOptions::default().threads(2);
        options.tile_cache = Some(Arc::new(TileCache::new(folder.path(), 1 << 20)));
        let storage = remote(&server);
        let dataset = Dataset::open_storage(Arc::new(storage.clone()), &options).unwrap();
        for tile in 0..5 {
            let range = dataset.tile_cells(tile).unwrap();
            assert_eq!(dataset.tile(tile).unwrap(), select(&cells, range));
        }
        fetched.push(storage.traffic().bytes);
    }
    let tiles: u64 = Manifest::read(&memory).unwrap().tile_bytes.iter().sum();
    assert!(fetched[0] >= tiles && fetched[1] <= fetched[0] - tiles, "{fetched:?}");
}

#[test]
fn test_sixteen_at_once() {
    let memory = MemoryStorage::new();
    let cells = write_small(Arc::new(memory.clone()));
    let server = serve(&memory);
    let mut options = RemoteOptions::default();
    options.max_requests = 4;
    let storage = RemoteStorage::new(&format!("http://{}/ds", server.address()), options).unwrap();
    let dataset = open(storage, Verify::Full).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| check(&dataset, &cells));
        }
    });
}
