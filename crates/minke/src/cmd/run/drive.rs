//! Performs a session: carries its effects to the agent and the screen, and brings back what happens.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use minke_core::identity::PodUid;
use minke_core::objects::ObjectSet;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use super::session::{Effect, Input, Session};
use super::view::View;
use crate::client::{Client, Update, Watch};
use crate::exit::{Exit, Failure};
use crate::protocol::Request;

/// Performs the session until it ends.
pub(super) async fn drive(
    client: &Client,
    session: Session,
    view: View,
    objects: Arc<ObjectSet>,
    deadline: Option<Instant>,
) -> Result<(Session, Exit), Failure> {
    // Before anything is started: an interrupt from here on is answered in an orderly way.
    let mut signals = Signals::new()?;
    let pods = session.pods().iter().map(|t| (t.key.uid.clone(), t.pod.clone())).collect::<HashMap<_, _>>();
    let uids = session.pods().iter().map(|t| t.key.uid.clone()).collect();
    let watch = tokio::select! {
        watch = Watch::begin(client, Some(uids)) => watch?,
        signal = signals.next() => return Ok((session, Exit::Interrupted(signal))),
    };
    let mut driver = Driver { session, view, watch, objects, pods, applying: VecDeque::new() };
    let exit = driver.run(&mut signals, deadline).await?;
    Ok((driver.session, exit))
}

struct Driver {
    session: Session,
    view: View,
    watch: Watch,
    objects: Arc<ObjectSet>,
    pods: HashMap<PodUid, Arc<Pod>>,
    /// Offers that the agent has not answered, oldest first.
    applying: VecDeque<Vec<PodUid>>,
}

impl Driver {
    async fn run(&mut self, signals: &mut Signals, deadline: Option<Instant>) -> Result<Exit, Failure> {
        // The first update is the list of what an earlier run may have left.
        let first = self.watch.next().await?;
        let mut effects = VecDeque::from(self.take(first)?);
        effects.extend(self.session.begin());
        loop {
            while let Some(effect) = effects.pop_front() {
                if let Some(exit) = self.perform(effect).await? {
                    self.view.end(&self.session);
                    return Ok(exit);
                }
            }
            let over = async {
                match deadline {
                    Some(deadline) if self.session.is_waiting() => tokio::time::sleep_until(deadline).await,
                    Some(_) | None => std::future::pending().await,
                }
            };
            tokio::select! {
                update = self.watch.next() => effects.extend(self.take(update?)?),
                signal = signals.next() => effects.extend(self.session.step(Input::Interrupt(signal))),
                () = over => effects.extend(self.session.step(Input::TimedOut)),
                () = self.view.logs_changed() => self.view.show_logs(),
            }
        }
    }

    fn take(&mut self, update: Update) -> Result<Vec<Effect>, Failure> {
        let effects = match update {
            Update::All(reports) => {
                // Answers that have not come by now never will.
                self.applying.clear();
                let uids: Vec<_> = reports.iter().filter_map(|r| r.pod.metadata.uid.clone()).collect();
                let effects = self.session.step(Input::All(reports));
                for uid in uids.into_iter().filter_map(|uid| PodUid::new(uid).ok()) {
                    self.view.changed(&self.session, &uid);
                }
                effects
            }
            Update::Changed(report) => {
                let uid = report.pod.metadata.uid.clone().and_then(|uid| PodUid::new(uid).ok());
                let effects = self.session.step(Input::Changed(*report));
                if let Some(uid) = uid {
                    self.view.changed(&self.session, &uid);
                }
                effects
            }
            Update::Removed(uid) => self.session.step(Input::Removed(uid)),
            Update::Progress(progress) => {
                self.view.progress(&self.session, &progress);
                self.session.step(Input::Progress(progress))
            }
            Update::Admissions(admissions) => {
                let uids = self.applying.pop_front().unwrap_or_default();
                self.session.step(Input::Admitted(uids.into_iter().zip(admissions).collect()))
            }
            Update::Refused(message) => return Err(Failure::system(message)),
        };
        Ok(effects)
    }

    async fn perform(&mut self, effect: Effect) -> Result<Option<Exit>, Failure> {
        match effect {
            Effect::Apply(uids) => {
                let pods = uids.iter().filter_map(|uid| self.pods.get(uid).cloned()).collect();
                self.watch.send(&Request::Apply { pods, objects: self.objects.clone() }).await?;
                self.applying.push_back(uids);
            }
            Effect::Stop { uids, grace } => {
                let grace_ms = grace.map(|g| u64::try_from(g.as_millis()).unwrap_or(u64::MAX));
                for uid in uids {
                    self.watch.send(&Request::Stop { uid, grace_ms, remove: false }).await?;
                }
            }
            Effect::Say(text) => self.view.say(&text),
            Effect::End(exit) => return Ok(Some(exit)),
        }
        Ok(None)
    }
}

/// The signals that ask a command to end.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> Result<Self, Failure> {
        let watch = |kind| signal(kind).map_err(|e| Failure::system(format!("can't watch for signals: {e}")));
        Ok(Self { interrupt: watch(SignalKind::interrupt())?, terminate: watch(SignalKind::terminate())? })
    }

    /// The next one's number. Cancel-safe.
    async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 2,
            _ = self.terminate.recv() => 15,
        }
    }
}
