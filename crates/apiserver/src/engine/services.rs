//! Addresses of Services: each has its own, also when many are made at a time.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use tokio::sync::MutexGuard;

use super::options::WriteOptions;
use super::{Engine, ListOptions, Place, meta};
use crate::error::ApiError;
use crate::kinds::{Kind, allocate, find, first_address};

/// The Service by which Pods of a cluster reach its API.
const OWN: &str = "kubernetes";

impl Engine {
    /// Held while an address is chosen and until it is stored: who comes then sees it as taken.
    pub(super) async fn allocating(&self, kind: &Kind) -> Option<MutexGuard<'_, ()>> {
        if kind.allocates { Some(self.allocations.lock().await) } else { None }
    }

    /// Gives an object the address that it asks for, or a free one.
    ///
    /// # Errors
    /// 409 for a new object that is there already, 422 for an address that is taken or not of the range.
    pub(super) fn give_address(
        &self,
        place: Place<'_>,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), ApiError> {
        if !place.kind.allocates {
            return Ok(());
        }
        // One that is there already is told so, rather than that its own address is taken.
        if old.is_none() && self.store.get(&place.key()).is_some() {
            return Err(ApiError::already_exists(place.kind.group, place.kind.plural, place.name));
        }
        let all = self.list(place.kind, None, &ListOptions::default())?.entries;
        let taken: HashSet<String> = all
            .iter()
            .map(|entry| entry.attributes.field("spec.clusterIP").to_owned())
            .filter(|ip| !ip.is_empty() && ip != "None")
            .collect();
        let guess = || {
            let mut bytes = [0_u8; 4];
            // Without random bytes the range is searched from its beginning.
            match getrandom::fill(&mut bytes) {
                Ok(()) => u32::from_ne_bytes(bytes),
                Err(_) => 0,
            }
        };
        allocate(object, old, &taken, guess).map_err(|cause| {
            ApiError::invalid(place.kind.group, place.kind.kind, meta::text(object, "name"), vec![cause])
        })
    }

    /// Makes the Service of the server itself, which listens on this port.
    ///
    /// # Errors
    /// Storage fails.
    pub async fn announce(&self, port: u16) -> Result<(), ApiError> {
        self.port.store(port, Ordering::Relaxed);
        let Some(kind) = find("", "v1", "services") else { return Ok(()) };
        let service = json!({
            "metadata": {"name": OWN, "labels": {"component": "apiserver", "provider": "kubernetes"}},
            "spec": {
                "clusterIP": first_address().to_string(),
                "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
            },
        });
        let options = WriteOptions { field_manager: "minke".to_owned(), ..WriteOptions::default() };
        // Of an earlier start: the port may be another one than then. Not created first, because its address is taken by itself.
        let place = Place { kind, namespace: "default", name: OWN };
        let change = |old: &Value| {
            let mut new = old.clone();
            new["spec"]["ports"] = service["spec"]["ports"].clone();
            Ok(new)
        };
        match self.change(place, super::Part::Main, &options, change).await {
            Err(error) if error.reason == crate::error::Reason::NotFound => {}
            changed => return changed.map(drop),
        }
        self.create(kind, "default", service, &options).await.map(drop)
    }

    /// Makes the Service of the server itself anew if somebody has deleted it (`kubectl delete all --all`), as upstream does.
    ///
    /// # Errors
    /// Storage fails.
    pub(super) async fn announce_again(&self) -> Result<(), ApiError> {
        let (port, Some(kind)) = (self.port.load(Ordering::Relaxed), find("", "v1", "services")) else { return Ok(()) };
        let place = Place { kind, namespace: "default", name: OWN };
        if port == 0 || self.store.get(&place.key()).is_some() {
            return Ok(());
        }
        self.announce(port).await
    }
}
