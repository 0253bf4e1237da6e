//! Who a Pod is.
//!
//! A Pod is its namespace, name **and uid**: one that is deleted and created again under the same name is another
//! Pod. Every map in Minke is keyed by [`PodUid`] or [`PodKey`], never by name alone.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};

/// The uid of a Pod: opaque, never empty, cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PodUid(Arc<str>);

/// A text that can't be a uid: empty, or with a character that has no place in a path (`/`, NUL, a leading dot).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a pod uid: it must be 1 to 253 letters, digits, '-', '_' or '.', and not start with '.'")]
pub struct InvalidUid(pub String);

impl PodUid {
    /// Takes a uid. Uids become directory and cgroup names, so nothing that could leave a directory passes.
    ///
    /// # Errors
    /// [`InvalidUid`] names the text that was refused.
    pub fn new(uid: impl Into<String>) -> Result<Self, InvalidUid> {
        let uid = uid.into();
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if uid.is_empty() || uid.len() > 253 || uid.starts_with('.') || !uid.chars().all(allowed) {
            return Err(InvalidUid(uid));
        }
        Ok(Self(uid.into()))
    }

    /// The uid as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for PodUid {
    type Error = InvalidUid;
    fn try_from(uid: String) -> Result<Self, InvalidUid> {
        Self::new(uid)
    }
}

impl From<PodUid> for String {
    fn from(uid: PodUid) -> Self {
        uid.0.as_ref().to_owned()
    }
}

impl fmt::Display for PodUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for PodUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The whole identity of a Pod.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PodKey {
    /// Namespace, `default` where the manifest names none.
    pub namespace: Arc<str>,
    /// Name, unique in the namespace at one time.
    pub name: Arc<str>,
    /// Uid, unique for ever.
    pub uid: PodUid,
}

/// A Pod object that lacks a part of its identity. Defaulting gives every Pod one, so this is a fault of the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// `metadata.name` is absent or empty.
    #[error("the pod has no metadata.name")]
    NoName,
    /// `metadata.uid` is absent.
    #[error("pod {0} has no metadata.uid")]
    NoUid(String),
    /// `metadata.uid` can't be used.
    #[error("pod {name} has an unusable metadata.uid")]
    BadUid {
        /// The Pod's name.
        name: String,
        /// Why not.
        #[source]
        source: InvalidUid,
    },
}

impl PodKey {
    /// A key from its parts.
    #[must_use]
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>, uid: PodUid) -> Self {
        Self { namespace: namespace.into(), name: name.into(), uid }
    }

    /// The key of a Pod object.
    ///
    /// # Errors
    /// The object has no name or no usable uid; an absent namespace is `default`.
    pub fn of(pod: &Pod) -> Result<Self, IdentityError> {
        let name = pod.metadata.name.as_deref().filter(|n| !n.is_empty()).ok_or(IdentityError::NoName)?;
        let uid = pod.metadata.uid.clone().ok_or_else(|| IdentityError::NoUid(name.to_owned()))?;
        let uid = PodUid::new(uid).map_err(|source| IdentityError::BadUid { name: name.to_owned(), source })?;
        Ok(Self::new(pod.metadata.namespace.as_deref().unwrap_or("default"), name, uid))
    }

    /// `namespace/name`, as people write it.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The directory of this Pod's logs under `/var/log/pods`: `<namespace>_<name>_<uid>`, as the kubelet names it.
    #[must_use]
    pub fn log_directory(&self) -> String {
        format!("{}_{}_{}", self.namespace, self.name, self.uid)
    }
}

impl fmt::Display for PodKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} ({})", self.namespace, self.name, self.uid)
    }
}

impl fmt::Debug for PodKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_that_could_leave_a_directory_are_refused() {
        for bad in ["", ".", "..", "../x", "a/b", "a\0b", ".hidden", "a b", &"x".repeat(254)] {
            assert!(PodUid::new(bad).is_err(), "{bad:?}");
        }
        for good in ["a", "0f8fad5b-d9cd-469f-a165-70867728950e", "pod_1.2"] {
            assert_eq!(PodUid::new(good).map(|u| u.to_string()), Ok(good.to_owned()));
        }
    }

    #[test]
    fn the_log_directory_is_the_kubelets() {
        let uid = PodUid::new("u1").unwrap_or_else(|e| unreachable!("{e}"));
        let key = PodKey::new("ns", "web", uid);
        assert_eq!(key.log_directory(), "ns_web_u1");
        assert_eq!(key.full_name(), "ns/web");
    }
}
