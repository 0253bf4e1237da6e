//! What the API's types are: fields, how lists and maps merge, who is a pointer in Go, which number a field has on the
//! wire. Everything that works on objects as values asks here: patches, apply, protobuf, strict decoding.
//!
//! - [`builtin`] is the table of every kind that the server knows by itself, read once from `data/types.tbl`. That file
//!   comes from Kubernetes' published OpenAPI documents and Go sources; `cargo xtask api-data v1.37.0` makes it anew.
//! - [`Types::structural`] is the same for a custom resource, from its definition's schema.
//!
//! Types live in one list and refer to each other by [`StructId`], because schemas are recursive. A [`Kind`] means
//! something only together with its [`Types`].

mod parse;
mod structural;
mod zero;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

pub use structural::StructuralError;

/// A struct in its [`Types`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StructId(usize);

/// Types that refer to each other, and the kinds among them.
#[derive(Debug, Default)]
pub struct Types {
    structs: Vec<Struct>,
    by_name: BTreeMap<Cow<'static, str>, StructId>,
    /// By `apiVersion` and `kind`.
    kinds: BTreeMap<(Cow<'static, str>, Cow<'static, str>), StructId>,
}

/// An object with named fields.
#[derive(Debug, Default)]
pub struct Struct {
    /// As OpenAPI has it: `io.k8s.api.core.v1.Pod`.
    pub name: Cow<'static, str>,
    /// Owned and replaced as a whole.
    pub atomic: bool,
    /// Fields that are not declared are kept: `x-kubernetes-preserve-unknown-fields`.
    pub open: bool,
    /// Sorted by name.
    pub fields: Vec<Field>,
}

/// A field of a struct.
#[derive(Debug, Clone)]
pub struct Field {
    /// As in JSON.
    pub name: Cow<'static, str>,
    /// Its type.
    pub kind: Kind,
    /// Protobuf numbers from the struct inwards: two where JSON has the fields of an embedded message beside its own.
    /// Empty: not on the wire.
    pub numbers: Vec<u32>,
    /// A pointer in Go: its zero value is a value.
    pub pointer: bool,
    /// Go leaves out its zero value, unless it is a struct.
    pub omitempty: bool,
    /// Go leaves out its zero value, also of a struct.
    pub omitzero: bool,
    /// OpenAPI says `required`.
    pub required: bool,
    /// What a strategic merge patch does with it.
    pub patch: Strategy,
    /// What it is when not given, as a key of list entries.
    pub default: Option<Cow<'static, str>>,
}

/// How a strategic merge patch treats a list or map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Strategy {
    /// Merged, rather than replaced. Maps and structs are merged anyway.
    pub merge: bool,
    /// Fields that the patch does not have are dropped.
    pub retain_keys: bool,
    /// Which field tells entries apart. `None` for lists of scalars.
    pub key: Option<Cow<'static, str>>,
}

/// A type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8.
    String,
    /// Base64 in JSON.
    Bytes,
    /// `true` or `false`.
    Bool,
    /// `int32`.
    Int32,
    /// `int64`.
    Int64,
    /// `float64`.
    Double,
    /// A quantity such as `100m`; a string, or a number in what clients send.
    Quantity,
    /// A number or a string.
    IntOrString,
    /// RFC 3339 with seconds.
    Time,
    /// RFC 3339 with microseconds.
    MicroTime,
    /// An object of another API, as it is: Go's `RawExtension`.
    Raw,
    /// The set of fields of a `managedFields` entry.
    Fields,
    /// Any JSON.
    Json,
    /// A JSON schema, or a list of such: `items`.
    SchemaOrArray,
    /// A JSON schema or a boolean: `additionalProperties`.
    SchemaOrBool,
    /// A JSON schema or a list of names: `dependencies`.
    SchemaOrStrings,
    /// Any keys with values of one type.
    Map {
        /// The values' type.
        value: Box<Kind>,
        /// Owned and replaced as a whole.
        atomic: bool,
    },
    /// A list.
    List {
        /// The entries' type.
        element: Box<Kind>,
        /// What its entries are to each other.
        list: ListType,
    },
    /// An object with named fields.
    Struct {
        /// Which.
        id: StructId,
        /// Owned and replaced as a whole.
        atomic: bool,
    },
}

/// What the entries of a list are to each other: `x-kubernetes-list-type`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListType {
    /// Parts of one value.
    Atomic,
    /// Values, each once.
    Set,
    /// Objects that these fields tell apart.
    Map(Vec<Cow<'static, str>>),
}

impl Types {
    /// The type of a kind, such as `v1` and `Pod`.
    #[must_use]
    pub fn kind(&self, api_version: &str, kind: &str) -> Option<Kind> {
        let (_, id) = self.kinds.iter().find(|((a, k), _)| a == api_version && k == kind)?;
        Some(self.of(*id))
    }

