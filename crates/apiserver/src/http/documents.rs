//! OpenAPI documents: made when first asked for, off the async threads, and again when definitions have changed; kept packed,
//! because few ask and most of them take it so.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use hyper::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue,
    IF_NONE_MATCH, VARY,
};
use hyper::{Response, StatusCode};
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;

use super::body::{Body, full};
use super::discovery;
use crate::custom::{Definition, Kinds};
use crate::error::ApiError;
use crate::kinds::Kind;
use crate::openapi::{self, Resource, Schemas, Subresource};

/// The documents of one moment.
#[derive(Debug)]
struct Made {
    /// Of the kinds that they are of.
    number: u64,
    index: Document,
    /// By `apiVersion`.
    documents: BTreeMap<String, Document>,
}

/// A document, packed, and the name of its content.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    packed: Bytes,
    hash: String,
    /// Its content type.
    media: &'static str,
    /// Whether only the server's own kinds are in it, which never change.
    own: bool,
}

/// The documents of a server: v3, and v2, which is made of them where somebody asks for it.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    new: Mutex<Option<Arc<Made>>>,
    old: Mutex<Option<Old>>,
}

/// The document of v2, in both of its forms.
#[derive(Debug, Clone)]
struct Old {
    number: u64,
    json: Document,
    protobuf: Document,
}

const JSON: &str = "application/json";
/// Older clients ask for it with an `@` in the name, and take it with a dot.
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const PROTOBUF_ASKED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

impl Documents {
    /// The index of all documents.
    ///
    /// # Errors
    /// 500 if they can't be made.
    pub(crate) async fn index(&self, kinds: &Kinds) -> Result<Document, ApiError> {
        Ok(self.current(kinds).await?.index.clone())
    }

    /// The document of a group and version.
    ///
    /// # Errors
    /// 404, 500.
    pub(crate) async fn document(&self, kinds: &Kinds, group: &str, version: &str) -> Result<Document, ApiError> {
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        self.current(kinds).await?.documents.get(&api_version).cloned().ok_or_else(ApiError::no_resource)
    }

    /// OpenAPI v2 of everything, in the first form that is accepted: JSON where none is named.
    ///
    /// # Errors
    /// 500 if it can't be made.
    pub(crate) async fn old(&self, kinds: &Kinds, accept: &str) -> Result<Document, ApiError> {
        let current = self.current(kinds).await?;
        let mut old = self.old.lock().await;
        let made = match &*old {
            Some(made) if made.number == current.number => made.clone(),
            _ => {
                let new = tokio::task::spawn_blocking(move || make_old(&current)).await;
                old.insert(new.map_err(ApiError::internal)?.map_err(ApiError::internal)?).clone()
            }
        };
        let first = accept.split(',').map(|media| media.split(';').next().unwrap_or_default().trim());
        let first = first.into_iter().find(|media| [JSON, PROTOBUF, PROTOBUF_ASKED, "*/*"].contains(media));
        Ok(if matches!(first, Some(PROTOBUF | PROTOBUF_ASKED)) { made.protobuf } else { made.json })
    }

    async fn current(&self, kinds: &Kinds) -> Result<Arc<Made>, ApiError> {
        // Whoever comes while they are made waits, instead of making them as well.
        let mut made = self.new.lock().await;
        // Read before the kinds: what changes in between is made again.
        let number = kinds.number();
        match &*made {
            Some(current) if current.number == number => Ok(current.clone()),
            before => {
                let (before, kinds) = (before.clone(), kinds.all());
                let new = tokio::task::spawn_blocking(move || make(number, &kinds, before.as_deref())).await;
                let new = Arc::new(new.map_err(ApiError::internal)?.map_err(ApiError::internal)?);
                *made = Some(new.clone());
                Ok(new)
            }
        }
    }
}

fn make(number: u64, kinds: &[&'static Kind], before: Option<&Made>) -> std::io::Result<Made> {
    let mut documents = BTreeMap::new();
    let mut schemas = None;
    for group in std::iter::once("").chain(discovery::groups(kinds)) {
        for version in discovery::versions(kinds, group) {
            let kinds = discovery::of(kinds, group, version);
            let Some(first) = kinds.first() else { continue };
            let (api_version, own) = (first.api_version(), kinds.iter().all(|kind| kind.slot.is_none()));
            let kept = before.and_then(|before| before.documents.get(&api_version)).filter(|kept| own && kept.own);
            let document = match kept {
                Some(kept) => kept.clone(),
                None => {
                    let schemas = schemas.get_or_insert_with(Schemas::unpack);
                    pack(openapi_of(schemas, &api_version, &kinds).to_string().as_bytes(), own)?
                }
            };
            documents.insert(api_version, document);
        }
    }
    let index = openapi::index(documents.iter().map(|(name, document)| (name.as_str(), document.hash.as_str())));
    Ok(Made { number, index: pack(index.to_string().as_bytes(), false)?, documents })
}

fn make_old(made: &Made) -> std::io::Result<Old> {
    let mut documents = Vec::new();
    for document in made.documents.values() {
        documents.push(serde_json::from_slice(&unpack(&document.packed)?)?);
    }
    let document = openapi::v2::document(&documents, &discovery::git_version());
    Ok(Old {
        number: made.number,
        json: pack(document.to_string().as_bytes(), false)?,
        protobuf: Document { media: PROTOBUF, ..pack(&openapi::v2::protobuf(&document), false)? },
    })
}

fn openapi_of(schemas: &Schemas, api_version: &str, kinds: &[&Kind]) -> serde_json::Value {
    struct Parts<'a> {
        kind: &'a Kind,
        definition: Option<Arc<Definition>>,
        parts: Vec<(&'static str, String, &'static str, Vec<&'static str>)>,
    }
    let parts = |kind: &&Kind| -> Vec<_> {
        let part = |part: discovery::Part| {
            let (api_version, body) = part.body(kind);
            (part.name, api_version, body, part.methods())
        };
        // Streams and texts have no schema, and clients look for none.
        discovery::parts(kind).into_iter().filter(|part| !part.reaches).map(part).collect()
    };
    let all: Vec<Parts<'_>> =
        kinds.iter().map(|kind| Parts { kind, definition: kind.definition(), parts: parts(kind) }).collect();
    let below: Vec<Vec<Subresource<'_>>> = all
        .iter()
        .map(|each| {
            each.parts
                .iter()
                .map(|(name, api_version, kind, methods)| Subresource { name, api_version, kind, methods })
                .collect()
        })
        .collect();
    let resources: Vec<Resource<'_>> = all
        .iter()
        .zip(&below)
        .map(|(each, below)| Resource {
            kind: each.kind.kind,
            plural: each.kind.plural,
            namespaced: each.kind.namespaced,
            subresources: below,
            schema: each.definition.as_deref().map(|definition| &definition.schema),
        })
        .collect();
    openapi::document(schemas, api_version, &resources)
}

fn pack(text: &[u8], own: bool) -> std::io::Result<Document> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text)?;
    let hash = Sha256::digest(text).iter().map(|byte| format!("{byte:02X}")).collect();
    Ok(Document { packed: encoder.finish()?.into(), hash, media: JSON, own })
}

