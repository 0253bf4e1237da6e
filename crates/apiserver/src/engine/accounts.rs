//! Service accounts: the one that each namespace has, tokens for them, and who bears one.

use std::sync::Arc;

use serde_json::{Value, json};

use super::options::WriteOptions;
use super::{Engine, ListOptions, Part, Place, meta};
use crate::access::bootstrap;
use crate::access::{Bound, Claims, ISSUER, Identity, Issuer, TokenError};
use crate::admission::{DEFAULT_ACCOUNT, Facts, ROOT_CERTIFICATES, admit};
use crate::error::{ApiError, Cause, Reason};
use crate::kinds::{Kind, find};

/// Shortest life of a token, and that of one whose asker names none, in seconds.
const SHORTEST: i64 = 600;
const USUAL: i64 = 3600;
/// Longest, as upstream.
const LONGEST: i64 = 1 << 32;
/// A Pod that ends may still use its token for as long.
const AFTER_DELETION: i64 = 60;

/// What a server needs for service accounts.
#[derive(Debug)]
pub struct Accounts {
    /// Signs tokens.
    pub issuer: Issuer,
    /// By which Pods trust the server, as PEM.
    pub root_certificate: String,
    /// Whether new Pods are given a volume with a token. Who runs them must be able to fetch it.
    pub mount: bool,
}

fn kind(group: &str, plural: &str) -> Result<&'static Kind, ApiError> {
    find(group, "v1", plural).ok_or_else(ApiError::no_resource)
}

/// The objects that a new Pod is judged by, from the store.
struct Others<'a> {
    engine: &'a Engine,
    namespace: &'a str,
}

impl Facts for Others<'_> {
    fn find(&self, plural: &str, name: &str) -> Option<Value> {
        let group = match plural {
            "priorityclasses" => "scheduling.k8s.io",
            "runtimeclasses" => "node.k8s.io",
            "serviceaccounts" if self.engine.accounts.is_none() => return Some(Value::Null),
            _ => "",
        };
        let kind = find(group, "v1", plural)?;
        let namespace = if kind.namespaced { self.namespace } else { "" };
        self.engine.load(Place { kind, namespace, name }).ok().map(|(_, object)| object)
    }

    fn default_priority(&self) -> Option<Value> {
        let kind = find("scheduling.k8s.io", "v1", "priorityclasses")?;
        let all = self.engine.list(kind, None, &ListOptions::default()).ok()?.entries;
        let defaults = all.iter().filter_map(|entry| entry.parse().ok()).filter(|class| class["globalDefault"] == true);
        defaults.min_by_key(|class| class["value"].as_i64())
    }

    fn mounts_tokens(&self) -> bool {
        self.engine.accounts.as_ref().is_some_and(|accounts| accounts.mount)
    }

    fn suffix(&self) -> String {
        meta::random_text(5).unwrap_or_else(|_| "token".to_owned())
    }
}

impl Engine {
    /// The same engine, with service accounts: namespaces have their default one, tokens are issued and believed.
    #[must_use]
    pub fn with_accounts(mut self, accounts: Accounts) -> Self {
        self.accounts = Some(Arc::new(accounts));
        self
    }

    fn issuer(&self) -> Result<&Issuer, ApiError> {
        let none = || ApiError::new(Reason::NotFound, "this server issues no tokens");
        self.accounts.as_ref().map(|accounts| &accounts.issuer).ok_or_else(none)
    }

    /// The issuer's public key as a JSON Web Key Set; `None` where no tokens are issued.
    #[must_use]
    pub fn key_set(&self) -> Option<Value> {
        self.accounts.as_ref().map(|accounts| accounts.issuer.key_set())
    }

    /// Completes a new Pod as admission does.
    pub(super) async fn admit_pod(&self, namespace: &str, pod: &mut Value) -> Result<(), ApiError> {
        let account = pod.pointer("/spec/serviceAccountName").and_then(Value::as_str).unwrap_or_default();
        if matches!(account, "" | DEFAULT_ACCOUNT) {
            // A namespace may be so new that nobody has come around yet. What is in them is the caretaker's to look at.
            let there = |plural, name| {
                kind("", plural).map(|kind| self.store.get(&Place { kind, namespace, name }.key()).is_some())
            };
            if !there("serviceaccounts", DEFAULT_ACCOUNT)? || !there("configmaps", ROOT_CERTIFICATES)? {
                self.furnish(namespace).await?;
            }
        }
        let name = meta::text(pod, "name").to_owned();
        admit(pod, &Others { engine: self, namespace }).map_err(|why| ApiError::forbidden("", "pods", &name, &why))
    }

