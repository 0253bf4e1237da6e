//! Pods on their way to a provider, and as it holds them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};

use crate::identity::PodKey;
use crate::objects::ObjectSet;

/// A Pod that someone wants, defaulted and validated, with identity, and the objects that it refers to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DesiredPod {
    /// The Pod; `metadata.uid` is set.
    pub pod: Arc<Pod>,
    /// The ConfigMaps and Secrets that it refers to.
    pub objects: Arc<ObjectSet>,
}

/// How a provider takes the environment of containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Environment {
    /// Literal values: references, downward API and `$(NAME)` are resolved before. Only variables that hold an address of the Pod or
    /// its machine, which nobody else knows, and those composed of such (`http://$(POD_IP):80`), come as they were written.
    #[default]
    Resolved,
    /// As written; the provider resolves it, with the objects that come along.
    AsWritten,
}

/// A Pod as a provider holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldPod {
    /// Who it is.
    pub key: PodKey,
    /// The Pod as it was last created or updated, with its status as it is now.
    pub pod: Arc<Pod>,
}

impl HeldPod {
    /// Its status; empty if it has none yet.
    #[must_use]
    pub fn status(&self) -> PodStatus {
        self.pod.status.clone().unwrap_or_default()
    }
}
