//! Patches: `(object, patch) -> object`, nothing else. Conflicts, validation and storage are the caller's.
//!
//! | content type | here |
//! |---|---|
//! | `application/json-patch+json` | [`json_patch`] (RFC 6902, with upstream's limits) |
//! | `application/merge-patch+json` | [`merge_patch`] (RFC 7386) |
//! | `application/strategic-merge-patch+json` | [`strategic_merge_patch`]; built-in kinds only |
//! | `application/apply-patch+yaml` | [`crate::apply`] |
//!
//! A patch may take everything away, `kind` included: the caller decodes and validates what comes out as it does a
//! body. A caller whose precondition failed patches again, with the newer object.

mod json;
mod merge;
mod order;
mod strategic;

pub use json::json_patch;
pub use merge::merge_patch;
pub use strategic::strategic_merge_patch;

use crate::error::{ApiError, Reason};

/// Most operations of a JSON patch, as upstream.
pub const MAX_OPERATIONS: usize = 10_000;

/// Most bytes that the `copy` operations of a JSON patch may add, as upstream: the limit of a request's body.
pub const MAX_COPIED: usize = 3 << 20;

/// Why a patch gives no object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// Not a patch at all.
    #[error("{0}")]
    Malformed(String),
    /// A JSON patch with more than [`MAX_OPERATIONS`].
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooMany(usize),
    /// A patch that this object can't have: `test` failed, a path is not there. For the log; upstream does not tell
    /// clients.
    #[error("{0}")]
    DoesNotApply(String),
}

impl From<PatchError> for ApiError {
    fn from(error: PatchError) -> Self {
        let reason = match &error {
            PatchError::Malformed(_) => Reason::BadRequest,
            PatchError::TooMany(_) => Reason::RequestEntityTooLarge,
            PatchError::DoesNotApply(_) => Reason::Invalid,
        };
        match error {
            PatchError::DoesNotApply(_) => {
                Self::new(reason, "the server rejected our request due to an error in our request")
            }
            PatchError::Malformed(message) => Self::new(reason, message),
            PatchError::TooMany(_) => Self::new(reason, error.to_string()),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;

    /// Small JSON with few names, so that two of them meet.
    pub(crate) fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            Just(json!(true)),
            (0..3_i32).prop_map(Value::from),
            "[ab]".prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 20, 3, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                proptest::collection::btree_map("[abc]", inner, 0..3)
                    .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
            ]
        })
    }

    fn named(names: &'static str, value: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
        proptest::collection::btree_map(names, value, 0..4).prop_map(|entries| {
            let entry = |(name, mut value): (String, Value)| {
                value["name"] = name.into();
                value
            };
            Value::Array(entries.into_iter().map(entry).collect())
        })
    }

    /// Parts of a Pod with lists of every type, without nulls.
    pub(crate) fn any_pod() -> impl Strategy<Value = Value> {
        let labels = proptest::collection::btree_map("[abc]", "[xy]", 0..3);
        let finalizers = proptest::collection::btree_set("[abc]", 0..3);
        let env = named("[ABC]", "[xy]".prop_map(|value| json!({"value": value})));
        let container = (env, proptest::option::of("[xy]"), proptest::collection::vec("[xy]", 0..2)).prop_map(
            |(env, image, command)| match image {
                Some(image) => json!({"env": env, "image": image, "command": command}),
                None => json!({"env": env}),
            },
        );
        let tolerations = proptest::collection::vec("[xy]".prop_map(|key| json!({"key": key})), 0..3);
        (labels, finalizers, named("[abcd]", container), proptest::option::of(tolerations)).prop_map(
            |(labels, finalizers, containers, tolerations)| {
                let mut pod = json!({
                    "metadata": {"labels": labels, "finalizers": finalizers},
                    "spec": {"containers": containers},
                });
                if let Some(tolerations) = tolerations {
                    pod["spec"]["tolerations"] = tolerations.into();
                }
                pod
            },
        )
    }

    #[test]
    fn clients_hear_what_upstream_tells_them() {
        let unfit = ApiError::from(PatchError::DoesNotApply("test: /a is something else".to_owned()));
        assert_eq!(
            (unfit.code(), unfit.message.as_str()),
            (422, "the server rejected our request due to an error in our request")
        );
        assert_eq!(ApiError::from(PatchError::Malformed("x".to_owned())).code(), 400);
        let many = ApiError::from(PatchError::TooMany(10_001));
        assert_eq!(many.code(), 413);
        assert_eq!(many.message, "The allowed maximum operations in a JSON patch is 10000, got 10001");
    }
}
