//! What happened between two records of one Pod.

use super::record::{Record, State};

/// Something that happened to a sandbox or container (named by its id), as upstream's PLEG tells it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LifecycleEvent {
    /// It runs.
    Started(String),
    /// It ended, or is gone without having been seen to end.
    Died(String),
    /// It was removed.
    Removed(String),
    /// It is in a state that says nothing for sure (created, unknown). The cache is brought up to date; no worker
    /// is woken.
    Changed(String),
    /// Nothing happened that a list shows, but the Pod was inspected anew because someone asked.
    Sync,
}

impl LifecycleEvent {
    /// What it happened to, where workers are told.
    pub(super) fn told_id(&self) -> Option<&str> {
        match self {
            Self::Started(id) | Self::Died(id) | Self::Removed(id) => Some(id),
            Self::Changed(_) | Self::Sync => None,
        }
    }

    /// Whether workers are told.
    #[must_use]
    pub fn is_told(&self) -> bool {
        !matches!(self, Self::Changed(_))
    }
}

/// The events that lead from `old` to `new`, sandboxes before containers; of each, in order of ids.
#[must_use]
pub fn diff(old: &Record, new: &Record) -> Vec<LifecycleEvent> {
    let mut events = Vec::new();
    for item in new.items() {
        step(&item.id, old.state(&item.id), Some(item.state), &mut events);
    }
    for item in old.items().filter(|i| new.state(&i.id).is_none()) {
        step(&item.id, Some(item.state), None, &mut events);
    }
    events
}

fn step(id: &str, old: Option<State>, new: Option<State>, events: &mut Vec<LifecycleEvent>) {
    if old == new {
        return;
    }
    let id = id.to_owned();
    match (old, new) {
        (_, Some(State::Running)) => events.push(LifecycleEvent::Started(id)),
        (_, Some(State::Exited)) => events.push(LifecycleEvent::Died(id)),
        (_, Some(State::Created | State::Unknown)) => events.push(LifecycleEvent::Changed(id)),
        (Some(State::Exited), None) => events.push(LifecycleEvent::Removed(id)),
        (Some(State::Created | State::Running | State::Unknown), None) => {
            events.push(LifecycleEvent::Died(id.clone()));
            events.push(LifecycleEvent::Removed(id));
        }
        (None, None) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Item;
    use super::LifecycleEvent::{Changed, Died, Removed, Started};
    use super::*;

    fn record(state: Option<State>) -> Record {
        let containers = state.map(|state| Item { id: "c".into(), state }).into_iter().collect();
        Record { sandboxes: Vec::new(), containers }
    }

    #[test]
    fn the_state_diff_table() {
        let c = || "c".to_owned();
        let all = [None, Some(State::Created), Some(State::Running), Some(State::Exited), Some(State::Unknown)];
        for old in all {
            for new in all {
                let expected = match (old, new) {
                    (a, b) if a == b => vec![],
                    (_, Some(State::Running)) => vec![Started(c())],
                    (_, Some(State::Exited)) => vec![Died(c())],
                    (_, Some(State::Created | State::Unknown)) => vec![Changed(c())],
                    (Some(State::Exited), None) => vec![Removed(c())],
                    (_, None) => vec![Died(c()), Removed(c())],
                };
                assert_eq!(diff(&record(old), &record(new)), expected, "{old:?} -> {new:?}");
            }
        }
    }

    #[test]
    fn sandboxes_are_treated_like_containers() {
        let sandbox = |state| Record { sandboxes: vec![Item { id: "s".into(), state }], containers: Vec::new() };
        assert_eq!(diff(&Record::default(), &sandbox(State::Running)), [Started("s".into())]);
        assert_eq!(diff(&sandbox(State::Running), &sandbox(State::Exited)), [Died("s".into())]);
        let gone = [Died("s".to_owned()), Removed("s".to_owned())];
        assert_eq!(diff(&sandbox(State::Running), &Record::default()), gone);
    }
}
