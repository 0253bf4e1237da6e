//! The labels and annotations that the kubelet writes on sandboxes and containers, under the kubelet's names, so
//! that a restarted agent recovers everything and other tools show our Pods as they show the kubelet's.

/// Label: the Pod's name.
pub const POD_NAME: &str = "io.kubernetes.pod.name";
/// Label: the Pod's namespace.
pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
/// Label: the Pod's uid.
pub const POD_UID: &str = "io.kubernetes.pod.uid";
/// Label: the container's name.
pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";
/// Annotation: hash of the container's spec; another one means "replace".
pub const HASH: &str = "io.kubernetes.container.hash";
/// Annotation: how often the container was restarted.
pub const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
/// Annotation: `terminationMessagePath`.
pub const TERMINATION_MESSAGE_PATH: &str = "io.kubernetes.container.terminationMessagePath";
/// Annotation: `terminationMessagePolicy`.
pub const TERMINATION_MESSAGE_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
/// Annotation: the Pod's `terminationGracePeriodSeconds`.
pub const POD_TERMINATION_GRACE: &str = "io.kubernetes.pod.terminationGracePeriod";
