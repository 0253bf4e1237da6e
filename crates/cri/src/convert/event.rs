//! Events.

use std::collections::HashMap;

use minke_core::identity::PodUid;
use minke_core::runtime::{RuntimeEvent, RuntimeEventKind, labels};

use super::sandbox::pod_key;
use super::time::given;
use crate::api;

/// The Pod that the event itself names.
pub(crate) fn pod(event: &api::ContainerEventResponse) -> Option<PodUid> {
    let sandbox = event.pod_sandbox_status.as_ref();
    let of_sandbox = sandbox.and_then(|s| pod_key(s.metadata.as_ref(), &s.labels)).map(|key| key.uid);
    let of_container = || {
        let mut all = event.containers_statuses.iter();
        all.find_map(|c| PodUid::new(c.labels.get(labels::POD_UID)?.as_str()).ok())
    };
    of_sandbox.or_else(of_container)
}

/// The port's event. An event of a sandbox that is removed may not say whose it was; then what is known counts. `None`:
/// nobody's.
pub(crate) fn event(event: &api::ContainerEventResponse, known: &HashMap<String, PodUid>) -> Option<RuntimeEvent> {
    let kind = match event.container_event_type() {
        api::ContainerEventType::ContainerCreatedEvent => RuntimeEventKind::Created,
        api::ContainerEventType::ContainerStartedEvent => RuntimeEventKind::Started,
        api::ContainerEventType::ContainerStoppedEvent => RuntimeEventKind::Stopped,
        api::ContainerEventType::ContainerDeletedEvent => RuntimeEventKind::Deleted,
    };
    Some(RuntimeEvent {
        kind,
        id: event.container_id.clone(),
        pod: pod(event).or_else(|| known.get(&event.container_id).cloned())?,
        created_at: given(event.created_at),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uid(text: &str) -> PodUid {
        PodUid::new(text).unwrap()
    }

    #[test]
    fn the_pod_is_the_sandboxes_the_containers_or_the_known_one() {
        let none = HashMap::new();
        let metadata = api::PodSandboxMetadata { name: "n".into(), uid: "u".into(), ..Default::default() };
        let sandbox = api::PodSandboxStatus { metadata: Some(metadata), ..Default::default() };
        let bare = api::ContainerEventResponse {
            container_id: "s".into(),
            container_event_type: api::ContainerEventType::ContainerDeletedEvent.into(),
            created_at: 1_000_000_000,
            ..Default::default()
        };
        assert_eq!(event(&bare, &none), None, "a removed sandbox of containerd 1.7 that nobody knew");
        let known = HashMap::from([("s".to_owned(), uid("k"))]);
        let of_known = event(&bare, &known).unwrap();
        assert_eq!(
            (of_known.pod, of_known.kind, of_known.created_at.as_second()),
            (uid("k"), RuntimeEventKind::Deleted, 1)
        );
        let with_sandbox = api::ContainerEventResponse { pod_sandbox_status: Some(sandbox), ..bare.clone() };
        assert_eq!(event(&with_sandbox, &known).unwrap().pod, uid("u"), "its own word comes first");
        let labels = HashMap::from([(labels::POD_UID.to_owned(), "c".to_owned())]);
        let container = api::ContainerStatus { labels, ..Default::default() };
        let with_container = api::ContainerEventResponse { containers_statuses: vec![container], ..bare };
        assert_eq!(event(&with_container, &none).unwrap().pod, uid("c"));
    }
}
