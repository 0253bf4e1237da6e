//! One repository, seen with one login.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use minke_core::runtime::Credential;
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, RANGE, RETRY_AFTER, WWW_AUTHENTICATE,
};
use reqwest::{RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;
use tokio::sync::Mutex;

use super::challenge::Challenge;
use super::{Http, RegistryError};
use crate::image::manifest::ACCEPTED;
use crate::image::{Digest, Reference};

/// Largest answer that is read of anything but blobs and manifests.
const MAX_ANSWER: u64 = 1 << 20;
/// The header by which registries tell the digest of what they send.
const CONTENT_DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");

/// A repository and a login.
pub(crate) struct Session<'a> {
    http: &'a reqwest::Client,
    tls: bool,
    repository: &'a str,
    /// `https://host/v2/repository`.
    base: String,
    credential: Option<Credential>,
    /// Longest silence of the registry.
    patience: Duration,
    /// What the registry accepted, once it asked for a login.
    authorization: Mutex<Option<HeaderValue>>,
}

/// A blob that is being sent.
pub(crate) struct Blob {
    response: Response,
    /// Where in the blob the first byte belongs.
    pub(crate) offset: u64,
    /// Bytes that are to come, if the registry says so.
    pub(crate) length: Option<u64>,
    patience: Duration,
}

impl Blob {
    /// The next bytes; `None` at the end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, RegistryError> {
        match tokio::time::timeout(self.patience, self.response.chunk()).await {
            Ok(result) => result.map_err(RegistryError::unanswered),
            Err(_) => Err(silent(self.patience)),
        }
    }
}

impl<'a> Session<'a> {
    /// A session that has not asked for anything yet.
    pub(crate) fn new(
        http: &'a Http,
        reference: &'a Reference,
        tls: bool,
        credential: Option<Credential>,
        patience: Duration,
    ) -> Result<Self, RegistryError> {
        let scheme = if tls { "https" } else { "http" };
        let authorization = match &credential {
            // For the registry itself, so there is nothing to ask a token service for.
            Some(Credential::RegistryToken(token)) => Some(sensitive(&format!("Bearer {token}"))?),
            Some(Credential::Basic { .. } | Credential::IdentityToken(_)) | None => None,
        };
        Ok(Self {
            http: http.client(tls)?,
            tls,
            repository: reference.repository(),
            base: format!("{scheme}://{}/v2/{}", reference.endpoint(), reference.repository()),
            credential,
            patience,
            authorization: Mutex::new(authorization),
        })
    }

    /// A manifest or index by tag or digest, with its digest: checked against the name or, for a tag, against what
    /// the registry says.
    pub(crate) async fn manifest(&self, target: &str, limit: u64) -> Result<(Bytes, Digest), RegistryError> {
        let url = format!("{}/manifests/{target}", self.base);
        let response = self.get(|| self.http.get(&url).header(ACCEPT, ACCEPTED.join(", "))).await?;
        let promised = target.parse::<Digest>().ok();
        let header = response.headers().get(CONTENT_DIGEST).and_then(|value| value.to_str().ok()?.parse().ok());
        let body = self.body(response, limit).await?;
        let computed = |like: &Digest| {
            let mut hasher = like.hasher();
            hasher.update(&body);
            hasher.finish()
        };
        let digest = match promised.or(header) {
            Some(expected) => {
                let found = computed(&expected);
                if found != expected {
                    return Err(RegistryError::Digest(format!("manifest: expected {expected}, found {found}")));
                }
                expected
            }
            None => Digest::sha256(&body),
        };
        Ok((body, digest))
    }

    /// A small blob, whole and checked.
    pub(crate) async fn small_blob(&self, digest: &Digest, size: u64, limit: u64) -> Result<Bytes, RegistryError> {
        let url = format!("{}/blobs/{digest}", self.base);
        let response = self.get(|| self.http.get(&url)).await?;
        let body = self.body(response, limit).await?;
        if body.len() as u64 == size && digest.matches(&body) {
            Ok(body)
        } else {
            Err(RegistryError::Digest(format!(
                "expected {digest} of {size} bytes, found other content of {} bytes",
                body.len()
            )))
        }
    }

    /// A blob from `offset` on; the registry may start at the beginning nevertheless.
    pub(crate) async fn blob(&self, digest: &Digest, offset: u64) -> Result<Blob, RegistryError> {
        let url = format!("{}/blobs/{digest}", self.base);
        let response = self
            .get(|| {
                let request = self.http.get(&url).header(ACCEPT_ENCODING, "identity");
                if offset > 0 { request.header(RANGE, format!("bytes={offset}-")) } else { request }
            })
            .await?;
        let offset = if response.status() == StatusCode::PARTIAL_CONTENT { offset } else { 0 };
        Ok(Blob { offset, length: response.content_length(), response, patience: self.patience })
    }

    /// Sends a request, logging in when the registry asks for it.
    async fn get(&self, request: impl Fn() -> RequestBuilder) -> Result<Response, RegistryError> {
        let used = self.authorization.lock().await.clone();
        let response = self.send(request(), used.as_ref()).await?;
        let response = if response.status() == StatusCode::UNAUTHORIZED {
            let fresh = self.log_in(response, used).await?;
            self.send(request(), Some(&fresh)).await?
        } else {
            response
        };
        if response.status().is_success() { Ok(response) } else { Err(self.refusal(response).await) }
    }