    /// Makes what each namespace has: the default account, and the certificate by which Pods trust the server.
    pub(super) async fn furnish(&self, namespace: &str) -> Result<(), ApiError> {
        let Some(accounts) = &self.accounts else { return Ok(()) };
        let (account, map) = (kind("", "serviceaccounts")?, kind("", "configmaps")?);
        let options = WriteOptions { field_manager: "minke".to_owned(), ..WriteOptions::default() };
        let data = json!({"ca.crt": accounts.root_certificate});
        for (kind, name, object) in [
            (account, DEFAULT_ACCOUNT, json!({"metadata": {"name": DEFAULT_ACCOUNT}})),
            (map, ROOT_CERTIFICATES, json!({"metadata": {"name": ROOT_CERTIFICATES}, "data": data})),
        ] {
            if self.store.get(&Place { kind, namespace, name }.key()).is_some() {
                continue;
            }
            match self.create(kind, namespace, object, &options).await {
                Ok(_) => {}
                // Somebody was faster; or the namespace is gone or ends, which whoever asked will be told.
                Err(error) if matches!(error.code(), 403 | 404 | 409) => {}
                Err(error) => return Err(error),
            }
        }
        let place = Place { kind: map, namespace, name: ROOT_CERTIFICATES };
        let Ok((_, found)) = self.load(place) else { return Ok(()) };
        if found["data"] == data {
            return Ok(());
        }
        let change = |old: &Value| {
            let mut new = old.clone();
            new["data"] = data.clone();
            Ok(new)
        };
        match self.change(place, Part::Main, &options, change).await {
            Ok(_) => Ok(()),
            Err(error) if error.code() == 404 => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Furnishes every namespace that does not end.
    pub(super) async fn furnish_all(&self) -> Result<(), ApiError> {
        if self.accounts.is_none() {
            return Ok(());
        }
        for entry in self.list(kind("", "namespaces")?, None, &ListOptions::default())?.entries {
            if entry.attributes.field("status.phase") != "Terminating" {
                let object = entry.parse().map_err(ApiError::internal)?;
                self.furnish(meta::text(&object, "name")).await?;
            }
        }
        Ok(())
    }

    /// Issues a token for an account, as a `TokenRequest` asks; answers the request with it.
    ///
    /// # Errors
    /// 400 for an object that tokens are not bound to, 404 without the account or that object, 409 if it is another one by
    /// now, 422.
    pub fn issue_token(&self, place: Place<'_>, request: &Value) -> Result<Value, ApiError> {
        let issuer = self.issuer()?;
        let (_, account) = self.load(place)?;
        let mut request = request.clone();
        let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(USUAL);
        let limit = match seconds {
            ..SHORTEST => Some("may not specify a duration less than 10 minutes"),
            _ if seconds > LONGEST => Some("may not specify a duration larger than 2^32 seconds"),
            _ => None,
        };
        if let Some(why) = limit {
            let cause = crate::kinds::invalid("spec.expirationSeconds", &seconds.into(), why);
            return Err(ApiError::invalid("authentication.k8s.io", "TokenRequest", place.name, vec![cause]));
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let mut audiences: Vec<String> =
            request["spec"]["audiences"].as_array().into_iter().flatten().filter_map(text).collect();
        if audiences.is_empty() {
            audiences.push(ISSUER.to_owned());
        }
        let now = self.time();
        let mut claims = Claims {
            audiences,
            issued: now.as_second(),
            expires: now.as_second() + seconds,
            id: meta::uid()?,
            namespace: place.namespace.to_owned(),
            account: (place.name.to_owned(), meta::text(&account, "uid").to_owned()),
            pod: None,
            node: None,
            secret: None,
        };
        if !request["spec"]["boundObjectRef"].is_null() {
            self.bind_token(place, &request["spec"]["boundObjectRef"], &mut claims)?;
        }
        let token = issuer.sign(&claims).map_err(ApiError::internal)?;
        let end = jiff::Timestamp::from_second(claims.expires).map_err(ApiError::internal)?;
        request["apiVersion"] = "authentication.k8s.io/v1".into();
        request["kind"] = "TokenRequest".into();
        let metadata = meta::of(&mut request);
        metadata.insert("name".to_owned(), place.name.into());
        metadata.insert("namespace".to_owned(), place.namespace.into());
        metadata.insert("creationTimestamp".to_owned(), meta::time(now).into());
        request["spec"]["audiences"] = json!(claims.audiences);
        request["spec"]["expirationSeconds"] = seconds.into();
        request["status"] = json!({"token": token, "expirationTimestamp": meta::time(end)});
        Ok(request)
    }

    /// Binds claims to the object that a request names: the token ends with it.
    fn bind_token(&self, place: Place<'_>, to: &Value, claims: &mut Claims) -> Result<(), ApiError> {
        let text = |field: &str| to[field].as_str().unwrap_or_default();
        let (name, uid) = (text("name"), text("uid"));
        if name.is_empty() {
            let cause = Cause::new("FieldValueRequired", "Required value", "spec.boundObjectRef.name");
            return Err(ApiError::invalid("authentication.k8s.io", "TokenRequest", place.name, vec![cause]));
        }
        let bound = |plural: &str, namespace: &str| -> Result<(Bound, Value), ApiError> {
            let place = Place { kind: kind("", plural)?, namespace, name };
            let (_, object) = self.load(place)?;
            let found = meta::text(&object, "uid").to_owned();
            if !uid.is_empty() && uid != found {
                let why = format!(
                    "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been \
                     deleted and then recreated"
                );
                return Err(place.conflict(&why));
            }
            Ok(((name.to_owned(), found), object))
        };
        match (text("apiVersion"), text("kind")) {
            ("v1", "Pod") => {
                let (pod, object) = bound("pods", place.namespace)?;
                if object["spec"]["serviceAccountName"] != place.name {
                    let why = "cannot bind token for serviceaccount";
                    let message = format!("{why} {:?} to pod running with different serviceaccount name.", place.name);
                    return Err(ApiError::bad_request(message));
                }
                claims.pod = Some(pod);
                let node = object["spec"]["nodeName"].as_str().unwrap_or_default();
                let place = Place { kind: kind("", "nodes")?, namespace: "", name: node };
                // A Pod may be bound to a node that is not there any more.
                let uid = self.load(place).map(|(_, node)| meta::text(&node, "uid").to_owned()).unwrap_or_default();
                claims.node = (!node.is_empty()).then(|| (node.to_owned(), uid));
            }
            ("v1", "Secret") => claims.secret = Some(bound("secrets", place.namespace)?.0),
            ("v1", "Node") => claims.node = Some(bound("nodes", "")?.0),
            (version, other) => {
                return Err(ApiError::bad_request(format!(
                    "cannot bind token to object of type {version}, Kind={other}"
                )));
            }
        }
        Ok(())
    }

    /// Who bears a token, and for which of these audiences it is; without any it must be for this server.
    ///
    /// # Errors
    /// It is not this server's, not of now or not for them, or what it is bound to is gone.
    pub fn authenticate(&self, token: &str, audiences: &[String]) -> Result<(Identity, Vec<String>), TokenError> {
        let own = [ISSUER.to_owned()];
        if let Some((id, secret)) = bootstrap::parts(token) {
            let identity = self.bootstrapper(id, secret)?;
            // It says nothing of audiences: it is for this server.
            if !audiences.is_empty() && !audiences.contains(&own[0]) {
                return Err(TokenError::Audience(own.to_vec()));
            }
            return Ok((identity, own.to_vec()));
        }
        let accounts = self.accounts.as_ref().ok_or(TokenError::Foreign)?;
        let claims = accounts.issuer.read(token)?;
        let now = self.time().as_second();
        let held = claims.hold(now, if audiences.is_empty() { &own } else { audiences })?;
        let namespace = claims.namespace.as_str();
        let alone = claims.node.as_ref().filter(|_| claims.pod.is_none());
        for (what, plural, namespace, bound) in [
            ("the service account", "serviceaccounts", namespace, Some(&claims.account)),
            ("the Pod", "pods", namespace, claims.pod.as_ref()),
            ("the Secret", "secrets", namespace, claims.secret.as_ref()),
            ("the node", "nodes", "", alone),
        ] {
            let Some((name, uid)) = bound else { continue };
            let kind = find("", "v1", plural).ok_or(TokenError::Gone(what))?;
            let object = self.load(Place { kind, namespace, name }).map_err(|_| TokenError::Gone(what))?.1;
            let ended = meta::text(&object, "deletionTimestamp").parse::<jiff::Timestamp>();
            if meta::text(&object, "uid") != uid || ended.is_ok_and(|at| at.as_second() + AFTER_DELETION < now) {
                return Err(TokenError::Gone(what));
            }
        }
        Ok((claims.identity(), held))
    }
}
