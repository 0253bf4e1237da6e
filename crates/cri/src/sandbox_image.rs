//! The image of the process that holds a sandbox: a runtime that lacks it can make none until it has pulled it.

use minke_core::runtime::RuntimeError;

use crate::api;
use crate::convert::image;
use crate::error::Subject;
use crate::runtime::CriRuntime;

const OPERATION: &str = "look for the sandbox image";

/// What is known of the image of sandboxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxImage {
    /// It is in the store.
    Present(String),
    /// It is configured and not in the store: the first sandbox pulls it, from a registry that must then answer.
    Absent(String),
    /// The runtime does not tell.
    Untold,
}

impl CriRuntime {
    /// Looks for the image of sandboxes: under the name that the runtime is configured with, where it shows that, else among
    /// the images that it keeps from being removed.
    ///
    /// # Errors
    /// The runtime does not answer.
    pub async fn sandbox_image(&self) -> Result<SandboxImage, RuntimeError> {
        let inner = &self.inner;
        let mut client = inner.connection.images();
        if let Some(name) = inner.facts.sandbox_image.clone() {
            let request = api::ImageStatusRequest { image: Some(image::spec(&name)), verbose: false };
            let answer = inner.call(OPERATION, Subject::Image(&name), client.image_status(request)).await?;
            return Ok(if answer.image.is_some() { SandboxImage::Present(name) } else { SandboxImage::Absent(name) });
        }
        let request = api::ListImagesRequest { filter: None };
        let answer = inner.call(OPERATION, Subject::Runtime, client.list_images(request)).await?;
        let pinned = answer.images.into_iter().find(|image| image.pinned);
        let name = |image: api::Image| image.repo_tags.into_iter().chain([image.id]).find(|name| !name.is_empty());
        Ok(pinned.and_then(name).map_or(SandboxImage::Untold, SandboxImage::Present))
    }
}
