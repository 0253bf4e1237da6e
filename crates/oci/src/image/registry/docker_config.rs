//! The machine's own logins: docker's `config.json`, from the user's and the kubelet's places.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minke_core::runtime::Credential;
use serde::Deserialize;

use super::helper;
use crate::image::Reference;

/// What helpers know Docker Hub by.
const DOCKER_HUB_SERVER: &str = "https://index.docker.io/v1/";

/// The files to look into, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DockerConfigs {
    pub(crate) files: Vec<PathBuf>,
    /// Where helpers are; `None` is `PATH`.
    pub(crate) helpers: Option<PathBuf>,
}

impl Default for DockerConfigs {
    fn default() -> Self {
        let user = match std::env::var_os("DOCKER_CONFIG") {
            Some(dir) => Some(PathBuf::from(dir)),
            None => std::env::var_os("HOME").map(|home| Path::new(&home).join(".docker")),
        };
        let files = user.into_iter().chain([PathBuf::from("/var/lib/kubelet")]).map(|dir| dir.join("config.json"));
        Self { files: files.collect(), helpers: None }
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Config {
    #[serde(default)]
    auths: BTreeMap<String, Auth>,
    #[serde(default)]
    cred_helpers: BTreeMap<String, String>,
    creds_store: Option<String>,
}

#[derive(Deserialize, Default)]
struct Auth {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
    registrytoken: Option<String>,
}

impl DockerConfigs {
    /// The logins for an image, most specific first.
    pub(crate) async fn credentials(&self, image: &Reference) -> Vec<Credential> {
        let mut found = Vec::new();
        for file in &self.files {
            let Some(config) = read(file) else { continue };
            // As docker does: a helper for the registry, then the general one, then what the file itself holds.
            let helper = config
                .cred_helpers
                .iter()
                .find(|(key, _)| matches(key, image))
                .map(|(_, name)| name)
                .or(config.creds_store.as_ref().filter(|name| !name.is_empty()));
            if let Some(name) = helper {
                let server = if image.registry() == "docker.io" { DOCKER_HUB_SERVER } else { image.registry() };
                found.extend(helper::ask(name, server, self.helpers.as_deref()).await);
            }
            // Longer keys sort behind their prefixes, so the most specific one comes first.
            let auths = config.auths.iter().rev().filter(|(key, _)| matches(key, image));
            found.extend(auths.filter_map(|(_, auth)| auth.credential()));
        }
        let mut unique: Vec<Credential> = Vec::new();
        for credential in found {
            if !unique.contains(&credential) {
                unique.push(credential);
            }
        }
        unique
    }
}

fn read(file: &Path) -> Option<Config> {
    let bytes = match std::fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(file = %file.display(), %error, "can't read registry logins");
            return None;
        }
    };
    serde_json::from_slice(&bytes)
        // The error's text may quote the file, which holds passwords; its position does not.
        .inspect_err(|error| {
            tracing::warn!(
                file = %file.display(), line = error.line(), column = error.column(),
                "malformed registry logins are ignored"
            );
        })
        .ok()
}

impl Auth {
    fn credential(&self) -> Option<Credential> {
        let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        if let Some(token) = filled(&self.registrytoken) {
            return Some(Credential::RegistryToken(token));
        }
        if let Some(token) = filled(&self.identitytoken) {
            return Some(Credential::IdentityToken(token));
        }
        if let (Some(username), Some(password)) = (filled(&self.username), filled(&self.password)) {
            return Some(Credential::Basic { username, password });
        }
        let decoded = STANDARD.decode(self.auth.as_ref()?.trim()).ok()?;
        let text = String::from_utf8(decoded).ok()?;
        // Old versions of docker pad with zero bytes.
        let (username, password) = text.trim_end_matches('\0').split_once(':')?;
        (!username.is_empty()).then(|| Credential::Basic { username: username.into(), password: password.into() })
    }
}

