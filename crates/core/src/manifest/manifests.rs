//! What manifests come to: Pods in groups, and the objects that they refer to.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::diagnostic::Diagnostic;
use crate::objects::ObjectSet;

/// What to do about fields that are unknown or given twice. A field of a wrong type is an error in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Validate {
    /// They are errors.
    #[default]
    Strict,
    /// They are warnings and have no effect; of a field given twice, the last counts.
    Warn,
    /// They have no effect, silently.
    Ignore,
}

/// One source text.
#[derive(Clone)]
pub struct Input {
    /// Its name for people: a path, a URL, `-`.
    pub name: Arc<str>,
    /// Its content.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for Input {
    /// The content may hold Secrets, so only its size is shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input").field("name", &self.name).field("bytes", &self.bytes.len()).finish()
    }
}

/// The kind of object that a group of Pods comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A Pod by itself.
    Pod,
    /// The Pods of a Job.
    Job,
    /// The Pods of a Deployment.
    Deployment,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pod => "Pod",
            Self::Job => "Job",
            Self::Deployment => "Deployment",
        })
    }
}

/// Pods that one object asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct PodGroup {
    /// The kind of the object.
    pub origin: Origin,
    /// The object's namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// Its Pods, defaulted, validated, each with name, namespace and uid, in the order in which they are to start.
    /// Empty for a Deployment scaled to zero and a suspended Job.
    pub pods: Vec<Arc<Pod>>,
    /// How many of them may run at once: at least 1, at most the number of Pods (1 if there is none). Less than the
    /// number of Pods only for a Job whose `parallelism` is below its `completions`: the caller starts another one
    /// as one ends.
    pub parallelism: usize,
}

/// Everything that a set of manifests asks for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Manifests {
    /// Groups of Pods, in the order of the input.
    pub groups: Vec<PodGroup>,
    /// The ConfigMaps and Secrets.
    pub objects: Arc<ObjectSet>,
    /// What has no effect.
    pub warnings: Vec<Diagnostic>,
}

impl Manifests {
    /// All Pods, in the order of the input.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.groups.iter().flat_map(|group| &group.pods)
    }
}

/// Input that is not used, with every reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} in the manifests", problems(errors.len() + unlisted))]
pub struct Invalid {
    /// Each problem, in the order of the input; at least one.
    pub errors: Vec<Diagnostic>,
    /// How many more there are: a hostile or foreign file can have millions.
    pub unlisted: usize,
    /// What would have had no effect.
    pub warnings: Vec<Diagnostic>,
}

fn problems(count: usize) -> String {
    if count == 1 { "1 problem".to_owned() } else { format!("{count} problems") }
}
