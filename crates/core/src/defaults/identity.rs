//! Namespace, name and uid of Pods that come from manifests.
//!
//! The uid comes from the content: the same manifest is the same Pod, run after run, whatever the order of its keys,
//! and a changed manifest is another Pod.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// The letters of generated names: no vowels, so no words; no digits that look like letters. As upstream's.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;
/// Longest prefix that leaves room for the suffix in a host name.
const PREFIX_MAX: usize = 63 - SUFFIX_LENGTH;

/// Takes out what only a server writes.
pub fn forget_server_fields(meta: &mut ObjectMeta) {
    meta.creation_timestamp = None;
    meta.deletion_timestamp = None;
    meta.deletion_grace_period_seconds = None;
    meta.generation = None;
    meta.managed_fields = None;
    meta.resource_version = None;
    meta.self_link = None;
}

/// Gives a defaulted Pod what it lacks of name and uid. `ordinal` tells Pods apart that are equal and want generated
/// names: it counts them.
pub fn identify(pod: &mut Pod, ordinal: usize) {
    if pod.metadata.name.as_deref().is_none_or(str::is_empty)
        && let Some(prefix) = &pod.metadata.generate_name
    {
        pod.metadata.name = Some(generated_name(prefix, &*pod, ordinal));
    }
    if pod.metadata.uid.as_deref().is_none_or(str::is_empty) {
        pod.metadata.uid = None;
        pod.metadata.uid = Some(stable_uid("Pod", pod));
    }
}

/// A name for an object with `generateName`, which depends on its content and its ordinal only.
pub fn generated_name(prefix: &str, content: &impl Serialize, ordinal: usize) -> String {
    let mut end = prefix.len().min(PREFIX_MAX);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{}", &prefix[..end], stable_suffix(&(content, ordinal)))
}

/// Five letters that depend on the content only.
pub fn stable_suffix(content: &impl Serialize) -> String {
    let digest = digest("suffix", content);
    digest[..SUFFIX_LENGTH].iter().map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()])).collect()
}

/// A uid that depends on kind and content only: a UUID of version 8 made of a SHA-256.
pub fn stable_uid(kind: &str, content: &impl Serialize) -> String {
    let digest = digest(kind, content);
    let mut id = [0u8; 16];
    id.copy_from_slice(&digest[..16]);
    id[6] = (id[6] & 0x0f) | 0x80;
    id[8] = (id[8] & 0x3f) | 0x80;
    let text = hex::encode(id);
    format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
}

/// Kubernetes' types write their fields in one order and their maps sorted, so equal content gives equal bytes.
fn digest(domain: &str, content: &impl Serialize) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(domain.as_bytes());
    hasher.update([0]);
    // Only a map with keys that are no texts can fail here, and Kubernetes has none.
    hasher.update(serde_json::to_vec(content).unwrap_or_default());
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::identity::PodUid;

    fn identified(metadata: &Value, ordinal: usize) -> Pod {
        let pod = json!({"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let mut pod: Pod = serde_json::from_value(pod).unwrap();
        identify(&mut pod, ordinal);
        pod
    }

    #[test]
    fn the_uid_is_a_uuid_that_depends_on_the_content() {
        let uid = |name: &str| identified(&json!({"name": name}), 0).metadata.uid.unwrap();
        assert_eq!(uid("a"), uid("a"));
        assert_ne!(uid("a"), uid("b"));
        let text = uid("a");
        assert!(PodUid::new(text.clone()).is_ok());
        let parts: Vec<usize> = text.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert_eq!(&text[14..15], "8", "version");
        assert!("89ab".contains(&text[19..20]), "variant");
    }

    #[test]
    fn a_given_uid_and_name_stay() {
        let pod = identified(&json!({"name": "n", "generateName": "g-", "uid": "u"}), 3);
        assert_eq!((pod.metadata.name.as_deref(), pod.metadata.uid.as_deref()), (Some("n"), Some("u")));
    }

    #[test]
    fn a_generated_name_is_stable_and_fits_a_host_name() {
        let name = |prefix: &str, ordinal| identified(&json!({"generateName": prefix}), ordinal).metadata.name.unwrap();
        assert_eq!(name("web-", 0), name("web-", 0));
        assert_ne!(name("web-", 0), name("web-", 1));
        assert!(name("web-", 0).starts_with("web-"));
        assert_eq!(name("web-", 0).len(), "web-".len() + SUFFIX_LENGTH);
        assert_eq!(name(&"x".repeat(300), 0).len(), 63);
    }

    #[test]
    fn what_a_server_wrote_is_forgotten() {
        let mut meta: ObjectMeta = serde_json::from_value(json!({
            "name": "n", "labels": {"a": "b"}, "creationTimestamp": "2024-01-01T00:00:00Z", "generation": 3,
            "deletionTimestamp": "2024-01-01T00:00:00Z", "deletionGracePeriodSeconds": 3, "resourceVersion": "9",
            "selfLink": "/x", "managedFields": [{"manager": "m"}]
        }))
        .unwrap();
        forget_server_fields(&mut meta);
        assert_eq!(serde_json::to_value(meta).unwrap(), json!({"name": "n", "labels": {"a": "b"}}));
    }
}
