//! Images.
//!
//! The runtime pulls, so a pull has no progress, and without a login of the Pod's it is the runtime's own configuration
//! that says how to log in.

use std::path::PathBuf;

use async_trait::async_trait;
use minke_core::runtime::{
    FsInfo, ImageId, ImageService, ImageStatus, PullError, PullRequest, RuntimeError, error_chain,
};

use crate::api;
use crate::containers;
use crate::convert::image;
use crate::error::{Subject, Words};
use crate::pull_error::pull_error;
use crate::runtime::{CallError, CriRuntime, Inner};

const STATUS: &str = "image status";
const REMOVE: &str = "remove image";
const FS_INFO: &str = "image file system";

#[async_trait]
impl ImageService for CriRuntime {
    async fn pull_image(&self, request: &PullRequest) -> Result<ImageId, PullError> {
        let name = &request.image;
        let mut denied = None;
        let logins = request.credentials.iter().map(Some).chain(request.credentials.is_empty().then_some(None));
        for credential in logins {
            match self.pull_once(name, credential.map(image::login)).await {
                Ok(id) => return Ok(id),
                // The next login may do.
                Err(error @ PullError::Denied { .. }) => denied = Some(error),
                // Registries hide from one login what another may see.
                Err(error @ PullError::NotFound { .. }) => denied = Some(denied.unwrap_or(error)),
                Err(error) => return Err(error),
            }
        }
        let message = "no login was accepted".to_owned();
        Err(denied.unwrap_or(PullError::Denied { image: name.clone(), message }))
    }

    async fn image_status(&self, name: &str) -> Result<Option<ImageStatus>, RuntimeError> {
        let inner = &self.inner;
        let request = api::ImageStatusRequest { image: Some(image::spec(name)), verbose: false };
        let answer = inner.call(STATUS, Subject::Image(name), inner.connection.images().image_status(request)).await;
        match answer {
            Ok(answer) => Ok(answer.image.map(image::status)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn list_images(&self) -> Result<Vec<ImageStatus>, RuntimeError> {
        let inner = &self.inner;
        let request = api::ListImagesRequest { filter: None };
        let listed =
            inner.call("list images", Subject::Runtime, inner.connection.images().list_images(request)).await?;
        Ok(listed.images.into_iter().map(image::status).collect())
    }

    async fn remove_image(&self, name: &str) -> Result<(), RuntimeError> {
        let Some(found) = self.image_status(name).await? else { return Ok(()) };
        let inner = &self.inner;
        refuse_other_names(name, &found)?;
        refuse_in_use(inner, &found).await?;
        let request = api::RemoveImageRequest { image: Some(image::spec(&found.id.0)) };
        let removed = inner.call(REMOVE, Subject::Image(name), inner.connection.images().remove_image(request)).await;
        crate::sandboxes::gone_is_done(removed.map(drop))
    }

    async fn image_fs_info(&self) -> Result<FsInfo, RuntimeError> {
        let inner = &self.inner;
        let mut client = inner.connection.images();
        // Counting a large store takes its time.
        let answer = inner.bounded(None, client.image_fs_info(api::ImageFsInfoRequest {})).await;
        let answer = answer.map_err(|e| e.into_runtime(FS_INFO, Subject::Runtime))?;
        let nothing = || RuntimeError::failed(FS_INFO, Words("the runtime tells of no file system".to_owned()));
        let usage = answer.image_filesystems.into_iter().next().ok_or_else(nothing)?;
        let directory = PathBuf::from(usage.fs_id.map(|id| id.mountpoint).unwrap_or_default());
        let disk = rustix::fs::statvfs(&directory).map_err(|error| {
            let words = format!("can't look at {}: {}", directory.display(), error_chain(&error));
            RuntimeError::failed(FS_INFO, Words(words))
        })?;
        Ok(FsInfo {
            used_bytes: usage.used_bytes.map_or(0, |v| v.value),
            used_inodes: usage.inodes_used.map_or(0, |v| v.value),
            available_bytes: disk.f_bavail.saturating_mul(disk.f_frsize),
            capacity_bytes: disk.f_blocks.saturating_mul(disk.f_frsize),
            directory,
        })
    }
}

impl CriRuntime {
    async fn pull_once(&self, name: &str, auth: Option<api::AuthConfig>) -> Result<ImageId, PullError> {
        let inner = &self.inner;
        let request = api::PullImageRequest { image: Some(image::spec(name)), auth, sandbox_config: None };
        // As upstream: a pull takes as long as it takes; runtimes give up on pulls that stand still.
        let pulled = inner.bounded(None, inner.connection.images().pull_image(request)).await;
        let pulled = pulled.map_err(|error| match error {
            CallError::Status(status) => pull_error(name, &status),
            CallError::TimedOut(_) => {
                PullError::Network { image: name.to_owned(), message: "the pull took too long".to_owned() }
            }
        })?;
        // Some runtimes answer with a name instead of the id.
        match self.image_status(&pulled.image_ref).await {
            Ok(Some(status)) => Ok(status.id),
            Ok(None) => {
                let message = "it was pulled, and the runtime does not have it".to_owned();
                Err(PullError::Storage { image: name.to_owned(), message })
            }
            Err(error) => Err(PullError::Storage { image: name.to_owned(), message: error_chain(&error) }),
        }
    }
}

/// CRI removes an image with all its names. One name of several is not taken for all of them.
fn refuse_other_names(name: &str, found: &ImageStatus) -> Result<(), RuntimeError> {
    let by_id = found.id.0 == name || found.id.0.strip_prefix("sha256:").is_some_and(|id| id.starts_with(name));
    if by_id || found.tags.len() < 2 {
        return Ok(());
    }
    let names = found.tags.join(", ");
    let feature = format!("removing one name of several ({names}); remove it with all of them by its id, {}", found.id);
    Err(RuntimeError::Unsupported { operation: REMOVE, feature })
}

/// Runtimes remove images that containers use, and find out when one of these starts.
async fn refuse_in_use(inner: &Inner, found: &ImageStatus) -> Result<(), RuntimeError> {
    let users = containers::list(inner, None).await?;
    let uses = |c: &&api::Container| {
        let ours = c.annotations.get(crate::convert::own::IMAGE_ID);
        let of = [Some(&c.image_id), Some(&c.image_ref), ours];
        of.into_iter().flatten().any(|id| *id == found.id.0 || found.digests.contains(id))
    };
    match users.iter().find(uses) {
        None => Ok(()),
        Some(user) => {
            let message = format!("container {} uses {}", user.id, found.id);
            Err(RuntimeError::Invalid { operation: REMOVE, message })
        }
    }
}

#[cfg(test)]
mod tests {
    use minke_core::runtime::ImageUser;

    use super::*;

    #[test]
    fn one_name_of_several_is_not_removed_with_the_others() {
        let image = |tags: &[&str]| ImageStatus {
            id: ImageId("sha256:abc".to_owned()),
            tags: tags.iter().map(|t| (*t).to_owned()).collect(),
            digests: Vec::new(),
            size_bytes: 0,
            user: ImageUser::Root,
            pinned: false,
        };
        assert!(refuse_other_names("a:1", &image(&["a:1"])).is_ok());
        let error = refuse_other_names("a:1", &image(&["a:1", "b:1"])).unwrap_err();
        assert!(error_chain(&error).contains("a:1, b:1"), "{error}");
        for id in ["sha256:abc", "abc", "ab"] {
            assert!(refuse_other_names(id, &image(&["a:1", "b:1"])).is_ok(), "{id}");
        }
    }
}
