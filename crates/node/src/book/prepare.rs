//! A Pod as its provider gets it, and what is kept of that: the environments that its containers got, as text. The Pod itself is
//! the provider's then; a second and a third one here would be most of what a node takes for a Pod.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, EnvVar, Pod};
use minke_core::containers::{all_containers, container_named};
use minke_core::identity::PodKey;
use minke_core::provider::Environment;

use crate::environment::{NodeFacts, Told, resolve_pod};
use crate::pod::Trouble;
use crate::references::References;

/// The environments that a provider was last given with a Pod. `Debug` shows no values.
#[derive(Clone, Default)]
pub(super) struct Given(Box<[GivenEnv]>);

/// Of one container.
#[derive(Clone)]
struct GivenEnv {
    container: Box<str>,
    /// `env` and `envFrom` as they were written: JSON, which takes a seventh of the room.
    written: Box<str>,
    /// What became of them.
    got: Box<str>,
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|env| &env.container)).finish()
    }
}

impl Given {
    fn of(raw: &Pod, sent: &Pod) -> Self {
        let of = |container: &Container| {
            let written = written(container_named(raw, &container.name)?);
            let got = text(container.env.as_deref().unwrap_or_default());
            Some(GivenEnv { container: container.name.as_str().into(), written, got })
        };
        Self(all_containers(sent).filter_map(of).collect())
    }

    /// What a container got, be it nothing, when it was written as it is now.
    fn same(&self, container: &Container) -> Option<Vec<EnvVar>> {
        let given = self.0.iter().find(|given| *given.container == container.name)?;
        let same = given.written == written(container);
        same.then(|| serde_json::from_str(&given.got).ok()).flatten()
    }
}

fn written(container: &Container) -> Box<str> {
    text(&(&container.env, &container.env_from))
}

/// Writing plain data can't fail.
fn text(value: &(impl serde::Serialize + ?Sized)) -> Box<str> {
    serde_json::to_string(value).unwrap_or_default().into()
}

/// A Pod to be given to a provider.
#[derive(Debug)]
pub(super) struct Prepared {
    /// As the provider gets it.
    pub(super) sent: Arc<Pod>,
    /// To be kept.
    pub(super) given: Given,
}

/// Makes it. A container whose environment is written as it was before keeps the one that it got.
pub(super) fn prepare(
    key: &PodKey,
    raw: &Arc<Pod>,
    before: Option<&Given>,
    references: &References,
    node: &NodeFacts,
    environment: Environment,
) -> (Vec<Told>, Result<Prepared, Trouble>) {
    if environment == Environment::AsWritten {
        return (Vec::new(), Ok(Prepared { sent: raw.clone(), given: Given::default() }));
    }
    let frozen = before.map(|before| frozen(raw, before));
    let (told, resolved) = resolve_pod(key, frozen.as_ref().unwrap_or(raw), references, node);
    let prepared = resolved.map(|pod| {
        let given = Given::of(raw, &pod);
        // Most Pods of some providers have nothing to resolve, and need not be made twice.
        let sent = if pod == **raw { raw.clone() } else { Arc::new(pod) };
        Prepared { sent, given }
    });
    (told, prepared.map_err(|e| Trouble::Config { container: e.container, message: e.message }))
}

fn frozen(raw: &Pod, before: &Given) -> Pod {
    let mut pod = raw.clone();
    let Some(spec) = &mut pod.spec else { return pod };
    let keep = |container: &mut Container| {
        let Some(got) = before.same(container) else { return };
        (container.env, container.env_from) = (Some(got).filter(|got| !got.is_empty()), None);
        // It goes through expansion once more, which must leave it as it is.
        for var in container.env.iter_mut().flatten() {
            var.value = var.value.as_ref().map(|value| value.replace('$', "$$"));
        }
    };
    spec.init_containers.iter_mut().flatten().chain(&mut spec.containers).for_each(keep);
    pod
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_kept_of_a_pod_is_small_and_tells_no_values() {
        let pod = |env: serde_json::Value| -> Pod {
            let image = "registry.example/some/image@sha256:0123456789abcdef";
            let containers = json!([{"name": "c", "image": image, "env": env}, {"name": "bare"}]);
            serde_json::from_value(json!({"spec": {"containers": containers}})).unwrap()
        };
        let secret = json!([{"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]);
        let (raw, sent) = (pod(secret), pod(json!([{"name": "S", "value": "hunter2"}])));
        let given = Given::of(&raw, &sent);
        assert_eq!(format!("{given:?}"), r#"["c", "bare"]"#);
        let kept: usize = given.0.iter().map(|env| env.container.len() + env.written.len() + env.got.len()).sum();
        assert!(kept < 250, "{kept}");
        let containers = |pod: &Pod| pod.spec.clone().unwrap().containers;
        assert_eq!(given.same(&containers(&raw)[0]), containers(&sent)[0].env);
        assert_eq!(given.same(&containers(&sent)[0]), None, "written otherwise");
        assert_eq!(given.same(&containers(&raw)[1]), Some(Vec::new()), "none then, so none now");
    }
}
