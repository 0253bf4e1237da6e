//! Where manifests come from: files, directories, URLs, standard input.
//!
//! This is the I/O edge only: it finds sources, reads them within [`minke_core::manifest::MAX_BYTES`] and hands the
//! bytes to [`minke_core::manifest::parse`], which decides everything. One file per kind of source:
//! `file` (files and directories), `http`, `stdin`.

mod error;
mod file;
mod http;
mod location;
mod stdin;
#[cfg(test)]
mod tests;

use std::path::Path;

use minke_core::manifest::{Input, Manifests, Validate, parse};

pub use error::{LoadError, ReadError};
pub(crate) use file::{list, read_file};
pub(crate) use http::read as fetch;
pub use location::Source;

/// Reads all sources and makes Pods of them, together: names may not repeat over sources, and a Pod may refer to a
/// ConfigMap of another one.
///
/// The files of a directory are taken in order of their names; dot files and sub-directories are ignored, as by the
/// kubelet. Cancel-safe: nothing is started and nothing is kept.
///
/// # Errors
/// * [`LoadError::Read`]: some sources can't be read; each is named with its cause.
/// * [`LoadError::Empty`]: there is nothing to run in any of them.
/// * [`LoadError::Invalid`]: the manifests are wrong; every problem has its place.
pub async fn load(sources: &[Source], validate: Validate) -> Result<Manifests, LoadError> {
    let inputs = read(sources).await?;
    let manifests = tokio::task::spawn_blocking(move || parse(&inputs, validate)).await??;
    if manifests.groups.is_empty() {
        return Err(LoadError::Empty { sources: sources.iter().map(Source::to_string).collect() });
    }
    Ok(manifests)
}

/// Reads all sources, without looking at what they say.
///
/// # Errors
/// [`LoadError::Read`] with every source that can't be read.
pub async fn read(sources: &[Source]) -> Result<Vec<Input>, LoadError> {
    let mut inputs = Vec::new();
    let mut failures = Vec::new();
    for source in sources {
        let result = match source {
            Source::Path(path) => read_path(path).await,
            Source::Url(url) => http::read(url).await.map(|input| vec![input]),
            Source::Stdin => stdin::read().await.map(|input| vec![input]),
        };
        match result {
            Ok(found) => inputs.extend(found),
            Err(error) => failures.push(error),
        }
    }
    if failures.is_empty() { Ok(inputs) } else { Err(LoadError::Read(failures)) }
}

async fn read_path(path: &Path) -> Result<Vec<Input>, ReadError> {
    let path = path.to_owned();
    let name = path.display().to_string();
    tokio::task::spawn_blocking(move || file::read(&path)).await.map_err(|source| ReadError::new(name, source))?
}
