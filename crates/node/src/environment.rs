//! The environment of a Pod's containers, made before a provider gets it, with upstream's event reasons for what is missing.
//!
//! The values are the core's work; here each reference is looked at first, so that people hear which one is missing and
//! whether it matters. Addresses of the Pod and the machine are not known before the Pod runs: variables that ask
//! for them, and those composed of such, stay as they were written, for the provider to fill.

use std::collections::HashMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, EnvVar, Pod};
use minke_core::env::{DownwardFacts, resolve};
use minke_core::identity::PodKey;
use minke_core::objects::ObjectSet;
use minke_core::resources::ResourceList;
use minke_core::runtime::{EnvVar as Resolved, error_chain};

use crate::references::{Known, ObjectKind, ObjectRef, References};

#[cfg(test)]
mod tests;

/// What the downward API says of the machine.
#[derive(Debug, Clone, Default)]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    /// Its addresses, primary first.
    pub host_ips: Vec<IpAddr>,
    /// What it has for Pods; stands in for limits that a container does not set.
    pub allocatable: ResourceList,
}

/// Something that people should hear, as a warning event about the Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Upstream's.
    pub reason: &'static str,
    /// Holds names, never values.
    pub message: String,
}

/// The first container whose environment can't be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Unresolved {
    /// Its name.
    pub container: String,
    /// Why.
    pub message: String,
}

/// The Pod with literal environments only, and what people should hear. Init, regular, then ephemeral containers; the
/// first that fails ends it.
///
/// # Errors
/// [`Unresolved`] names the container and what is missing.
pub fn resolve_pod(
    key: &PodKey,
    pod: &Pod,
    references: &References,
    node: &NodeFacts,
) -> (Vec<Told>, Result<Pod, Unresolved>) {
    let objects = references.objects(key);
    let allocatable = &node.allocatable;
    let facts = DownwardFacts { pod, pod_ips: &[], host_ips: &node.host_ips, node_name: &node.name, allocatable };
    let mut resolver = Resolver { key, references, objects: &objects, facts, told: Vec::new() };
    let resolved = resolver.pod(pod);
    (resolver.told, resolved)
}

struct Resolver<'a> {
    key: &'a PodKey,
    references: &'a References,
    objects: &'a ObjectSet,
    facts: DownwardFacts<'a>,
    told: Vec<Told>,
}

impl Resolver<'_> {
    fn pod(&mut self, pod: &Pod) -> Result<Pod, Unresolved> {
        let mut pod = pod.clone();
        let Some(spec) = &mut pod.spec else { return Ok(pod) };
        for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
            container.env = self.container(container)?;
            container.env_from = None;
        }
        for ephemeral in spec.ephemeral_containers.iter_mut().flatten() {
            let (env, env_from) = (ephemeral.env.take(), ephemeral.env_from.take());
            let container = Container { name: ephemeral.name.clone(), env, env_from, ..Container::default() };
            ephemeral.env = self.container(&container)?;
        }
        Ok(pod)
    }

    fn container(&mut self, container: &Container) -> Result<Option<Vec<EnvVar>>, Unresolved> {
        let unresolved = |message| Unresolved { container: container.name.clone(), message };
        self.look(container).map_err(unresolved)?;
        let resolved = match resolve(container, self.objects, &self.facts) {
            Ok(resolved) => resolved,
            Err(error) => {
                let message = error_chain(&error);
                self.tell("Failed", format!("Error: {message}"));
                return Err(unresolved(message));
            }
        };
        for message in resolved.skipped {
            self.tell("InvalidEnvironmentVariableNames", message);
        }
        let unknown_yet = unknown_yet(container);
        let literal = |Resolved { name, value }: Resolved| match unknown_yet.get(name.as_str()) {
            Some(var) => (*var).clone(),
            None => EnvVar { name, value: Some(value), value_from: None },
        };
        Ok(Some(resolved.vars.into_iter().map(literal).collect::<Vec<_>>()).filter(|vars| !vars.is_empty()))
    }

    /// Looks at each reference: tells of what is missing, and fails at the first that matters.
    fn look(&mut self, container: &Container) -> Result<(), String> {
        for source in container.env_from.iter().flatten() {
            if let Some(reference) = &source.config_map_ref {
                let optional = reference.optional.unwrap_or(false);
                self.object(ObjectKind::ConfigMap, &reference.name, optional, None)?;
            }
            if let Some(reference) = &source.secret_ref {
                let optional = reference.optional.unwrap_or(false);
                self.object(ObjectKind::Secret, &reference.name, optional, None)?;
            }
        }
        for var in container.env.iter().flatten() {
            let Some(source) = &var.value_from else { continue };
            if let Some(reference) = &source.config_map_key_ref {
                let wanted = Some((reference.key.as_str(), var.name.as_str()));
                self.object(ObjectKind::ConfigMap, &reference.name, reference.optional.unwrap_or(false), wanted)?;
            }
            if let Some(reference) = &source.secret_key_ref {
                let wanted = Some((reference.key.as_str(), var.name.as_str()));
                self.object(ObjectKind::Secret, &reference.name, reference.optional.unwrap_or(false), wanted)?;
            }
        }
        Ok(())
    }

    /// An object, and of it a key for a variable.
    fn object(
        &mut self,
        kind: ObjectKind,
        name: &str,
        optional: bool,
        wanted: Option<(&str, &str)>,
    ) -> Result<(), String> {
        let word = match &kind {
            ObjectKind::ConfigMap => "configmap",
            ObjectKind::Secret => "secret",
            ObjectKind::Token(_) => "token",
            ObjectKind::Services => "services",
        };
        let reference = ObjectRef { kind, namespace: self.key.namespace.clone(), name: name.to_owned() };
        let known = self.references.known(&reference);
        let for_variable = wanted.map(|(_, variable)| format!(" (variable {variable})")).unwrap_or_default();
        let (what, message) = match known {
            Known::Absent | Known::Pending => (Missing::Object, format!("{word} {name:?} not found{for_variable}")),
            Known::Unreadable(why) => {
                (Missing::Unreadable, format!("{word} {name:?} can't be read{for_variable}: {why}"))
            }
            Known::ConfigMap(_) | Known::Secret(_) | Known::Token(_) | Known::Services(_) => {
                let Some((key, _)) = wanted.filter(|(key, _)| !has_key(known, key)) else { return Ok(()) };
                (Missing::Key, format!("key {key:?} not found in {word} {name:?}{for_variable}"))
            }
        };
        self.tell(reason(&reference.kind, what, optional), message.clone());
        if optional { Ok(()) } else { Err(message) }
    }

    fn tell(&mut self, reason: &'static str, message: String) {
        self.told.push(Told { reason, message });
    }
}

