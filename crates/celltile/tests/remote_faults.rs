//! Whatever a server does, reads give the right bytes or an error that names the object, within bounded time.

#![cfg(feature = "http")]
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

use std::collections::HashMap;
use std::time::{Duration, Instant};

use celltile::Error;
use celltile::storage::{ReadRequest, RemoteOptions, RemoteStorage, Storage};

use http_server::{HttpServer, Response, Spoil, ranged};

const SIZE: usize = 300_000;
const KEY: &str = "tiles/tile_000000.dct";

fn object() -> Vec<u8> {
    // Far from anything that repeats, so that bytes of a wrong place are seen.
    (0..SIZE as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

fn server() -> HttpServer {
    HttpServer::files(HashMap::from([(format!("/data/{KEY}"), object())]))
}

fn options() -> RemoteOptions {
    let mut options = RemoteOptions::default();
    options.stall_timeout = Duration::from_millis(400);
    options.first_pause = Duration::from_millis(5);
    options.longest_pause = Duration::from_millis(40);
    options.retries = 4;
    options.deadline = Duration::from_secs(3);
    options
}

fn open(server: &HttpServer) -> RemoteStorage {
    RemoteStorage::new(&format!("http://{}/data/", server.address()), options()).unwrap()
}

/// Runs a read that must end in time.
fn timed<T>(read: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let result = read();
    assert!(begun.elapsed() < Duration::from_secs(8), "took {:?}", begun.elapsed());
    result
}

#[test]
fn test_one_fault_is_overcome() {
    let (server, object) = (server(), object());
    let faults = [
        Spoil::Status(500),
        Spoil::Status(503),
        Spoil::Status(429),
        Spoil::Late(Duration::from_millis(100)),
        Spoil::Hang,
        Spoil::Close,
        Spoil::Lost,
        Spoil::Cut(0),
        Spoil::Cut(1_000),
        Spoil::Stall(1_000),
    ];
    for fault in faults {
        server.plan(move |_, n| if n == 0 { fault } else { Spoil::Nothing });
        assert_eq!(timed(|| open(&server).read(KEY)).unwrap(), object, "{fault:?}");
        server.plan(move |_, n| if n == 0 { fault } else { Spoil::Nothing });
        let part = timed(|| open(&server).read_range(KEY, 5_000..20_000)).unwrap();
        assert_eq!(part, object[5_000..20_000], "{fault:?}");
    }
    // These a client can only see where it knows the length it has asked for.
    for fault in [Spoil::Truncate(1_000), Spoil::Lengthen(10), Spoil::Whole, Spoil::Shift] {
        server.plan(move |_, n| if n == 0 { fault } else { Spoil::Nothing });
        let part = timed(|| open(&server).read_range(KEY, 5_000..20_000)).unwrap();
        assert_eq!(part, object[5_000..20_000], "{fault:?}");
    }
}

#[test]
fn test_lasting_fault_is_an_error_that_names_the_object() {
    let server = server();
    let faults = [
        Spoil::Status(503),
        Spoil::Status(400),
        Spoil::Status(403),
        Spoil::Hang,
        Spoil::Close,
        Spoil::Cut(0),
        Spoil::Stall(0),
        Spoil::Truncate(100),
        Spoil::Lengthen(10),
        Spoil::Shift,
        Spoil::Drip(Duration::from_millis(20)),
    ];
    for fault in faults {
        server.plan(move |_, _| fault);
        let error = timed(|| open(&server).read_range(KEY, 5_000..20_000)).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with(&format!("http://{}/data/{KEY}: ", server.address())), "{fault:?}: {text}");
        assert!(text.len() < 700, "{text}");
    }
}

#[test]
fn test_connections_that_break_again_and_again_are_resumed() {
    let (server, object) = (server(), object());
    server.plan(|_, _| Spoil::Cut(40_000));
    let storage = open(&server);
    assert_eq!(timed(|| storage.read(KEY)).unwrap(), object);
    let log = server.log();
    assert!(log.len() <= 12, "{} requests", log.len());
    assert!(
        log[1..].iter().all(|r| r.header("if-match").is_some()),
        "resumed on the condition of the same object"
    );
    assert!(storage.traffic().bytes < 2 * SIZE as u64);
}

#[test]
fn test_parts_are_of_one_object() {
    let (server, object) = (server(), object());
    let storage = open(&server);
    assert_eq!(storage.read_range(KEY, 0..100).unwrap(), object[..100]);
    server.plan(|_, _| Spoil::ETag(1));
    let error = timed(|| storage.read_range(KEY, 100..200)).unwrap_err();
    assert!(matches!(error, Error::Changed { .. }), "{error}");
    assert!(server.log().iter().all(|r| r.header("if-match").is_some()));
    // In one call, too.
    server.plan(|_, n| Spoil::ETag(n as u32));
    let far = [ReadRequest { key: KEY, range: 0..10 }, ReadRequest { key: KEY, range: 200_000..200_010 }];
    let answers = timed(|| open(&server).read_many(&far));
    assert!(answers.iter().any(Result::is_err));
    // A storage that is opened now sees the new object.
    server.plan(|_, _| Spoil::ETag(1));
    assert_eq!(open(&server).read_range(KEY, 100..200).unwrap(), object[100..200]);
}

#[test]
fn test_object_replaced_during_a_whole_read_is_read_again() {
    let (server, object) = (server(), object());
    server.plan(|_, n| if n == 0 { Spoil::Cut(1_000) } else { Spoil::ETag(7) });
    assert_eq!(timed(|| open(&server).read(KEY)).unwrap(), object);
}

#[test]
fn test_server_without_ranges_and_etags() {
    let data = object();
    let served = data.clone();
    let server = HttpServer::start(move |request| match request.target.as_str() {
        _ if request.method == "PROPFIND" => Response::new(501, "<html>what?</html>"),
        "/data/tiles/tile_000000.dct" => Response::new(200, served.clone()),
        _ => Response::new(404, "<html>none</html>"),
    });
    let storage = open(&server);
    assert_eq!(storage.read(KEY).unwrap(), data);
    assert_eq!(storage.read_range(KEY, 7..99).unwrap(), data[7..99]);
    assert_eq!(storage.read_range(KEY, 299_999..300_000).unwrap(), data[299_999..]);
    assert_eq!(storage.size(KEY).unwrap(), SIZE as u64);
    for range in [300_000..300_001, 10..300_001] {
        let error = storage.read_range(KEY, range).unwrap_err();
        assert!(matches!(error, Error::Size { found: 300_000, .. }), "{error}");
    }
    assert!(storage.read("none").unwrap_err().is_not_found());
    let text = storage.list("tiles").unwrap_err().to_string();
    assert!(text.contains("/data/tiles"), "{text}");
    // A connection that breaks cannot be resumed: the bytes come anew.
    server.plan(|_, n| if n < 2 { Spoil::Cut(1_000) } else { Spoil::Nothing });
    assert_eq!(storage.read(KEY).unwrap(), data);
}

#[test]
fn test_ranges_are_joined_and_answered_in_order() {
    let (server, object) = (server(), object());
    let storage = open(&server);
    server.plan(|_, _| Spoil::Nothing);
    let ranges = [9_000..10_000, 0..1_000, 1_000..5_000, 5_500..9_000, 200_000..200_001, 3..3, 2_000..2_100];
    let requests: Vec<_> = ranges.iter().map(|r| ReadRequest { key: KEY, range: r.clone() }).collect();
    let answers = storage.read_many(&requests);
    for (range, answer) in ranges.iter().zip(answers) {
        assert_eq!(answer.unwrap(), object[range.start as usize..range.end as usize]);
    }
    assert_eq!(server.log().len(), 2);
    assert_eq!(storage.traffic().bytes, 10_001);
    // A range past the end does not spoil its neighbour.
    let answers = storage.read_many(&[
        ReadRequest { key: KEY, range: 299_000..299_500 },
        ReadRequest { key: KEY, range: 299_500..300_500 },
    ]);
    assert_eq!(answers[0].as_ref().unwrap(), &object[299_000..299_500]);
    assert!(matches!(answers[1], Err(Error::Size { found: 300_000, expected: 300_500, .. })));
}

#[test]
fn test_requests_at_once_are_bounded() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (ours, top) = (Arc::clone(&now), Arc::clone(&most));
    let data = object();
    let server = HttpServer::start(move |request| {
        top.fetch_max(ours.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(5));
        ours.fetch_sub(1, Ordering::SeqCst);
        ranged(request, &data)
    });
    let mut options = options();
    options.max_requests = 3;
    let storage = RemoteStorage::new(&format!("http://{}/data", server.address()), options).unwrap();
    let requests: Vec<_> =
        (0..40).map(|i| ReadRequest { key: KEY, range: i * 5_000..i * 5_000 + 10 }).collect();
    assert!(storage.read_many(&requests).into_iter().all(|r| r.is_ok()));
    assert_eq!(server.log().len(), 40);
    let most = most.load(Ordering::SeqCst);
    assert!((2..=3).contains(&most), "{most} at once");
}

