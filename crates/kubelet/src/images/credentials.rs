//! Logins from a Pod's pull secrets, matched to images by upstream's rules.
//!
//! Upstream source: `pkg/credentialprovider/keyring.go`. A key of a secret is a host, optionally with port, path and
//! `*` in its labels; it serves images of the same number of labels whose path begins with the key's path.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{Pod, Secret};
use minke_core::objects::ObjectSet;
use minke_core::runtime::Credential;
use serde::Deserialize;

use super::ImageName;

/// Logins for one image, most specific first, and what people should hear about the secrets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PullCredentials {
    /// To try in this order.
    pub credentials: Vec<Credential>,
    /// Texts of `FailedToRetrieveImagePullSecret` warning events; they name secrets and show nothing of them.
    pub warnings: Vec<String>,
}

/// The logins that this Pod's `imagePullSecrets` hold for this image. Secrets that are missing or unreadable are
/// warned of and otherwise ignored, as upstream: the image may be public.
#[must_use]
pub fn pull_credentials(pod: &Pod, objects: &ObjectSet, image: &ImageName) -> PullCredentials {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    let names = pod.spec.iter().flat_map(|s| s.image_pull_secrets.iter().flatten()).map(|r| r.name.as_str());
    let mut keyring = Keyring::default();
    let mut missing = Vec::new();
    let mut warnings = Vec::new();
    for name in names.filter(|name| !name.is_empty()) {
        match objects.secret(namespace, name) {
            None => missing.push(name),
            Some(secret) => {
                if let Err(why) = keyring.add(secret) {
                    warnings.push(format!("image pull secret {namespace}/{name} can't be used: {why}"));
                }
            }
        }
    }
    if !missing.is_empty() {
        let names = missing.join(", ");
        warnings.push(format!(
            "Unable to retrieve some image pull secrets ({names}); attempting to pull the image may not succeed."
        ));
    }
    PullCredentials { credentials: keyring.lookup(image), warnings }
}

#[derive(Deserialize)]
struct ConfigJson {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Entry {
    username: String,
    password: String,
    auth: String,
    identitytoken: String,
    registrytoken: String,
}

/// Why a secret holds no logins. Never shows its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unusable {
    Type,
    Missing(&'static str),
    Json(&'static str),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type => f.write_str("its type is neither kubernetes.io/dockerconfigjson nor kubernetes.io/dockercfg"),
            Self::Missing(key) => write!(f, "it has no key {key}"),
            Self::Json(key) => write!(f, "its key {key} is not a docker configuration"),
        }
    }
}

/// Logins by key; a later one with the same key is tried after the earlier.
#[derive(Default)]
struct Keyring(BTreeMap<String, Vec<Credential>>);

const DOCKER_HUB: &str = "index.docker.io";

impl Keyring {
    fn add(&mut self, secret: &Secret) -> Result<(), Unusable> {
        let data = |key: &'static str| {
            let value = secret.data.as_ref().and_then(|data| data.get(key));
            value.map(|value| value.0.as_slice()).ok_or(Unusable::Missing(key))
        };
        let entries = match secret.type_.as_deref() {
            Some("kubernetes.io/dockerconfigjson") => {
                const KEY: &str = ".dockerconfigjson";
                serde_json::from_slice::<ConfigJson>(data(KEY)?).map_err(|_| Unusable::Json(KEY))?.auths
            }
            Some("kubernetes.io/dockercfg") => {
                const KEY: &str = ".dockercfg";
                serde_json::from_slice(data(KEY)?).map_err(|_| Unusable::Json(KEY))?
            }
            Some(_) | None => return Err(Unusable::Type),
        };
        for (registry, entry) in entries {
            if let Some(credential) = entry.credential() {
                self.0.entry(normal_key(&registry)).or_default().push(credential);
            }
        }
        Ok(())
    }

    fn lookup(&self, image: &ImageName) -> Vec<Credential> {
        let path = image.path();
        // Longer keys are more specific; among equals the order is that of upstream's reverse sort.
        let mut keys: Vec<&String> = self.0.keys().filter(|key| matches(key, &path)).collect();
        keys.sort_by(|a, b| b.cmp(a));
        let mut found: Vec<Credential> = keys.into_iter().flat_map(|key| self.0[key].iter().cloned()).collect();
        if found.is_empty() && image.registry == "docker.io" {
            found.extend(self.0.get(DOCKER_HUB).into_iter().flatten().cloned());
        }
        let mut distinct = Vec::new();
        for credential in found {
            if !distinct.contains(&credential) {
                distinct.push(credential);
            }
        }
        distinct
    }
}

