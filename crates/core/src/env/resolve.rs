//! The environment of a container, from literals, ConfigMaps, Secrets and the downward API.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, EnvVar as ApiEnvVar, EnvVarSource};

use super::{DownwardError, DownwardFacts, expand};
use crate::objects::ObjectSet;
use crate::runtime::EnvVar;

/// Why a container's environment can't be made. Shown with reason `CreateContainerConfigError`; the words are
/// upstream's and never hold a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvError {
    /// The ConfigMap does not exist and is not optional.
    #[error("configmap {0:?} not found")]
    NoConfigMap(String),
    /// The Secret does not exist and is not optional.
    #[error("secret {0:?} not found")]
    NoSecret(String),
    /// The object lacks a key that is not optional.
    #[error("couldn't find key {key} in {kind} {namespace}/{name}")]
    NoKey {
        /// `ConfigMap` or `Secret`.
        kind: &'static str,
        /// Namespace of the object.
        namespace: String,
        /// Name of the object.
        name: String,
        /// The key.
        key: String,
    },
    /// The value can't be an environment variable's.
    #[error("the value of key {key} in {kind} {name} can't be an environment variable: it {why}")]
    NotText {
        /// `ConfigMap` or `Secret`.
        kind: &'static str,
        /// Name of the object.
        name: String,
        /// The key.
        key: String,
        /// "is not UTF-8" or "contains a NUL byte".
        why: &'static str,
    },
    /// The downward API has no such thing.
    #[error("environment variable {variable} can't be resolved")]
    Downward {
        /// The variable.
        variable: String,
        /// Why not.
        #[source]
        source: DownwardError,
    },
    /// The kind of reference is not known here.
    #[error("environment variable {variable}: {what} is not supported by minke")]
    Unsupported {
        /// The variable.
        variable: String,
        /// The field.
        what: &'static str,
    },
}

/// An environment, and what people should hear about how it was made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResolvedEnv {
    /// The variables, each name once, in the order in which the names first appear.
    pub vars: Vec<EnvVar>,
    /// Texts of `InvalidEnvironmentVariableNames` warning events.
    pub skipped: Vec<String>,
}

/// Makes the environment of a container.
///
/// # Errors
/// [`EnvError`] for the first reference that is missing and not optional, or can't be used.
pub fn resolve(container: &Container, objects: &ObjectSet, facts: &DownwardFacts<'_>) -> Result<ResolvedEnv, EnvError> {
    let namespace = facts.pod.metadata.namespace.as_deref().unwrap_or("default");
    let mut resolver = Resolver { objects, facts, container, namespace, env: Ordered::default(), skipped: Vec::new() };
    for (name, value) in objects.service_env() {
        resolver.env.set(name.clone(), value.clone());
    }
    resolver.take_sources()?;
    for var in container.env.iter().flatten() {
        resolver.variable(var)?;
    }
    Ok(ResolvedEnv { vars: resolver.env.vars, skipped: resolver.skipped })
}

#[derive(Default)]
struct Ordered {
    vars: Vec<EnvVar>,
    index: BTreeMap<String, usize>,
}

impl Ordered {
    fn set(&mut self, name: String, value: String) {
        match self.index.get(&name) {
            Some(at) => self.vars[*at].value = value,
            None => {
                self.index.insert(name.clone(), self.vars.len());
                self.vars.push(EnvVar { name, value });
            }
        }
    }

    fn get(&self, name: &str) -> Option<String> {
        self.index.get(name).map(|at| self.vars[*at].value.clone())
    }
}

struct Resolver<'a> {
    objects: &'a ObjectSet,
    facts: &'a DownwardFacts<'a>,
    container: &'a Container,
    namespace: &'a str,
    env: Ordered,
    skipped: Vec<String>,
}

