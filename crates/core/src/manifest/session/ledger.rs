//! Names, uids and numbers over all objects of a read.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;

use super::Session;
use crate::defaults::{generated_name, identify, stable_uid};
use crate::manifest::diagnostic::Severity;
use crate::manifest::limits::MAX_PODS;
use crate::manifest::manifests::{Origin, PodGroup};
use crate::manifest::report::Place;
use crate::validation::FieldPath;

impl Session {
    /// How often a content that wants a generated name has come before.
    pub(super) fn ordinal(&mut self, meta: &ObjectMeta, content: &impl Serialize) -> usize {
        if meta.name.as_deref().is_some_and(|name| !name.is_empty()) {
            return 0;
        }
        let count = self.generated.entry(stable_uid("generated", content)).or_default();
        *count += 1;
        *count - 1
    }

    /// Gives an object other than a Pod its generated name.
    pub(super) fn name_owner<T: Serialize>(&mut self, object: &mut T, meta: impl Fn(&mut T) -> &mut ObjectMeta) {
        let given = meta(object).clone();
        if given.name.as_deref().is_none_or(str::is_empty) {
            let ordinal = self.ordinal(&given, object);
            let name = generated_name(given.generate_name.as_deref().unwrap_or(""), &*object, ordinal);
            meta(object).name = Some(name);
        }
    }

    /// Whether an object is the first of its kind and name; a second one is an error.
    pub(super) fn first(&mut self, place: &Place<'_>, kind: &'static str, meta: &ObjectMeta) -> bool {
        let (namespace, name) = full_name(meta);
        self.claim(place, kind, format!("{namespace}/{name}"), &FieldPath::of("metadata").field("name"))
    }

    fn claim(&mut self, place: &Place<'_>, what: &'static str, id: String, path: &FieldPath) -> bool {
        let at = place.node.locate(path);
        let here = format!("{}:{at}", place.source.name);
        match self.seen.entry((what, id)) {
            Entry::Vacant(entry) => {
                entry.insert(here);
                true
            }
            Entry::Occupied(entry) => {
                let message = format!("duplicate {what} {:?}; the first is at {}", entry.key().1, entry.get());
                self.report.add(place.at_field(Severity::Error, path, message, None));
                false
            }
        }
    }

    /// Whether so many more Pods can be taken on.
    pub(super) fn fits(&mut self, place: &Place<'_>, pods: usize, field: &'static str) -> bool {
        let fits = self.pods.saturating_add(pods) <= MAX_PODS;
        if !fits {
            let message = format!("with these {pods} Pods there would be more than {MAX_PODS}");
            self.report.add(place.at_field(Severity::Error, &FieldPath::of("spec").field(field), message, None));
        }
        fits
    }

    /// Takes on the Pods of one object.
    pub(super) fn group(
        &mut self,
        place: &Place<'_>,
        origin: Origin,
        owner: &ObjectMeta,
        mut pods: Vec<Pod>,
        parallelism: usize,
    ) {
        self.pods += pods.len();
        for pod in &mut pods {
            // The uid of a template's Pod comes last: its name is part of it.
            identify(pod, 0);
            let fresh = self.first(place, "Pod", &pod.metadata);
            if let Some(uid) = pod.metadata.uid.clone().filter(|_| fresh) {
                self.claim(place, "uid", uid, &FieldPath::of("metadata").field("uid"));
            }
        }
        let pods: Vec<Arc<Pod>> = pods.into_iter().map(Arc::new).collect();
        let parallelism = parallelism.clamp(1, pods.len().max(1));
        let (namespace, name) = full_name(owner);
        self.groups.push(PodGroup { origin, namespace, name, pods, parallelism });
    }
}

fn full_name(meta: &ObjectMeta) -> (String, String) {
    let namespace = meta.namespace.clone().unwrap_or_else(|| "default".to_owned());
    (namespace, meta.name.clone().unwrap_or_default())
}