/// Whether a key of `auths` is for this image: host with `*` in its labels, port as written, path as a prefix.
fn matches(key: &str, image: &Reference) -> bool {
    let key = key.trim_start_matches("https://").trim_start_matches("http://");
    let (host, path) = key.split_once('/').unwrap_or((key, ""));
    let path = match path.trim_end_matches('/') {
        // Versions of the protocol, not repositories.
        "v1" | "v2" => "",
        path => path,
    };
    let host = match host {
        "index.docker.io" | "registry-1.docker.io" => "docker.io",
        host => host,
    };
    let port = |host: &str| host.rsplit_once(':').map(|(_, port)| port.to_owned());
    let labels = |host: &str| -> Vec<String> {
        let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
        host.split('.').map(str::to_owned).collect()
    };
    let (ours, theirs) = (labels(host), labels(image.registry()));
    port(host) == port(image.registry())
        && ours.len() == theirs.len()
        && ours.iter().zip(&theirs).all(|(pattern, label)| glob(pattern, label))
        && image.repository().starts_with(path)
}

/// Matches `*` with any run of characters.
fn glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
            (0..=rest.len()).filter(|at| rest.is_char_boundary(*at)).any(|at| glob(after, &rest[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn image(name: &str) -> Reference {
        Reference::parse(name).unwrap()
    }

    fn basic(username: &str, password: &str) -> Credential {
        Credential::Basic { username: username.into(), password: password.into() }
    }

    #[test]
    fn keys_match_images_as_in_the_kubelet() {
        for (key, name, expected) in [
            ("a.test", "a.test/x", true),
            ("https://a.test/v1/", "a.test/x", true),
            ("a.test:5000", "a.test:5000/x", true),
            ("a.test", "a.test:5000/x", false),
            ("*.test", "a.test/x", true),
            ("*.test", "a.b.test/x", false),
            ("r*y.test", "registry.test/x", true),
            ("a.test/team", "a.test/team/x", true),
            ("a.test/team", "a.test/other/x", false),
            ("https://index.docker.io/v1/", "busybox", true),
            ("docker.io", "user/app", true),
            ("b.test", "a.test/x", false),
        ] {
            assert_eq!(matches(key, &image(name)), expected, "{key} for {name}");
        }
    }

    #[tokio::test]
    async fn the_most_specific_login_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.json");
        let encoded = STANDARD.encode("u1:p:1");
        let text = format!(
            r#"{{"auths":{{"a.test":{{"auth":"{encoded}"}},"a.test/team":{{"username":"u2","password":"p2"}},
               "b.test":{{"identitytoken":"t"}},"c.test":{{}}}}}}"#
        );
        std::fs::write(&file, text).unwrap();
        let configs = DockerConfigs { files: vec![dir.path().join("absent"), file], helpers: None };
        assert_eq!(configs.credentials(&image("a.test/team/x")).await, [basic("u2", "p2"), basic("u1", "p:1")]);
        assert_eq!(configs.credentials(&image("b.test/x")).await, [Credential::IdentityToken("t".into())]);
        assert_eq!(configs.credentials(&image("c.test/x")).await, []);
    }

    #[tokio::test]
    async fn malformed_files_are_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.json");
        std::fs::write(&file, r#"{"auths":"secret"}"#).unwrap();
        let configs = DockerConfigs { files: vec![file], helpers: None };
        assert_eq!(configs.credentials(&image("a.test/x")).await, []);
    }

    #[tokio::test]
    async fn helpers_are_asked() {
        let dir = tempfile::tempdir().unwrap();
        let helper = |name: &str, script: &str| {
            let path = dir.path().join(format!("docker-credential-{name}"));
            std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        };
        helper("good", r#"read server; echo "{\"Username\":\"$server\",\"Secret\":\"s\"}""#);
        helper("token", r#"echo '{"Username":"<token>","Secret":"t"}'"#);
        helper("none", "echo credentials not found in native keychain; exit 1");
        helper("broken", "echo nonsense");
        let file = dir.path().join("config.json");
        std::fs::write(
            &file,
            r#"{"credHelpers":{"a.test":"good","b.test":"token","c.test":"none","d.test":"../../bin/sh"},
               "credsStore":"broken"}"#,
        )
        .unwrap();
        let configs = DockerConfigs { files: vec![file], helpers: Some(dir.path().to_owned()) };
        assert_eq!(configs.credentials(&image("a.test/x")).await, [basic("a.test", "s")]);
        assert_eq!(configs.credentials(&image("b.test/x")).await, [Credential::IdentityToken("t".into())]);
        assert_eq!(configs.credentials(&image("c.test/x")).await, []);
        assert_eq!(configs.credentials(&image("d.test/x")).await, []);
        assert_eq!(configs.credentials(&image("e.test/x")).await, []);
    }
}
