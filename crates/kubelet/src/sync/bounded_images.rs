//! Images whose look-ups end: a runtime that hangs holds a Pod up for a while, not for ever. Pulls take as long as
//! they take; whoever performs them notices a stall.

use std::sync::Arc;

use async_trait::async_trait;
use minke_core::runtime::{FsInfo, ImageId, ImageService, ImageStatus, PullError, PullRequest, Runtime, RuntimeError};

use super::CALL_TIMEOUT;
use crate::pleg::bounded;

/// The images of a runtime, with bounds on everything but pulls.
pub(crate) struct BoundedImages(pub(crate) Arc<dyn Runtime>);

#[async_trait]
impl ImageService for BoundedImages {
    async fn pull_image(&self, request: &PullRequest) -> Result<ImageId, PullError> {
        self.0.pull_image(request).await
    }

    async fn image_status(&self, image: &str) -> Result<Option<ImageStatus>, RuntimeError> {
        bounded("image status", CALL_TIMEOUT, self.0.image_status(image)).await
    }

    async fn list_images(&self) -> Result<Vec<ImageStatus>, RuntimeError> {
        bounded("list images", CALL_TIMEOUT, self.0.list_images()).await
    }

    async fn remove_image(&self, image: &str) -> Result<(), RuntimeError> {
        bounded("remove image", CALL_TIMEOUT, self.0.remove_image(image)).await
    }

    async fn image_fs_info(&self) -> Result<FsInfo, RuntimeError> {
        bounded("image fs info", CALL_TIMEOUT, self.0.image_fs_info()).await
    }
}
