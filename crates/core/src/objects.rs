//! The ConfigMaps and Secrets that Pods refer to, by namespace and name, the tokens of their service accounts, and the variables
//! that tell of services.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde::{Deserialize, Serialize};

/// ConfigMaps and Secrets by `namespace/name`. `Debug` shows names only: values may be secret.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ObjectSet {
    config_maps: BTreeMap<String, ConfigMap>,
    secrets: BTreeMap<String, Secret>,
    /// Of one Pod: by what they are for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    tokens: BTreeMap<String, String>,
    /// Of one Pod: variables by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    services: BTreeMap<String, String>,
}

fn token_key(audience: &str, seconds: i64) -> String {
    format!("{seconds} {audience}")
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

    /// The token for this audience (empty: the API's own) that was asked for with this lifetime, of the Pod that the set
    /// belongs to.
    #[must_use]
    pub fn token(&self, audience: &str, seconds: i64) -> Option<&str> {
        self.tokens.get(&token_key(audience, seconds)).map(String::as_str)
    }

    /// Adds a token of the Pod that the set belongs to.
    pub fn insert_token(&mut self, audience: &str, seconds: i64, token: String) {
        self.tokens.insert(token_key(audience, seconds), token);
    }

    /// The variables that tell the Pod that the set belongs to of services.
    #[must_use]
    pub fn service_env(&self) -> &BTreeMap<String, String> {
        &self.services
    }

    /// Sets these variables, which [`crate::env::service_env`] makes.
    pub fn set_service_env(&mut self, variables: BTreeMap<String, String>) {
        self.services = variables;
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
        let Self { config_maps, secrets, tokens, services } = self;
        config_maps.is_empty() && secrets.is_empty() && tokens.is_empty() && services.is_empty()
    }
}

impl fmt::Debug for ObjectSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectSet")
            .field("config_maps", &self.config_maps.keys())
            .field("secrets", &self.secrets.keys())
            .field("tokens", &self.tokens.keys())
            .field("services", &self.services.keys())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_by_what_it_is_for_and_never_shown() {
        let mut set = ObjectSet::default();
        set.insert_token("vault", 600, "hidden".to_owned());
        assert_eq!(
            (set.token("vault", 600), set.token("vault", 3600), set.token("", 600)),
            (Some("hidden"), None, None)
        );
        assert!(!set.is_empty() && !format!("{set:?}").contains("hidden"));
        let again: ObjectSet = serde_json::from_value(serde_json::to_value(&set).unwrap()).unwrap();
        assert_eq!(again, set);
        let old: ObjectSet = serde_json::from_str("{\"config_maps\": {}, \"secrets\": {}}").unwrap();
        assert!(old.is_empty(), "what earlier agents wrote is still read");
    }
}
