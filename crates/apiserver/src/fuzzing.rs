//! What fuzz targets run of the decoders that nobody outside needs: what clients, operators and the disk hand in. Each says
//! which law is broken, if one is; a panic is the other failure.

use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use minke_core::clock::SystemClock;
use rustls::pki_types::CertificateDer;
use serde_json::Value;

use crate::access::{Identity, bootstrap, identity_of};
use crate::custom::{Definition, complete, create, settle, validate};
use crate::engine::Engine;
use crate::http::accept::{Offer, negotiate};
use crate::http::form::Printing;
use crate::http::query::Query;
use crate::http::route::{Route, route};
use crate::kinds::find;
use crate::store::row::{read_entry, read_event, write_entry, write_event};
use crate::store::{HistoryLimits, Store};

/// All of a request that is read before its body.
///
/// # Errors
/// A server without objects lists some.
pub fn request(path: &str, query: &str, accept: &str) -> Result<(), &'static str> {
    static EMPTY: LazyLock<Engine> =
        LazyLock::new(|| Engine::new(Store::in_memory(HistoryLimits::default()), Arc::new(SystemClock)));
    let kind = match route(path) {
        Route::Collection(resource) | Route::Object(resource, ..) => {
            find(&resource.group, &resource.version, &resource.plural)
        }
        _ => None,
    };
    let Some(kind) = kind.or_else(|| find("", "v1", "pods")) else { return Err("there are no Pods") };
    let _ = negotiate(accept, Offer::Discovery);
    let query = Query::parse(query);
    if let Ok(form) = negotiate(accept, Offer::Objects) {
        let _ = Printing::new(kind, form, &query);
    }
    let _ = (query.flag("watch"), query.resource_version(), query.write("agent/1"), query.validation("CreateOptions"));
    let _ = query.only_name();
    let Ok(options) = query.list(kind) else { return Ok(()) };
    match EMPTY.list(kind, None, &options) {
        Ok(list) if !list.entries.is_empty() || !list.continue_token.is_empty() => Err("there is nothing to list"),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// A definition of a kind, and an object of that kind, as if somebody created both.
///
/// # Errors
/// What was accepted can't be served, or an object that is complete changes when it is completed.
pub fn definition(definition: Value, object: &Value) -> Result<(), String> {
    const NOW: &str = "2026-01-01T00:00:00Z";
    let Ok(mut definition) = complete(definition) else { return Ok(()) };
    create(&mut definition);
    if !validate(&definition).is_empty() || !object.is_object() {
        return Ok(());
    }
    if let [settled] = settle(std::slice::from_ref(&definition), NOW).as_slice() {
        definition["status"] = settled.status.clone();
    }
    let typed = serde_json::from_value::<CustomResourceDefinition>(definition);
    let typed = typed.map_err(|error| format!("it is not of its type: {error}"))?;
    for version in &typed.spec.versions {
        let ready = Definition::new(&typed, version, 1).map_err(|error| format!("it can't be served: {error}"))?;
        let Ok(once) = ready.complete(object.clone()) else { continue };
        match ready.complete(once.clone()) {
            Ok(twice) if twice == once => {}
            other => return Err(format!("{once} becomes {other:?}")),
        }
        let _ = ready.validate(&once, None);
        let _ = ready.validate(&once, Some(object));
    }
    Ok(())
}

/// A row of the log.
///
/// # Errors
/// What was read is written as something else.
pub fn row(bytes: &[u8]) -> Result<(), &'static str> {
    if let Some(entry) = read_entry(bytes)
        && read_entry(&write_entry(&entry)) != Some(entry)
    {
        return Err("an object is written as another one");
    }
    match read_event(bytes) {
        Some(event) if read_event(&write_event(&event)).as_ref() != Some(&event) => {
            Err("a change is written as another one")
        }
        Some(_) | None => Ok(()),
    }
}

/// Whom a Secret makes of who brings a bootstrap token.
#[must_use]
pub fn bootstrapper(object: &Value, token: &str, now: Timestamp) -> Option<Identity> {
    let (id, secret) = bootstrap::parts(token)?;
    bootstrap::holder(object, id, secret, now)
}

/// Whom a certificate names that TLS has let through.
#[must_use]
pub fn certificate(der: &[u8]) -> Option<Identity> {
    identity_of(&CertificateDer::from(der))
}
