//! What manifests say, one by one: a bad one does not take the others with it, and keeps what it said before.

use std::collections::BTreeMap;
use std::sync::Arc;

use minke_core::clock::Clock;
use minke_core::defaults::{SourceKind, StaticOrigin, make_static};
use minke_core::identity::PodKey;
use minke_core::manifest::{Input, Manifests, Validate, parse};
use minke_core::objects::ObjectSet;
use minke_core::runtime::error_chain;

use super::diff::Wanted;
use crate::DesiredPod;
use crate::source::ReadError;

/// What one manifest asks for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Manifest {
    /// Its Pods, still without objects.
    pub(super) pods: Vec<Wanted>,
    /// Its ConfigMaps and Secrets.
    pub(super) objects: Arc<ObjectSet>,
    /// It can't be read or understood now; the rest is what it said before, as far as this agent heard it.
    pub(super) held: bool,
}

/// What is known of each manifest of one source, by path or address.
#[derive(Debug)]
pub(super) struct Files {
    kind: SourceKind,
    node: Arc<str>,
    clock: Arc<dyn Clock>,
    known: BTreeMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    /// What it was read from: its content, or why there is none.
    read: Result<Vec<u8>, String>,
    manifest: Manifest,
}

/// One look at a manifest.
pub(super) enum Look {
    /// This is its content.
    Read(Input),
    /// There is one, and it can't be read.
    Unreadable(ReadError),
    /// There is one, and it is not to be looked at now: it is being written.
    Unsettled(String),
}

impl Files {
    pub(super) fn new(kind: SourceKind, node: Arc<str>, clock: Arc<dyn Clock>) -> Self {
        Self { kind, node, clock, known: BTreeMap::new() }
    }

    /// Takes in everything that the source has now, and says what that comes to.
    pub(super) fn take(&mut self, looks: Vec<Look>) -> BTreeMap<String, Manifest> {
        let mut before = std::mem::take(&mut self.known);
        for look in looks {
            let (name, entry) = self.look(look, &mut before);
            self.known.insert(name, entry);
        }
        self.manifests()
    }

    fn manifests(&self) -> BTreeMap<String, Manifest> {
        self.known.iter().map(|(name, entry)| (name.clone(), entry.manifest.clone())).collect()
    }

    fn look(&self, look: Look, before: &mut BTreeMap<String, Entry>) -> (String, Entry) {
        match look {
            Look::Unsettled(name) => {
                let old = before.remove(&name);
                // Nobody has heard it yet: what runs of it from before this agent stays until it has been read.
                let unheard =
                    || Entry { read: Err(String::new()), manifest: Manifest { held: true, ..Manifest::default() } };
                let entry = old.unwrap_or_else(unheard);
                (name, entry)
            }
            Look::Unreadable(error) => {
                let why = error_chain(&error);
                let old = before.remove(&error.name);
                let told = old.as_ref().is_some_and(|old| old.read.as_ref().err() == Some(&why));
                if !told {
                    tracing::error!(manifest = error.name, why, "a manifest can't be read; what runs of it stays");
                }
                let manifest = Manifest { held: true, ..old.map(|old| old.manifest).unwrap_or_default() };
                (error.name, Entry { read: Err(why), manifest })
            }
            Look::Read(input) => {
                let name = input.name.to_string();
                match before.remove(&name) {
                    Some(old) if old.read.as_ref() == Ok(&input.bytes) => (name, old),
                    old => (name, self.understand(input, old.map(|old| old.manifest))),
                }
            }
        }
    }

    fn understand(&self, input: Input, before: Option<Manifest>) -> Entry {
        let manifest = match parse(std::slice::from_ref(&input), Validate::Strict) {
            Ok(manifests) => {
                for warning in &manifests.warnings {
                    tracing::warn!(manifest = &*input.name, "{warning}");
                }
                let manifest = self.manifest(&input.name, &manifests);
                tracing::info!(manifest = &*input.name, pods = manifest.pods.len(), "a manifest was read");
                manifest
            }
            Err(invalid) => {
                for error in &invalid.errors {
                    tracing::error!(manifest = &*input.name, "{error}");
                }
                tracing::error!(manifest = &*input.name, "{invalid}; what runs of it stays as it is");
                Manifest { held: true, ..before.unwrap_or_default() }
            }
        };
        Entry { read: Ok(input.bytes), manifest }
    }

