//! What tells an input from one that has changed: a fingerprint, which the dataset keeps, and a stamp, which only the plan does.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use celltile::digest::Hasher;
use celltile::keys;
use celltile::storage::{RemoteOptions, is_url, open_storage};

use crate::hdf5::StringColumn;
use crate::source::Source;

/// Bytes looked at, at either end of a file.
const END: u64 = 64 << 10;
/// Files of a folder whose bytes are looked at.
const FILES: usize = 64;
/// Files of a folder whose sizes and times are looked at.
const STAMPED: usize = 100_000;
/// Objects one of which says what a Zarr store in a bucket holds.
const ZARR: [&str; 3] = ["zarr.json", ".zmetadata", ".zgroup"];

/// A hash of what makes an input this input, without reading its cells: sizes, both ends of its files, and what its headers
/// and gene lists say. The time of a file does not count, nor its name.
pub(super) fn fingerprint(path: &str, source: &dyn Source) -> String {
    let mut hasher = Hasher::new();
    let info = source.info();
    let facts = format!(
        "{}\n{}\n{}\n{}\n{}\n{}\n{}\n{:?}\n",
        info.bytes,
        info.format,
        info.matrix,
        info.encoding,
        info.dtype,
        info.shape.cells,
        info.shape.genes,
        info.stored
    );
    hasher.update(facts.as_bytes());
    let mut list = |names: &StringColumn| {
        for name in names.iter() {
            hasher.update(&(name.len() as u64).to_le_bytes());
            hasher.update(name.as_bytes());
        }
    };
    list(source.gene_names());
    if let Some(ids) = source.gene_ids() {
        list(ids);
    }
    // What cannot be read is told by whoever needs it.
    let path = Path::new(path);
    if path.is_file() {
        let _ = file(path, &mut hasher);
    } else {
        for file_path in files_below(path).iter().take(FILES) {
            hasher.update(relative(file_path, path).as_bytes());
            let _ = file(file_path, &mut hasher);
        }
    }
    hasher.finish().to_string()
}

fn file(path: &Path, hasher: &mut Hasher) -> std::io::Result<()> {
    let mut file = std::fs::File::open(path)?;
    let size = file.metadata()?.len();
    hasher.update(&size.to_le_bytes());
    let mut bytes = Vec::new();
    file.by_ref().take(END).read_to_end(&mut bytes)?;
    if size > END {
        file.seek(SeekFrom::Start(size - END.min(size - END)))?;
        file.take(END).read_to_end(&mut bytes)?;
    }
    hasher.update(&bytes);
    Ok(())
}

/// When an input was last written, as far as that can be told: it stays the same as long as nobody writes to it, and says
/// nothing of what is in it. Unlike the [`fingerprint`] it sees a byte that changes in the middle of a file.
pub(super) fn stamp(path: &str, source: &dyn Source, remote: &RemoteOptions) -> Option<String> {
    if is_url(path) && !path.starts_with("file://") {
        return version(path, source.info().format, remote);
    }
    on_disk(Path::new(path.strip_prefix("file://").unwrap_or(path)))
}

fn on_disk(path: &Path) -> Option<String> {
    if path.is_file() {
        return written(path);
    }
    // A dataset's manifest has the hashes of all else.
    if let Some(manifest) = written(&path.join(keys::MANIFEST)) {
        return Some(manifest);
    }
    let mut hasher = Hasher::new();
    let files = files_below(path);
    for file in files.iter().take(STAMPED) {
        hasher.update(relative(file, path).as_bytes());
        hasher.update(written(file).unwrap_or_default().as_bytes());
    }
    (!files.is_empty()).then(|| hasher.finish().to_string())
}

/// Size and time of a file.
fn written(path: &Path) -> Option<String> {
    let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let time = metadata.modified().ok()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(format!("{} {}", metadata.len(), time.as_nanos()))
}

/// What a bucket or server calls the version of an object, or of one that says what a folder holds.
fn version(url: &str, format: &str, remote: &RemoteOptions) -> Option<String> {
    let url = url.trim_end_matches('/');
    let of = |folder: &str, keys: &[&str]| {
        let storage = open_storage(folder, remote).ok()?;
        keys.iter().find_map(|key| storage.version(key).ok().flatten())
    };
    match format {
        "deltacells" => of(url, &[keys::MANIFEST]),
        format if format.contains("zarr") && !url.ends_with(".zip") => of(url, &ZARR),
        // With a query the object is no key below a folder.
        _ => {
            url.rsplit_once('/').filter(|_| !url.contains('?')).and_then(|(folder, name)| of(folder, &[name]))
        }
    }
}

/// All files of a folder and those below it, in order, but for what a conversion under way keeps.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_file() {
                files.push(path);
            } else if path.is_dir() && entry.file_name() != keys::WORK {
                folders.push(path);
            }
        }
    }
    files.sort();
    files
}

/// The path of a file within a folder, the same on every system.
fn relative(file: &Path, folder: &Path) -> String {
    let parts = file.strip_prefix(folder).unwrap_or(file).components();
    parts.map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_stamps_see_a_byte_in_the_middle_and_folders_below() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x/y/z");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let places = [folder.path(), &folder.path().join("x"), &file];
        let mut seen = std::collections::HashSet::new();
        for (content, seconds) in [("one", 1), ("two", 2), ("three", 2)] {
            std::fs::write(&file, content).unwrap();
            let time = UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            std::fs::File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
            for place in places {
                let first = on_disk(place);
                assert!(first.is_some() && first == on_disk(place));
                seen.insert((place, first));
            }
        }
        assert_eq!(seen.len(), 9);
        let other = folder.path().join("x/.work");
        let before = on_disk(folder.path());
        std::fs::create_dir(&other).unwrap();
        std::fs::write(other.join("a"), "").unwrap();
        assert_eq!(on_disk(folder.path()), before);
        assert_eq!(on_disk(&folder.path().join("nothing")), None);
    }
}
