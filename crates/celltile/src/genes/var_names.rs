//! `var_names.txt`: one gene name a line, in output order.

use crate::error::{Error, Result};
use crate::keys;
use crate::storage::Storage;

/// What ends a line in one reader or another: Python's `str.splitlines` knows all of these.
const LINE_ENDS: [char; 11] =
    ['\n', '\r', '\x0b', '\x0c', '\x1c', '\x1d', '\x1e', '\u{85}', '\u{2028}', '\u{2029}', '\0'];

/// The names of the genes, in output order. They need not be distinct, and may be empty.
///
/// A name with a line end in it cannot stand in this file (the gene table, `var.parquet`, holds any name), so there
/// are none here: [`VarNames::new`] refuses them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VarNames(Vec<String>);

impl VarNames {
    /// Checks that every name fits on a line.
    ///
    /// # Errors
    /// [`Error::Argument`] with the first name that does not.
    pub fn new(names: Vec<String>) -> Result<Self> {
        match names.iter().position(|name| name.contains(LINE_ENDS)) {
            None => Ok(Self(names)),
            Some(at) => Err(Error::Argument {
                what: "gene name",
                found: format!("{:?} for gene {at}", names.get(at).map(String::as_str).unwrap_or_default()),
                expected: "no line ends: leave var_names.txt out, var.parquet can hold the name".to_owned(),
            }),
        }
    }

    /// The names.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.0
    }

    /// The names, owned.
    #[must_use]
    pub fn into_names(self) -> Vec<String> {
        self.0
    }

    /// The file's content: UTF-8, every name followed by a line feed.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.0.iter().flat_map(|name| [name.as_str(), "\n"]).collect()
    }

    /// Reads the file of a dataset of `n_genes` genes: UTF-8, lines that end with a line feed (a carriage return
    /// before it is not part of the name), the last one's left out or not.
    ///
    /// # Errors
    /// [`Error::File`] with what is wrong with the file, or what the storage reports.
    pub fn read(storage: &dyn Storage, n_genes: u64) -> Result<Self> {
        Self::from_text(&storage.read(keys::VAR_NAMES)?, n_genes, &storage.locate(keys::VAR_NAMES))
    }

    /// The content of a file, called `path` in messages.
    pub(crate) fn from_text(file: &[u8], n_genes: u64, path: &str) -> Result<Self> {
        let fault = |what: &str, found: String, expected: String| Error::File {
            path: path.to_owned(),
            what: what.to_owned(),
            found,
            expected,
        };
        let text = std::str::from_utf8(file)
            .map_err(|e| fault("text", format!("byte {}", e.valid_up_to()), "UTF-8".to_owned()))?;
        let lines = text.bytes().filter(|b| *b == b'\n').count();
        let open = !text.is_empty() && !text.ends_with('\n');
        // Counted before any name takes memory: an empty one takes 24 bytes for its one.
        let found = lines.saturating_add(usize::from(open));
        if u64::try_from(found) != Ok(n_genes) {
            return Err(fault("lines", found.to_string(), format!("{n_genes}, the genes of the manifest")));
        }
        let text = text.strip_suffix('\n').unwrap_or(text);
        let name = |line: &str| line.strip_suffix('\r').unwrap_or(line).to_owned();
        Ok(Self(text.split('\n').map(name).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::VarNames;
    use crate::storage::{MemoryStorage, Storage};

    fn read(text: &[u8], n_genes: u64) -> crate::Result<Vec<String>> {
        let storage = MemoryStorage::new();
        storage.write("var_names.txt", text).unwrap();
        VarNames::read(&storage, n_genes).map(VarNames::into_names)
    }

    #[test]
    fn test_names_come_back() {
        let names = ["MALAT1", "", "a b\tc", "\u{e9}\u{1f9ec}", ""].map(str::to_owned).to_vec();
        let text = VarNames::new(names.clone()).unwrap().to_text();
        assert_eq!(read(text.as_bytes(), 5).unwrap(), names);
    }

    #[test]
    fn test_foreign_line_ends_are_understood() {
        assert_eq!(read(b"a\r\nb\r\n", 2).unwrap(), ["a", "b"]);
        assert_eq!(read(b"a\nb", 2).unwrap(), ["a", "b"]);
    }

    #[test]
    fn test_wrong_number_of_lines_and_text_that_is_none() {
        assert!(read(b"a\nb\n", 3).unwrap_err().to_string().contains("lines: found 2, expected 3"));
        assert!(read(b"", 1).is_err());
        assert!(read(b"\xff\n", 1).unwrap_err().to_string().contains("byte 0"));
    }

    #[test]
    fn test_name_with_line_end_is_refused() {
        for name in ["a\nb", "a\r", "\u{2028}", "\u{85}x"] {
            let error = VarNames::new(vec!["ok".to_owned(), name.to_owned()]).unwrap_err();
            assert!(error.to_string().contains("gene 1"), "{error}");
        }
    }
}
