//! Images out of files: OCI layouts as directories and archives, and what `docker save` writes.
//!
//! `archive` finds the files, whatever form they have; `oci` and `docker` know which of them are images; the rest is
//! as for a pull. Digests are checked the same way.

mod archive;
mod docker;
mod oci;

use std::fmt;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;

use minke_core::runtime::{ImageId, PullError};

use super::ingest::{self, Layer};
use super::manifest::{NoPlatform, Platform};
use super::store::{Inner, LayerKey};
use super::unpack::{Budget, ExpectedBlob, UnpackError};
use super::{Digest, ImageConfig, ImageStore, Reference};
use archive::Archive;

/// Where an import reads from.
pub enum ImportSource {
    /// A directory with an OCI layout, or an archive, compressed or not.
    Path(PathBuf),
    /// An archive from a stream, for example standard input.
    Stream(Box<dyn Read + Send>),
}

impl fmt::Debug for ImportSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => f.debug_tuple("Path").field(path).finish(),
            Self::Stream(_) => f.write_str("Stream(…)"),
        }
    }
}

/// An image that came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Its id.
    pub id: ImageId,
    /// The names that point to it now.
    pub names: Vec<String>,
}

/// An image of an archive that is to be imported.
struct Candidate {
    /// Names that the archive gives it.
    names: Vec<String>,
    config_digest: Digest,
    config_bytes: Vec<u8>,
    config: ImageConfig,
    /// Where each layer is, lowest first.
    layers: Vec<Blob>,
}

/// A layer of an archive.
struct Blob {
    /// File in the archive.
    file: String,
    /// What the manifest says of it; docker archives say nothing.
    expected: Option<ExpectedBlob>,
}

/// Why an import failed, before the name of what was imported is known.
#[derive(Debug)]
enum ImportError {
    Unpack(UnpackError),
    Name { image: String, message: String },
    Platform { wanted: Platform, found: NoPlatform },
}

impl From<UnpackError> for ImportError {
    fn from(error: UnpackError) -> Self {
        Self::Unpack(error)
    }
}

impl ImportError {
    fn bad(message: impl Into<String>) -> Self {
        Self::Unpack(UnpackError::Bad(message.into()))
    }

    fn into_pull(self, image: String) -> PullError {
        match self {
            // What fails to be read is a file here, not a registry.
            Self::Unpack(UnpackError::Source(error)) => PullError::BadContent { image, message: error.to_string() },
            Self::Unpack(error) => error.into_pull(&image),
            Self::Name { image, message } => PullError::InvalidName { image, message },
            Self::Platform { wanted, found } => {
                PullError::NoPlatform { image, platform: wanted.to_string(), available: found.available }
            }
        }
    }
}

impl ImageStore {
    /// Imports the images of a file, directory or stream. `names` replace those that it carries, if there are any;
    /// then it must hold one image only. An image without a name is found by its id.
    ///
    /// Cancel-safe: an import whose future is dropped runs to its end.
    ///
    /// # Errors
    /// As for a pull; `image` in the error is the file.
    pub async fn import(&self, source: ImportSource, names: &[String]) -> Result<Vec<Imported>, PullError> {
        let store = self.clone();
        let names = names.to_vec();
        let shown = match &source {
            ImportSource::Path(path) => path.display().to_string(),
            ImportSource::Stream(_) => "the imported stream".to_owned(),
        };
        let image = shown.clone();
        let import = tokio::task::spawn_blocking(move || store.inner.import(source, &names));
        match import.await {
            Ok(result) => result.map_err(|error| error.into_pull(image)),
            Err(error) => Err(PullError::Storage { image: shown, message: format!("the import ended early: {error}") }),
        }
    }
}

