//! The same rules for every storage.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod common;
#[path = "support/dataset_suite.rs"]
mod dataset_suite;
#[cfg(feature = "s3")]
#[path = "support/s3_server.rs"]
mod s3_server;

use std::io::Write;
use std::sync::Arc;

use celltile::Error;
use celltile::storage::{Entry, EntryKind, LocalStorage, MemoryStorage, ReadRequest, Storage};

fn over_all(test: impl Fn(&dyn Storage)) {
    let folder = tempfile::tempdir().unwrap();
    // The folder itself is made by the first write.
    test(&LocalStorage::new(folder.path().join("not").join("yet")));
    test(&MemoryStorage::new());
    #[cfg(feature = "s3")]
    if let Some(server) = s3_server::S3Server::start() {
        test(&server.storage("some/where"));
    }
}

/// Runs a test with each kind of storage that can be written: it makes a new, empty one of each name that it is given.
fn over_new(test: impl Fn(&dyn Fn(&str) -> Arc<dyn Storage>)) {
    let folder = tempfile::tempdir().unwrap();
    test(&|name| Arc::new(LocalStorage::new(folder.path().join(name))));
    test(&|_| Arc::new(MemoryStorage::new()));
    #[cfg(feature = "s3")]
    if let Some(server) = s3_server::S3Server::start() {
        test(&|name| Arc::new(server.storage(&format!("some/where/{name}"))));
    }
}

#[test]
fn test_conditional_writes_take_the_place_of_what_was_expected_alone() {
    over_all(|storage| {
        assert!(!storage.write_if("a/x", b"new", Some(b"old")).unwrap(), "nothing is there");
        assert!(storage.read("a/x").unwrap_err().is_not_found());
        assert!(storage.write_if("a/x", b"one", None).unwrap());
        assert!(!storage.write_if("a/x", b"two", None).unwrap());
        assert!(!storage.write_if("a/x", b"two", Some(b"other")).unwrap());
        assert_eq!(storage.read("a/x").unwrap(), b"one"[..]);
        assert!(storage.write_if("a/x", b"two", Some(b"one")).unwrap());
        assert_eq!(storage.read("a/x").unwrap(), b"two"[..]);
        let left: Vec<_> = storage.list("a").unwrap().into_iter().map(|entry| entry.key).collect();
        assert_eq!(left, ["a/x"]);
    });
}

#[test]
fn test_datasets_are_read_in_every_way() {
    over_new(dataset_suite::reads);
}

#[test]
fn test_obs_and_genes_of_datasets_come_back() {
    over_new(dataset_suite::tables);
}

#[test]
fn test_datasets_are_replaced_only_when_asked() {
    over_new(dataset_suite::replacing);
}

#[test]
fn test_unfinished_datasets_are_refused() {
    over_new(dataset_suite::unfinished);
}

#[test]
fn test_damage_to_datasets_is_seen() {
    over_new(dataset_suite::damage);
}

#[test]
fn test_objects_come_back_whole_and_in_ranges() {
    over_all(|storage| {
        storage.write("tiles/a", b"0123456789").unwrap();
        storage.write("b", b"").unwrap();
        assert_eq!(storage.size("tiles/a").unwrap(), 10);
        assert_eq!(storage.read("tiles/a").unwrap(), "0123456789");
        assert_eq!(storage.read("b").unwrap(), "");
        assert_eq!(storage.read_range("tiles/a", 3..7).unwrap(), "3456");
        assert_eq!(storage.read_range("tiles/a", 10..10).unwrap(), "");
        let object = storage.open("tiles/a").unwrap();
        let mut buffer = [0; 3];
        object.read_at(7, &mut buffer).unwrap();
        assert_eq!(&buffer, b"789");
        let answers = storage.read_many(&[
            ReadRequest { key: "tiles/a", range: 0..2 },
            ReadRequest { key: "none", range: 0..2 },
            ReadRequest { key: "tiles/a", range: 8..10 },
        ]);
        assert_eq!(answers[0].as_ref().unwrap(), "01");
        assert!(answers[1].as_ref().unwrap_err().is_not_found());
        assert_eq!(answers[2].as_ref().unwrap(), "89");
    });
}

#[test]
fn test_reads_past_the_end_say_what_is_there_and_take_no_memory() {
    over_all(|storage| {
        storage.write("a", b"0123456789").unwrap();
        for range in [3..11, 0..u64::MAX, 11..12] {
            let end = range.end;
            match storage.read_range("a", range).unwrap_err() {
                Error::Size { found: 10, expected, .. } => assert_eq!(expected, end),
                other => panic!("{other}"),
            }
        }
        let error = storage.open("a").unwrap().read_at(8, &mut [0; 4]).unwrap_err();
        assert!(matches!(error, Error::Size { found: 10, expected: 12, .. }), "{error}");
    });
}

#[test]
fn test_list_is_one_level_sorted() {
    over_all(|storage| {
        assert_eq!(storage.list("").unwrap(), []);
        assert_eq!(storage.list("tiles").unwrap(), []);
        for key in ["tiles/b", "m.json", "tiles/a", "tiles/deep/c", "obs/x"] {
            storage.write(key, b"abc").unwrap();
        }
        let folder = |key: &str| Entry { key: key.into(), kind: EntryKind::Folder };
        let object = |key: &str| Entry { key: key.into(), kind: EntryKind::Object(3) };
        assert_eq!(storage.list("").unwrap(), [object("m.json"), folder("obs"), folder("tiles")]);
        assert_eq!(
            storage.list("tiles").unwrap(),
            [object("tiles/a"), object("tiles/b"), folder("tiles/deep")]
        );
    });
}

#[test]
fn test_write_replaces_and_remove_forgives() {
    over_all(|storage| {
        storage.write("a", b"old").unwrap();
        storage.write("a", b"newer").unwrap();
        assert_eq!(storage.read("a").unwrap(), "newer");
        storage.remove("a").unwrap();
        storage.remove("a").unwrap();
        assert!(storage.read("a").unwrap_err().is_not_found());
        assert!(storage.size("a").unwrap_err().is_not_found());
    });
}

#[test]
fn test_object_appears_when_finished_only() {
    over_all(|storage| {
        let mut writer = storage.create("obs/a").unwrap();
        writer.write_all(b"abc").unwrap();
        assert!(storage.read("obs/a").unwrap_err().is_not_found());
        writer.write_all(b"def").unwrap();
        assert_eq!(writer.finish().unwrap(), 6);
        assert_eq!(storage.read("obs/a").unwrap(), "abcdef");
        let mut writer = storage.create("obs/a").unwrap();
        writer.write_all(b"x").unwrap();
        drop(writer);
        assert_eq!(storage.read("obs/a").unwrap(), "abcdef");
        assert_eq!(storage.list("obs").unwrap().len(), 1);
    });
}

#[test]
fn test_keys_stay_inside_the_root() {
    over_all(|storage| {
        for key in ["", "/etc/passwd", "../a", "a/../b", "a//b", "a/", "./a", "a\\b", "a\0b"] {
            assert!(matches!(storage.read(key), Err(Error::Key { .. })), "{key:?}");
            assert!(matches!(storage.write(key, b""), Err(Error::Key { .. })), "{key:?}");
            assert!(matches!(storage.remove(key), Err(Error::Key { .. })), "{key:?}");
        }
    });
}
