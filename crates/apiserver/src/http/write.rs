//! Requests that write: what the body is, which part is meant, what is answered.

use bytes::Bytes;
use hyper::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::form::Printing;
use super::query::Query;
use super::{body, review, strict};
use crate::access::{Identity, Tokens, creates};
use crate::engine::{DeleteOptions, Deleted, Engine, PATCH_TYPES, Part, PatchKind, Place, WriteOptions};
use crate::error::{ApiError, Reason};
use crate::kinds::{Kind, certificate};

/// What a write answers.
pub(crate) type Written = Result<Done, ApiError>;

/// What a write has come to.
pub(crate) struct Done {
    pub(crate) code: StatusCode,
    pub(crate) bytes: Bytes,
    /// For `Warning` headers.
    pub(crate) warnings: Vec<String>,
}

fn done(code: StatusCode, bytes: Bytes) -> Written {
    Ok(Done { code, bytes, warnings: Vec::new() })
}

/// A write with its body read.
pub(crate) struct Write<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) query: &'a Query,
    pub(crate) printing: Printing,
    pub(crate) now: Timestamp,
    pub(crate) content_type: &'a str,
    pub(crate) agent: &'a str,
    pub(crate) asking: &'a Identity,
    pub(crate) tokens: &'a Tokens,
    pub(crate) body: Bytes,
}

/// A `Status` that says yes.
fn success(kind: &Kind, name: &str, uid: &str) -> Bytes {
    let details = json!({"name": name, "group": kind.group, "kind": kind.plural, "uid": uid});
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details});
    status.to_string().into()
}

fn created() -> Written {
    let code = StatusCode::CREATED;
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code.as_u16(),
    });
    done(code, status.to_string().into())
}

