//! Questions that are created, answered and not kept: who am I, may I, may they, whose token is this.

use serde_json::{Map, Value, json};

use crate::access::{Attempt, ISSUER, Identity, Tokens, allows, allows_path, rules};
use crate::engine::Engine;
use crate::error::{ApiError, Cause};
use crate::kinds::Kind;

/// A user as the API tells it.
fn told(identity: &Identity) -> Value {
    let mut user = json!({"username": identity.user, "groups": identity.groups});
    if !identity.uid.is_empty() {
        user["uid"] = identity.uid.clone().into();
    }
    if !identity.extra.is_empty() {
        let extra: Map<String, Value> =
            identity.extra.iter().map(|(key, value)| (key.clone(), json!([value]))).collect();
        user["extra"] = extra.into();
    }
    user
}

fn list(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

/// The question with its answer as status.
///
/// # Errors
/// 422 for a question that asks nothing, or two things.
pub(crate) fn answer(
    engine: &Engine,
    tokens: &Tokens,
    kind: &Kind,
    namespace: Option<&str>,
    asking: &Identity,
    mut question: Value,
) -> Result<Value, ApiError> {
    let spec = &question["spec"];
    let invalid = |field: &str, message: &str| {
        let cause = Cause::new("FieldValueInvalid", format!("Invalid value: {message}"), field);
        ApiError::invalid(kind.group, kind.kind, "", vec![cause])
    };
    let status = match kind.kind {
        "SelfSubjectReview" => json!({"userInfo": told(asking)}),
        "SelfSubjectAccessReview" => may(asking, spec).map_err(|why| invalid("spec", why))?,
        "SubjectAccessReview" | "LocalSubjectAccessReview" => {
            let (user, mut groups) = (spec["user"].as_str().unwrap_or_default().to_owned(), list(&spec["groups"]));
            if user.is_empty() && groups.is_empty() {
                return Err(invalid("spec.user", "\"\": at least one of user or group must be specified"));
            }
            if let Some(namespace) = namespace
                && spec["resourceAttributes"]["namespace"] != namespace
            {
                let why = "must match metadata.namespace";
                return Err(invalid("spec.resourceAttributes.namespace", why));
            }
            groups.dedup();
            let identity = Identity { user, groups, ..Identity::default() };
            may(&identity, spec).map_err(|why| invalid("spec", why))?
        }
        "SelfSubjectRulesReview" => {
            let namespace = spec["namespace"].as_str().unwrap_or_default();
            if namespace.is_empty() {
                return Err(ApiError::bad_request("no namespace on request"));
            }
            let (objects, paths) = rules(asking, namespace);
            json!({"resourceRules": objects, "nonResourceRules": paths, "incomplete": false})
        }
        "TokenReview" => {
            let token = spec["token"].as_str().unwrap_or_default();
            if token.is_empty() {
                let cause =
                    Cause::new("FieldValueRequired", "Required value: token is required for TokenReview", "spec.token");
                return Err(ApiError::invalid(kind.group, kind.kind, "", vec![cause]));
            }
            let status = review(engine, tokens, token, &list(&spec["audiences"]));
            // A token is told to nobody, also not to who has it.
            question["spec"]["token"] = "".into();
            status
        }
        _ => return Err(ApiError::no_resource()),
    };
    question["status"] = status;
    if question["metadata"].is_null() {
        question["metadata"] = json!({"creationTimestamp": null});
    }
    Ok(question)
}

fn review(engine: &Engine, tokens: &Tokens, token: &str, audiences: &[String]) -> Value {
    // One of the token file is for this server.
    if let Some(known) = tokens.find(token).filter(|_| audiences.is_empty() || audiences.iter().any(|a| a == ISSUER)) {
        return json!({"authenticated": true, "user": told(&known.clone().authenticated()), "audiences": [ISSUER]});
    }
    match engine.authenticate(token, audiences) {
        Ok((identity, held)) => {
            let audiences = if held.is_empty() { vec![ISSUER.to_owned()] } else { held };
            json!({"authenticated": true, "user": told(&identity), "audiences": audiences})
        }
        Err(error) => json!({"authenticated": false, "user": {}, "error": error.to_string()}),
    }
}

/// Whether someone may what a spec says; the error is for a spec that says nothing, or two things.
fn may(identity: &Identity, spec: &Value) -> Result<Value, &'static str> {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let allowed = match (resource.is_object(), path.is_object()) {
        (true, false) => {
            let [verb, group, plural, part, namespace, name] =
                ["verb", "group", "resource", "subresource", "namespace", "name"].map(|field| text(resource, field));
            let attempt = Attempt {
                verb: &verb,
                group: &group,
                resource: &plural,
                subresource: &part,
                namespace: &namespace,
                name: &name,
            };
            allows(identity, &attempt)
        }
        (false, true) => allows_path(identity, &text(path, "verb"), &text(path, "path")),
        (true, true) => return Err("cannot specify both nonResourceAttributes and resourceAttributes"),
        (false, false) => return Err("exactly one of nonResourceAttributes or resourceAttributes must be specified"),
    };
    Ok(json!({"allowed": allowed}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{ADMINISTRATORS, AUTHENTICATED};

    #[test]
    fn an_access_review_asks_exactly_one_thing() {
        let root = Identity {
            user: "root".to_owned(),
            groups: vec![ADMINISTRATORS.to_owned(), AUTHENTICATED.to_owned()],
            ..Identity::default()
        };
        let resource = json!({"verb": "delete", "resource": "pods", "namespace": "ns"});
        let path = json!({"verb": "get", "path": "/metrics"});
        let asked = |spec: Value| may(&root, &spec).map(|status| status["allowed"] == true);
        assert_eq!(asked(json!({"resourceAttributes": resource})), Ok(true));
        assert_eq!(asked(json!({"nonResourceAttributes": path})), Ok(true));
        assert!(asked(json!({})).is_err());
        assert!(asked(json!({"resourceAttributes": resource, "nonResourceAttributes": path})).is_err());
        let nobody = Identity::default().authenticated();
        assert_eq!(may(&nobody, &json!({"resourceAttributes": resource})).unwrap(), json!({"allowed": false}));
    }
}
