//! Files, and directories of files.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use minke_core::manifest::{Input, MAX_BYTES};

use super::error::{ReadError, TooLarge};

/// Reads a file, or each file of a directory in order of name. Blocking.
pub(super) fn read(path: &Path) -> Result<Vec<Input>, ReadError> {
    let fail = |path: &Path, error: io::Error| ReadError::new(path.display().to_string(), explain(error));
    let metadata = std::fs::metadata(path).map_err(|error| fail(path, error))?;
    if !metadata.is_dir() {
        return Ok(vec![read_file(path)?]);
    }
    let files = list(path).map_err(|error| fail(path, error))?;
    files.iter().map(|file| read_file(file)).collect()
}

/// The files of a directory, sorted by name. Dot files and whatever is no file (nor a link to one) are left out.
pub(crate) fn list(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        // Follows links: a mounted ConfigMap is a directory of links. A dangling link is reported when it is read.
        let is_file = std::fs::metadata(entry.path()).map_or(true, |metadata| metadata.is_file());
        if is_file {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

pub(crate) fn read_file(path: &Path) -> Result<Input, ReadError> {
    let name = path.display().to_string();
    let bytes = File::open(path).map_err(|error| ReadError::new(&name, explain(error))).and_then(|file| {
        let size = file.metadata().map(|m| m.len()).unwrap_or(0);
        read_bounded(&name, file, usize::try_from(size).unwrap_or(usize::MAX))
    })?;
    Ok(Input { name: name.into(), bytes })
}

/// Reads to the end, or fails as soon as there is more than [`MAX_BYTES`]. `expected` is the size where it is known;
/// a larger one fails before anything is read.
pub(super) fn read_bounded(name: &str, reader: impl Read, expected: usize) -> Result<Vec<u8>, ReadError> {
    if expected > MAX_BYTES {
        return Err(ReadError::new(name, TooLarge { limit: MAX_BYTES }));
    }
    let mut bytes = Vec::with_capacity(expected);
    reader.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|error| ReadError::new(name, explain(error)))?;
    if bytes.len() > MAX_BYTES {
        return Err(ReadError::new(name, TooLarge { limit: MAX_BYTES }));
    }
    Ok(bytes)
}

/// The commonest causes in words; the others as the system says them.
fn explain(error: io::Error) -> Box<dyn std::error::Error + Send + Sync> {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file or directory".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        _ => error.into(),
    }
}
