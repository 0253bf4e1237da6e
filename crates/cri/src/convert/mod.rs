//! The port's nouns ↔ CRI's messages. Pure: no call is made here, and each file is one noun.
//!
//! CRI has no `None`: zero and the empty string mean "not said". A time of zero is no time.

pub(crate) mod container;
pub(crate) mod event;
pub(crate) mod image;
pub(crate) mod namespaces;
pub(crate) mod own;
pub(crate) mod resources;
pub(crate) mod sandbox;
pub(crate) mod security;
pub(crate) mod signal;
pub(crate) mod state;
pub(crate) mod stats;
pub(crate) mod time;

use std::collections::{BTreeMap, HashMap};

/// A map as messages have it.
pub(crate) fn unordered(map: &BTreeMap<String, String>) -> HashMap<String, String> {
    map.iter().map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// A map as the port has it.
pub(crate) fn ordered(map: HashMap<String, String>) -> BTreeMap<String, String> {
    map.into_iter().collect()
}