impl Entry {
    fn credential(self) -> Option<Credential> {
        if !self.registrytoken.is_empty() {
            return Some(Credential::RegistryToken(self.registrytoken));
        }
        if !self.identitytoken.is_empty() {
            return Some(Credential::IdentityToken(self.identitytoken));
        }
        let (username, password) = if self.auth.is_empty() {
            (self.username, self.password)
        } else {
            // `auth` wins over the plain fields, as in upstream.
            let decoded = STANDARD.decode(self.auth.trim_end_matches('\0')).ok()?;
            let text = String::from_utf8(decoded).ok()?;
            let (username, password) = text.split_once(':')?;
            (username.to_owned(), password.trim_end_matches('\0').to_owned())
        };
        (!username.is_empty() || !password.is_empty()).then_some(Credential::Basic { username, password })
    }
}

/// `https://host/v1/path` → `host/path`, `https://host/v2/` → `host`.
fn normal_key(key: &str) -> String {
    let bare = key.split_once("://").map_or(key, |(_, rest)| rest);
    let (host, path) = bare.find('/').map_or((bare, ""), |at| bare.split_at(at));
    let path =
        path.strip_prefix("/v1").or_else(|| path.strip_prefix("/v2")).filter(|p| p.starts_with('/')).unwrap_or(path);
    let path = if matches!(path, "/" | "/v1" | "/v2") { "" } else { path };
    format!("{host}{path}")
}

/// Whether a key, which may hold globs, serves this path.
fn matches(key: &str, target: &str) -> bool {
    let split = |url: &str| {
        let (authority, path) = url.find('/').map_or((url, ""), |at| url.split_at(at));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => (host, port),
            Some(_) | None => (authority, ""),
        };
        (host.to_owned(), port.to_owned(), path.to_owned())
    };
    let (key_host, key_port, key_path) = split(key);
    let (host, port, path) = split(target);
    let key_labels: Vec<&str> = key_host.split('.').collect();
    let labels: Vec<&str> = host.split('.').collect();
    key_port == port
        && key_labels.len() == labels.len()
        && path.starts_with(&key_path)
        && key_labels.iter().zip(&labels).all(|(glob, label)| glob_matches(glob.as_bytes(), label.as_bytes()))
}

/// `*`, `?` and `[a-z]`, as Go's `filepath.Match` has them. A malformed pattern matches nothing.
fn glob_matches(glob: &[u8], text: &[u8]) -> bool {
    match glob.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => (0..=text.len()).any(|skip| glob_matches(rest, &text[skip..])),
        Some((b'?', rest)) => !text.is_empty() && glob_matches(rest, &text[1..]),
        Some((b'[', rest)) => {
            let Some(end) = rest.iter().position(|b| *b == b']').filter(|end| *end > 0) else { return false };
            let Some((first, text)) = text.split_first() else { return false };
            let (negated, class) = match rest[..end].split_first() {
                Some((b'^', class)) => (true, class),
                _ => (false, &rest[..end]),
            };
            class_contains(class, *first) != negated && glob_matches(&rest[end + 1..], text)
        }
        Some((byte, rest)) => text.first() == Some(byte) && glob_matches(rest, &text[1..]),
    }
}

