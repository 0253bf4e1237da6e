//! Events about Pods, as the API keeps them: what is told, counted or dropped is decided by [`crate::correlate`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Error};
use minke_core::clock::Clock;
use serde_json::json;

use crate::api::{Record, Teller};
use crate::correlate::{Correlator, Known, Subject, Verdict};

pub(super) struct Records {
    client: Client,
    node: String,
    clock: Arc<dyn Clock>,
    correlator: Mutex<Correlator>,
}

impl Records {
    pub(super) fn new(client: Client, node: String, clock: Arc<dyn Clock>) -> Self {
        Self { client, node, clock, correlator: Mutex::default() }
    }

    fn correlator(&self) -> MutexGuard<'_, Correlator> {
        self.correlator.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn record(&self, record: &Record) -> Result<(), Error> {
        let namespace = record.pod.metadata.namespace.as_deref().unwrap_or("default");
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let now = self.clock.now();
        let verdict = self.correlator().judge(subject(record), &record.message, now);
        match verdict {
            Verdict::Dropped => Ok(()),
            Verdict::New(known) => self.create(&events, record, known, now).await,
            Verdict::Again { name, count, message } => {
                let patch = json!({"count": count, "lastTimestamp": Time(now), "message": message});
                match events.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
                    // The API forgets events after an hour.
                    Err(Error::Api(status)) if status.code == 404 => {
                        let known = Known::again(subject(record), &record.message, message);
                        self.create(&events, record, known, now).await
                    }
                    patched => patched.map(drop),
                }
            }
        }
    }

    async fn create(&self, events: &Api<Event>, record: &Record, known: Known, now: Timestamp) -> Result<(), Error> {
        let pod = record.pod.metadata.name.as_deref().unwrap_or_default();
        let name = format!("{pod}.{:x}", now.as_nanosecond());
        let event = event(record, known.message.clone(), &name, &self.node, Time(now));
        events.create(&PostParams::default(), &event).await?;
        self.correlator().told(known, name);
        Ok(())
    }
}

fn source(teller: Teller, node: &str) -> EventSource {
    let component = match teller {
        Teller::Controller => format!("{node}/pod-controller"),
        Teller::Kubelet => "kubelet".to_owned(),
    };
    EventSource { component: Some(component), host: Some(node.to_owned()) }
}

fn subject(record: &Record) -> Subject {
    Subject {
        source: match record.teller {
            Teller::Controller => "pod-controller",
            Teller::Kubelet => "kubelet",
        },
        object: record.pod.metadata.uid.clone().unwrap_or_default(),
        part: record.container.clone().unwrap_or_default(),
        reason: record.reason.to_string(),
        warning: record.warning,
    }
}

/// The part of the Pod that an event is about, as `kubectl describe` reads it.
fn field_path(record: &Record) -> Option<String> {
    let name = record.container.as_deref()?;
    let spec = record.pod.spec.as_ref()?;
    let is_init = spec.init_containers.iter().flatten().any(|container| container.name == name);
    Some(format!("spec.{}{{{name}}}", if is_init { "initContainers" } else { "containers" }))
}

fn event(record: &Record, message: String, name: &str, node: &str, now: Time) -> Event {
    let metadata = &record.pod.metadata;
    let namespace = metadata.namespace.clone().unwrap_or_else(|| "default".to_owned());
    let source = source(record.teller, node);
    Event {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.clone()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: metadata.name.clone(),
            namespace: Some(namespace),
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
            field_path: field_path(record),
        },
        reason: Some(record.reason.to_string()),
        message: Some(message),
        type_: Some(if record.warning { "Warning" } else { "Normal" }.to_owned()),
        reporting_component: source.component.clone(),
        reporting_instance: source.host.clone(),
        source: Some(source),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        count: Some(1),
        ..Event::default()
    }
}