impl Write<'_> {
    fn options(&self) -> Result<WriteOptions, ApiError> {
        self.query.write(self.agent)
    }

    fn object(&self) -> Result<Value, ApiError> {
        Ok(body::parsed(self.content_type, &self.body)?.value)
    }

    /// Writes down who asks for something that has to be approved, and refuses what nobody may ask for.
    fn sign(&self, kind: &Kind, object: &mut Value) -> Result<(), ApiError> {
        if !kind.approved {
            return Ok(());
        }
        certificate::sign(object, self.asking);
        let refused = self.asking.node().and_then(|node| certificate::refused_to_node(node, object));
        match refused.or_else(|| certificate::refused(object)) {
            Some(why) => {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                Err(ApiError::forbidden(kind.group, kind.plural, name, &why))
            }
            None => Ok(()),
        }
    }

    pub(crate) async fn create(self, kind: &'static Kind, namespace: &str) -> Written {
        let mut decoded = strict::validated(self.query, kind, body::parsed(self.content_type, &self.body)?)?;
        self.sign(kind, &mut decoded.object)?;
        if let Some(why) = self.asking.node().and_then(|node| creates(node, kind.kind, &decoded.object)) {
            let name = decoded.object["metadata"]["name"].as_str().unwrap_or_default();
            return Err(ApiError::forbidden(kind.group, kind.plural, name, &why));
        }
        let entry = self.engine.create(kind, namespace, decoded.object, &self.options()?).await?;
        let bytes = self.printing.one(&entry, self.now)?;
        Ok(Done { code: StatusCode::CREATED, bytes, warnings: decoded.warnings })
    }

    pub(crate) async fn update(self, place: Place<'_>, part: Part) -> Written {
        let decoded = strict::validated(self.query, place.kind, body::parsed(self.content_type, &self.body)?)?;
        let entry = self.engine.update(place, part, decoded.object, &self.options()?).await?;
        let bytes = self.printing.one(&entry, self.now)?;
        Ok(Done { code: StatusCode::OK, bytes, warnings: decoded.warnings })
    }

    pub(crate) async fn finalize(self, place: Place<'_>) -> Written {
        let entry = self.engine.finalize(place, &self.object()?).await?;
        done(StatusCode::OK, self.printing.one(&entry, self.now)?)
    }

    pub(crate) async fn patch(self, place: Place<'_>, part: Part) -> Written {
        let kind = self.patch_kind()?;
        // An applied object is checked against its type by apply itself.
        let mut patch = body::patch(kind, &self.body)?;
        if kind == PatchKind::Apply && part == Part::Main {
            // It may be a new one.
            self.sign(place.kind, &mut patch.value)?;
        }
        let mode = self.query.validation("PatchOptions")?;
        let mut warnings = mode.judge(patch.duplicates).map_err(|error| ApiError::bad_request(error.to_string()))?;
        let mut options = WriteOptions { validation: mode, ..self.options()? };
        if kind == PatchKind::Apply {
            // Who applies says who it is: a program's name would not do.
            options.field_manager = self.query.get("fieldManager").to_owned();
        }
        let patched = self.engine.patch(place, part, kind, &patch.value, &options).await?;
        warnings.extend(patched.warnings);
        let code = if patched.created { StatusCode::CREATED } else { StatusCode::OK };
        Ok(Done { code, bytes: self.printing.one(&patched.entry, self.now)?, warnings })
    }

    /// The language of a patch.
    fn patch_kind(&self) -> Result<PatchKind, ApiError> {
        let media = self.content_type.split(';').next().unwrap_or_default().trim();
        let known = PATCH_TYPES.iter().find(|(name, _)| *name == media).map(|(_, kind)| *kind);
        known.ok_or_else(|| ApiError::new(Reason::UnsupportedMediaType, "415: Unsupported Media Type"))
    }

    /// Writes the scale of a custom object.
    pub(crate) async fn scale(self, place: Place<'_>, patch: bool) -> Written {
        let (kind, body) = match patch {
            true => {
                let kind = self.patch_kind()?;
                (Some(kind), body::patch(kind, &self.body)?.value)
            }
            false => (None, self.object()?),
        };
        let scale = self.engine.put_scale(place, kind, &body, &self.options()?).await?;
        done(StatusCode::OK, scale.to_string().into())
    }

    /// Options of a delete: of the body, and of the query where old clients have them.
    pub(crate) fn delete_options(&self) -> Result<DeleteOptions, ApiError> {
        let mut options = match self.body.is_empty() {
            true => DeleteOptions::default(),
            false => DeleteOptions::parse(&self.object()?)?,
        };
        match self.query.get("gracePeriodSeconds") {
            "" => {}
            text => match text.parse() {
                Ok(seconds) => {
                    options.grace_period_seconds.get_or_insert(seconds);
                }
                Err(_) => return Err(ApiError::bad_request("gracePeriodSeconds: must be a decimal number")),
            },
        }
        if let policy @ ("Orphan" | "Background" | "Foreground") = self.query.get("propagationPolicy") {
            options.propagation.get_or_insert_with(|| policy.to_owned());
        }
        options.dry_run |= self.query.dry_run()?;
        Ok(options)
    }

    pub(crate) async fn delete(self, place: Place<'_>) -> Written {
        let options = self.delete_options()?;
        let (entry, gone) = match self.engine.delete(place, &options).await? {
            Deleted::Gone(entry) => (entry, true),
            Deleted::Going(entry) => (entry, false),
        };
        if gone && !place.kind.returns_deleted {
            let object = entry.parse().map_err(ApiError::internal)?;
            let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
            return done(StatusCode::OK, success(place.kind, place.name, uid));
        }
        done(StatusCode::OK, self.printing.one(&entry, self.now)?)
    }

    pub(crate) async fn delete_collection(self, kind: &'static Kind, namespace: Option<&str>) -> Written {
        let options = self.delete_options()?;
        let list = self.engine.delete_collection(kind, namespace, &self.query.list(kind)?, &options).await?;
        done(StatusCode::OK, self.printing.list(&list, self.now)?)
    }

    /// Answers a question.
    pub(crate) fn ask(self, kind: &'static Kind, namespace: Option<&str>) -> Written {
        let decoded = strict::validated(self.query, kind, body::parsed(self.content_type, &self.body)?)?;
        let answer = review::answer(self.engine, self.tokens, kind, namespace, self.asking, decoded.object)?;
        Ok(Done { code: StatusCode::CREATED, bytes: answer.to_string().into(), warnings: decoded.warnings })
    }

    pub(crate) fn issue_token(self, place: Place<'_>) -> Written {
        let request = self.object()?;
        if let Some(node) = self.asking.node() {
            self.engine.node_may_ask(node, place, &request)?;
        }
        done(StatusCode::CREATED, self.engine.issue_token(place, &request)?.to_string().into())
    }

    pub(crate) async fn bind(self, place: Place<'_>) -> Written {
        let binding = self.object()?;
        self.engine.bind(place, &binding, &self.options()?).await?;
        created()
    }

    pub(crate) async fn evict(self, place: Place<'_>) -> Written {
        let eviction = self.object()?;
        self.engine.evict(place, &eviction, self.query.dry_run()?).await?;
        created()
    }
}