    /// The type by its OpenAPI name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<Kind> {
        self.by_name.get(name).map(|id| self.of(*id))
    }

    /// The fields of a struct.
    #[must_use]
    pub fn get(&self, id: StructId) -> &Struct {
        // An id comes from the same list; nothing is ever removed from it.
        &self.structs[id.0]
    }

    fn of(&self, id: StructId) -> Kind {
        Kind::Struct { id, atomic: self.structs[id.0].atomic }
    }
}

impl Struct {
    /// A field by its JSON name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Field> {
        let at = self.fields.binary_search_by(|field| field.name.as_ref().cmp(name)).ok()?;
        self.fields.get(at)
    }
}

/// The types that the server knows by itself.
#[must_use]
pub fn builtin() -> &'static Types {
    // The table is part of the program and a test reads all of it; what can't be understood would be missing.
    static TYPES: LazyLock<Types> =
        LazyLock::new(|| parse::parse(include_str!("../../data/types.tbl")).unwrap_or_default());
    &TYPES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, field: &str) -> &'static Field {
        let Some(Kind::Struct { id, .. }) = builtin().named(name) else { panic!("{name}") };
        builtin().get(id).field(field).unwrap()
    }

    #[test]
    fn every_kind_of_the_server_is_in_the_table() {
        for (api_version, kind) in [
            ("v1", "Pod"),
            ("v1", "Node"),
            ("v1", "Namespace"),
            ("v1", "Event"),
            ("events.k8s.io/v1", "Event"),
            ("coordination.k8s.io/v1", "Lease"),
            ("v1", "ConfigMap"),
            ("v1", "Secret"),
            ("v1", "Service"),
            ("v1", "ServiceAccount"),
            ("v1", "PersistentVolume"),
            ("v1", "PersistentVolumeClaim"),
            ("v1", "Binding"),
            ("policy/v1", "Eviction"),
            ("node.k8s.io/v1", "RuntimeClass"),
            ("scheduling.k8s.io/v1", "PriorityClass"),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
            ("authentication.k8s.io/v1", "TokenRequest"),
            ("authentication.k8s.io/v1", "TokenReview"),
            ("authentication.k8s.io/v1", "SelfSubjectReview"),
            ("authorization.k8s.io/v1", "SubjectAccessReview"),
            ("authorization.k8s.io/v1", "SelfSubjectAccessReview"),
            ("authorization.k8s.io/v1", "SelfSubjectRulesReview"),
            ("autoscaling/v1", "Scale"),
            ("v1", "Status"),
            ("v1", "DeleteOptions"),
        ] {
            let Some(Kind::Struct { id, .. }) = builtin().kind(api_version, kind) else { panic!("{kind}") };
            assert!(builtin().get(id).field("kind").is_some(), "{kind}");
        }
        assert!(builtin().kind("apps/v1", "Deployment").is_none());
    }

    #[test]
    fn lists_know_how_they_merge() {
        let containers = field("io.k8s.api.core.v1.PodSpec", "containers");
        assert!(matches!(&containers.kind, Kind::List { list: ListType::Map(keys), .. } if keys == &["name"]));
        assert_eq!(containers.patch, Strategy { merge: true, retain_keys: false, key: Some("name".into()) });
        let ports = field("io.k8s.api.core.v1.Container", "ports");
        assert!(
            matches!(&ports.kind, Kind::List { list: ListType::Map(k), .. } if k == &["containerPort", "protocol"])
        );
        assert_eq!(ports.patch.key.as_deref(), Some("containerPort"));
        assert!(field("io.k8s.api.core.v1.PodSpec", "volumes").patch.retain_keys);
        assert_eq!(field("io.k8s.api.core.v1.ContainerPort", "protocol").default.as_deref(), Some("TCP"));
        let tolerations = field("io.k8s.api.core.v1.PodSpec", "tolerations");
        assert!(matches!(tolerations.kind, Kind::List { list: ListType::Atomic, .. }));
        let finalizers = field("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "finalizers");
        assert!(matches!(finalizers.kind, Kind::List { list: ListType::Set, .. }) && finalizers.patch.merge);
    }

    #[test]
    fn atomic_structs_are_so_unless_the_field_says_otherwise() {
        let selector = field("io.k8s.api.core.v1.EnvVarSource", "secretKeyRef");
        assert!(matches!(selector.kind, Kind::Struct { atomic: true, .. }));
        let claim = field("io.k8s.api.core.v1.PersistentVolumeSpec", "claimRef");
        assert!(matches!(claim.kind, Kind::Struct { atomic: false, .. }));
    }

    #[test]
    fn fields_of_embedded_messages_have_two_numbers_and_pointers_are_known() {
        assert_eq!(field("io.k8s.api.core.v1.Volume", "emptyDir").numbers, [2, 2]);
        assert!(field("io.k8s.api.core.v1.SecurityContext", "runAsUser").pointer);
        assert!(!field("io.k8s.api.core.v1.Container", "image").pointer);
        assert!(field("io.k8s.api.core.v1.Pod", "kind").numbers.is_empty());
    }
}
