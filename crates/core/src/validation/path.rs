//! Where in an object something is: `spec.containers[0].env[1].name`, `metadata.labels[app.kubernetes.io/name]`.

use std::borrow::Cow;
use std::fmt;

/// One step of a [`FieldPath`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Segment {
    /// A field of a struct.
    Field(Cow<'static, str>),
    /// An element of a list.
    Index(usize),
    /// A key of a map.
    Key(String),
}

/// The way from an object to one of its fields, in the notation of Kubernetes' own messages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct FieldPath {
    segments: Vec<Segment>,
}

impl FieldPath {
    /// The object itself.
    #[must_use]
    pub fn root() -> Self {
        Self::default()
    }

    /// A field of the object.
    #[must_use]
    pub fn of(field: &'static str) -> Self {
        Self::root().field(field)
    }

    /// A path from its steps.
    #[must_use]
    pub fn from_segments(segments: Vec<Segment>) -> Self {
        Self { segments }
    }

    fn with(&self, segment: Segment) -> Self {
        let mut segments = Vec::with_capacity(self.segments.len() + 1);
        segments.extend_from_slice(&self.segments);
        segments.push(segment);
        Self { segments }
    }

    /// A field of what this path leads to.
    #[must_use]
    pub fn field(&self, name: impl Into<Cow<'static, str>>) -> Self {
        self.with(Segment::Field(name.into()))
    }

    /// An element of the list that this path leads to.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.with(Segment::Index(index))
    }

    /// A key of the map that this path leads to.
    #[must_use]
    pub fn key(&self, key: impl Into<String>) -> Self {
        self.with(Segment::Key(key.into()))
    }

    /// `rest`, started from what this path leads to.
    #[must_use]
    pub fn join(&self, rest: &Self) -> Self {
        let mut segments = self.segments.clone();
        segments.extend_from_slice(&rest.segments);
        Self { segments }
    }

    /// The steps, outermost first.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Whether it is the object itself.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.segments.is_empty()
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, segment) in self.segments.iter().enumerate() {
            match segment {
                Segment::Field(name) if i == 0 => f.write_str(name)?,
                Segment::Field(name) => write!(f, ".{name}")?,
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Key(key) => write!(f, "[{key}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_read_as_upstreams() {
        let path = FieldPath::of("spec").field("containers").index(0).field("env").index(12).field("name");
        assert_eq!(path.to_string(), "spec.containers[0].env[12].name");
        let label = FieldPath::of("metadata").field("labels").key("app.kubernetes.io/name");
        assert_eq!(label.to_string(), "metadata.labels[app.kubernetes.io/name]");
        assert_eq!(
            FieldPath::of("items").index(2).join(&label).to_string(),
            "items[2].metadata.labels[app.kubernetes.io/name]"
        );
        assert_eq!(FieldPath::root().to_string(), "");
    }
}
