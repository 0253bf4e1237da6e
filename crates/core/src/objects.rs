//! The ConfigMaps and Secrets that Pods refer to, by namespace and name.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde::{Deserialize, Serialize};

/// ConfigMaps and Secrets by `namespace/name`. `Debug` shows names only: values may be secret.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ObjectSet {
    config_maps: BTreeMap<String, ConfigMap>,
    secrets: BTreeMap<String, Secret>,
}

fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

impl ObjectSet {
    /// The ConfigMap of this namespace and name.
    #[must_use]
    pub fn config_map(&self, namespace: &str, name: &str) -> Option<&ConfigMap> {
        self.config_maps.get(&key(namespace, name))
    }

    /// The Secret of this namespace and name.
    #[must_use]
    pub fn secret(&self, namespace: &str, name: &str) -> Option<&Secret> {
        self.secrets.get(&key(namespace, name))
    }

    /// Adds a ConfigMap; returns the one that was there. Namespace defaults to `default`.
    pub fn insert_config_map(&mut self, map: ConfigMap) -> Option<ConfigMap> {
        let name = map.metadata.name.clone().unwrap_or_default();
        let namespace = map.metadata.namespace.clone().unwrap_or_else(|| "default".to_owned());
        self.config_maps.insert(key(&namespace, &name), map)
    }

    /// Adds a Secret; returns the one that was there. Namespace defaults to `default`.
    pub fn insert_secret(&mut self, secret: Secret) -> Option<Secret> {
        let name = secret.metadata.name.clone().unwrap_or_default();
        let namespace = secret.metadata.namespace.clone().unwrap_or_else(|| "default".to_owned());
        self.secrets.insert(key(&namespace, &name), secret)
    }

    /// Adds what is not here yet; returns the names that are here already, and stay as they are.
    pub fn add_missing(&mut self, other: &Self) -> Vec<String> {
        let mut taken = Vec::new();
        for (name, map) in &other.config_maps {
            match self.config_maps.contains_key(name) {
                true => taken.push(format!("ConfigMap {name}")),
                false => drop(self.config_maps.insert(name.clone(), map.clone())),
            }
        }
        for (name, secret) in &other.secrets {
            match self.secrets.contains_key(name) {
                true => taken.push(format!("Secret {name}")),
                false => drop(self.secrets.insert(name.clone(), secret.clone())),
            }
        }
        taken
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.config_maps.is_empty() && self.secrets.is_empty()
    }
}

impl fmt::Debug for ObjectSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectSet")
            .field("config_maps", &self.config_maps.keys())
            .field("secrets", &self.secrets.keys())
            .finish()
    }
}
