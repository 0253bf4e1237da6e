//! What the answers of the forge and the cluster change.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::super::inputs::{Command, ForgeRunner, NotCreated, Refused};
use super::{CREATE_AGAIN, Engine, LIST_SLACK, QUOTA, REFUSED, REFUSED_LONGEST};
use crate::ids::{RunnerId, Slot};
use crate::life::{Event, Life, Runner};
use crate::plan::{Blocked, HoldReason};

impl Engine {
    pub(super) fn registered(
        &mut self,
        slot: Slot,
        name: &str,
        outcome: Result<RunnerId, Refused>,
        now: Timestamp,
        commands: &mut Vec<Command>,
    ) {
        let waited_for = self.entries.get(&slot).is_some_and(|entry| entry.name == name);
        match outcome {
            Ok(id) if waited_for && self.has_room(slot, now) => {
                self.step(slot, Event::Registered(id), now, commands);
            }
            Ok(id) => {
                self.orphans.add(id, now);
                if waited_for {
                    self.step(slot, Event::NotRegistered, now, commands);
                }
            }
            Err(refused) => {
                if waited_for {
                    self.step(slot, Event::NotRegistered, now, commands);
                }
                match refused {
                    Refused::Conflict => {}
                    Refused::Unavailable => self.refused(HoldReason::ForgeUnavailable, now),
                    Refused::Credential => self.refused(HoldReason::Credential, now),
                    Refused::Limited(until) => self.block(HoldReason::RateLimited, until),
                }
            }
        }
    }

    /// Whether another Pod may be: the maximum may have been lowered while its registration was on its way.
    pub(super) fn has_room(&self, slot: Slot, now: Timestamp) -> bool {
        let holds = |runner: &&Runner| runner.slot != slot && runner.life != Life::Requested && !runner.ended();
        let others = self.runners().filter(holds).count();
        let max = self.settings.scaling.limits(now).max;
        u32::try_from(others).is_ok_and(|others| others < max)
    }

    /// Waits longer each time; what comes back of one batch is one refusal.
    fn refused(&mut self, reason: HoldReason, now: Timestamp) {
        if self.blocked.is_none_or(|blocked| blocked.until <= now) {
            let wait = REFUSED * (1 << self.refusals.min(8));
            self.refusals = self.refusals.saturating_add(1);
            self.block(reason, now + wait.min(REFUSED_LONGEST));
        }
    }

    pub(super) fn block(&mut self, reason: HoldReason, until: Timestamp) {
        if self.blocked.is_none_or(|blocked| blocked.until < until) {
            self.blocked = Some(Blocked { reason, until });
        }
    }

    pub(super) fn created(
        &mut self,
        slot: Slot,
        id: RunnerId,
        outcome: Result<(), NotCreated>,
        now: Timestamp,
        commands: &mut Vec<Command>,
    ) {
        let Some(entry) = self.entries.get_mut(&slot).filter(|entry| entry.runner.life.id() == Some(id)) else {
            return;
        };
        entry.create_again = None;
        match outcome {
            // Of a Pod that exists the cache will tell whose it is; the deadline is for the case that it does not.
            Ok(()) => self.refusals = 0,
            Err(NotCreated::Exists) => {}
            Err(NotCreated::Unknown) => entry.create_again = Some(now + CREATE_AGAIN),
            Err(not @ (NotCreated::Quota | NotCreated::Invalid)) => {
                self.step(slot, Event::NotCreated, now, commands);
                if not == NotCreated::Quota {
                    self.block(HoldReason::Quota, now + QUOTA);
                } else {
                    // Each try costs a registration: what is refused for good is tried less and less.
                    self.refused(HoldReason::ApiUnavailable, now);
                }
            }
        }
    }

    pub(super) fn runners_listed(
        &mut self,
        began: Timestamp,
        runners: &[ForgeRunner],
        now: Timestamp,
        commands: &mut Vec<Command>,
    ) {
        // One list serves all sets of a scope, whoever has asked.
        self.listed = self.listed.max(Some(began));
        let by_id: BTreeMap<RunnerId, &ForgeRunner> = runners.iter().map(|runner| (runner.id, runner)).collect();
        let mut news = Vec::new();
        for (slot, entry) in &self.entries {
            let Some(id) = entry.runner.life.id() else { continue };
            match by_id.get(&id) {
                Some(listed) if listed.online || listed.busy => news.push((*slot, Event::Online { busy: listed.busy })),
                Some(_) => {}
                None if entry.registered + LIST_SLACK < began => news.push((*slot, Event::Missing)),
                None => {}
            }
        }
        for (slot, event) in news {
            self.step(slot, event, now, commands);
        }
        let (ids, names): (BTreeSet<_>, BTreeSet<_>) =
            self.entries.values().map(|entry| (entry.runner.life.id(), entry.name.as_str())).unzip();
        let known = |runner: &ForgeRunner| ids.contains(&Some(runner.id)) || names.contains(runner.name.as_str());
        self.orphans.listed(&self.settings.set, runners, known, now);
        self.clean = self.orphans.is_clean().then_some(began);
    }
}
