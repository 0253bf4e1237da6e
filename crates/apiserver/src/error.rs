//! What went wrong, as clients read it: the `Status` object with code, reason, details and causes.
//!
//! The constructors carry upstream's sentences; clients compare codes and reasons, people read the messages.

use serde_json::{Map, Value, json};

/// Why a request failed, as machines read it (`metav1.StatusReason`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// 400: the request itself is wrong.
    BadRequest,
    /// 401: nobody knows who asks.
    Unauthorized,
    /// 403: known, and not allowed; or the object's state forbids it.
    Forbidden,
    /// 404: no such object or resource.
    NotFound,
    /// 405: the resource has no such verb.
    MethodNotAllowed,
    /// 406: no representation that the client accepts.
    NotAcceptable,
    /// 409: the name is taken.
    AlreadyExists,
    /// 409: the object is not in the state that the writer knew.
    Conflict,
    /// 410: the revision is older than the history, or the continue token is.
    Expired,
    /// 413: the body is larger than the limit.
    RequestEntityTooLarge,
    /// 415: a body in a format that is not read here.
    UnsupportedMediaType,
    /// 422: the object breaks rules; the causes name the fields.
    Invalid,
    /// 429: later, please.
    TooManyRequests,
    /// 500: our fault.
    InternalError,
    /// 503: not now, storage has failed or the server ends.
    ServiceUnavailable,
    /// 504: what was asked for did not come about in time.
    Timeout,
}

impl Reason {
    /// The reason as it stands in a `Status`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BadRequest => "BadRequest",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "NotFound",
            Self::MethodNotAllowed => "MethodNotAllowed",
            Self::NotAcceptable => "NotAcceptable",
            Self::AlreadyExists => "AlreadyExists",
            Self::Conflict => "Conflict",
            Self::Expired => "Expired",
            Self::RequestEntityTooLarge => "RequestEntityTooLarge",
            Self::UnsupportedMediaType => "UnsupportedMediaType",
            Self::Invalid => "Invalid",
            Self::TooManyRequests => "TooManyRequests",
            Self::InternalError => "InternalError",
            Self::ServiceUnavailable => "ServiceUnavailable",
            Self::Timeout => "Timeout",
        }
    }

    /// The HTTP status that goes with it.
    #[must_use]
    pub fn code(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::NotAcceptable => 406,
            Self::AlreadyExists | Self::Conflict => 409,
            Self::Expired => 410,
            Self::RequestEntityTooLarge => 413,
            Self::UnsupportedMediaType => 415,
            Self::Invalid => 422,
            Self::TooManyRequests => 429,
            Self::InternalError => 500,
            Self::ServiceUnavailable => 503,
            Self::Timeout => 504,
        }
    }
}

/// One of several things that are wrong (`metav1.StatusCause`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Machine-readable kind: `FieldValueRequired`, `FieldManagerConflict`, …
    pub reason: String,
    /// For people.
    pub message: String,
    /// Path of the field, empty where it is about none.
    pub field: String,
}

impl Cause {
    /// A cause from its parts.
    pub fn new(reason: impl Into<String>, message: impl Into<String>, field: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into(), field: field.into() }
    }

    fn to_value(&self) -> Value {
        let mut map = Map::new();
        for (key, text) in [("reason", &self.reason), ("message", &self.message), ("field", &self.field)] {
            if !text.is_empty() {
                map.insert(key.to_owned(), Value::String(text.clone()));
            }
        }
        Value::Object(map)
    }
}

/// What the error is about (`metav1.StatusDetails`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    /// Name of the object.
    pub name: String,
    /// Group of the resource.
    pub group: String,
    /// The plural of the resource; for `Invalid` the kind, as upstream has it.
    pub kind: String,
    /// Uid of the object.
    pub uid: String,
    /// What is wrong, one by one.
    pub causes: Vec<Cause>,
    /// When to try again, in seconds; 0 says nothing.
    pub retry_after_seconds: u32,
    /// Where a list may go on whose picture is forgotten; empty for everything else. In the `Status` it stands in the
    /// metadata.
    pub continue_token: String,
}

impl Details {
    fn to_value(&self) -> Value {
        let mut map = Map::new();
        let texts = [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)];
        for (key, text) in texts {
            if !text.is_empty() {
                map.insert(key.to_owned(), Value::String(text.clone()));
            }
        }
        if !self.causes.is_empty() {
            map.insert("causes".to_owned(), self.causes.iter().map(Cause::to_value).collect());
        }
        if self.retry_after_seconds > 0 {
            map.insert("retryAfterSeconds".to_owned(), self.retry_after_seconds.into());
        }
        Value::Object(map)
    }
}

/// A failed request. Its `Display` is the message of the `Status`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// Why, for machines; the HTTP status follows from it.
    pub reason: Reason,
    /// Why, for people.
    pub message: String,
    /// About what.
    pub details: Box<Details>,
}

/// `pods` or `leases.coordination.k8s.io`: a resource as messages name it.
#[must_use]
pub fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

