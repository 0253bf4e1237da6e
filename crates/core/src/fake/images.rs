//! Images of the fake runtime.

use async_trait::async_trait;

use super::calls::{Call, Op};
use super::runtime::FakeRuntime;
use super::world::World;
use crate::runtime::{FsInfo, ImageId, ImageService, ImageStatus, PullError, PullRequest, RuntimeError};

fn call(op: Op, name: &str) -> Call {
    Call { op, pod: None, name: name.to_owned(), number: 0 }
}

#[async_trait]
impl ImageService for FakeRuntime {
    async fn pull_image(&self, request: &PullRequest) -> Result<ImageId, PullError> {
        let name = &request.image;
        self.world().pulls.push((name.clone(), request.credentials.clone()));
        let pull = |world: &mut World, _| {
            let status = world.published(name).ok_or_else(|| PullError::NotFound { image: name.clone() })?;
            request.progress.layer(&status.id.0, status.size_bytes, status.size_bytes);
            let id = status.id.clone();
            world.images.insert(name.clone(), status);
            Ok(id)
        };
        self.call(call(Op::PullImage, name), |e, c| e.pull(c), pull).await
    }

    async fn image_status(&self, image: &str) -> Result<Option<ImageStatus>, RuntimeError> {
        let find = |world: &mut World, _| {
            let by_id = || world.images.values().find(|status| status.id.0 == image);
            Ok(world.images.get(image).or_else(by_id).cloned())
        };
        self.call(call(Op::ImageStatus, image), |e, c| e.runtime(c), find).await
    }

    async fn list_images(&self) -> Result<Vec<ImageStatus>, RuntimeError> {
        let list = |world: &mut World, _| Ok(world.images.values().cloned().collect());
        self.call(call(Op::ListImages, ""), |e, c| e.runtime(c), list).await
    }

    async fn remove_image(&self, image: &str) -> Result<(), RuntimeError> {
        let remove = |world: &mut World, _| {
            let ids: Vec<_> = world.images.iter().filter(|(name, s)| *name == image || s.id.0 == image).collect();
            let used = ids.iter().any(|(_, s)| world.containers.values().any(|c| c.config.image == s.id));
            if used {
                let operation = Op::RemoveImage.name();
                let message = format!("image {image} is used by a container");
                return Err(RuntimeError::Invalid { operation, message });
            }
            world.images.retain(|name, s| name != image && s.id.0 != image);
            Ok(())
        };
        self.call(call(Op::RemoveImage, image), |e, c| e.runtime(c), remove).await
    }

    async fn image_fs_info(&self) -> Result<FsInfo, RuntimeError> {
        let info = |world: &mut World, _| {
            let used_bytes = world.images.values().map(|s| s.size_bytes).sum();
            let used_inodes = u64::try_from(world.images.len()).unwrap_or(u64::MAX);
            Ok(FsInfo {
                used_bytes,
                used_inodes,
                available_bytes: world.disk.0.saturating_sub(used_bytes),
                capacity_bytes: world.disk.1,
                directory: "/images".into(),
            })
        };
        self.call(call(Op::ImageFsInfo, ""), |e, c| e.runtime(c), info).await
    }
}
