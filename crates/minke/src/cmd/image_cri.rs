//! `minke image` on a container runtime with CRI: its store, asked through the Runtime port.

use std::sync::Arc;

use minke_core::clock::SystemClock;
use minke_core::runtime::{ImageService as _, NoProgress, PullRequest, RuntimeError};
use minke_cri::{CriConfig, CriRuntime, Endpoint};

use super::image::{ImageCommand, pull_failure, show};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::stdout;

/// Does it.
pub(super) async fn run(command: &ImageCommand, endpoint: Endpoint) -> Outcome {
    let opened = CriRuntime::open(CriConfig { endpoint }, Arc::new(SystemClock)).await;
    let runtime = opened.map_err(|e| Failure::from_error(&e))?;
    let failed = |error: RuntimeError| Failure::from_error(&error);
    match command {
        ImageCommand::List(args) => show(args, runtime.list_images().await.map_err(failed)?),
        ImageCommand::Pull(args) => {
            for image in &args.images {
                let (image, progress) = (image.clone(), Arc::new(NoProgress));
                let request = PullRequest { image, credentials: Vec::new(), progress };
                let id = runtime.pull_image(&request).await.map_err(|e| pull_failure(&e))?;
                stdout::print(&format!("{id}\n"))?;
            }
            Ok(Exit::Reached)
        }
        ImageCommand::Rm(args) => {
            for image in &args.images {
                if runtime.image_status(image).await.map_err(failed)?.is_none() {
                    return Err(Failure::usage(format!("the container runtime has no image {image:?}"))
                        .hint("`minke image list` shows all"));
                }
                runtime.remove_image(image).await.map_err(failed)?;
            }
            Ok(Exit::Reached)
        }
        ImageCommand::Import(_) | ImageCommand::Prune(_) => {
            let name = &runtime.facts().name;
            Err(Failure::usage(format!("{name} offers no such thing over CRI"))
                .hint("use its own tools, for example `ctr -n k8s.io images import FILE` or `crictl rmi --prune`"))
        }
    }
}