impl Inner {
    fn import(&self, source: ImportSource, names: &[String]) -> Result<Vec<Imported>, ImportError> {
        let names: Vec<String> = names.iter().map(|name| canonical(name)).collect::<Result<_, _>>()?;
        let (archive, _scratch) = match source {
            ImportSource::Path(path) => Archive::open(self, &path)?,
            ImportSource::Stream(stream) => Archive::spool(self, stream)?,
        };
        let platform = Platform::host();
        let candidates = match archive.read_small("index.json")? {
            Some(index) => oci::candidates(&archive, &index, &platform)?,
            None => match archive.read_small("manifest.json")? {
                Some(manifest) => docker::candidates(&archive, &manifest)?,
                None => {
                    return Err(ImportError::bad(
                        "it has neither index.json (an OCI layout) nor manifest.json (docker save)",
                    ));
                }
            },
        };
        if candidates.is_empty() {
            return Err(ImportError::bad("there is no image in it"));
        }
        if !names.is_empty() && candidates.len() > 1 {
            return Err(ImportError::bad(format!("it holds {} images, so a name can't be given", candidates.len())));
        }
        for candidate in &candidates {
            super::manifest::check_platform(&candidate.config, &platform)
                .map_err(|found| ImportError::Platform { wanted: platform.clone(), found })?;
        }
        let chosen = |candidate: &Candidate| if names.is_empty() { candidate.names.clone() } else { names.clone() };
        candidates
            .iter()
            .map(|candidate| {
                let names = chosen(candidate);
                let id = self.import_one(&archive, candidate, &names)?;
                Ok(Imported { id, names })
            })
            .collect()
    }

    fn import_one(&self, archive: &Archive, candidate: &Candidate, names: &[String]) -> Result<ImageId, ImportError> {
        let budget = Budget::new(self.config.limits);
        let keys = LayerKey::of(&candidate.config.diff_ids);
        let jobs: Mutex<Vec<_>> = Mutex::new(keys.iter().zip(&candidate.layers).enumerate().rev().collect());
        let workers = std::thread::available_parallelism().map_or(1, |cores| cores.get().min(4)).min(keys.len());
        let work = || -> Result<Vec<(usize, Layer)>, UnpackError> {
            let mut done = Vec::new();
            loop {
                let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).pop();
                let Some((index, (key, blob))) = job else {
                    return Ok(done);
                };
                match self.import_layer(archive, key, blob, &budget) {
                    Ok(layer) => done.push((index, layer)),
                    Err(error) => {
                        // The others end with what they do now.
                        jobs.lock().unwrap_or_else(PoisonError::into_inner).clear();
                        return Err(error);
                    }
                }
            }
        };
        let mut layers = Vec::new();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            for thread in threads {
                match thread.join() {
                    Ok(done) => layers.extend(done?),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            Ok::<_, UnpackError>(())
        })?;
        layers.sort_by_key(|(index, _)| *index);
        let layers = keys.into_iter().zip(layers.into_iter().map(|(_, layer)| layer)).collect();
        Ok(ingest::finish(self, &candidate.config_digest, &candidate.config_bytes, layers, names, &budget)?)
    }

    fn import_layer(
        &self,
        archive: &Archive,
        key: &LayerKey,
        blob: &Blob,
        budget: &Budget,
    ) -> Result<Layer, UnpackError> {
        if let Some(hold) = self.hold_layer(key)? {
            return Ok(Layer::Held(hold));
        }
        let _fetch = self.fetch_lock(key)?;
        // Somebody else may have fetched it meanwhile.
        if let Some(hold) = self.hold_layer(key)? {
            return Ok(Layer::Held(hold));
        }
        let source = archive.read(&blob.file)?;
        ingest::unpack_layer(self, key, source, blob.expected.clone(), budget)
    }
}

/// The full name that people mean.
fn canonical(name: &str) -> Result<String, ImportError> {
    let invalid = |message| ImportError::Name { image: name.to_owned(), message };
    let reference = Reference::parse(name).map_err(invalid)?;
    reference.tagged().ok_or_else(|| invalid("an imported image can't be given a name with a digest".to_owned()))
}
