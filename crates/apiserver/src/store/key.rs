//! Which object: resource, namespace, name.

use std::fmt;
use std::sync::Arc;

/// The place of an object. Ordered by resource, namespace, name: the order of lists.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The resource with its group: `pods`, `leases.coordination.k8s.io`.
    pub resource: Arc<str>,
    /// The namespace, empty for what has none.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl Key {
    /// A key from its parts.
    pub fn new(resource: impl Into<Arc<str>>, namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { resource: resource.into(), namespace: namespace.into(), name: name.into() }
    }

    /// The key as the log has it: the parts with NUL between them, which no part can contain.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        [self.resource.as_bytes(), self.namespace.as_bytes(), self.name.as_bytes()].join(&0)
    }

    /// The key from the log's bytes, `None` if they are no key.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut parts = text.split('\0');
        let key = Self::new(parts.next()?, parts.next()?, parts.next()?);
        parts.next().is_none().then_some(key)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => write!(f, "{} {}", self.resource, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.resource, self.name),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
