//! What is seen besides Pods, where it may be: their events, one Pod after the other, and their nodes.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Node};
use minke_core::judgement::Now;

use super::{Action, Machine, SubscriberId};

impl Machine {
    /// The events of a Pod.
    pub(super) fn events(&mut self, uid: &str, events: &[Event], now: Now, actions: &mut Vec<Action>) {
        let of_pod = self.subscribers.iter().filter(|(_, s)| s.uid.as_deref() == Some(uid));
        let ids: Vec<SubscriberId> = of_pod.map(|(id, _)| *id).collect();
        for id in ids {
            if let Some(subscriber) = self.subscribers.get_mut(&id) {
                subscriber.events = events.to_vec();
            }
            self.judge(id, now, actions);
        }
    }

    /// A node, or that it can't be seen.
    pub(super) fn node(&mut self, name: String, node: Option<Box<Node>>, now: Now, actions: &mut Vec<Action>) {
        let concerned: Vec<SubscriberId> = self
            .subscribers
            .iter()
            .filter(|(_, s)| s.node_name() == Some(name.as_str()) && !s.is_settled())
            .map(|(id, _)| *id)
            .collect();
        self.nodes.insert(name, (now.moment, node.map(|node| Arc::new(*node))));
        for id in concerned {
            self.judge(id, now, actions);
        }
    }

    /// When the next in the queue may ask for events.
    pub(super) fn explain_at(&self) -> Option<Duration> {
        self.puzzled.front()?;
        Some(self.events_asked.map_or(Duration::ZERO, |asked| asked + self.settings.events_gap))
    }

    /// Asks for events, of one Pod after the other: all together no more often than the gap allows.
    pub(super) fn explain(&mut self, now: Now, actions: &mut Vec<Action>) {
        while self.explain_at().is_some_and(|at| at <= now.moment) {
            let Some(id) = self.puzzled.pop_front() else { return };
            let Some(subscriber) = self.subscribers.get_mut(&id) else { continue };
            subscriber.queued = false;
            if subscriber.wants_events(&self.settings, now) {
                subscriber.events_asked = Some(now.moment);
                let (namespace, uid) = (subscriber.name.0.clone(), subscriber.uid.clone().unwrap_or_default());
                self.events_asked = Some(now.moment);
                self.counters.events += 1;
                actions.push(Action::Events { namespace, uid });
            }
            // Its next wake depends on having asked.
            self.judge(id, now, actions);
        }
    }
}
