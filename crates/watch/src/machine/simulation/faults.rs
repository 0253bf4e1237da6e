//! What goes wrong between the cluster and who watches it: answers that are lost, late or refused, watches that are cut,
//! expire or fall silent, and rights that are taken away for a while.

use std::time::Duration;

use super::world::{Change, snapshot};
use crate::machine::{Access, Action, ApiFault, Input};

/// Rights that are missing for a while.
#[derive(Debug, Clone)]
pub(super) struct Outage {
    pub(super) from: Duration,
    pub(super) lasts: Duration,
    /// Not even single Pods may be got.
    pub(super) all: bool,
}

/// What goes wrong with the questions, one number each, in turn; and with the rights.
#[derive(Debug, Clone)]
pub(super) struct Faults {
    pub(super) numbers: Vec<u8>,
    pub(super) next: usize,
    pub(super) outages: Vec<Outage>,
    /// From here on nothing goes wrong any more.
    pub(super) calm: Duration,
    /// The scope selects by labels.
    pub(super) selective: bool,
}

impl Faults {
    fn draw(&mut self, at: Duration) -> u8 {
        if at >= self.calm || self.numbers.is_empty() {
            return 255;
        }
        self.next += 1;
        self.numbers[self.next % self.numbers.len()]
    }

    fn access(&self, at: Duration) -> Access {
        let now = |outage: &&Outage| at < self.calm && (outage.from..outage.from + outage.lasts).contains(&at);
        match self.outages.iter().filter(now).map(|outage| outage.all).max() {
            None => Access::Watch,
            Some(false) => Access::Get("revoked".to_owned()),
            Some(true) => Access::Nothing("revoked".to_owned()),
        }
    }

    /// What comes back for an action, and when.
    pub(super) fn answers(&mut self, world: &[Change], action: &Action, at: Duration) -> Vec<(Duration, Input)> {
        let fault = self.draw(at);
        let access = self.access(at);
        let later = at + Duration::from_millis(10 + u64::from(fault) * 3);
        let unreachable = || ApiFault::Unreachable("x".to_owned());
        let denied = || ApiFault::Denied("revoked".to_owned());
        let may_watch = access == Access::Watch;
        match action {
            Action::Probe => vec![(later, Input::Probed(access))],
            Action::List { ask } if !may_watch => vec![(later, Input::ListFailed { ask: *ask, fault: denied() })],
            Action::List { ask } => match fault {
                0..25 => vec![],
                25..60 => vec![(later, Input::ListFailed { ask: *ask, fault: unreachable() })],
                _ => {
                    // The list is as of now and arrives later.
                    let (pods, version) = snapshot(world, at);
                    let inside = pods.into_values().filter(|(_, inside)| *inside || !self.selective);
                    let pods = inside.map(|(pod, _)| pod).collect();
                    vec![(later, Input::Listed { ask: *ask, pods, version: version.to_string() })]
                }
            },
            Action::Watch { stream, .. } if !may_watch => {
                vec![(later, Input::WatchFailed { stream: *stream, fault: denied() })]
            }
            Action::Watch { stream, version } => self.watch(world, *stream, version.parse().unwrap(), at, fault),
            Action::Get { ask, namespace, name } if matches!(access, Access::Nothing(_)) => {
                let (namespace, name) = (namespace.clone(), name.clone());
                vec![(later, Input::GetFailed { ask: *ask, namespace, name, fault: denied() })]
            }
            Action::Get { ask, namespace, name } => match fault {
                0..20 => vec![],
                20..50 => {
                    let (namespace, name) = (namespace.clone(), name.clone());
                    vec![(later, Input::GetFailed { ask: *ask, namespace, name, fault: unreachable() })]
                }
                _ => {
                    let pod = snapshot(world, at).0.remove(name).map(|(pod, _)| Box::new(pod));
                    vec![(later, Input::Got { ask: *ask, namespace: namespace.clone(), name: name.clone(), pod })]
                }
            },
            Action::Events { .. } | Action::Node { .. } | Action::Count { .. } | Action::Publish { .. } => vec![],
        }
    }

    fn watch(&self, world: &[Change], stream: u64, from: u64, at: Duration, fault: u8) -> Vec<(Duration, Input)> {
        let mut inputs = Vec::new();
        let soon = Duration::from_millis(20);
        let opened = at + soon;
        let expires = opened + Duration::from_secs(60);
        // Silent from there on; cut there; or as it should be.
        let (end, dies) = match fault {
            0..30 => (at + Duration::from_millis(u64::from(fault) * 150), None),
            30..60 => {
                let cut = at + Duration::from_millis(u64::from(fault) * 100);
                (cut, Some((cut, Input::WatchFailed { stream, fault: ApiFault::Unreachable("cut".into()) })))
            }
            60..75 => (at, Some((opened, Input::WatchFailed { stream, fault: ApiFault::Expired }))),
            75..85 => {
                (at, Some((opened, Input::WatchFailed { stream, fault: ApiFault::Throttled(Duration::from_secs(2)) })))
            }
            85..95 => (at, Some((opened, Input::WatchEnded { stream }))),
            _ => (expires, Some((expires, Input::WatchEnded { stream }))),
        };
        for change in world.iter().filter(|change| change.version > from) {
            let told = change.at.max(opened) + soon;
            if told >= end {
                break;
            }
            let inside = change.inside || !self.selective;
            let input = match (&change.pod, &change.left) {
                (Some(pod), _) if inside => Input::Seen { stream, pod: Box::new(pod.clone()) },
                (_, Some((pod, was_inside))) if *was_inside || !self.selective => {
                    Input::Gone { stream, pod: Box::new(pod.clone()) }
                }
                (_, Some(_) | None) => continue,
            };
            inputs.push((told, input));
        }
        // Bookmarks, every few seconds, as far as the watch is.
        let mut marked = opened + Duration::from_secs(7);
        while marked < end {
            let version = snapshot(world, marked - soon).1.max(from).to_string();
            inputs.push((marked, Input::Bookmark { stream, version }));
            marked += Duration::from_secs(7);
        }
        inputs.extend(dies);
        inputs
    }
}
