//! A Pod as its provider gets it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod};
use minke_core::containers::container_named;
use minke_core::identity::PodKey;
use minke_core::provider::Environment;

use crate::environment::{NodeFacts, Told, resolve_pod};
use crate::pod::Trouble;
use crate::references::References;

/// What a provider was last given.
#[derive(Debug, Clone)]
pub(super) struct Prepared {
    raw: Arc<Pod>,
    pub(super) sent: Arc<Pod>,
}

/// Makes it. A container whose environment is written as it was before keeps the one that it got.
pub(super) fn prepare(
    key: &PodKey,
    raw: &Arc<Pod>,
    before: Option<&Prepared>,
    references: &References,
    node: &NodeFacts,
    environment: Environment,
) -> (Vec<Told>, Result<Prepared, Trouble>) {
    if environment == Environment::AsWritten {
        return (Vec::new(), Ok(Prepared { raw: raw.clone(), sent: raw.clone() }));
    }
    let frozen = before.map(|before| frozen(raw, before));
    let (told, resolved) = resolve_pod(key, frozen.as_ref().unwrap_or(raw), references, node);
    let prepared = resolved.map(|pod| {
        // Most Pods have nothing to resolve, and need not be kept twice.
        let sent = if pod == **raw { raw.clone() } else { Arc::new(pod) };
        Prepared { raw: raw.clone(), sent }
    });
    (told, prepared.map_err(|e| Trouble::Config { container: e.container, message: e.message }))
}

fn frozen(raw: &Pod, before: &Prepared) -> Pod {
    let mut pod = raw.clone();
    let Some(spec) = &mut pod.spec else { return pod };
    let keep = |container: &mut Container| {
        let then = container_named(&before.raw, &container.name);
        let sent = container_named(&before.sent, &container.name);
        let (Some(then), Some(sent)) = (then, sent) else { return };
        if then.env != container.env || then.env_from != container.env_from {
            return;
        }
        (container.env, container.env_from) = (sent.env.clone(), None);
        // It goes through expansion once more, which must leave it as it is.
        for var in container.env.iter_mut().flatten() {
            var.value = var.value.as_ref().map(|value| value.replace('$', "$$"));
        }
    };
    spec.init_containers.iter_mut().flatten().chain(&mut spec.containers).for_each(keep);
    pod
}
