//! Annotations of our own on sandboxes and containers: what the port gives back exactly and runtimes give back changed
//! or not at all. They are taken off again before anyone sees them.

use std::collections::{BTreeMap, HashMap};

/// On sandboxes and containers: the Pod's cgroup as the port names it, which is removed with the sandbox.
pub(crate) const CGROUP_PARENT: &str = "cri.minke.dev/cgroup-parent";
/// On containers: the id of the image that was asked for. Runtimes answer with one of its names.
pub(crate) const IMAGE_ID: &str = "cri.minke.dev/image-id";
/// On containers: the image as the manifest names it.
pub(crate) const IMAGE_NAME: &str = "cri.minke.dev/image";
/// On containers: their sandbox. CRI's status of a container does not say.
pub(crate) const SANDBOX: &str = "cri.minke.dev/sandbox";

const OURS: [&str; 4] = [CGROUP_PARENT, IMAGE_ID, IMAGE_NAME, SANDBOX];

/// Annotations as configured, and ours.
pub(crate) fn with(annotations: &BTreeMap<String, String>, ours: &[(&str, &str)]) -> HashMap<String, String> {
    let mut all = super::unordered(annotations);
    all.extend(ours.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    all
}

/// Annotations as configured.
pub(crate) fn without(annotations: HashMap<String, String>) -> BTreeMap<String, String> {
    annotations.into_iter().filter(|(key, _)| !OURS.contains(&key.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_on_is_taken_off() {
        let given = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
        let all = with(&given, &[(IMAGE_ID, "sha256:1"), (IMAGE_NAME, "a:b"), (CGROUP_PARENT, "/x")]);
        assert_eq!((all.len(), all[IMAGE_ID].as_str()), (4, "sha256:1"));
        assert_eq!(without(all), given);
    }
}
