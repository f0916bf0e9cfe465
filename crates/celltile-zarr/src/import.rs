//! AnnData stores as inputs of a conversion: Zarr format 2 and 3, a folder, a bucket, a web server or a zip file, sharded or not, on
//! regular grids or rectilinear ones.

mod array;
mod fault;
mod tree;
mod zip;

use std::path::Path;
use std::sync::Arc;

use celltile::storage::{LocalStorage, Storage, is_url, open_storage};
use celltile_ingest::source::{H5adSource, Opener, Source, SourceOptions};
use celltile_ingest::tree::Tree;
use celltile_ingest::{Error, Result};
use zarrs::storage::{ReadableListableStorageTraits, StoreKey};

use crate::store::KeyStore;

use tree::StoreGroup;
use zip::ZipStore;

/// Any store that can be read and listed.
pub(crate) type AnyStore = dyn ReadableListableStorageTraits;

/// Recognises and opens AnnData stores.
#[derive(Debug, Clone, Copy, Default)]
pub struct ZarrOpener;

impl Opener for ZarrOpener {
    fn open(&self, path: &Path, options: &SourceOptions) -> Result<Option<Box<dyn Source>>> {
        let Some(Recognised { store, size, listable }) = recognise(path, options)? else { return Ok(None) };
        let name = path.display().to_string();
        let most = (options.read.memory / 2).max(1 << 20);
        let root = StoreGroup::root(name.clone(), Arc::clone(&store), most, listable)?;
        let format = if root.is_v2() { "zarr v2" } else { "zarr v3" };
        let size = match size {
            Some(size) => size,
            None => store.size().unwrap_or_default(),
        };
        let tree = Tree::new(name, size, format, Arc::new(root));
        for wanted in ["obs", "var"] {
            if tree.find(wanted)?.is_none() {
                let members = tree.root().members().unwrap_or_default();
                let members: Vec<String> = members.into_iter().map(|(name, _)| name).take(20).collect();
                return Err(Error::NotRecognised {
                    file: tree.name().to_owned(),
                    found: format!("a Zarr store without {wanted} (it holds: {})", members.join(", ")),
                    expected: "an AnnData store (X, obs, var)".into(),
                });
            }
        }
        Ok(Some(Box::new(H5adSource::from_tree(&tree, options)?)))
    }
}

/// A store at a path or URL.
struct Recognised {
    store: Arc<AnyStore>,
    /// Its size, where that is known at once or never.
    size: Option<u64>,
    /// Whether it can tell what is in it.
    listable: bool,
}

/// The store at a path or URL, if there is one.
fn recognise(path: &Path, options: &SourceOptions) -> Result<Option<Recognised>> {
    if let Some(url) = path.to_str().filter(|text| is_url(text) && !text.starts_with("file://")) {
        return remote(url, options);
    }
    let path = path.to_str().and_then(|text| text.strip_prefix("file://")).map_or(path, Path::new);
    if path.is_dir() {
        let store = KeyStore::new(Arc::new(LocalStorage::new(path)));
        return Ok(is_root(&store, "").then(|| Recognised {
            store: Arc::new(store),
            size: None,
            listable: true,
        }));
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Ok(None);
    };
    if !path.is_file() {
        return Ok(None);
    }
    zipped(&LocalStorage::new(if folder.as_os_str().is_empty() { Path::new(".") } else { folder }), name)
}

fn remote(url: &str, options: &SourceOptions) -> Result<Option<Recognised>> {
    let url = url.trim_end_matches('/');
    if url.to_ascii_lowercase().ends_with(".zip") {
        let Some((folder, name)) = url.rsplit_once('/') else { return Ok(None) };
        return zipped(open_storage(folder, &options.remote)?.as_ref(), name);
    }
    let storage = open_storage(url, &options.remote)?;
    // A server may answer anything where there is no store; only one that is named as such has to be there.
    let named = url.to_ascii_lowercase().ends_with(".zarr");
    for name in ["zarr.json", ".zgroup"] {
        match storage.read(name) {
            Ok(_) => {
                // A web server does not tell what it has, nor how much; asked for it, it may be asked again and again.
                let listable = !url.starts_with("http://") && !url.starts_with("https://");
                let size = if listable { None } else { Some(0) };
                return Ok(Some(Recognised { store: Arc::new(KeyStore::new(storage)), size, listable }));
            }
            Err(celltile::Error::NotFound { .. }) => {}
            Err(error) if named => return Err(error.into()),
            Err(_) => {}
        }
    }
    Ok(None)
}

fn zipped(storage: &dyn Storage, name: &str) -> Result<Option<Recognised>> {
    let object = storage.open(name)?;
    let size = object.size()?;
    let mut magic = [0; 4];
    if size < 22 || object.read_at(0, &mut magic).is_err() || !matches!(&magic, b"PK\x03\x04" | b"PK\x05\x06")
    {
        return Ok(None);
    }
    let damaged =
        |what: String| Error::Damaged { file: storage.locate(name), at: "zip directory".into(), what };
    let store = ZipStore::open(Arc::from(object)).map_err(|error| damaged(error.to_string()))?;
    Ok(store.rooted().map(|store| Recognised { store: Arc::new(store), size: Some(size), listable: true }))
}

/// Whether a Zarr group is there.
fn is_root<S: ?Sized + ReadableListableStorageTraits>(store: &S, folder: &str) -> bool {
    let there = |name: &str| {
        StoreKey::new(format!("{folder}{name}")).is_ok_and(|key| matches!(store.size_key(&key), Ok(Some(_))))
    };
    there("zarr.json") || there(".zgroup")
}
