use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use hdf5_reader::{ExternalLinkResolver, Hdf5File};

/// The files that a file's external links name. They are never opened: a file from elsewhere does not decide what else is
/// read. What such a link stands for counts as absent, and messages say why.
#[derive(Debug, Clone, Default)]
pub(super) struct Elsewhere(Arc<Mutex<BTreeSet<String>>>);

impl Elsewhere {
    /// What a message about something absent adds; empty where no link led out of the file.
    pub(super) fn hint(&self) -> String {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if files.is_empty() {
            return String::new();
        }
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        format!("; it links to other files ({}), which are not read", files.join(", "))
    }
}

impl ExternalLinkResolver for Elsewhere {
    fn resolve_external_link(&self, filename: &str) -> hdf5_reader::error::Result<Option<Hdf5File>> {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A few name the cause; a file may hold any number of links.
        if files.len() < 8 {
            files.insert(filename.chars().take(200).collect());
        }
        Ok(None)
    }
}
