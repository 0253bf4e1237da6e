//! From a tree to a Kubernetes type, strictly, with every problem and its place.
//!
//! The types' own `Deserialize` says which fields a struct has and which type a field wants; [`deserializer`] answers
//! from the tree and notes what doesn't fit in [`findings`]. It goes on after a problem: a value of a wrong type is
//! noted and replaced by an empty one, and where a type refuses a text altogether (a time, base64) the whole decode
//! is done again without that value. So one pass over a manifest shows everything that is wrong with it.

mod access;
mod deserializer;
mod findings;
pub(super) mod suggest;

use std::cell::RefCell;

use serde::de::DeserializeOwned;

use super::tree::Node;
use crate::validation::FieldPath;
use deserializer::{NodeDeserializer, Trail};
use findings::Notes;
pub(super) use findings::{Finding, Problem};

/// Most values that are set aside one by one before giving up on finding more.
const MAX_ROUNDS: usize = 32;

/// What a decode came to. With a finding that is an error, the value is not to be used.
pub(super) struct Decoded<T> {
    pub(super) value: Option<T>,
    pub(super) findings: Vec<Finding>,
    /// How many more findings there are.
    pub(super) unlisted: usize,
}

impl<T> Decoded<T> {
    fn new(value: Option<T>, notes: Notes) -> Self {
        let (findings, unlisted) = notes.into_findings();
        Self { value, findings, unlisted }
    }
}

/// Decodes a node. `base` is the way from the document to it; `confidential` keeps values out of messages.
pub(super) fn decode<T: DeserializeOwned>(node: &Node, base: &FieldPath, confidential: bool) -> Decoded<T> {
    let notes = RefCell::new(Notes::new(confidential));
    for _ in 0..MAX_ROUNDS {
        let trail = Trail::Base(base);
        match T::deserialize(NodeDeserializer::new(node, &trail, &notes)) {
            Ok(value) => return Decoded::new(Some(value), notes.into_inner()),
            Err(refused) => {
                if !notes.borrow_mut().set_aside(refused, node, base) {
                    break;
                }
            }
        }
    }
    Decoded::new(None, notes.into_inner())
}
