//! Where the objects of a storage are, so that two storages can be compared.

use std::path::{Component, Path, PathBuf};

/// Where the objects of a storage are: a folder, or a prefix of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place(Kind);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// Absolute, without links as far as it is there.
    Folder(PathBuf),
    Bucket {
        bucket: String,
        prefix: String,
    },
}

impl Place {
    /// A folder or file, which need not be there.
    #[must_use]
    pub fn of_path(path: &Path) -> Self {
        Self(Kind::Folder(resolved(path)))
    }

    /// A prefix in something that behaves like a bucket.
    #[must_use]
    pub fn in_bucket(bucket: impl Into<String>, prefix: &str) -> Self {
        Self(Kind::Bucket { bucket: bucket.into(), prefix: prefix.trim_matches('/').to_owned() })
    }

    /// Whether one is the other, or lies in it: then whoever clears one away may take from the other.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Kind::Folder(a), Kind::Folder(b)) => is_in(a, b) || is_in(b, a),
            (Kind::Bucket { bucket: a, prefix: a_prefix }, Kind::Bucket { bucket: b, prefix: b_prefix }) => {
                let within = |inner: &str, outer: &str| {
                    outer.is_empty()
                        || inner
                            .strip_prefix(outer)
                            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                };
                a == b && (within(a_prefix, b_prefix) || within(b_prefix, a_prefix))
            }
            _ => false,
        }
    }
}

/// The path without links, `.` and `..`, as far as it is there; what is not there yet is as it is written.
fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut there = path.as_path();
    let mut missing = Vec::new();
    loop {
        if let Ok(mut found) = std::fs::canonicalize(there) {
            for part in missing.into_iter().rev() {
                match part {
                    Component::ParentDir => drop(found.pop()),
                    part => found.push(part),
                }
            }
            return found;
        }
        let (Some(last), Some(parent)) = (there.components().next_back(), there.parent()) else {
            return path;
        };
        missing.push(last);
        there = parent;
    }
}

/// Whether a path is another or lies in it; also where a folder has two names (a mount, a file system that does not tell
/// capitals from small letters).
fn is_in(inner: &Path, outer: &Path) -> bool {
    if inner.starts_with(outer) {
        return true;
    }
    let Some(folder) = identity(outer) else { return false };
    inner.ancestors().any(|ancestor| identity(ancestor).is_some_and(|found| found == folder))
}

/// What tells a file or folder from all others.
#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// What tells a file or folder from all others: elsewhere than on Unix that is its path.
#[cfg(not(unix))]
fn identity(_path: &Path) -> Option<(u64, u64)> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_folders_overlap_whatever_their_spelling() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("a/tiles")).unwrap();
        std::fs::create_dir_all(at("ab")).unwrap();
        let overlap = |a: &str, b: &str| {
            let (a, b) = (Place::of_path(&at(a)), Place::of_path(&at(b)));
            assert_eq!(a.overlaps(&b), b.overlaps(&a));
            a.overlaps(&b)
        };
        for (a, b) in [
            ("a", "a/"),
            ("a", "./ab/../a"),
            ("a", "a/tiles"),
            ("a", "a/new/deep"),
            ("new", "new/"),
            ("new/x", "old/../new"),
        ] {
            assert!(overlap(a, b), "{a} {b}");
        }
        for (a, b) in [("a", "ab"), ("a/tiles", "a/new"), ("new", "newer")] {
            assert!(!overlap(a, b), "{a} {b}");
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(at("a"), at("link")).unwrap();
            assert!(overlap("a", "link") && overlap("a", "link/new") && !overlap("link", "ab"));
        }
    }

    #[test]
    fn test_prefixes_overlap_by_whole_names() {
        let place = |prefix: &str| Place::in_bucket("S3 b", prefix);
        for (a, b) in [("a", "a/"), ("a", "a/b"), ("", "a")] {
            assert!(place(a).overlaps(&place(b)) && place(b).overlaps(&place(a)), "{a} {b}");
        }
        assert!(!place("a").overlaps(&place("ab")));
        assert!(!place("a").overlaps(&Place::in_bucket("S3 c", "a")));
        assert!(!place("a").overlaps(&Place::of_path(Path::new("a"))));
    }
}
