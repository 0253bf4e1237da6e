//! May they: by their roles, and, for a node, by what is its own.

use hyper::Method;

use super::route::Resource;
use crate::access::{Attempt, Identity, allows, forbidden, touches};
use crate::engine::{Engine, Place};
use crate::error::ApiError;
use crate::kinds::Kind;

/// Whether a role of theirs allows it.
///
/// # Errors
/// 403 with upstream's sentence.
pub(super) fn authorize(
    identity: &Identity,
    kind: &Kind,
    resource: &Resource,
    verb: &str,
    part: &str,
    name: &str,
) -> Result<(), ApiError> {
    let namespace = resource.namespace.as_deref().unwrap_or_default();
    let (group, resource) = (kind.group, kind.plural);
    let attempt = Attempt { verb, group, resource, subresource: part, namespace, name };
    if allows(identity, &attempt) { Ok(()) } else { Err(forbidden(identity, &attempt)) }
}

/// What a node's role allows is still limited to what is its own.
///
/// # Errors
/// 403 for what is another's; 500 if that can't be read.
pub(super) fn limit(
    engine: &Engine,
    node: &str,
    place: Place<'_>,
    part: &str,
    method: &Method,
) -> Result<(), ApiError> {
    let (kind, verb) = (
        place.kind,
        match *method {
            Method::GET | Method::HEAD => "get",
            Method::DELETE => "delete",
            Method::POST => "create",
            Method::PATCH => "patch",
            _ => "update",
        },
    );
    let why = match kind.plural {
        "secrets" | "configmaps" if kind.group.is_empty() && verb == "get" => {
            match engine.node_needs(node, place.namespace, kind.plural, place.name)? {
                true => None,
                false => Some(format!("no relationship found between node {node:?} and this object")),
            }
        }
        "pods" if kind.group.is_empty() && verb != "get" => {
            // What is not there is told by whoever looks for it next.
            let pod = engine.get(place, None).ok().and_then(|entry| entry.parse().ok());
            pod.and_then(|pod| touches(node, verb, part, &pod))
        }
        _ => None,
    };
    why.map_or(Ok(()), |why| Err(ApiError::forbidden(kind.group, kind.plural, place.name, &why)))
}
