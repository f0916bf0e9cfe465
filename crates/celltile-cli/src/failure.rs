//! Why a command ended early, and what the user hears of it.

use std::error::Error;
use std::io;

/// Why a command ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Bad input, damaged data, a full disk: exit code 1.
    Bad(Box<dyn Error + Send + Sync>),
    /// The results say what is wrong; nothing is left to add: exit code 1.
    Told,
    /// Arguments that cannot be right, whatever the data: exit code 2.
    Usage(String),
    /// The user asked to stop: exit code 130.
    Interrupted,
    /// Whoever read the results has stopped reading: not an error.
    ReaderGone,
}

impl Failure {
    /// From the conversion crate, whose stop on request is no error.
    pub(crate) fn of_ingest(error: celltile_ingest::Error) -> Self {
        match error {
            celltile_ingest::Error::Cancelled => Self::Interrupted,
            error => error.into(),
        }
    }

    /// Says it on standard error, and gives the exit code.
    pub(crate) fn report(self) -> u8 {
        match self {
            Self::Bad(error) => {
                eprintln!("error: {}", chain(error.as_ref()));
                1
            }
            Self::Told => 1,
            Self::Usage(message) => {
                eprintln!("error: {message}");
                2
            }
            Self::Interrupted => {
                eprintln!("interrupted");
                130
            }
            Self::ReaderGone => 0,
        }
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let error: Box<dyn Error + Send + Sync> = Box::new(error);
        // Bare, it comes from standard output: whatever else breaks off is wrapped in an error of its own.
        match error.downcast_ref::<io::Error>() {
            Some(broken) if broken.kind() == io::ErrorKind::BrokenPipe => Self::ReaderGone,
            _ => Self::Bad(error),
        }
    }
}

/// The error with all its causes in one line, each said once.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    // Control characters of a name in a damaged file do not reach the terminal.
    text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<Self>>,
    }

    #[test]
    fn test_chain_says_each_cause_once() {
        let inner = Layer { text: "no space\tleft", source: None };
        let middle = Layer { text: "b.dct: no space\tleft", source: Some(Box::new(inner)) };
        let outer = Layer { text: "cannot write", source: Some(Box::new(middle)) };
        assert_eq!(chain(&outer), "cannot write: b.dct: no space left");
    }
}
