//! Which of several objects of the same name one is.

use object_store::ObjectMeta;

/// What tells two objects that were put under the same key apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Version {
    /// The object's size in bytes.
    pub(super) size: u64,
    e_tag: Option<String>,
    /// Milliseconds since 1970: all that some servers say. Not looked at where there is an ETag.
    modified: Option<i64>,
}

impl Version {
    pub(super) fn of(meta: &ObjectMeta) -> Self {
        let modified = meta.e_tag.is_none().then(|| meta.last_modified.timestamp_millis());
        Self { size: meta.size, e_tag: meta.e_tag.clone(), modified }
    }

    /// What a request can demand by `If-Match`: that compares strongly, so a weak ETag would never match.
    pub(super) fn condition(&self) -> Option<String> {
        self.e_tag.clone().filter(|tag| !tag.starts_with("W/"))
    }

    /// A text that differs where the version does.
    pub(super) fn text(&self) -> String {
        match (&self.e_tag, self.modified) {
            (Some(tag), _) => format!("{tag} {}", self.size),
            (None, modified) => format!("{} {}", modified.unwrap_or_default(), self.size),
        }
    }
}
