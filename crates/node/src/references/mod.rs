//! The ConfigMaps and Secrets that Pods here refer to, the tokens that they want of their service accounts, and the services that
//! they are told of: only those are asked for, and who waits for one is known.
//!
//! Pure: the caller watches what it is told to and says what it learned. An object that was not asked for yet is *pending*,
//! not absent, so that no Pod fails because an answer is late.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service, Volume};
use minke_core::containers::all_containers;
use minke_core::env::{API_SERVICE, service_env};
use minke_core::identity::PodKey;
use minke_core::objects::ObjectSet;

#[cfg(test)]
mod tests;

/// The kinds that Pods refer to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
    /// A token of a service account, which is what the reference names.
    Token(Arc<TokenRef>),
    /// Services of the namespace: the one that the reference names, or all of them if it names none.
    Services,
}

/// A token for one Pod: it is good as long as the Pod exists.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TokenRef {
    /// The Pod that it is bound to.
    pub pod: PodKey,
    /// Whom it is for; empty: the API itself.
    pub audience: String,
    /// How long it is asked to last.
    pub seconds: i64,
}

/// One object that a Pod refers to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectRef {
    /// What it is.
    pub kind: ObjectKind,
    /// Its namespace, the Pod's own.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: String,
}

/// What is known of an object. `Debug` shows no values.
#[derive(Clone, PartialEq, Default)]
pub enum Known {
    /// Nothing yet.
    #[default]
    Pending,
    /// It does not exist.
    Absent,
    /// It can't be read; for people.
    Unreadable(String),
    /// As it is.
    ConfigMap(Arc<ConfigMap>),
    /// As it is.
    Secret(Arc<Secret>),
    /// A token that is good for a while.
    Token(Arc<str>),
    /// Those that there are.
    Services(Arc<[Service]>),
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "Pending",
            Self::Absent => "Absent",
            Self::Unreadable(_) => "Unreadable",
            Self::ConfigMap(_) => "ConfigMap",
            Self::Secret(_) => "Secret",
            Self::Token(_) => "Token",
            Self::Services(_) => "Services",
        })
    }
}

#[derive(Debug, Default)]
struct Object {
    users: BTreeSet<PodKey>,
    known: Known,
}

/// Who refers to what, and what is known of it.
#[derive(Debug, Default)]
pub struct References {
    pods: HashMap<PodKey, Box<[ObjectRef]>>,
    objects: BTreeMap<ObjectRef, Object>,
}

/// What the caller watches from now on, and no longer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Watches {
    /// Nobody watched these before.
    pub start: Vec<ObjectRef>,
    /// Nobody needs these any more.
    pub stop: Vec<ObjectRef>,
}

impl References {
    /// The Pod is here, and refers to what it refers to.
    pub fn follow(&mut self, key: &PodKey, pod: &Pod) -> Watches {
        let mut wanted = references(&key.namespace, pod);
        wanted.extend(tokens(key, pod));
        wanted.extend(services(key, pod));
        let before = self.pods.get(key).cloned().unwrap_or_default();
        let mut watches = Watches::default();
        for added in wanted.iter().filter(|reference| !before.contains(reference)) {
            let object = self.objects.entry(added.clone()).or_default();
            if object.users.is_empty() {
                watches.start.push(added.clone());
            }
            object.users.insert(key.clone());
        }
        let released = before.iter().filter(|reference| !wanted.contains(*reference));
        watches.stop = released.filter_map(|removed| self.release(key, removed)).collect();
        self.pods.insert(key.clone(), wanted.into_iter().collect());
        watches
    }

    /// The Pod is gone; returns what nobody refers to any more.
    pub fn leave(&mut self, key: &PodKey) -> Watches {
        let before = self.pods.remove(key).unwrap_or_default();
        let stop = before.iter().filter_map(|removed| self.release(key, removed)).collect();
        Watches { start: Vec::new(), stop }
    }

    fn release(&mut self, key: &PodKey, reference: &ObjectRef) -> Option<ObjectRef> {
        let object = self.objects.get_mut(reference)?;
        object.users.remove(key);
        if !object.users.is_empty() {
            return None;
        }
        self.objects.remove(reference);
        Some(reference.clone())
    }

