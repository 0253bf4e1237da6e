//! `--kubelet-compat`: the kubelet's removed run-once mode, in this process, with its exit codes and words.

use std::sync::Arc;

use minke_core::clock::{Clock, SystemClock};
use minke_core::identity::PodKey;
use minke_core::manifest::{Manifests, Validate};
use minke_core::runtime::error_chain;
use minke_kubelet::source::{LoadError, Source, load};
use minke_kubelet::{DesiredPod, runonce};

use crate::agent::lock::{Lock, LockError};
use crate::agent::open_runtime;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::diagnostics;
use crate::place::Place;

/// Runs once. The state directory is locked as by an agent: both at a time would act on the same containers.
pub(super) async fn run(sources: &[Source], validate: Validate, place: &Place) -> Outcome {
    let _lock = lock(place)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let opened = open_runtime(place, clock.clone()).await.map_err(|error| Failure {
        exit: Exit::ContainerFailed,
        ..Failure::system(format!("runonce failed: {}", error_chain(&error)))
    })?;
    let report = runonce::run(opened.settings(place), opened.runtime.clone(), clock, manifest(sources, validate)).await;
    for result in &report.results {
        let name = PodKey::of(&result.pod).map_or_else(|_| "a pod without a name".to_owned(), |key| key.to_string());
        let status = result.pod.status.as_ref();
        match (&result.error, status.and_then(|s| s.message.as_deref())) {
            (Some(error), _) => eprintln!("failed to start pod {name}: {}", error_chain(error)),
            (None, Some(message)) => eprintln!("warning: pod {name}: {message}"),
            (None, None) => eprintln!("started pod {name}"),
        }
    }
    match report.error {
        None => Ok(Exit::Reached),
        Some(error) => Err(Failure { exit: Exit::ContainerFailed, ..Failure::system(error.process_message()) }),
    }
}

fn lock(place: &Place) -> Result<Lock, Failure> {
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::system(
            "this needs root: for namespaces, cgroups and mounts, or the container runtime's socket",
        )
        .hint("run this as root, for example with sudo"));
    }
    std::fs::create_dir_all(&place.state)
        .map_err(|e| Failure::system(format!("can't make {}: {e}", place.state.display())))?;
    Lock::try_take(&place.agent_lock()).map_err(|error| {
        let failure = Failure::from_error(&error);
        match error {
            LockError::Held { .. } => failure.hint("an agent supervises this state directory; use another one"),
            LockError::Io { .. } => failure,
        }
    })
}

/// The Pods of the first update. Sources that can't be read or understood are no update at all, as in the kubelet,
/// which logs them and goes on waiting; an empty one is an update without Pods.
async fn manifest(sources: &[Source], validate: Validate) -> Vec<DesiredPod> {
    match load(sources, validate).await {
        Ok(manifests) => desired(&manifests),
        Err(LoadError::Empty { .. }) => Vec::new(),
        Err(error) => {
            eprintln!("{}", diagnostics::fail(&error));
            std::future::pending().await
        }
    }
}

fn desired(manifests: &Manifests) -> Vec<DesiredPod> {
    let pod = |pod: &Arc<_>| DesiredPod { pod: Arc::clone(pod), objects: manifests.objects.clone() };
    manifests.pods().map(pod).collect()
}