impl ApiError {
    /// An error about no object.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), details: Box::default() }
    }

    /// An error about an object of a resource.
    fn about(reason: Reason, group: &str, resource: &str, name: &str, message: String) -> Self {
        let details =
            Details { name: name.to_owned(), group: group.to_owned(), kind: resource.to_owned(), ..Details::default() };
        Self { reason, message, details: Box::new(details) }
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Reason::BadRequest, message)
    }

    /// 500. The message goes to clients: nothing secret in it.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        Self::new(Reason::InternalError, format!("Internal error occurred: {message}"))
    }

    /// 404 for an object.
    #[must_use]
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} {name:?} not found", qualified(group, resource));
        Self::about(Reason::NotFound, group, resource, name, message)
    }

    /// 404 for a path or a resource that is not served.
    #[must_use]
    pub fn no_resource() -> Self {
        Self::new(Reason::NotFound, "the server could not find the requested resource")
    }

    /// 409: the name is taken.
    #[must_use]
    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", qualified(group, resource));
        Self::about(Reason::AlreadyExists, group, resource, name, message)
    }

    /// 409 with the reason why the operation can't be fulfilled.
    #[must_use]
    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", qualified(group, resource));
        Self::about(Reason::Conflict, group, resource, name, message)
    }

    /// 409: somebody else has written in between.
    #[must_use]
    pub fn modified(group: &str, resource: &str, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(group, resource, name, why)
    }

    /// 403 about an object, with the reason.
    #[must_use]
    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message = match name {
            "" => format!("{} is forbidden: {why}", qualified(group, resource)),
            name => format!("{} {name:?} is forbidden: {why}", qualified(group, resource)),
        };
        Self::about(Reason::Forbidden, group, resource, name, message)
    }

    /// 405.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        Self::new(Reason::MethodNotAllowed, "the server does not allow this method on the requested resource")
    }

    /// 410: a revision or a continue token that is older than the history.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(Reason::Expired, message)
    }

    /// 410 for a watch from `wanted` where the history begins after `oldest`.
    #[must_use]
    pub fn too_old(wanted: u64, oldest: u64) -> Self {
        Self::expired(format!("too old resource version: {wanted} ({oldest})"))
    }

    /// 415 with the types that are read.
    #[must_use]
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let list = accepted.join(", ");
        let message =
            format!("the body of the request was in an unknown format - accepted media types include: {list}");
        Self::new(Reason::UnsupportedMediaType, message)
    }

    /// 422 for an object whose fields break rules. `kind` is the kind, not the plural.
    #[must_use]
    pub fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        let each: Vec<String> = causes
            .iter()
            .map(|cause| match cause.field.is_empty() {
                true => cause.message.clone(),
                false => format!("{}: {}", cause.field, cause.message),
            })
            .collect();
        let what = match each.len() {
            1 => each.concat(),
            _ => format!("[{}]", each.join(", ")),
        };
        let message = format!("{} {name:?} is invalid: {what}", qualified(group, kind));
        let mut error = Self::about(Reason::Invalid, group, kind, name, message);
        error.details.causes = causes;
        error
    }

    /// With causes.
    #[must_use]
    pub fn with_causes(mut self, causes: Vec<Cause>) -> Self {
        self.details.causes = causes;
        self
    }

    /// With the time after which to try again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.details.retry_after_seconds = seconds;
        self
    }

    /// The HTTP status.
    #[must_use]
    pub fn code(&self) -> u16 {
        self.reason.code()
    }

    /// The `Status` object.
    #[must_use]
    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason.as_str(),
            "code": self.code(),
        });
        if !self.details.continue_token.is_empty() {
            status["metadata"]["continue"] = self.details.continue_token.clone().into();
        } else if *self.details != Details::default()
            && let Some(map) = status.as_object_mut()
        {
            map.insert("details".to_owned(), self.details.to_value());
        }
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_upstreams() {
        assert_eq!(ApiError::not_found("", "pods", "p").to_string(), r#"pods "p" not found"#);
        assert_eq!(
            ApiError::already_exists("coordination.k8s.io", "leases", "l").to_string(),
            r#"leases.coordination.k8s.io "l" already exists"#
        );
        assert_eq!(
            ApiError::modified("", "configmaps", "c").to_string(),
            "Operation cannot be fulfilled on configmaps \"c\": the object has been modified; please apply your changes \
             to the latest version and try again"
        );
        assert_eq!(ApiError::too_old(1, 213).to_string(), "too old resource version: 1 (213)");
    }

    #[test]
    fn an_invalid_object_names_its_kind_and_every_field() {
        let causes = vec![
            Cause::new("FieldValueRequired", "Required value", "spec.containers"),
            Cause::new("FieldValueInvalid", "Invalid value: \"x\"", "spec.restartPolicy"),
        ];
        let one = ApiError::invalid("", "Pod", "p", causes[..1].to_vec());
        assert_eq!(one.to_string(), r#"Pod "p" is invalid: spec.containers: Required value"#);
        let status = ApiError::invalid("", "Pod", "p", causes).to_status();
        assert_eq!(status["code"], 422);
        assert_eq!(status["details"]["kind"], "Pod");
        assert_eq!(status["details"]["causes"][1]["field"], "spec.restartPolicy");
        assert_eq!(
            status["message"],
            "Pod \"p\" is invalid: [spec.containers: Required value, spec.restartPolicy: Invalid value: \"x\"]"
        );
    }

    #[test]
    fn a_status_says_nothing_about_nothing() {
        assert_eq!(ApiError::no_resource().to_status().get("details"), None);
        let later = ApiError::new(Reason::TooManyRequests, "later").retry_after(1).to_status();
        assert_eq!(later["details"], json!({"retryAfterSeconds": 1}));
    }
}
