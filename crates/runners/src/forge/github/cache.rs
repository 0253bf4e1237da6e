//! What the forge says has not changed: bodies by address, with their entity tags. A `304` costs nothing of the budget.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

/// So many bodies are kept; the oldest goes first.
const KEPT: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Cache {
    entries: BTreeMap<String, (String, Bytes)>,
    order: VecDeque<String>,
}

impl Cache {
    pub(super) fn tag(&self, url: &str) -> Option<String> {
        self.entries.get(url).map(|(tag, _)| tag.clone())
    }

    pub(super) fn body(&self, url: &str) -> Option<Bytes> {
        self.entries.get(url).map(|(_, body)| body.clone())
    }

    pub(super) fn keep(&mut self, url: &str, tag: &str, body: &Bytes) {
        if self.entries.insert(url.to_owned(), (tag.to_owned(), body.clone())).is_none() {
            self.order.push_back(url.to_owned());
        }
        while self.entries.len() > KEPT {
            let Some(oldest) = self.order.pop_front() else { break };
            self.entries.remove(&oldest);
        }
    }
}