#[derive(Clone, Copy)]
enum Missing {
    Object,
    Unreadable,
    Key,
}

/// Upstream's reasons.
fn reason(kind: &ObjectKind, missing: Missing, optional: bool) -> &'static str {
    match (kind, missing, optional) {
        (ObjectKind::ConfigMap, Missing::Object, true) => "OptionalConfigMapNotFound",
        (ObjectKind::ConfigMap, Missing::Object, false) => "MandatoryConfigMapNotFound",
        (ObjectKind::ConfigMap, Missing::Unreadable, true) => "FailedToReadOptionalConfigMap",
        (ObjectKind::ConfigMap, Missing::Unreadable, false) => "FailedToReadMandatoryConfigMap",
        (ObjectKind::ConfigMap, Missing::Key, true) => "OptionalConfigMapKeyNotFound",
        (ObjectKind::ConfigMap, Missing::Key, false) => "MandatoryConfigMapKeyNotFound",
        (ObjectKind::Secret, Missing::Object, true) => "OptionalSecretNotFound",
        (ObjectKind::Secret, Missing::Object, false) => "MandatorySecretNotFound",
        (ObjectKind::Secret, Missing::Unreadable, true) => "FailedToReadOptionalSecret",
        (ObjectKind::Secret, Missing::Unreadable, false) => "FailedToReadMandatorySecret",
        (ObjectKind::Secret, Missing::Key, true) => "OptionalSecretKeyNotFound",
        (ObjectKind::Secret, Missing::Key, false) => "MandatorySecretKeyNotFound",
        // No variable refers to one.
        (ObjectKind::Token(_) | ObjectKind::Services, _, _) => "FailedMount",
    }
}

fn has_key(known: &Known, key: &str) -> bool {
    match known {
        Known::ConfigMap(map) => map.data.as_ref().is_some_and(|data| data.contains_key(key)),
        Known::Secret(secret) => secret.data.as_ref().is_some_and(|data| data.contains_key(key)),
        Known::Token(_) | Known::Services(_) | Known::Pending | Known::Absent | Known::Unreadable(_) => false,
    }
}

/// Variables of which only the provider can know the value, by name, as they were written: addresses, and what is composed of them.
fn unknown_yet(container: &Container) -> HashMap<&str, &EnvVar> {
    let mut unknown = HashMap::<&str, &EnvVar>::new();
    for var in container.env.iter().flatten() {
        let value = var.value.as_deref().unwrap_or_default();
        let composed = unknown.keys().any(|name| value.contains(&format!("$({name})")));
        if composed || is_address(var) {
            unknown.insert(&var.name, var);
        } else {
            // The last definition of a name counts.
            unknown.remove(var.name.as_str());
        }
    }
    unknown
}

/// Whether a variable asks for an address that only the provider knows.
fn is_address(var: &EnvVar) -> bool {
    let field = var.value_from.as_ref().and_then(|source| source.field_ref.as_ref());
    field.is_some_and(|field| {
        matches!(field.field_path.as_str(), "status.podIP" | "status.podIPs" | "status.hostIP" | "status.hostIPs")
    })
}
