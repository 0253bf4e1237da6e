//! The status of a set, from what the engine knows.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::types::{RunnerSet, RunnerSetStatus};
use super::validate::LABEL_SET;
use crate::engine::Engine;
use crate::life::{Fault, Life, Runner};
use crate::plan::{Hold, HoldReason};

/// The status to write; equal to `written`, the one that is there, when nothing has changed.
#[must_use]
pub fn status(set: &RunnerSet, written: Option<&RunnerSetStatus>, engine: &Engine, now: Timestamp) -> RunnerSetStatus {
    let counts = engine.counts();
    let previous = written.map_or(&[][..], |status| &status.conditions);
    let generation = set.metadata.generation;
    let condition = |kind: &str, told: Told| {
        let Told { status, reason, message } = told;
        let known = previous.iter().find(|known| known.type_ == kind && known.status == status);
        Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason,
            message,
            observed_generation: generation,
            last_transition_time: known.map_or(Time(now), |known| known.last_transition_time.clone()),
        }
    };
    let conditions = vec![
        condition("Scaled", held(engine, "AsWanted", |_| true)),
        condition("TemplateHealthy", template(engine)),
        condition("ForgeReachable", held(engine, "Answers", is_about_forge)),
    ];
    RunnerSetStatus {
        observed_generation: generation,
        desired: counts.desired,
        replicas: counts.replicas,
        pending: counts.pending,
        idle: counts.idle,
        busy: counts.busy,
        draining: counts.draining,
        queued: counts.queued,
        orphans: u32::try_from(engine.orphans().len()).unwrap_or(u32::MAX),
        selector: format!("{LABEL_SET}={}", set.metadata.name.as_deref().unwrap_or_default()),
        conditions,
    }
}

/// What a condition says.
struct Told {
    status: &'static str,
    reason: String,
    message: String,
}

fn held(engine: &Engine, good: &str, about: impl Fn(HoldReason) -> bool) -> Told {
    match engine.holds().iter().find(|hold| about(hold.reason)) {
        None => Told { status: "True", reason: good.to_owned(), message: String::new() },
        Some(hold) => {
            Told { status: "False", reason: format!("{:?}", hold.reason), message: message(hold, engine.fault()) }
        }
    }
}

/// Whether runners of the template start; while one is in trouble that may heal, nobody knows.
fn template(engine: &Engine) -> Told {
    let told = held(engine, "RunnersStart", is_about_template);
    let starting = |runner: &&Runner| matches!(runner.life, Life::Registered { .. }) && runner.available();
    let starting: Vec<&Runner> = engine.runners().filter(starting).collect();
    let troubled: Vec<&Fault> = starting.iter().filter_map(|runner| runner.fault()).collect();
    match troubled.first() {
        Some(fault) if told.status == "True" => Told {
            status: "Unknown",
            reason: fault.cause.as_str().to_owned(),
            message: format!("{} of {} runners on their way are in trouble: {fault}", troubled.len(), starting.len()),
        },
        Some(_) | None => told,
    }
}

/// The status of a set that can't be: what it had stays, and the condition says all that is wrong.
#[must_use]
pub fn invalid_status(
    set: &RunnerSet,
    counts: Option<RunnerSetStatus>,
    problems: &str,
    now: Timestamp,
) -> RunnerSetStatus {
    let known = set.status.iter().flat_map(|status| &status.conditions);
    let known = known.into_iter().find(|known| known.type_ == "Scaled" && known.reason == "Invalid");
    let mut status = counts.or_else(|| set.status.clone()).unwrap_or_default();
    let since = known.map_or(Time(now), |known| known.last_transition_time.clone());
    status.conditions.retain(|condition| condition.type_ != "Scaled");
    status.conditions.insert(
        0,
        Condition {
            type_: "Scaled".to_owned(),
            status: "False".to_owned(),
            reason: "Invalid".to_owned(),
            message: problems.to_owned(),
            observed_generation: set.metadata.generation,
            last_transition_time: since,
        },
    );
    status.observed_generation = set.metadata.generation;
    status
}

/// The status of a set that is none.
#[must_use]
pub fn unreadable_status(problem: &str, now: Timestamp) -> RunnerSetStatus {
    let condition = Condition {
        type_: "Scaled".to_owned(),
        status: "False".to_owned(),
        reason: "Invalid".to_owned(),
        message: problem.to_owned(),
        observed_generation: None,
        last_transition_time: Time(now),
    };
    RunnerSetStatus { conditions: vec![condition], ..RunnerSetStatus::default() }
}

fn is_about_template(reason: HoldReason) -> bool {
    matches!(reason, HoldReason::CrashLoop | HoldReason::Canary | HoldReason::KeepsOldTemplate)
}

fn is_about_forge(reason: HoldReason) -> bool {
    matches!(reason, HoldReason::ForgeUnavailable | HoldReason::RateLimited | HoldReason::Credential)
}

