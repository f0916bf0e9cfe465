use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use celltile::storage::Storage;

use crate::error::Result;

const LOCK: &str = ".work/lock";

/// Who else may work in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Others {
    /// Nobody.
    None,
    /// Those who let others in too: the stages of one conversion.
    Stages,
}

/// A folder in which a process works. The system lets it go when the process ends, however that is.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    path: PathBuf,
    others: Others,
}

impl Lock {
    /// Takes the folder of a storage. `None` where there is nothing to lock: in buckets, in file systems without locks and
    /// where nothing can be written.
    ///
    /// # Errors
    ///
    /// [`celltile::Error::Occupied`] if another process works there.
    pub(super) fn take(storage: &dyn Storage, others: Others) -> Result<Option<Self>> {
        let Some(path) = storage.file_of(LOCK) else { return Ok(None) };
        loop {
            if path.parent().is_none_or(|folder| std::fs::create_dir_all(folder).is_err()) {
                return Ok(None);
            }
            let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).clone();
            let Ok(file) = options.open(&path) else { return Ok(None) };
            let taken = match others {
                Others::None => file.try_lock(),
                Others::Stages => file.try_lock_shared(),
            };
            match taken {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let reason =
                        "another process converts or appends here; wait for it, or stop it".to_owned();
                    return Err(celltile::Error::Occupied { path: storage.locate(""), reason }.into());
                }
                Err(TryLockError::Error(_)) => return Ok(None),
            }
            // Whoever had it before may have removed it meanwhile: then it locks nothing.
            if is_at(&file, &path) {
                return Ok(Some(Self { file, path, others }));
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.others == Others::None && is_at(&self.file, &self.path) {
            let _ = std::fs::remove_file(&self.path);
            // The folder goes if nothing else is in it.
            let _ = self.path.parent().map(std::fs::remove_dir);
        }
    }
}

/// Whether this is the file at a path.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

/// Whether this is the file at a path: elsewhere than on Unix an open file keeps its name.
#[cfg(not(unix))]
fn is_at(_file: &File, path: &Path) -> bool {
    path.exists()
}

#[cfg(test)]
mod tests {
    use celltile::storage::{LocalStorage, MemoryStorage};

    use super::*;

    #[test]
    fn test_one_alone_or_many_stages() {
        let folder = tempfile::tempdir().unwrap();
        let storage = LocalStorage::new(folder.path().join("out"));
        let take = |others| Lock::take(&storage, others);
        let one = take(Others::None).unwrap();
        assert!(one.is_some());
        for others in [Others::None, Others::Stages] {
            assert!(take(others).unwrap_err().to_string().contains("another process"));
        }
        // What is cleared away is taken again before it is let go.
        std::fs::remove_dir_all(folder.path().join("out/.work")).unwrap();
        let two = take(Others::None).unwrap();
        drop(one);
        assert!(take(Others::Stages).is_err());
        drop(two);
        assert!(!folder.path().join("out/.work").exists());
        let stages = [take(Others::Stages).unwrap(), take(Others::Stages).unwrap()];
        assert!(take(Others::None).is_err());
        drop(stages);
        assert!(take(Others::None).unwrap().is_some());
        assert!(Lock::take(&MemoryStorage::new(), Others::None).unwrap().is_none());
    }
}