impl Resolver<'_> {
    fn take_sources(&mut self) -> Result<(), EnvError> {
        for source in self.container.env_from.iter().flatten() {
            let prefix = source.prefix.as_deref().unwrap_or_default();
            if let Some(reference) = &source.config_map_ref {
                let optional = reference.optional.unwrap_or(false);
                match self.objects.config_map(self.namespace, &reference.name) {
                    Some(map) => {
                        let pairs = map.data.iter().flatten();
                        let pairs: Vec<_> = pairs.map(|(k, v)| (k.clone(), v.clone())).collect();
                        self.add_all("ConfigMap", &reference.name, prefix, pairs)?;
                    }
                    None if optional => {}
                    None => return Err(EnvError::NoConfigMap(reference.name.clone())),
                }
            }
            if let Some(reference) = &source.secret_ref {
                let optional = reference.optional.unwrap_or(false);
                match self.objects.secret(self.namespace, &reference.name) {
                    Some(secret) => {
                        let pairs = secret.data.iter().flatten();
                        let text = |(key, value): (&String, &k8s_openapi::ByteString)| {
                            Ok((key.clone(), secret_text(&reference.name, key, &value.0)?))
                        };
                        let pairs: Vec<_> = pairs.map(text).collect::<Result<_, _>>()?;
                        self.add_all("Secret", &reference.name, prefix, pairs)?;
                    }
                    None if optional => {}
                    None => return Err(EnvError::NoSecret(reference.name.clone())),
                }
            }
        }
        Ok(())
    }

    fn add_all(
        &mut self,
        kind: &'static str,
        object: &str,
        prefix: &str,
        pairs: Vec<(String, String)>,
    ) -> Result<(), EnvError> {
        let mut invalid = Vec::new();
        for (key, value) in pairs {
            let name = format!("{prefix}{key}");
            if !is_env_name(&name) {
                invalid.push(name);
                continue;
            }
            no_nul(kind, object, &key, &value)?;
            self.env.set(name, value);
        }
        if !invalid.is_empty() {
            let source = if kind == "Secret" { "secret" } else { "configMap" };
            self.skipped.push(format!(
                "Keys [{}] from the EnvFrom {source} {}/{object} were skipped since they are considered invalid environment variable names.",
                invalid.join(", "),
                self.namespace,
            ));
        }
        Ok(())
    }

    fn variable(&mut self, var: &ApiEnvVar) -> Result<(), EnvError> {
        let literal = var.value.as_deref().unwrap_or_default();
        let value = match &var.value_from {
            Some(source) if literal.is_empty() => self.referenced(&var.name, source)?,
            Some(_) | None => Some(expand(literal, |name| self.env.get(name))),
        };
        if let Some(value) = value {
            self.env.set(var.name.clone(), value);
        }
        Ok(())
    }

    /// The value that a reference stands for; `None`: it is optional and missing.
    fn referenced(&self, variable: &str, source: &EnvVarSource) -> Result<Option<String>, EnvError> {
        let downward = |source| EnvError::Downward { variable: variable.to_owned(), source };
        if let Some(field) = &source.field_ref {
            return self.facts.env_field(&field.field_path).map(Some).map_err(downward);
        }
        if let Some(resource) = &source.resource_field_ref {
            return self.facts.resource(resource, Some(self.container)).map(Some).map_err(downward);
        }
        if let Some(reference) = &source.config_map_key_ref {
            let optional = reference.optional.unwrap_or(false);
            let Some(map) = self.objects.config_map(self.namespace, &reference.name) else {
                return if optional { Ok(None) } else { Err(EnvError::NoConfigMap(reference.name.clone())) };
            };
            let value = map.data.as_ref().and_then(|data| data.get(&reference.key));
            let Some(value) = value else {
                return if optional {
                    Ok(None)
                } else {
                    Err(self.no_key("ConfigMap", &reference.name, &reference.key))
                };
            };
            no_nul("ConfigMap", &reference.name, &reference.key, value)?;
            return Ok(Some(value.clone()));
        }
        if let Some(reference) = &source.secret_key_ref {
            let optional = reference.optional.unwrap_or(false);
            let Some(secret) = self.objects.secret(self.namespace, &reference.name) else {
                return if optional { Ok(None) } else { Err(EnvError::NoSecret(reference.name.clone())) };
            };
            let value = secret.data.as_ref().and_then(|data| data.get(&reference.key));
            let Some(value) = value else {
                return if optional { Ok(None) } else { Err(self.no_key("Secret", &reference.name, &reference.key)) };
            };
            let text = secret_text(&reference.name, &reference.key, &value.0)?;
            no_nul("Secret", &reference.name, &reference.key, &text)?;
            return Ok(Some(text));
        }
        if source.file_key_ref.is_some() {
            return Err(EnvError::Unsupported { variable: variable.to_owned(), what: "valueFrom.fileKeyRef" });
        }
        Ok(Some(String::new()))
    }

    fn no_key(&self, kind: &'static str, name: &str, key: &str) -> EnvError {
        let (namespace, name, key) = (self.namespace.to_owned(), name.to_owned(), key.to_owned());
        EnvError::NoKey { kind, namespace, name, key }
    }
}

/// Kubernetes' (relaxed) rule for names: printable ASCII without `=`, and not empty.
#[must_use]
pub fn is_env_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=')
}

fn secret_text(name: &str, key: &str, value: &[u8]) -> Result<String, EnvError> {
    let not_text =
        || EnvError::NotText { kind: "Secret", name: name.to_owned(), key: key.to_owned(), why: "is not UTF-8" };
    std::str::from_utf8(value).map(str::to_owned).map_err(|_| not_text())
}

fn no_nul(kind: &'static str, name: &str, key: &str, value: &str) -> Result<(), EnvError> {
    if value.contains('\0') {
        let (name, key) = (name.to_owned(), key.to_owned());
        return Err(EnvError::NotText { kind, name, key, why: "contains a NUL byte" });
    }
    Ok(())
}