/// No time in it: a message that changes with each pass would be a write each time.
fn message(hold: &Hold, fault: Option<&Fault>) -> String {
    let text = match hold.reason {
        HoldReason::AtMax => "more runners are wanted than the maximum allows",
        HoldReason::SlotsTaken => "runners that go still hold their slots",
        HoldReason::DrainsFirst => "idle runners of the old template go before new ones come",
        HoldReason::StabilisingUp => "more runners are wanted, but not for long enough yet",
        HoldReason::StabilisingDown => "fewer runners are wanted, but not for long enough yet",
        HoldReason::SurplusBusy => "all runners that are too many have a job",
        HoldReason::CrashLoop => "runners of this template fail before their first job; the next try comes later",
        HoldReason::Canary => "runners of this template failed before their first job; one at a time tries",
        HoldReason::KeepsOldTemplate => "runners of the old template stay while those of the new one fail",
        HoldReason::ForgeUnavailable => "GitHub gives no registrations",
        HoldReason::RateLimited => "GitHub's rate limit is used up",
        HoldReason::Credential => "GitHub refuses the credential, or the secret is missing",
        HoldReason::Quota => "the namespace's quota is used up",
        HoldReason::ApiUnavailable => "the cluster refuses the Pods",
    };
    match fault.filter(|_| is_about_template(hold.reason)) {
        None => text.to_owned(),
        Some(fault) => format!("{text}; the last: {fault}. {}", fault.cause.remedy()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Command, Input, Seen};
    use crate::ids::RunnerId;
    use crate::life::{Outlook, PodFacts, Record};
    use crate::set::settings;
    use crate::set::validate::tests::set;
    use jiff::SignedDuration;
    use minke_core::judgement::Cause;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    #[test]
    fn a_condition_keeps_its_time_until_it_changes() {
        let mut set = set();
        set.spec.min = 3;
        set.spec.max = 2;
        set.spec.min = 2;
        let mut engine = Engine::new(settings(&set).unwrap());
        engine.handle([Input::Listed(vec![])], NOW);
        let first = status(&set, set.status.as_ref(), &engine, NOW);
        assert_eq!((first.desired, first.conditions[0].status.as_str()), (2, "True"));
        set.status = Some(first.clone());
        let later = NOW + SignedDuration::from_secs(9);
        assert_eq!(status(&set, set.status.as_ref(), &engine, later), first);
        engine.handle([job(1), job(2), job(3)], later);
        let held = status(&set, set.status.as_ref(), &engine, later);
        assert_eq!((held.conditions[0].status.as_str(), held.conditions[0].reason.as_str()), ("False", "AtMax"));
        assert_eq!(held.conditions[0].last_transition_time, Time(later));
        assert_eq!(held.conditions[1..], first.conditions[1..]);
        assert_eq!(held.selector, "runners.minke.dev/set=linux");
    }

    /// A template whose image is not there: in trouble, then held back, each time with the cause.
    #[test]
    fn a_condition_names_the_cause_that_the_judgement_names() {
        let mut set = set();
        (set.spec.min, set.spec.max) = (3, 3);
        let mut engine = Engine::new(settings(&set).unwrap());
        let mut inputs = vec![Input::Listed(vec![])];
        let fault = Fault { cause: Cause::ImageNotFound, evidence: "container runner: not found".to_owned() };
        let mut told = Vec::new();
        for (second, outlook) in [Outlook::Troubled(fault.clone()), Outlook::Hopeless(fault)].into_iter().enumerate() {
            let now = NOW + SignedDuration::from_secs(i64::try_from(second).unwrap());
            for command in engine.handle(inputs, now) {
                if let Command::Register { slot, name } = command {
                    let id = RunnerId(u64::from(slot.0));
                    engine.handle([Input::Registered { slot, name, outcome: Ok(id) }], now);
                }
            }
            let pod = |runner: &Runner| {
                let facts = PodFacts {
                    uid: runner.slot.to_string(),
                    scheduled: true,
                    running_since: None,
                    deleting_since: None,
                    ended: None,
                    node_lost: false,
                    outlook: outlook.clone(),
                };
                Input::Pod(Seen { slot: runner.slot, record: Ok(Record::of(runner).unwrap()), facts })
            };
            inputs = engine.runners().map(pod).collect();
            engine.handle(inputs.clone(), now);
            let condition = &status(&set, None, &engine, now).conditions[1];
            told.push((condition.status.clone(), condition.reason.clone(), condition.message.clone()));
        }
        let cause = "ImageNotFound (configuration): container runner: not found";
        let trouble = format!("3 of 3 runners on their way are in trouble: {cause}");
        assert_eq!(told[0], ("Unknown".to_owned(), "ImageNotFound".to_owned(), trouble));
        assert_eq!((told[1].0.as_str(), told[1].1.as_str()), ("False", "CrashLoop"));
        let remedy = Cause::ImageNotFound.remedy();
        assert!(told[1].2.ends_with(&format!("; the last: {cause}. {remedy}")), "{}", told[1].2);
    }

    fn job(id: u64) -> Input {
        let status = crate::demand::Status::Queued;
        Input::Job(crate::demand::JobEvent { id: crate::ids::JobId(id), source: "o/r".to_owned(), status })
    }
}
