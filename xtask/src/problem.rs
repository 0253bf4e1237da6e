//! What a check finds: one broken rule at one place.

use std::fmt;
use std::path::{Path, PathBuf};

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    /// The file, relative to the workspace.
    pub(crate) file: PathBuf,
    /// The line, 1-based, where there is one.
    pub(crate) line: Option<usize>,
    /// What is wrong and what to do about it.
    pub(crate) text: String,
}

impl Problem {
    /// A problem of a whole file.
    pub(crate) fn of(file: impl AsRef<Path>, text: impl Into<String>) -> Self {
        Self { file: file.as_ref().to_owned(), line: None, text: text.into() }
    }

    /// A problem at a line.
    pub(crate) fn at(file: impl AsRef<Path>, line: usize, text: impl Into<String>) -> Self {
        Self { file: file.as_ref().to_owned(), line: Some(line), text: text.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file.display(), self.text),
            None => write!(f, "{}: {}", self.file.display(), self.text),
        }
    }
}

/// A check could not look at something. That is a failure too, never a pass.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CheckError {
    /// A file or directory can't be read.
    #[error("can't read {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A program can't be run or failed.
    #[error("{command} failed: {message}")]
    Command {
        /// Which.
        command: String,
        /// Its last words.
        message: String,
    },
    /// A file is not what its name says.
    #[error("{} is not understood: {message}", path.display())]
    Format {
        /// Which.
        path: PathBuf,
        /// Why.
        message: String,
    },
}

/// Reads a text file.
pub(crate) fn read(path: &Path) -> Result<String, CheckError> {
    std::fs::read_to_string(path).map_err(|source| CheckError::Read { path: path.to_owned(), source })
}
