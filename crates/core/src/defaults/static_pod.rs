//! What a Pod becomes that a node runs from a manifest of its own: a static Pod, as the kubelet makes them.
//!
//! Its uid depends on its content, the node and where the manifest is, so a changed manifest is another Pod and two
//! nodes never have the same one. Its name ends with the node's, because every node may have the manifest.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Toleration};

use super::identity::stable_uid;

/// Annotation: the uid that the Pod's content gave it.
pub const CONFIG_HASH: &str = "kubernetes.io/config.hash";
/// Annotation: the kind of source, `file` or `http`.
pub const CONFIG_SOURCE: &str = "kubernetes.io/config.source";
/// Annotation: when the source first had it.
pub const CONFIG_SEEN: &str = "kubernetes.io/config.seen";
/// Annotation: the path or address of the manifest. Minke's own.
pub const MANIFEST: &str = "minke.dev/manifest";

/// The kinds of sources of static Pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    /// A file.
    File,
    /// An address.
    Http,
}

impl SourceKind {
    /// As upstream writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Http => "http",
        }
    }
}

/// Where a static Pod comes from.
#[derive(Debug, Clone, Copy)]
pub struct StaticOrigin<'a> {
    /// The node's name, lower case.
    pub node: &'a str,
    /// The kind of source.
    pub kind: SourceKind,
    /// The path or address of the manifest.
    pub manifest: &'a str,
    /// When it was first seen.
    pub seen: Timestamp,
}

/// Whether this is a static Pod: it came from a source, and not from an API.
#[must_use]
pub fn is_static(pod: &Pod) -> bool {
    let source = pod.metadata.annotations.as_ref().and_then(|a| a.get(CONFIG_SOURCE));
    source.is_some_and(|source| source != "api")
}

/// Makes a static Pod of one that was read from a manifest. A uid that the manifest gives stays.
pub fn make_static(pod: &mut Pod, origin: &StaticOrigin<'_>) {
    let given = pod.metadata.uid.take();
    let uid = match given {
        // The one that every Pod of a manifest gets from its content alone.
        Some(uid) if uid != stable_uid("Pod", pod) => uid,
        Some(_) | None => stable_uid("StaticPod", &(&*pod, origin.node, origin.manifest)),
    };
    let name = pod.metadata.name.take().unwrap_or_default();
    pod.metadata.name = Some(format!("{name}-{}", origin.node));
    let annotations = pod.metadata.annotations.get_or_insert_default();
    for (key, value) in [
        (CONFIG_HASH, uid.clone()),
        (CONFIG_SOURCE, origin.kind.as_str().to_owned()),
        (CONFIG_SEEN, origin.seen.to_string()),
        (MANIFEST, origin.manifest.to_owned()),
    ] {
        annotations.insert(key.to_owned(), value);
    }
    pod.metadata.uid = Some(uid);
    let spec = pod.spec.get_or_insert_default();
    spec.node_name = Some(origin.node.to_owned());
    if origin.kind == SourceKind::File {
        let everything = Toleration {
            operator: Some("Exists".to_owned()),
            effect: Some("NoExecute".to_owned()),
            ..Toleration::default()
        };
        let tolerations = spec.tolerations.get_or_insert_default();
        if !tolerations.contains(&everything) {
            tolerations.push(everything);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::identify;
    use super::*;

    fn made(uid: Option<&str>, image: &str, node: &str, manifest: &str, kind: SourceKind) -> Pod {
        let pod =
            json!({"metadata": {"name": "web", "uid": uid}, "spec": {"containers": [{"name": "c", "image": image}]}});
        let mut pod: Pod = serde_json::from_value(pod).unwrap();
        identify(&mut pod, 0);
        make_static(&mut pod, &StaticOrigin { node, kind, manifest, seen: Timestamp::UNIX_EPOCH });
        pod
    }

    #[test]
    fn a_static_pod_has_upstreams_identity() {
        let pod = made(None, "i", "box", "/m/web.yaml", SourceKind::File);
        assert_eq!(pod.metadata.name.as_deref(), Some("web-box"));
        let annotations = pod.metadata.annotations.clone().unwrap();
        assert_eq!(annotations[CONFIG_HASH], pod.metadata.uid.clone().unwrap());
        assert_eq!(annotations[CONFIG_SOURCE], "file");
        assert_eq!(annotations[CONFIG_SEEN], "1970-01-01T00:00:00Z");
        assert_eq!(annotations[MANIFEST], "/m/web.yaml");
        assert!(is_static(&pod) && !is_static(&Pod::default()));
        let spec = pod.spec.unwrap();
        assert_eq!(spec.node_name.as_deref(), Some("box"));
        let tolerations = spec.tolerations.unwrap();
        assert_eq!(tolerations.len(), 1);
        assert_eq!(
            (tolerations[0].operator.as_deref(), tolerations[0].effect.as_deref()),
            (Some("Exists"), Some("NoExecute"))
        );
        let fetched = made(None, "i", "box", "http://m/", SourceKind::Http);
        assert_eq!(fetched.spec.unwrap().tolerations, None, "only those of files");
    }

    #[test]
    fn the_uid_depends_on_content_node_and_place() {
        let uid = |image, node, manifest| made(None, image, node, manifest, SourceKind::File).metadata.uid.unwrap();
        let first = uid("i", "box", "/m/web.yaml");
        assert_eq!(uid("i", "box", "/m/web.yaml"), first);
        for other in [uid("j", "box", "/m/web.yaml"), uid("i", "fox", "/m/web.yaml"), uid("i", "box", "/m/w.yaml")] {
            assert_ne!(other, first);
        }
        assert_eq!(made(Some("mine"), "i", "box", "/m", SourceKind::File).metadata.uid.as_deref(), Some("mine"));
    }
}
