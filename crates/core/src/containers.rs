//! The containers of a Pod's spec.

use k8s_openapi::api::core::v1::{Container, Pod};

/// All containers, in the order in which they start: init containers, sidecars among them, then the regular ones.
/// Ephemeral ones are none of the spec's.
pub fn all_containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    pod.spec.iter().flat_map(|s| s.init_containers.iter().flatten().chain(&s.containers))
}

/// The container of this name.
#[must_use]
pub fn container_named<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    all_containers(pod).find(|c| c.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn init_containers_come_first_and_any_has_its_name() {
        let spec = serde_json::json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]}});
        let pod: Pod = serde_json::from_value(spec).unwrap();
        assert_eq!(all_containers(&pod).map(|c| c.name.as_str()).collect::<Vec<_>>(), ["i", "a", "b"]);
        assert_eq!(container_named(&pod, "b").map(|c| c.name.as_str()), Some("b"));
        assert_eq!(container_named(&pod, "c"), None);
        assert_eq!(all_containers(&Pod::default()).count(), 0);
    }
}
