//! Images: the store, with what containers use kept in it.

use std::collections::HashSet;

use async_trait::async_trait;
use minke_core::runtime::{FsInfo, ImageId, ImageService, ImageStatus, PullError, PullRequest, RuntimeError};

use super::EmbeddedRuntime;
use super::embedded::blocking;

#[async_trait]
impl ImageService for EmbeddedRuntime {
    async fn pull_image(&self, request: &PullRequest) -> Result<ImageId, PullError> {
        self.inner.images.pull(request).await
    }

    async fn image_status(&self, image: &str) -> Result<Option<ImageStatus>, RuntimeError> {
        const OPERATION: &str = "image status";
        let (store, image) = (self.inner.images.clone(), image.to_owned());
        blocking(OPERATION, move || store.status(&image).map_err(|e| e.into_runtime(OPERATION))).await
    }

    async fn list_images(&self) -> Result<Vec<ImageStatus>, RuntimeError> {
        const OPERATION: &str = "list images";
        let store = self.inner.images.clone();
        blocking(OPERATION, move || store.list().map_err(|e| e.into_runtime(OPERATION))).await
    }

    async fn remove_image(&self, image: &str) -> Result<(), RuntimeError> {
        const OPERATION: &str = "remove image";
        let (store, image) = (self.inner.images.clone(), image.to_owned());
        let used: HashSet<ImageId> = self.inner.containers().iter().map(|c| c.record.image.clone()).collect();
        blocking(OPERATION, move || {
            let removed = store.remove(&image, &|id| used.contains(id));
            removed.map(|_| ()).map_err(|e| e.into_runtime(OPERATION))
        })
        .await
    }

    async fn image_fs_info(&self) -> Result<FsInfo, RuntimeError> {
        const OPERATION: &str = "image file system";
        let store = self.inner.images.clone();
        blocking(OPERATION, move || store.fs_info().map_err(|e| e.into_runtime(OPERATION))).await
    }
}
