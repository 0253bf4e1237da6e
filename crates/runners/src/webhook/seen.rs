//! Which deliveries were taken already.

use std::collections::{HashSet, VecDeque};

/// So many are remembered.
const KEPT: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct SeenDeliveries {
    ids: HashSet<String>,
    order: VecDeque<String>,
}

impl SeenDeliveries {
    pub(super) fn contains(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    pub(super) fn add(&mut self, id: &str) {
        if self.ids.insert(id.to_owned()) {
            self.order.push_back(id.to_owned());
        }
        while self.order.len() > KEPT {
            if let Some(oldest) = self.order.pop_front() {
                self.ids.remove(&oldest);
            }
        }
    }
}