#[test]
fn test_no_server_is_an_error_soon() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let storage = RemoteStorage::new(&format!("http://127.0.0.1:{port}/x"), options()).unwrap();
    let text = timed(|| storage.read("manifest.json")).unwrap_err().to_string();
    assert!(text.contains(&format!("http://127.0.0.1:{port}/x/manifest.json")), "{text}");
    assert!(text.contains("refused"), "{text}");
}

#[test]
fn test_query_goes_with_every_request_and_is_never_shown() {
    let server = server();
    let url = format!("http://{}/data?signature=geheim", server.address());
    let storage = RemoteStorage::new(&url, options()).unwrap();
    server.plan(|_, _| Spoil::Nothing);
    assert_eq!(storage.read(KEY).unwrap().len(), SIZE);
    assert!(server.log().iter().all(|r| r.target.ends_with("?signature=geheim")));
    for spoil in [Spoil::Status(500), Spoil::Status(403), Spoil::Close] {
        server.plan(move |_, _| spoil);
        let text = format!("{} {storage:?}", storage.read(KEY).unwrap_err());
        assert!(!text.contains("geheim"), "{text}");
    }
}

#[test]
fn test_random_faults_never_give_wrong_bytes() {
    let (server, object) = (server(), object());
    let mut state = 1u64;
    let mut next = move |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    let mut right = 0;
    for round in 0..60 {
        let seed = next(1 << 30);
        server.plan(move |_, n| {
            let x = (seed + n as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
            match x % 16 {
                0 => Spoil::Status(503),
                1 => Spoil::Close,
                2 => Spoil::Cut((x % 30_000) as usize),
                3 => Spoil::Truncate((x % 1_000) as usize),
                4 => Spoil::Shift,
                5 => Spoil::Whole,
                6 => Spoil::Lengthen(1),
                7 => Spoil::ETag((x % 2) as u32),
                _ => Spoil::Nothing,
            }
        });
        let storage = open(&server);
        let ranges: Vec<_> = (0..6)
            .map(|_| {
                let start = next(SIZE as u64 - 1);
                start..start + 1 + next((SIZE as u64 - start).min(60_000))
            })
            .map(|r| r.start..r.end.min(SIZE as u64))
            .collect();
        let requests: Vec<_> = ranges.iter().map(|r| ReadRequest { key: KEY, range: r.clone() }).collect();
        for (range, answer) in ranges.iter().zip(timed(|| storage.read_many(&requests))) {
            if let Ok(bytes) = answer {
                assert_eq!(bytes, object[range.start as usize..range.end as usize], "round {round}");
                right += 1;
            }
        }
    }
    assert!(right > 100, "only {right} reads came through");
}