    async fn send(
        &self,
        request: RequestBuilder,
        authorization: Option<&HeaderValue>,
    ) -> Result<Response, RegistryError> {
        let request = match authorization {
            Some(value) => request.header(AUTHORIZATION, value.clone()),
            None => request,
        };
        match tokio::time::timeout(self.patience, request.send()).await {
            Ok(result) => result.map_err(RegistryError::unanswered),
            Err(_) => Err(silent(self.patience)),
        }
    }

    /// Gets what the registry asks for. Requests that run side by side share one login.
    async fn log_in(&self, response: Response, used: Option<HeaderValue>) -> Result<HeaderValue, RegistryError> {
        let mut current = self.authorization.lock().await;
        if let Some(fresh) = current.as_ref().filter(|fresh| Some(*fresh) != used.as_ref()) {
            return Ok(fresh.clone());
        }
        let challenges = response.headers().get_all(WWW_AUTHENTICATE).iter();
        let mut challenges: Vec<Challenge> =
            challenges.filter_map(|value| Challenge::parse(value.to_str().ok()?)).collect();
        challenges.sort_by_key(|challenge| *challenge == Challenge::Basic);
        let fresh = match (challenges.into_iter().next(), &self.credential) {
            // It was accepted as it is, or not at all.
            (_, Some(Credential::RegistryToken(_))) => return Err(self.refusal(response).await),
            (Some(Challenge::Bearer { realm, service }), credential) => {
                let token = self.token(&realm, service.as_deref(), credential.as_ref()).await?;
                sensitive(&format!("Bearer {token}"))?
            }
            (Some(Challenge::Basic), Some(Credential::Basic { username, password })) if used.is_none() => {
                sensitive(&basic(username, password))?
            }
            (Some(Challenge::Basic) | None, _) => return Err(self.refusal(response).await),
        };
        *current = Some(fresh.clone());
        Ok(fresh)
    }

    /// Asks the token service for the right to pull from this repository.
    async fn token(
        &self,
        realm: &str,
        service: Option<&str>,
        credential: Option<&Credential>,
    ) -> Result<String, RegistryError> {
        #[derive(Deserialize)]
        struct Answer {
            token: Option<String>,
            access_token: Option<String>,
        }
        let mut url =
            Url::parse(realm).map_err(|_| RegistryError::Fatal("its token service has no valid address".to_owned()))?;
        if credential.is_some() && self.tls && url.scheme() != "https" {
            return Err(RegistryError::Denied("it wants the login sent over plain http".to_owned()));
        }
        let scope = format!("repository:{}:pull", self.repository);
        let service = service.map(|service| ("service", service));
        let request = match credential {
            Some(Credential::IdentityToken(token)) => {
                let form = [("grant_type", "refresh_token"), ("client_id", "minke"), ("refresh_token", token.as_str())];
                let mut form_url = url.clone();
                form_url.set_query(None);
                form_url
                    .query_pairs_mut()
                    .extend_pairs(form)
                    .extend_pairs([("scope", scope.as_str())])
                    .extend_pairs(service);
                let body = form_url.query().unwrap_or_default().to_owned();
                self.http
                    .post(url)
                    .header(reqwest::header::CONTENT_TYPE, "application/x-www-form-urlencoded")
                    .body(body)
            }
            credential => {
                url.query_pairs_mut().extend_pairs(service).append_pair("scope", &scope);
                let request = self.http.get(url);
                match credential {
                    Some(Credential::Basic { username, password }) => {
                        request.header(AUTHORIZATION, sensitive(&basic(username, password))?)
                    }
                    _ => request,
                }
            }
        };
        let response = self.send(request, None).await?;
        if !response.status().is_success() {
            return Err(match self.refusal(response).await {
                // What the token service does not know is a login, not an image.
                RegistryError::NotFound => RegistryError::Fatal("its token service does not exist".to_owned()),
                RegistryError::Fatal(message) => RegistryError::Denied(message),
                other => other,
            });
        }
        let body = self.body(response, MAX_ANSWER).await?;
        let answer: Answer = serde_json::from_slice(&body)
            .map_err(|_| RegistryError::Fatal("its token service answers something else than a token".to_owned()))?;
        answer
            .token
            .or(answer.access_token)
            .filter(|token| !token.is_empty())
            .ok_or_else(|| RegistryError::Denied("its token service gives no token".to_owned()))
    }

    /// Reads an answer that is not success.
    async fn refusal(&self, response: Response) -> RegistryError {
        let status = response.status();
        let after = retry_after(response.headers());
        let body = self.body(response, MAX_ANSWER).await.unwrap_or_default();
        RegistryError::of(status, after, &body)
    }

    /// Reads a body that is small, or refuses it.
    async fn body(&self, mut response: Response, limit: u64) -> Result<Bytes, RegistryError> {
        let mut body = Vec::new();
        loop {
            match tokio::time::timeout(self.patience, response.chunk()).await {
                Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
                Ok(Ok(None)) => return Ok(body.into()),
                Ok(Err(error)) => return Err(RegistryError::unanswered(error)),
                Err(_) => return Err(silent(self.patience)),
            }
            if body.len() as u64 > limit {
                return Err(RegistryError::Content(format!("an answer is larger than {limit} bytes")));
            }
        }
    }
}

fn silent(patience: Duration) -> RegistryError {
    RegistryError::Transient(format!("it sent nothing for {} ms", patience.as_millis()))
}

fn basic(username: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{username}:{password}")))
}

/// A header value that `Debug` does not show.
fn sensitive(text: &str) -> Result<HeaderValue, RegistryError> {
    let mut value = HeaderValue::from_str(text)
        .map_err(|_| RegistryError::Denied("the login holds characters that can't be sent".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Seconds; registries don't send dates.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}
