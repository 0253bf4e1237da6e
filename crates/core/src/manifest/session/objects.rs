//! The way of an object of each kind: form, defaults, rules, then its place among the others.

use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, PodSpec, Secret};
use serde::de::DeserializeOwned;

use super::Session;
use crate::defaults::{default_pod, default_template, forget_server_fields, identify};
use crate::manifest::decode::{Decoded, decode};
use crate::manifest::diagnostic::Severity;
use crate::manifest::kind::Kind;
use crate::manifest::manifests::Origin;
use crate::manifest::report::Place;
use crate::manifest::tree::Node;
use crate::manifest::{deployment, job};
use crate::validation::{
    FieldPath, unsupported, validate_config_map, validate_deployment, validate_job, validate_pod, validate_secret,
};

impl Session {
    pub(super) fn object(&mut self, place: &Place<'_>, kind: Kind) {
        match kind {
            Kind::Pod => self.pod(place),
            Kind::Job => self.job(place),
            Kind::Deployment => self.deployment(place),
            Kind::ConfigMap => self.config_map(place),
            Kind::Secret => self.secret(place),
        }
    }

    /// The object, unless its form is wrong.
    fn decode<T: DeserializeOwned>(&mut self, place: &Place<'_>) -> Option<T> {
        let Decoded { value, findings, unlisted } = decode(place.node, place.base, place.confidential);
        let mut broken = false;
        for finding in findings {
            broken |= self.report.add_finding(finding, place);
        }
        self.report.count_unlisted(unlisted);
        value.filter(|_| !broken)
    }

    fn pod(&mut self, place: &Place<'_>) {
        let Some(mut pod) = self.decode::<Pod>(place) else { return };
        forget_server_fields(&mut pod.metadata);
        pod.status = None;
        default_pod(&mut pod);
        let mut broken = self.report.add_violations(validate_pod(&pod), place);
        broken |= self.unsupported(pod.spec.as_ref(), &FieldPath::of("spec"), place);
        if broken {
            return;
        }
        let ordinal = self.ordinal(&pod.metadata, &pod);
        identify(&mut pod, ordinal);
        if !self.fits(place, 1, "containers") {
            return;
        }
        let meta = pod.metadata.clone();
        self.group(place, Origin::Pod, &meta, vec![pod], 1);
    }

    fn job(&mut self, place: &Place<'_>) {
        let Some(mut job) = self.decode::<Job>(place) else { return };
        forget_server_fields(&mut job.metadata);
        job.status = None;
        job.metadata.namespace.get_or_insert_with(|| "default".to_owned());
        if let Some(spec) = &mut job.spec {
            // This makes an absent restart policy `Always`, which a Job must not have: it has to be given.
            default_template(&mut spec.template);
        }
        let mut broken = self.report.add_violations(validate_job(&job), place);
        let template = job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
        broken |= self.unsupported(template, &FieldPath::of("spec").field("template").field("spec"), place);
        if broken {
            return;
        }
        self.name_owner(&mut job, |job| &mut job.metadata);
        let Some(spec) = &job.spec else { return };
        self.without_effect(&job::without_effect(spec), place);
        let extent = job::extent(spec);
        if self.first(place, "Job", &job.metadata) && self.fits(place, extent.pods, "completions") {
            self.group(place, Origin::Job, &job.metadata, job::pods(&job, spec), extent.parallelism);
        }
    }

    fn deployment(&mut self, place: &Place<'_>) {
        let Some(mut object) = self.decode::<Deployment>(place) else { return };
        forget_server_fields(&mut object.metadata);
        object.status = None;
        object.metadata.namespace.get_or_insert_with(|| "default".to_owned());
        default_template(&mut object.spec.template);
        let mut broken = self.report.add_violations(validate_deployment(&object), place);
        let template = object.spec.template.spec.as_ref();
        broken |= self.unsupported(template, &FieldPath::of("spec").field("template").field("spec"), place);
        if broken {
            return;
        }
        self.name_owner(&mut object, |object| &mut object.metadata);
        self.without_effect(&deployment::without_effect(&object.spec), place);
        let replicas = deployment::replicas(&object.spec);
        if self.first(place, "Deployment", &object.metadata) && self.fits(place, replicas, "replicas") {
            self.group(place, Origin::Deployment, &object.metadata, deployment::pods(&object), replicas);
        }
    }

    fn config_map(&mut self, place: &Place<'_>) {
        let Some(mut map) = self.decode::<ConfigMap>(place) else { return };
        forget_server_fields(&mut map.metadata);
        map.metadata.namespace.get_or_insert_with(|| "default".to_owned());
        if self.report.add_violations(validate_config_map(&map), place) {
            return;
        }
        self.name_owner(&mut map, |map| &mut map.metadata);
        if self.first(place, "ConfigMap", &map.metadata) {
            self.objects.insert_config_map(map);
        }
    }

    fn secret(&mut self, place: &Place<'_>) {
        let Some(mut secret) = self.decode::<Secret>(place) else { return };
        forget_server_fields(&mut secret.metadata);
        secret.metadata.namespace.get_or_insert_with(|| "default".to_owned());
        secret.type_.get_or_insert_with(|| "Opaque".to_owned());
        let texts = secret.string_data.take().unwrap_or_default();
        let mut violations = {
            // A key given in both ways counts as given in `stringData`.
            let merged = texts.iter().map(|(key, text)| (key.clone(), ByteString(text.clone().into_bytes())));
            secret.data.get_or_insert_default().extend(merged);
            validate_secret(&secret)
        };
        for violation in &mut violations {
            violation.path = written_in(&violation.path, place.node);
        }
        if self.report.add_violations(violations, place) {
            return;
        }
        self.name_owner(&mut secret, |secret| &mut secret.metadata);
        if self.first(place, "Secret", &secret.metadata) {
            self.objects.insert_secret(secret);
        }
    }

    fn unsupported(&mut self, spec: Option<&PodSpec>, path: &FieldPath, place: &Place<'_>) -> bool {
        spec.is_some_and(|spec| self.report.add_violations(unsupported(spec, path), place))
    }

    fn without_effect(&mut self, fields: &[(FieldPath, &'static str)], place: &Place<'_>) {
        for (path, why) in fields {
            self.report.add(place.at_field(Severity::Warning, path, format!("has no effect here: {why}"), None));
        }
    }
}

/// The way to an entry of a Secret as its manifest has it: in `data`, or in `stringData`, which was merged into it.
fn written_in(path: &FieldPath, node: &Node) -> FieldPath {
    use crate::validation::Segment::{Field, Key};
    match path.segments() {
        [Field(field), Key(key)] if field == "data" => {
            let is_text = node.get("stringData").is_some_and(|texts| texts.get(key).is_some());
            FieldPath::of(if is_text { "stringData" } else { "data" }).key(key)
        }
        _ => path.clone(),
    }
}
