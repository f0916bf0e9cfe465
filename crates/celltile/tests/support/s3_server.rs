//! A real S3 server on loopback: `s3s-fs`, whose path the environment variable CELLTILE_TEST_S3S_FS holds.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use celltile::storage::{RemoteOptions, RemoteStorage};

/// A running server with one empty bucket, `bucket`; it ends with this value.
pub(crate) struct S3Server {
    process: Child,
    address: SocketAddr,
    folder: tempfile::TempDir,
}

impl S3Server {
    /// `None`, with a message, where there is no server to start.
    pub(crate) fn start() -> Option<Self> {
        let Some(program) = std::env::var_os("CELLTILE_TEST_S3S_FS") else {
            eprintln!("skipped: CELLTILE_TEST_S3S_FS does not name the program s3s-fs");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("bucket")).unwrap();
        for _ in 0..10 {
            // Another process may take the port before the server does: then it ends, and the next one is tried.
            let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let mut process = Command::new(&program)
                .args(["--host", "127.0.0.1", "--port", &address.port().to_string()])
                .args(["--access-key", "key", "--secret-key", "secret"])
                .arg(folder.path())
                .env("RUST_LOG", "error")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(20) {
                if process.try_wait().unwrap().is_some() {
                    break;
                }
                if TcpStream::connect(address).is_ok() {
                    return Some(Self { process, address, folder });
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            let _ = process.kill();
            let _ = process.wait();
        }
        panic!("s3s-fs does not start");
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The folder of the bucket's objects.
    pub(crate) fn folder(&self) -> std::path::PathBuf {
        self.folder.path().join("bucket")
    }

    /// A storage in the bucket.
    pub(crate) fn storage(&self, prefix: &str) -> RemoteStorage {
        storage_at(self.address, prefix, quick())
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A storage in the bucket of the server, or the proxy, at an address.
pub(crate) fn storage_at(address: SocketAddr, prefix: &str, mut options: RemoteOptions) -> RemoteStorage {
    options.settings = settings(address);
    RemoteStorage::new(&format!("s3://bucket/{prefix}"), options).unwrap()
}

/// What the environment would say of the server.
pub(crate) fn settings(address: SocketAddr) -> Vec<(String, String)> {
    vec![
        ("aws_endpoint_url".into(), format!("http://{address}")),
        ("aws_access_key_id".into(), "key".into()),
        ("aws_secret_access_key".into(), "secret".into()),
    ]
}

/// Options that give up soon.
pub(crate) fn quick() -> RemoteOptions {
    let mut options = RemoteOptions::default();
    options.stall_timeout = Duration::from_millis(500);
    options.first_pause = Duration::from_millis(5);
    options.longest_pause = Duration::from_millis(40);
    options.retries = 4;
    options.deadline = Duration::from_secs(5);
    options
}
