//! Makes sure that a folder is free for a new dataset (`docs/decisions/overwrite.md`).

use crate::error::{Error, Result};
use crate::keys;
use crate::manifest::FORMAT;
use crate::storage::{EntryKind, Storage};

/// Clears away what an earlier writer left, and the dataset there was if `overwrite` says so.
///
/// - Nothing there: fine.
/// - No manifest, and nothing but files that a dataset has: a writer died here. They are removed.
/// - A manifest of this format: with `overwrite` it is removed, then all files of ours; files of others stay. Without, an
///   error.
/// - Anything else is not ours: an error.
///
/// # Errors
/// [`Error::Occupied`]; what the storage reports.
pub fn prepare(storage: &dyn Storage, overwrite: bool) -> Result<()> {
    let occupied = |reason: String| Err(Error::Occupied { path: storage.locate(""), reason });
    let (ours, foreign) = look(storage)?;
    if ours.iter().any(|key| key == keys::MANIFEST) {
        let text = storage.read(keys::MANIFEST)?;
        if !names_our_format(&text) {
            return occupied(format!("there is a {} of something else", keys::MANIFEST));
        }
        if !overwrite {
            return occupied("there is a dataset already; it is replaced only with --overwrite".to_owned());
        }
        // First of all: from here on there is no complete dataset that lacks some of its files.
        storage.remove(keys::MANIFEST)?;
    } else if let Some(key) = foreign {
        return occupied(format!("the folder is not empty, and {key:?} is not part of a dataset"));
    }
    storage.remove_folder(keys::WORK)?;
    ours.iter().filter(|key| *key != keys::MANIFEST).try_for_each(|key| storage.remove(key))
}

/// The keys that are ours, and the first that is not.
fn look(storage: &dyn Storage) -> Result<(Vec<String>, Option<String>)> {
    let (mut ours, mut foreign) = (Vec::new(), None);
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in storage.list(&folder)? {
            match entry.kind {
                EntryKind::Object(_) if keys::is_ours(&entry.key) => ours.push(entry.key),
                EntryKind::Temporary => ours.push(entry.key),
                EntryKind::Folder if matches!(entry.key.as_str(), keys::TILES | keys::OBS) => {
                    folders.push(entry.key);
                }
                EntryKind::Folder if entry.key == keys::WORK => {}
                _ => {
                    foreign.get_or_insert(entry.key);
                }
            }
        }
    }
    Ok((ours, foreign))
}

/// Whether this is a manifest of this format, in any version and however damaged.
fn names_our_format(text: &[u8]) -> bool {
    text.windows(FORMAT.len()).any(|part| part == FORMAT.as_bytes())
}