fn unpack(packed: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut text)?;
    Ok(text)
}

/// Answers with a document. One that is asked for by its hash may be kept for ever.
///
/// # Errors
/// 500 if it can't be unpacked.
pub(crate) fn answer(document: &Document, hash: &str, headers: &HeaderMap) -> Result<Response<Body>, ApiError> {
    let says = |name: HeaderName, what: &str| {
        headers.get_all(name).iter().any(|value| value.to_str().is_ok_and(|text| text.contains(what)))
    };
    let mut response = Response::new(full(Bytes::new()));
    let out = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{}\"", document.hash)) {
        out.insert(ETAG, tag);
    }
    out.insert(VARY, HeaderValue::from_static("Accept-Encoding, Accept"));
    let keep = if hash == document.hash { "public, immutable, max-age=31536000" } else { "no-cache, private" };
    out.insert(CACHE_CONTROL, HeaderValue::from_static(keep));
    if says(IF_NONE_MATCH, &document.hash) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return Ok(response);
    }
    out.insert(CONTENT_TYPE, HeaderValue::from_static(document.media));
    if says(ACCEPT_ENCODING, "gzip") {
        out.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        *response.body_mut() = full(document.packed.clone());
    } else {
        *response.body_mut() = full(unpack(&document.packed).map_err(ApiError::internal)?);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn documents_are_made_once_and_lead_from_the_index() {
        let (documents, kinds) = (Documents::default(), Kinds::default());
        let index = documents.index(&kinds).await.unwrap();
        let text: serde_json::Value = serde_json::from_slice(&unpack(&index.packed).unwrap()).unwrap();
        for (api_version, path) in [("v1", "api/v1"), ("coordination.k8s.io/v1", "apis/coordination.k8s.io/v1")] {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            let document = documents.document(&kinds, group, version).await.unwrap();
            let url = text["paths"][path]["serverRelativeURL"].as_str().unwrap();
            assert_eq!(url, format!("/openapi/v3/{path}?hash={}", document.hash));
            let again = documents.document(&kinds, group, version).await.unwrap();
            assert_eq!(again.packed.as_ptr(), document.packed.as_ptr(), "the same bytes");
        }
        assert_eq!(documents.document(&kinds, "apps", "v1").await.unwrap_err().code(), 404);
    }

    #[tokio::test]
    async fn the_older_document_comes_in_the_form_that_is_asked_for() {
        let (documents, kinds) = (Documents::default(), Kinds::default());
        for (accept, expected) in [
            ("", JSON),
            ("application/json, */*", JSON),
            (PROTOBUF_ASKED, PROTOBUF),
            ("application/com.github.proto-openapi.spec.v2.v1.0+protobuf,application/json", PROTOBUF),
        ] {
            assert_eq!(documents.old(&kinds, accept).await.unwrap().media, expected, "{accept}");
        }
        let json = unpack(&documents.old(&kinds, "").await.unwrap().packed).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        for definition in ["io.k8s.api.core.v1.Pod", "io.k8s.api.coordination.v1.Lease"] {
            assert!(json["definitions"][definition].is_object(), "{definition}");
        }
    }

    #[test]
    fn a_document_is_told_packed_plain_or_not_at_all() {
        let document = pack(b"{}", true).unwrap();
        let answered = |name: HeaderName, value: &str, hash: &str| {
            let headers = HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())]);
            let response = answer(&document, hash, &headers).unwrap();
            let header = |name| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
            (response.status().as_u16(), header(CONTENT_ENCODING), header(CACHE_CONTROL).unwrap())
        };
        let private = "no-cache, private".to_owned();
        assert_eq!(answered(ACCEPT_ENCODING, "gzip, br", ""), (200, Some("gzip".to_owned()), private.clone()));
        assert_eq!(answered(ACCEPT_ENCODING, "br", "old"), (200, None, private.clone()));
        let tag = format!("\"{}\"", document.hash);
        assert_eq!(answered(IF_NONE_MATCH, &tag, ""), (304, None, private));
        assert!(answered(ACCEPT_ENCODING, "br", &document.hash).2.contains("immutable"));
    }
}
