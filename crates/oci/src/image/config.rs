//! What an image's configuration says: the facts that running it needs.

use std::collections::BTreeMap;

use minke_core::runtime::ImageUser;
use serde::Deserialize;

use super::Digest;

/// An image's configuration. Everything a writer may leave out is empty or `None` here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImageConfig {
    /// `ENTRYPOINT`.
    pub entrypoint: Vec<String>,
    /// `CMD`.
    pub cmd: Vec<String>,
    /// `ENV`, each as `NAME=value`.
    pub env: Vec<String>,
    /// `WORKDIR`.
    pub working_dir: Option<String>,
    /// `USER`, as written: `user`, `uid`, `user:group`, …
    pub user: Option<String>,
    /// `STOPSIGNAL`, as written: a name or a number.
    pub stop_signal: Option<String>,
    /// `VOLUME`s.
    pub volumes: Vec<String>,
    /// `LABEL`s.
    pub labels: BTreeMap<String, String>,
    /// For example `linux`.
    pub os: String,
    /// For example `amd64`.
    pub architecture: String,
    /// Digests of the uncompressed layers, lowest first.
    pub diff_ids: Vec<Digest>,
}

impl ImageConfig {
    /// Reads a configuration; the error says what is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let wire: Wire = serde_json::from_slice(bytes).map_err(|error| format!("image configuration: {error}"))?;
        let inner = wire.config.unwrap_or_default();
        Ok(Self {
            entrypoint: inner.entrypoint.unwrap_or_default(),
            cmd: inner.cmd.unwrap_or_default(),
            env: inner.env.unwrap_or_default(),
            working_dir: inner.working_dir.filter(|dir| !dir.is_empty()),
            user: inner.user.filter(|user| !user.is_empty()),
            stop_signal: inner.stop_signal.filter(|signal| !signal.is_empty()),
            volumes: inner.volumes.unwrap_or_default().into_keys().collect(),
            labels: inner.labels.unwrap_or_default(),
            os: wire.os.unwrap_or_default(),
            architecture: wire.architecture.unwrap_or_default(),
            diff_ids: wire.rootfs.diff_ids.unwrap_or_default(),
        })
    }

    /// The user part of `USER`.
    #[must_use]
    pub fn image_user(&self) -> ImageUser {
        let user = self.user.as_deref().unwrap_or_default();
        let user = user.split_once(':').map_or(user, |(user, _)| user);
        match (user, user.parse()) {
            ("", _) => ImageUser::Root,
            (_, Ok(uid)) => ImageUser::Uid(uid),
            (name, Err(_)) => ImageUser::Name(name.to_owned()),
        }
    }
}

/// The JSON as writers have it; `null` stands for absent everywhere.
#[derive(Deserialize)]
struct Wire {
    os: Option<String>,
    architecture: Option<String>,
    config: Option<WireConfig>,
    rootfs: WireRootfs,
}

#[derive(Deserialize)]
struct WireRootfs {
    diff_ids: Option<Vec<Digest>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase")]
struct WireConfig {
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    env: Option<Vec<String>>,
    working_dir: Option<String>,
    user: Option<String>,
    stop_signal: Option<String>,
    volumes: Option<BTreeMap<String, serde_json::Value>>,
    labels: Option<BTreeMap<String, String>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nulls_and_absent_fields_are_empty() {
        let text = r#"{"config":{"Cmd":null,"Labels":null,"User":"","WorkingDir":""},"rootfs":{"type":"layers"}}"#;
        let config = ImageConfig::parse(text.as_bytes()).unwrap();
        assert_eq!(config, ImageConfig::default());
        assert_eq!(config.image_user(), ImageUser::Root);
    }

    #[test]
    fn every_fact_is_read() {
        let text = r#"{"os":"linux","architecture":"arm64","config":{"Entrypoint":["/e"],"Cmd":["c"],"Env":["A=b"],
            "WorkingDir":"/w","User":"app:grp","StopSignal":"SIGUSR1","Volumes":{"/v":{}},"Labels":{"k":"l"}},
            "rootfs":{"type":"layers","diff_ids":[]},"history":[]}"#;
        let config = ImageConfig::parse(text.as_bytes()).unwrap();
        assert_eq!(config.entrypoint, ["/e"]);
        assert_eq!(config.cmd, ["c"]);
        assert_eq!(config.env, ["A=b"]);
        assert_eq!(config.working_dir.as_deref(), Some("/w"));
        assert_eq!(config.image_user(), ImageUser::Name("app".into()));
        assert_eq!(config.stop_signal.as_deref(), Some("SIGUSR1"));
        assert_eq!(config.volumes, ["/v"]);
        assert_eq!(config.labels["k"], "l");
        assert_eq!((config.os.as_str(), config.architecture.as_str()), ("linux", "arm64"));
    }

    #[test]
    fn user_may_be_a_number_with_a_group() {
        for (text, user) in [
            ("0", ImageUser::Uid(0)),
            ("1000:100", ImageUser::Uid(1000)),
            (":100", ImageUser::Root),
            ("4294967296", ImageUser::Name("4294967296".into())),
            ("www-data", ImageUser::Name("www-data".into())),
        ] {
            let config = ImageConfig { user: Some(text.into()), ..ImageConfig::default() };
            assert_eq!(config.image_user(), user, "{text}");
        }
    }

    #[test]
    fn a_configuration_without_rootfs_is_refused() {
        assert!(ImageConfig::parse(b"{}").unwrap_err().contains("rootfs"));
        assert!(ImageConfig::parse(br#"{"rootfs":{"diff_ids":["sha256:zz"]}}"#).unwrap_err().contains("digest"));
    }
}