fn class_contains(class: &[u8], byte: u8) -> bool {
    match class {
        [] => false,
        [low, b'-', high, rest @ ..] => (*low..=*high).contains(&byte) || class_contains(rest, byte),
        [one, rest @ ..] => *one == byte || class_contains(rest, byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn basic(username: &str, password: &str) -> Credential {
        Credential::Basic { username: username.to_owned(), password: password.to_owned() }
    }

    fn secret(name: &str, kind: &str, key: &str, content: &Value) -> Secret {
        let data = STANDARD.encode(content.to_string());
        serde_json::from_value(
            json!({"metadata": {"name": name, "namespace": "ns"}, "type": kind, "data": {key: data}}),
        )
        .unwrap()
    }

    fn json_secret(name: &str, auths: &Value) -> Secret {
        secret(name, "kubernetes.io/dockerconfigjson", ".dockerconfigjson", &json!({"auths": auths}))
    }

    fn pod(secrets: &[&str]) -> Pod {
        let names: Vec<_> = secrets.iter().map(|name| json!({"name": name})).collect();
        serde_json::from_value(
            json!({"metadata": {"namespace": "ns"}, "spec": {"containers": [], "imagePullSecrets": names}}),
        )
        .unwrap()
    }

    fn lookup(secrets: Vec<Secret>, image: &str) -> PullCredentials {
        let names: Vec<String> = secrets.iter().map(|s| s.metadata.name.clone().unwrap()).collect();
        let mut objects = ObjectSet::default();
        for secret in secrets {
            objects.insert_secret(secret);
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        pull_credentials(&pod(&names), &objects, &ImageName::parse(image).unwrap())
    }

    #[test]
    fn keys_match_as_upstreams() {
        for (key, target, expected) in [
            ("registry.example", "registry.example/a", true),
            ("registry.example", "other.example/a", false),
            ("registry.example", "registry.example:5000/a", false),
            ("registry.example:5000", "registry.example:5000/a", true),
            ("*.example", "registry.example/a", true),
            ("*.example", "example/a", false),
            ("*.example", "a.b.example/x", false),
            ("*.*.example", "a.b.example/x", true),
            ("reg*.example", "registry.example/a", true),
            ("pre?.example", "prex.example/a", true),
            ("r[a-e]g.example", "reg.example/a", true),
            ("r[^a-e]g.example", "reg.example/a", false),
            ("r[.example", "r[.example/a", false),
            ("registry.example/team", "registry.example/team/app", true),
            ("registry.example/team", "registry.example/other/app", false),
        ] {
            assert_eq!(matches(key, target), expected, "{key} {target}");
        }
    }

    #[test]
    fn keys_lose_scheme_and_version() {
        for (key, normal) in [
            ("https://index.docker.io/v1/", "index.docker.io"),
            ("http://r.example/v2/", "r.example"),
            ("r.example/v1/team", "r.example/team"),
            ("r.example/", "r.example"),
            ("r.example/vault", "r.example/vault"),
            ("r.example:5000", "r.example:5000"),
        ] {
            assert_eq!(normal_key(key), normal, "{key}");
        }
    }

    #[test]
    fn both_kinds_of_secret() {
        let auth = STANDARD.encode("user:pass:word");
        let found = lookup(vec![json_secret("s", &json!({"r.example": {"auth": auth}}))], "r.example/a");
        assert_eq!(found.credentials, [basic("user", "pass:word")]);
        let old = secret(
            "s",
            "kubernetes.io/dockercfg",
            ".dockercfg",
            &json!({"r.example": {"username": "u", "password": "p", "email": "x"}}),
        );
        assert_eq!(lookup(vec![old], "r.example/a").credentials, [basic("u", "p")]);
        let token = json_secret("s", &json!({"r.example": {"identitytoken": "t"}}));
        assert_eq!(lookup(vec![token], "r.example/a").credentials, [Credential::IdentityToken("t".to_owned())]);
    }

    #[test]
    fn docker_hub_has_its_own_key() {
        let hub = || json_secret("s", &json!({"https://index.docker.io/v1/": {"username": "u", "password": "p"}}));
        for image in ["busybox", "me/app:1", "docker.io/me/app"] {
            assert_eq!(lookup(vec![hub()], image).credentials, [basic("u", "p")], "{image}");
        }
        assert_eq!(lookup(vec![hub()], "r.example/app").credentials, []);
    }

    #[test]
    fn the_more_specific_key_is_tried_first() {
        let auths = json!({
            "r.example": {"username": "host", "password": "1"},
            "r.example/team": {"username": "team", "password": "2"},
        });
        let found = lookup(vec![json_secret("s", &auths)], "r.example/team/app");
        assert_eq!(found.credentials, [basic("team", "2"), basic("host", "1")]);
    }

    #[test]
    fn missing_and_unusable_secrets_are_warned_of_without_their_content() {
        let mut objects = ObjectSet::default();
        objects.insert_secret(secret("bad", "kubernetes.io/dockerconfigjson", ".dockerconfigjson", &json!("hunter2")));
        objects.insert_secret(secret("opaque", "Opaque", "x", &json!("hunter2")));
        let found = pull_credentials(&pod(&["gone", "bad", "opaque"]), &objects, &ImageName::parse("a").unwrap());
        assert_eq!(found.credentials, []);
        assert_eq!(found.warnings.len(), 3);
        let text = format!("{found:?}");
        assert!(text.contains("Unable to retrieve some image pull secrets (gone)"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }

    #[test]
    fn secrets_of_another_namespace_do_not_serve() {
        let mut objects = ObjectSet::default();
        let mut other = json_secret("s", &json!({"r.example": {"username": "u", "password": "p"}}));
        other.metadata.namespace = Some("other".to_owned());
        objects.insert_secret(other);
        let found = pull_credentials(&pod(&["s"]), &objects, &ImageName::parse("r.example/a").unwrap());
        assert_eq!(found.credentials, []);
    }
}
