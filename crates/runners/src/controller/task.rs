//! One set's task: hears, asks the book, begins what it wants.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use minke_core::clock::Clock;
use minke_core::judgement::Cause;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::book::Book;
use super::messages::{Effect, Heard};
use super::perform::Performer;
use crate::demand::SetKey;

/// What comes within this of the first is decided on together.
const LINGER: Duration = Duration::from_millis(40);
/// No sleep is longer: the wall clock may jump.
const LONGEST: Duration = Duration::from_secs(60);

pub(super) struct SetTask {
    pub(super) book: Book,
    pub(super) performer: Performer,
    pub(super) heard: mpsc::UnboundedReceiver<Heard>,
    pub(super) clock: Arc<dyn Clock>,
    /// Who lists runners for all sets of a scope.
    pub(super) lists: mpsc::UnboundedSender<SetKey>,
}

impl SetTask {
    /// Until it is dropped. What is in flight then is lost; the next who keeps the set finds out.
    pub(super) async fn run(mut self) {
        let mut tasks = JoinSet::new();
        let mut spec = Arc::new(self.book.set().spec.clone());
        let mut shown = BTreeMap::new();
        loop {
            let wake = self.book.wake(self.clock.now());
            let mut heard = Vec::new();
            tokio::select! {
                first = self.heard.recv() => match first {
                    Some(first) => heard.push(first),
                    None => return,
                },
                () = sleep_until(instant(wake, self.clock.now())) => {}
                Some(_) = tasks.join_next() => continue,
            }
            // All that comes at about the same time is one pass: a burst is decided on at once, and its Pods share a Secret.
            sleep(LINGER).await;
            while let Ok(more) = self.heard.try_recv() {
                heard.push(more);
            }
            let began = Instant::now();
            let effects = self.book.handle(heard, self.clock.now());
            let took = began.elapsed().as_secs_f64();
            let engine = self.book.engine();
            let (orphans, claims) = (engine.orphans().len(), self.book.claims());
            self.performer.metrics.pass(&self.performer.key, engine.counts(), engine.holds(), orphans, claims, took);
            shown = self.show_troubles(&shown);
            if self.book.set().spec != *spec {
                spec = Arc::new(self.book.set().spec.clone());
            }
            for effect in effects {
                if effect == Effect::ListRunners {
                    // Nobody lists when this replica leads no more.
                    let _ = self.lists.send(self.performer.key.clone());
                } else {
                    self.performer.begin(effect, &spec, &mut tasks);
                }
            }
        }
    }

    /// What was shown and is no more is shown as none.
    fn show_troubles(&self, shown: &BTreeMap<Cause, usize>) -> BTreeMap<Cause, usize> {
        let mut troubles = BTreeMap::new();
        for runner in self.book.engine().runners().filter(|runner| runner.available()) {
            if let Some(fault) = runner.fault() {
                *troubles.entry(fault.cause).or_default() += 1;
            }
        }
        for cause in shown.keys().chain(troubles.keys()) {
            let runners = troubles.get(cause).copied().unwrap_or(0);
            if shown.get(cause) != Some(&runners) {
                self.performer.metrics.troubled(&self.performer.key, *cause, runners);
            }
        }
        troubles
    }
}

/// The moment of a time by the wall clock.
fn instant(wake: Option<Timestamp>, now: Timestamp) -> Instant {
    let wait = wake.map_or(LONGEST, |wake| Duration::try_from(wake.duration_since(now)).unwrap_or_default());
    Instant::now() + wait.min(LONGEST)
}
