use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use celltile::digest::Hasher;

use crate::hdf5::StringColumn;
use crate::source::Source;

/// Bytes looked at, at either end of a file.
const END: u64 = 64 << 10;
/// Files of a folder whose bytes are looked at.
const FILES: usize = 64;

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
    } else if let Ok(entries) = std::fs::read_dir(path) {
        let mut files: Vec<_> =
            entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
        files.sort();
        for path in files.iter().take(FILES) {
            hasher.update(
                path.file_name()
                    .map(|name| name.to_string_lossy().into_owned())
                    .unwrap_or_default()
                    .as_bytes(),
            );
            let _ = file(path, &mut hasher);
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
