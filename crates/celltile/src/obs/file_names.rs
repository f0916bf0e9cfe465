use std::fmt::Write;

use crate::digest::Sha256;

/// Longest URL-quoted name that is used as it is: with `.arrow` it stays far below the 255 bytes that file systems
/// allow, and below the 143 of encrypted ones.
const LONGEST: usize = 120;

/// The name of a column's file in the cache: `<URL-quoted name>.arrow`.
///
/// A name that is long, or differs from another column's in nothing but case (some file systems ignore it), gets
/// `=` and 16 hexadecimal digits of its SHA-256 behind it. Quoting never yields `=`, so such a name is no other
/// column's. `others` are the names of all columns.
#[must_use]
pub fn cache_file_name<'a>(name: &str, others: impl IntoIterator<Item = &'a str>) -> String {
    let quoted = quote(name);
    let ambiguous =
        others.into_iter().any(|other| other != name && quote(other).eq_ignore_ascii_case(&quoted));
    if quoted.len() <= LONGEST && !ambiguous {
        return format!("{quoted}.arrow");
    }
    let digest: String = Sha256::of(name.as_bytes()).to_string().chars().take(16).collect();
    // Quoted text is ASCII, so that any byte is a boundary.
    let start = quoted.get(..LONGEST).unwrap_or(&quoted);
    format!("{start}={digest}.arrow")
}

/// Python's `urllib.parse.quote(name, safe="")`.
fn quote(name: &str) -> String {
    let mut quoted = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"_.-~".contains(&byte) {
            quoted.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(quoted, "%{byte:02X}");
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::cache_file_name;

    #[test]
    fn names_stay_inside_and_apart() {
        let long = "x".repeat(300);
        let long_too = "x".repeat(301);
        let names =
            ["../../x", "a/b", ".", "..", "", "Age", "age", "é", "É", "%2F", "CON ", &long, &long_too];
        let mut files: Vec<_> = names.iter().map(|name| cache_file_name(name, names)).collect();
        assert_eq!(files[0], "..%2F..%2Fx.arrow");
        assert_eq!(files[2..5], ["..arrow", "...arrow", ".arrow"]);
        assert!(files[5].starts_with("Age="));
        for file in &files {
            assert!(!file.contains('/') && file.len() <= 143 && file != "." && file != "..", "{file}");
        }
        files.iter_mut().for_each(|file| file.make_ascii_lowercase());
        files.sort();
        files.dedup();
        assert_eq!(files.len(), names.len());
    }

    #[test]
    fn a_lone_name_is_only_quoted() {
        assert_eq!(cache_file_name("cell type", ["cell type", "donor"]), "cell%20type.arrow");
    }
}
