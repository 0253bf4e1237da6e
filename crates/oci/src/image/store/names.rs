//! Names and the images that they point to. One file a name, so that a name moves from one image to another in one
//! atomic step.

use std::path::PathBuf;

use minke_core::runtime::ImageId;
use serde::{Deserialize, Serialize};

use super::lock::StoreLock;
use super::{Inner, files};
use crate::image::{Digest, StoreError};

/// The contents of a name's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NameRecord {
    /// `registry/repository:tag` or `registry/repository@digest`.
    pub(super) name: String,
    /// What it points to.
    pub(super) image: ImageId,
}

impl NameRecord {
    /// Whether it is a name with a tag, as opposed to one that pins a digest.
    pub(super) fn is_tag(&self) -> bool {
        !self.name.contains('@')
    }

    /// `registry/repository`.
    pub(super) fn repository(&self) -> &str {
        match self.name.split_once('@') {
            Some((repository, _)) => repository,
            None => self.name.rsplit_once(':').map_or(self.name.as_str(), |(repository, _)| repository),
        }
    }
}

impl Inner {
    /// Names hold slashes and may be longer than file names, so the file is called by the name's digest.
    fn name_path(&self, name: &str) -> PathBuf {
        self.dir("names").join(format!("{}.json", Digest::sha256(name.as_bytes()).hex()))
    }

    pub(super) fn set_name(&self, name: &str, image: &ImageId, lock: &StoreLock) -> Result<(), StoreError> {
        let record = NameRecord { name: name.to_owned(), image: image.clone() };
        let path = self.name_path(name);
        if self.get_name(name)?.as_ref() == Some(&record) {
            return Ok(());
        }
        let bytes = serde_json::to_vec(&record).map_err(|error| StoreError::io("encode", &path)(error.into()))?;
        self.write(&path, &bytes, lock)
    }

    pub(super) fn get_name(&self, name: &str) -> Result<Option<NameRecord>, StoreError> {
        let path = self.name_path(name);
        files::read(&path)?.map(|bytes| decode(&path, &bytes)).transpose()
    }

    pub(super) fn unset_name(&self, name: &str) -> Result<(), StoreError> {
        files::remove(&self.name_path(name))
    }

    /// Every name, sorted.
    pub(super) fn names(&self) -> Result<Vec<NameRecord>, StoreError> {
        let dir = self.dir("names");
        let mut names = Vec::new();
        for file in files::list(&dir)? {
            let path = dir.join(file);
            // One that vanishes between listing and reading was removed just now.
            if let Some(bytes) = files::read(&path)? {
                names.push(decode(&path, &bytes)?);
            }
        }
        names.sort_by(|a: &NameRecord, b| a.name.cmp(&b.name));
        Ok(names)
    }
}

fn decode(path: &std::path::Path, bytes: &[u8]) -> Result<NameRecord, StoreError> {
    serde_json::from_slice(bytes)
        .map_err(|error| StoreError::Damaged { path: path.to_owned(), message: error.to_string() })
}
