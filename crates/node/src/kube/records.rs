//! Events about Pods, as the API keeps them. The same again is counted, not told again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Error};
use minke_core::clock::Clock;
use serde_json::json;

use crate::api::Record;

/// How many events are remembered; then all are forgotten, and begin anew.
const REMEMBERED: usize = 4096;

/// The Pod's uid, the reason, the message.
type What = (String, &'static str, String);

pub(super) struct Records {
    client: Client,
    node: String,
    clock: Arc<dyn Clock>,
    /// Name and count of what was told.
    told: Mutex<HashMap<What, (String, i32)>>,
}

impl Records {
    pub(super) fn new(client: Client, node: String, clock: Arc<dyn Clock>) -> Self {
        Self { client, node, clock, told: Mutex::default() }
    }

    pub(super) async fn record(&self, record: &Record) -> Result<(), Error> {
        let metadata = &record.pod.metadata;
        let namespace = metadata.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let events: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let (what, now) = (what(record), self.clock.now());
        let again = {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            told.get_mut(&what).map(|(name, count)| {
                *count += 1;
                (name.clone(), *count)
            })
        };
        if let Some((name, count)) = again {
            let patch = json!({"count": count, "lastTimestamp": Time(now)});
            match events.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
                Ok(_) => return Ok(()),
                // The API forgets events after an hour.
                Err(Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        let name = format!("{}.{:x}", metadata.name.clone().unwrap_or_default(), now.as_nanosecond());
        let event = event(record, &name, &namespace, &self.node, Time(now));
        events.create(&PostParams::default(), &event).await?;
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= REMEMBERED {
            told.clear();
        }
        told.insert(what, (name, 1));
        Ok(())
    }
}

fn what(record: &Record) -> What {
    (record.pod.metadata.uid.clone().unwrap_or_default(), record.reason, record.message.clone())
}

fn event(record: &Record, name: &str, namespace: &str, node: &str, now: Time) -> Event {
    let metadata = &record.pod.metadata;
    Event {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: metadata.name.clone(),
            namespace: Some(namespace.to_owned()),
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
            ..ObjectReference::default()
        },
        reason: Some(record.reason.to_owned()),
        message: Some(record.message.clone()),
        type_: Some(if record.warning { "Warning" } else { "Normal" }.to_owned()),
        source: Some(EventSource { component: Some(format!("{node}/pod-controller")), host: Some(node.to_owned()) }),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        count: Some(1),
        ..Event::default()
    }
}