    /// Something was learned of an object; returns the Pods to look at again. What nobody refers to any more is nobody's news, and
    /// services are news only to those who wait for them: the environment of what runs stays as it is.
    pub fn learned(&mut self, reference: &ObjectRef, known: Known) -> Vec<PodKey> {
        match self.objects.get_mut(reference) {
            Some(object) if object.known != known => {
                let waited = object.known == Known::Pending;
                object.known = known;
                match reference.kind {
                    ObjectKind::Services if !waited => Vec::new(),
                    ObjectKind::Services | ObjectKind::ConfigMap | ObjectKind::Secret | ObjectKind::Token(_) => {
                        object.users.iter().cloned().collect()
                    }
                }
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// Whether everything that the Pod refers to was asked for.
    #[must_use]
    pub fn ready(&self, key: &PodKey) -> bool {
        let mut references = self.pods.get(key).into_iter().flatten();
        references.all(|reference| *self.known(reference) != Known::Pending)
    }

    /// What is known of an object.
    #[must_use]
    pub fn known(&self, reference: &ObjectRef) -> &Known {
        self.objects.get(reference).map_or(&Known::Pending, |object| &object.known)
    }

    /// The objects of a Pod that exist and can be read.
    #[must_use]
    pub fn objects(&self, key: &PodKey) -> ObjectSet {
        let mut set = ObjectSet::default();
        let (mut services, mut links) = (Vec::new(), false);
        for reference in self.pods.get(key).into_iter().flatten() {
            match (self.known(reference), &reference.kind) {
                (Known::ConfigMap(map), _) => drop(set.insert_config_map((**map).clone())),
                (Known::Secret(secret), _) => drop(set.insert_secret((**secret).clone())),
                (Known::Token(token), ObjectKind::Token(wanted)) => {
                    set.insert_token(&wanted.audience, wanted.seconds, token.to_string());
                }
                (Known::Services(found), _) => {
                    links |= reference.name.is_empty();
                    services.extend(found.iter());
                }
                (Known::Token(_), ObjectKind::ConfigMap | ObjectKind::Secret | ObjectKind::Services)
                | (Known::Pending | Known::Absent | Known::Unreadable(_), _) => {}
            }
        }
        set.set_service_env(service_env(&key.namespace, links, services));
        set
    }

    /// How many objects are followed.
    #[must_use]
    pub fn followed(&self) -> usize {
        self.objects.len()
    }
}

/// Everything that a Pod refers to: environment, volumes, pull secrets.
#[must_use]
pub fn references(namespace: &Arc<str>, pod: &Pod) -> BTreeSet<ObjectRef> {
    let mut found = BTreeSet::new();
    let mut add = |kind, name: &str| {
        if !name.is_empty() {
            found.insert(ObjectRef { kind, namespace: namespace.clone(), name: name.to_owned() });
        }
    };
    for container in all_containers(pod) {
        for source in container.env_from.iter().flatten() {
            source.config_map_ref.iter().for_each(|r| add(ObjectKind::ConfigMap, &r.name));
            source.secret_ref.iter().for_each(|r| add(ObjectKind::Secret, &r.name));
        }
        for source in container.env.iter().flatten().filter_map(|v| v.value_from.as_ref()) {
            source.config_map_key_ref.iter().for_each(|r| add(ObjectKind::ConfigMap, &r.name));
            source.secret_key_ref.iter().for_each(|r| add(ObjectKind::Secret, &r.name));
        }
    }
    let spec = pod.spec.iter();
    for volume in spec.clone().flat_map(|s| s.volumes.iter().flatten()) {
        of_volume(volume, &mut add);
    }
    spec.flat_map(|s| s.image_pull_secrets.iter().flatten()).for_each(|r| add(ObjectKind::Secret, &r.name));
    found
}

/// Upstream's default lifetime of a token, in seconds.
const TOKEN_SECONDS: i64 = 3600;

/// The tokens that a Pod's projected volumes want.
fn tokens(key: &PodKey, pod: &Pod) -> BTreeSet<ObjectRef> {
    let Some(spec) = &pod.spec else { return BTreeSet::new() };
    let account = spec.service_account_name.as_deref().filter(|name| !name.is_empty()).unwrap_or("default");
    let sources =
        spec.volumes.iter().flatten().filter_map(|v| v.projected.as_ref()).flat_map(|p| p.sources.iter().flatten());
    let wanted = sources.filter_map(|source| source.service_account_token.as_ref()).map(|token| {
        let wanted = TokenRef {
            pod: key.clone(),
            audience: token.audience.clone().unwrap_or_default(),
            seconds: token.expiration_seconds.unwrap_or(TOKEN_SECONDS),
        };
        ObjectRef {
            kind: ObjectKind::Token(Arc::new(wanted)),
            namespace: key.namespace.clone(),
            name: account.to_owned(),
        }
    });
    wanted.collect()
}

/// The services that its containers are told of.
fn services(key: &PodKey, pod: &Pod) -> Vec<ObjectRef> {
    let links = pod.spec.as_ref().and_then(|spec| spec.enable_service_links).unwrap_or(true);
    let of = |namespace: &str, name: &str| ObjectRef {
        kind: ObjectKind::Services,
        namespace: namespace.into(),
        name: name.to_owned(),
    };
    let (namespace, name) = API_SERVICE;
    let all = links.then(|| of(&key.namespace, ""));
    // Among all of its namespace it is anyway.
    let own = !(links && *key.namespace == *namespace);
    all.into_iter().chain(own.then(|| of(namespace, name))).collect()
}

fn of_volume(volume: &Volume, add: &mut impl FnMut(ObjectKind, &str)) {
    volume.config_map.iter().for_each(|source| add(ObjectKind::ConfigMap, &source.name));
    volume.secret.iter().filter_map(|s| s.secret_name.as_deref()).for_each(|name| add(ObjectKind::Secret, name));
    for source in volume.projected.iter().flat_map(|p| p.sources.iter().flatten()) {
        source.config_map.iter().for_each(|r| add(ObjectKind::ConfigMap, &r.name));
        source.secret.iter().for_each(|r| add(ObjectKind::Secret, &r.name));
    }
}
