//! A dataset on disk or in a bucket, and commands on it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use celltile::storage::{LocalStorage, Storage};
use celltile::{Dataset, OpenOptions};

use crate::s3_server::S3Server;
use crate::support::{Run, command, files, finish};

/// Where the dataset is.
pub(crate) struct Place {
    pub(crate) url: String,
    /// The files of its objects.
    pub(crate) folder: PathBuf,
    pub(crate) server: Option<S3Server>,
    storage: Arc<dyn Storage>,
}

impl Place {
    pub(crate) fn on_disk(folder: &Path) -> Self {
        let folder = folder.join("cells");
        let storage = Arc::new(LocalStorage::new(&folder));
        Self { url: folder.display().to_string(), folder, server: None, storage }
    }

    pub(crate) fn in_a_bucket() -> Option<Self> {
        let server = S3Server::start()?;
        let (folder, storage) = (server.folder().join("cells"), Arc::new(server.storage("cells")));
        Some(Self { url: "s3://bucket/cells".into(), folder, server: Some(server), storage })
    }

    /// The command with these words; `OUT` stands for the dataset.
    pub(crate) fn command(&self, words: &str) -> Command {
        self.command_through(words, self.server.as_ref().map(S3Server::address))
    }

    /// The same, with the server or a proxy at an address.
    pub(crate) fn command_through(&self, words: &str, address: Option<SocketAddr>) -> Command {
        let mut command = command(words.replace("OUT", &self.url).split_whitespace());
        if let Some(address) = address {
            command
                .env("AWS_ENDPOINT_URL", format!("http://{address}"))
                .env("AWS_ACCESS_KEY_ID", "key")
                .env("AWS_SECRET_ACCESS_KEY", "secret");
        }
        command
    }

    pub(crate) fn run(&self, words: &str) -> Run {
        finish(self.command(words))
    }

    pub(crate) fn open(&self) -> Dataset {
        Dataset::open_storage(Arc::clone(&self.storage), &OpenOptions::default()).unwrap()
    }

    pub(crate) fn clear(&self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }

    /// The objects, without what the server keeps beside them.
    pub(crate) fn objects(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = files(&self.folder);
        found.retain(|path, _| !path.components().any(|part| part.as_os_str().as_encoded_bytes()[0] == b'.'));
        found
    }
}

/// A list of numbers that look random.
pub(crate) fn random() -> impl FnMut() -> f64 {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / f64::from(1_u32 << 31)
    }
}
