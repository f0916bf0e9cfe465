//! Where a dataset is: a path or a URL.

use std::path::Path;
use std::sync::Arc;

use super::{LocalStorage, RemoteOptions, Storage};
use crate::error::Result;

/// Whether a text is a URL rather than a path: a scheme of two letters or more (one is a Windows drive), then `://`.
#[must_use]
pub fn is_url(location: &str) -> bool {
    location.split_once("://").is_some_and(|(scheme, _)| {
        scheme.len() >= 2
            && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    })
}

/// The storage at a path, or at a URL: `file://`, `s3://`, `gs://`, `az://`, `http://`, `https://`. Nothing is read
/// yet.
///
/// # Errors
/// If the URL is of no known kind, or of one that this build was made without.
pub fn open_storage(location: &str, options: &RemoteOptions) -> Result<Arc<dyn Storage>> {
    if let Some(path) = location.strip_prefix("file://") {
        return Ok(Arc::new(LocalStorage::new(path)));
    }
    if is_url(location) { remote(location, options) } else { Ok(Arc::new(LocalStorage::new(location))) }
}

/// [`open_storage`] for a path, whose bytes need not be text.
pub(crate) fn open_path(path: &Path, options: &RemoteOptions) -> Result<Arc<dyn Storage>> {
    match path.to_str() {
        Some(text) => open_storage(text, options),
        None => Ok(Arc::new(LocalStorage::new(path))),
    }
}

#[cfg(feature = "client")]
fn remote(url: &str, options: &RemoteOptions) -> Result<Arc<dyn Storage>> {
    Ok(Arc::new(super::RemoteStorage::new(url, options.clone())?))
}

#[cfg(not(feature = "client"))]
fn remote(url: &str, _: &RemoteOptions) -> Result<Arc<dyn Storage>> {
    Err(crate::error::Error::Argument {
        what: "URL",
        found: format!("{url:?}"),
        expected: "a path: this build of celltile was made without buckets (feature \"remote\")".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_paths_and_urls_are_told_apart() {
        for url in ["s3://b/k", "http://h", "https://h/x", "az://c/p", "memory+x://"] {
            assert!(is_url(url), "{url}");
        }
        for path in ["", "data", "/a/b", "C:\\data", "c://data", "./s3:/b", "://x", "a b://c"] {
            assert!(!is_url(path), "{path}");
        }
    }
}
