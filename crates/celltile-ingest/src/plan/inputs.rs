use std::collections::HashMap;
use std::path::{Path, PathBuf};

use celltile::storage::is_url;

use crate::error::{Error, Result};

/// An input and what it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputName {
    /// Its path or URL.
    pub path: String,
    /// What it is called in the dataset.
    pub name: String,
}

/// The inputs that arguments and lists name: paths, URLs and patterns (`*`, `?`, `[abc]`, `**`). A list is a text file with an input a line, and
/// what it is called after a tab; empty lines and lines that start with `#` do not count. Relative paths in it start from its
/// folder. Each is called by as much of the end of its path as tells it from the others.
///
/// # Errors
///
/// [`Error::Options`] for a pattern that matches nothing, an input that is named twice, two inputs of one name; what the system says of
/// a list.
pub fn find_inputs(arguments: &[PathBuf], lists: &[PathBuf]) -> Result<Vec<InputName>> {
    let mut found: Vec<(String, Option<String>)> = Vec::new();
    for argument in arguments {
        expand(text(argument)?, &mut found, None)?;
    }
    for list in lists {
        let content = std::fs::read_to_string(list).map_err(|source| Error::Io {
            path: list.clone(),
            action: "read",
            source,
        })?;
        let folder = list.parent().unwrap_or(Path::new(""));
        for line in content.lines().map(|line| line.trim_end_matches('\r')) {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let (path, name) = line.split_once('\t').map_or((line, None), |(path, name)| (path, Some(name)));
            let path = if is_url(path) { path.to_owned() } else { text(&folder.join(path))?.to_owned() };
            expand(&path, &mut found, name)?;
        }
    }
    if found.is_empty() {
        return Err(Error::Options("no input is named".into()));
    }
    let names = names(&found);
    let mut seen: HashMap<&str, &str> = HashMap::new();
    for ((path, _), name) in found.iter().zip(&names) {
        if let Some(other) = seen.insert(name, path) {
            let why = if other == path {
                "named twice".to_owned()
            } else {
                format!("called {name:?}, as is {other}")
            };
            return Err(Error::Options(format!("{path}: {why}")));
        }
    }
    Ok(found.into_iter().zip(names).map(|((path, _), name)| InputName { path, name }).collect())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| Error::Options(format!("{}: its path is not UTF-8", path.display())))
}

fn expand(path: &str, found: &mut Vec<(String, Option<String>)>, name: Option<&str>) -> Result<()> {
    // A file of that very name comes first: `[` stands in many names.
    if is_url(path) || !path.contains(['*', '?', '[']) || Path::new(path).exists() {
        found.push((path.to_owned(), name.map(str::to_owned)));
        return Ok(());
    }
    let wrong = |why: String| Error::Options(format!("{path}: {why}"));
    let before = found.len();
    for entry in glob::glob(path).map_err(|error| wrong(error.to_string()))? {
        let entry = entry.map_err(|error| wrong(error.to_string()))?;
        found.push((text(&entry)?.to_owned(), name.map(str::to_owned)));
    }
    match found.len() - before {
        0 => Err(wrong("nothing matches this pattern".into())),
        1 => Ok(()),
        n if name.is_some() => Err(wrong(format!("{n} inputs match, but there is one name for them"))),
        _ => Ok(()),
    }
}

/// What inputs without a name of their own are called: the shortest ends of their paths, in whole parts, that differ.
fn names(inputs: &[(String, Option<String>)]) -> Vec<String> {
    let parts = |path: &str| path.trim_end_matches('/').split('/').filter(|p| !p.is_empty()).count();
    let most = inputs.iter().map(|(path, _)| parts(path)).max().unwrap_or(1);
    let mut names: Vec<String> = Vec::new();
    for length in 1..=most {
        names = inputs.iter().map(|(path, name)| name.clone().unwrap_or_else(|| end(path, length))).collect();
        let mut sorted: Vec<&String> = names.iter().collect();
        sorted.sort_unstable();
        if sorted.windows(2).all(|pair| pair.first() != pair.get(1)) {
            break;
        }
    }
    names
}

fn end(path: &str, length: usize) -> String {
    let parts: Vec<&str> = path.trim_end_matches('/').split('/').filter(|p| !p.is_empty()).collect();
    parts.get(parts.len().saturating_sub(length)..).unwrap_or(&parts).join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_lists_patterns_and_names() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a/x.h5", "b/x.h5", "b/y[1].h5"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let find = |arguments: &[&str], lists: &[PathBuf]| {
            let arguments: Vec<PathBuf> = arguments.iter().map(|a| folder.path().join(a)).collect();
            let found = find_inputs(&arguments, lists)?;
            Ok::<_, Error>(found.into_iter().map(|input| input.name).collect::<Vec<_>>())
        };
        assert_eq!(find(&["a/x.h5"], &[]).unwrap(), ["x.h5"]);
        assert_eq!(find(&["*/x.h5"], &[]).unwrap(), ["a/x.h5", "b/x.h5"]);
        assert_eq!(find(&["b/y[1].h5"], &[]).unwrap(), ["y[1].h5"]);
        assert!(find(&["c*"], &[]).unwrap_err().to_string().contains("nothing matches"));
        assert!(find(&["a/x.h5", "a/x.h5"], &[]).unwrap_err().to_string().contains("named twice"));
        let list = folder.path().join("list.txt");
        std::fs::write(&list, "# inputs\na/x.h5\tfirst\r\n\nb/x.h5\n").unwrap();
        assert_eq!(find(&[], std::slice::from_ref(&list)).unwrap(), ["first", "x.h5"]);
        std::fs::write(&list, "a/x.h5\tsame\nb/x.h5\tsame\n").unwrap();
        assert!(find(&[], &[list]).unwrap_err().to_string().contains("called \"same\""));
        assert!(find(&[], &[]).is_err());
    }
}
