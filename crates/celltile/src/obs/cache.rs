mod file;
mod folder;

use std::env;
use std::path::{Path, PathBuf};

use arrow_array::ArrayRef;

use self::folder::Folder;
use super::ObsReader;
use crate::error::{Error, Result};

/// Where fetched obs columns are kept ("Local cache").
///
/// A folder holds `<fingerprint>/obs/<name>.arrow`, one uncompressed Arrow IPC file a column with one record batch a
/// tile, which is mapped into memory. Several datasets and processes share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    root: Option<PathBuf>,
}

impl Cache {
    /// A cache in that folder, which need not exist yet.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: Some(root.into()) }
    }

    /// No folder: columns are fetched into this process's memory each time they are asked for.
    #[must_use]
    pub fn memory() -> Self {
        Self { root: None }
    }

    /// The folder; none for [`memory`](Self::memory).
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// The folder that the environment names: `$DELTACELLS_CACHE`, `$XDG_CACHE_HOME/deltacells` or
    /// `~/.cache/deltacells`.
    ///
    /// # Errors
    /// [`Error::Cache`] if none of the variables is set, nor `HOME`.
    pub fn from_env() -> Result<Self> {
        Self::from_variables(|name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from))
    }

    fn from_variables(get: impl Fn(&str) -> Option<PathBuf>) -> Result<Self> {
        if let Some(root) = get("DELTACELLS_CACHE") {
            return Ok(Self::at(root));
        }
        // Relative paths there are to be ignored, says the XDG base directory specification.
        if let Some(root) = get("XDG_CACHE_HOME").filter(|root| root.is_absolute()) {
            return Ok(Self::at(root.join("deltacells")));
        }
        match get("HOME").or_else(|| get("USERPROFILE")) {
            Some(home) => Ok(Self::at(home.join(".cache").join("deltacells"))),
            None => Err(Error::Cache {
                path: "obs cache".to_owned(),
                reason: "there is no folder for it: set DELTACELLS_CACHE".to_owned(),
            }),
        }
    }

    /// The tiles' arrays of columns (positions in ascending order).
    pub(super) fn columns(&self, reader: &ObsReader, columns: &[usize]) -> Result<Vec<Vec<ArrayRef>>> {
        if columns.is_empty() {
            return Ok(Vec::new());
        }
        match &self.root {
            Some(root) => Folder::new(root, reader).columns(columns),
            None => {
                let mut arrays = vec![Vec::new(); columns.len()];
                reader.fetch(columns, |tile| {
                    arrays
                        .iter_mut()
                        .zip(tile)
                        .for_each(|(column, array): (&mut Vec<_>, _)| column.push(array));
                    Ok(())
                })?;
                Ok(arrays)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_is_the_first_that_the_environment_names() {
        let all = [("DELTACELLS_CACHE", "/a"), ("XDG_CACHE_HOME", "/b"), ("HOME", "/c")];
        let roots = ["/a", "/b/deltacells", "/c/.cache/deltacells"];
        for (skip, root) in roots.iter().enumerate() {
            let get = |name: &str| {
                all.iter().skip(skip).find(|(n, _)| *n == name).map(|(_, value)| PathBuf::from(value))
            };
            assert_eq!(Cache::from_variables(get).unwrap(), Cache::at(*root));
        }
        assert!(Cache::from_variables(|_| None).is_err());
        let relative = |name: &str| match name {
            "XDG_CACHE_HOME" => Some(PathBuf::from("x")),
            "HOME" => Some(PathBuf::from("/c")),
            _ => None,
        };
        assert_eq!(Cache::from_variables(relative).unwrap(), Cache::at("/c/.cache/deltacells"));
    }
}