    fn manifest(&self, name: &str, manifests: &Manifests) -> Manifest {
        let origin = StaticOrigin { node: &self.node, kind: self.kind, manifest: name, seen: self.clock.now() };
        let mut pods = Vec::new();
        for group in &manifests.groups {
            for pod in &group.pods {
                let mut pod = (**pod).clone();
                make_static(&mut pod, &origin);
                let key = match PodKey::of(&pod) {
                    Ok(key) => key,
                    Err(error) => {
                        tracing::error!(manifest = name, error = error_chain(&error), "a pod has no identity");
                        continue;
                    }
                };
                let desired = DesiredPod { pod: Arc::new(pod), objects: Arc::default() };
                let group = (format!("{name}#{}/{}/{}", group.origin, group.namespace, group.name), group.parallelism);
                pods.push(Wanted { key, desired, group });
            }
        }
        Manifest { pods, objects: manifests.objects.clone(), held: false }
    }
}

#[cfg(test)]
mod tests {
    use minke_core::fake::FakeClock;

    use super::*;

    fn files() -> Files {
        Files::new(SourceKind::File, "box".into(), Arc::new(FakeClock::default()))
    }

    fn read(name: &str, text: &str) -> Look {
        Look::Read(Input { name: name.into(), bytes: text.as_bytes().to_vec() })
    }

    fn pod(name: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, image: i}}]}}\n"
        )
    }

    fn names(manifest: &Manifest) -> Vec<&str> {
        manifest.pods.iter().map(|p| &*p.key.name).collect()
    }

    #[test]
    fn a_bad_manifest_keeps_what_it_said_and_the_others_go_on() {
        let mut files = files();
        let first = files.take(vec![read("/m/a", &pod("a")), read("/m/b", &pod("b"))]);
        assert_eq!((names(&first["/m/a"]), names(&first["/m/b"])), (vec!["a-box"], vec!["b-box"]));
        let broken = files.take(vec![read("/m/a", "kind: Pod\nspec: ["), read("/m/b", &pod("c"))]);
        assert!(broken["/m/a"].held && !broken["/m/b"].held);
        assert_eq!((names(&broken["/m/a"]), names(&broken["/m/b"])), (vec!["a-box"], vec!["c-box"]));
        let again = files.take(vec![read("/m/a", &pod("a")), read("/m/b", "")]);
        assert!(!again["/m/a"].held);
        assert_eq!(again["/m/a"].pods[0].key, first["/m/a"].pods[0].key, "the same content is the same pod");
        assert_eq!(names(&again["/m/b"]), [""; 0], "an empty manifest asks for nothing");
        assert!(files.take(Vec::new()).is_empty());
    }

    #[test]
    fn what_was_bad_from_the_start_is_held_without_pods() {
        let mut files = files();
        let unreadable = Look::Unreadable(ReadError { name: "/m/b".to_owned(), source: "no".into() });
        let looked = files.take(vec![read("/m/a", "]"), unreadable, Look::Unsettled("/m/c".to_owned())]);
        for name in ["/m/a", "/m/b", "/m/c"] {
            assert_eq!(looked[name], Manifest { held: true, ..Manifest::default() }, "{name}");
        }
        let settled = files.take(vec![read("/m/c", &pod("c"))]);
        assert_eq!(names(&settled["/m/c"]), ["c-box"]);
        let writing = files.take(vec![Look::Unsettled("/m/c".to_owned())]);
        assert_eq!(writing, settled, "what is being written says what it said before");
    }

    #[test]
    fn the_same_content_is_not_read_twice() {
        let mut files = files();
        let first = files.take(vec![read("/m/a", &pod("a"))]);
        let second = files.take(vec![read("/m/a", &pod("a"))]);
        let same = Arc::ptr_eq(&first["/m/a"].pods[0].desired.pod, &second["/m/a"].pods[0].desired.pod);
        assert!(same, "so the time when it was first seen stays");
    }
}
