//! Which chain of plugins the machine has set up.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::super::config::CniConfig;

/// Versions of the specification whose results are understood.
const VERSIONS: [&str; 5] = ["0.3.1", "0.4.0", "1.0.0", "1.1.0", "0.3.0"];

/// A network configuration list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in super::super) struct Chain {
    /// Name of the network.
    pub(super) name: String,
    /// Version of the specification.
    pub(super) version: String,
    /// The plugins, in order of ADD.
    pub(super) plugins: Vec<Plugin>,
}

/// One plugin of a chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Plugin {
    /// Name of the binary.
    pub(super) kind: String,
    /// Its part of the list, as written there.
    pub(super) config: Map<String, Value>,
}

impl Plugin {
    /// Whether it wants something of the runtime, by the name of the capability.
    pub(super) fn wants(&self, capability: &str) -> bool {
        self.config.get("capabilities").and_then(|c| c.get(capability)).and_then(Value::as_bool).unwrap_or(false)
    }
}

/// Why a file is not used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidList {
    #[error("it can't be read as JSON: {0}")]
    Json(String),
    #[error("it has no {0}")]
    Missing(&'static str),
    #[error("version {0} of the CNI specification is not supported (supported: 0.3.0 to 1.1.0)")]
    Version(String),
    #[error("{0:?} can't be the name of a plugin")]
    Kind(String),
}

/// The chain of the first usable file by name, when all of its plugins are installed. Otherwise `None`, with a
/// warning where a file was there and can't be used.
pub(in super::super) fn find(config: &CniConfig) -> Option<Chain> {
    for path in candidates(&config.conf_dir) {
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) => {
                tracing::warn!(file = %path.display(), %error, "could not read a CNI configuration");
                continue;
            }
        };
        match parse(&text, path.extension().is_some_and(|extension| extension == "conflist")) {
            Ok(chain) => {
                let missing = chain.plugins.iter().find(|plugin| binary(config, &plugin.kind).is_none());
                let Some(missing) = missing else { return Some(chain) };
                tracing::warn!(
                    file = %path.display(),
                    plugin = missing.kind,
                    directories = ?config.bin_dirs,
                    "a CNI plugin is not installed: using the built-in bridge"
                );
                return None;
            }
            Err(error) => tracing::warn!(file = %path.display(), %error, "a CNI configuration can't be used"),
        }
    }
    None
}

/// Configuration files in order of their names.
fn candidates(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("conflist" | "conf" | "json")) && path.is_file()
    });
    paths.sort();
    paths
}

/// Where a plugin is installed.
pub(super) fn binary(config: &CniConfig, kind: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    config.bin_dirs.iter().map(|directory| directory.join(kind)).find(|path| {
        fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    })
}

/// Reads a list, or a single plugin as a list of one.
fn parse(text: &[u8], list: bool) -> Result<Chain, InvalidList> {
    let value: Value = serde_json::from_slice(text).map_err(|error| InvalidList::Json(error.to_string()))?;
    let Value::Object(file) = value else { return Err(InvalidList::Missing("object")) };
    let text_of = |key: &'static str| {
        file.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).ok_or(InvalidList::Missing(key))
    };
    let name = text_of("name")?.to_owned();
    let version = text_of("cniVersion")?.to_owned();
    if !VERSIONS.contains(&version.as_str()) {
        return Err(InvalidList::Version(version));
    }
    let plugins = if list || file.contains_key("plugins") {
        file.get("plugins")
            .and_then(Value::as_array)
            .filter(|plugins| !plugins.is_empty())
            .ok_or(InvalidList::Missing("plugins"))?
            .iter()
            .map(|plugin| plugin.as_object().cloned().ok_or(InvalidList::Missing("plugin object")))
            .collect::<Result<Vec<_>, _>>()?
    } else {
        vec![file.clone()]
    };
    let plugins = plugins.into_iter().map(plugin).collect::<Result<_, _>>()?;
    Ok(Chain { name, version, plugins })
}

fn plugin(config: Map<String, Value>) -> Result<Plugin, InvalidList> {
    let kind = config.get("type").and_then(Value::as_str).ok_or(InvalidList::Missing("type"))?.to_owned();
    // It becomes a path below the directories of binaries.
    if kind.is_empty() || kind.starts_with('.') || kind.contains('/') || kind.contains('\0') {
        return Err(InvalidList::Kind(kind));
    }
    Ok(Plugin { kind, config })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn machine(files: &[(&str, &str)], plugins: &[&str]) -> (tempfile::TempDir, CniConfig) {
        let directory = tempfile::tempdir().unwrap();
        let config = CniConfig {
            conf_dir: directory.path().join("net.d"),
            bin_dirs: vec![directory.path().join("none"), directory.path().join("bin")],
            ..CniConfig::default()
        };
        fs::create_dir_all(&config.conf_dir).unwrap();
        fs::create_dir_all(&config.bin_dirs[1]).unwrap();
        for (name, text) in files {
            fs::write(config.conf_dir.join(name), text).unwrap();
        }
        for name in plugins {
            let path = config.bin_dirs[1].join(name);
            fs::write(&path, "#!/bin/sh\n").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        (directory, config)
    }

    fn list(name: &str, plugins: &str) -> String {
        format!(r#"{{"cniVersion":"1.0.0","name":"{name}","plugins":[{plugins}]}}"#)
    }

    #[test]
    fn the_first_file_by_name_counts() {
        let (first, second) = (list("first", r#"{"type":"a"}"#), list("second", r#"{"type":"a"}"#));
        let (_directory, config) =
            machine(&[("20-second.conflist", &second), ("10-first.conflist", &first), ("00-readme.txt", "x")], &["a"]);
        assert_eq!(find(&config).unwrap().name, "first");
    }

    #[test]
    fn a_file_that_is_no_list_is_passed_over() {
        let good = list("good", r#"{"type":"a"}"#);
        let (_directory, config) = machine(
            &[
                ("00.conflist", "{"),
                ("01.conflist", r#"{"cniVersion":"9.9.9","name":"n","plugins":[{"type":"a"}]}"#),
                ("02.conflist", r#"{"cniVersion":"1.0.0","name":"n","plugins":[]}"#),
                ("03.conflist", r#"{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"../a"}]}"#),
                ("04.conflist", r#"{"cniVersion":"1.0.0","plugins":[{"type":"a"}]}"#),
                ("05.conflist", &good),
            ],
            &["a"],
        );
        assert_eq!(find(&config).unwrap().name, "good");
    }

    #[test]
    fn a_missing_plugin_means_the_built_in_bridge() {
        let both = list("both", r#"{"type":"a"},{"type":"b"}"#);
        let later = list("later", r#"{"type":"a"}"#);
        let (_directory, config) = machine(&[("10.conflist", &both), ("20.conflist", &later)], &["a"]);
        assert_eq!(find(&config), None);
    }

    #[test]
    fn no_directory_and_a_single_plugin() {
        let config = CniConfig { conf_dir: PathBuf::from("/nonexistent"), ..CniConfig::default() };
        assert_eq!(find(&config), None);
        let single = r#"{"cniVersion":"0.3.1","name":"one","type":"a","capabilities":{"portMappings":true}}"#;
        let (_directory, config) = machine(&[("10.conf", single)], &["a"]);
        let chain = find(&config).unwrap();
        assert_eq!((chain.plugins.len(), chain.version.as_str()), (1, "0.3.1"));
        assert!(chain.plugins[0].wants("portMappings"));
        assert!(!chain.plugins[0].wants("bandwidth"));
    }
}
