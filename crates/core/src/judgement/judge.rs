//! From findings to a verdict, over time.
//!
//! ```text
//!  no finding ───────────────► Healthy, or Waiting with the stage it is at
//!  transient or waiting ─────► Waiting until the budget ends ──(it ends)──┐
//!  foretold ─────────────────► Doomed; taken back when the sign goes      ├─► settling: Doomed for 200 ms, a deeper
//!  permanent ─────────────────────────────────────────────────────────────┘   cause may take its place ─► Failed, sealed
//!  ended well, by itself ────► Succeeded, sealed
//! ```

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerState, Pod};

use super::find::{self, Member, Presence, kill_takes, members, taken_at};
use super::history::{Began, End, Settling, Trouble};
use super::{
    Budget, Budgets, Cause, Evidence, Failure, Finding, Healthy, History, Limit, Now, Policy, Role, Severity, Sight,
    Stage, Verdict,
};

/// How long the mark of a disruption that never comes stays (KEP-3329).
const DISRUPTION_STAYS: Duration = Duration::from_secs(120);

/// A verdict, and what to remember for the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// What becomes of the Pod.
    pub verdict: Verdict,
    /// For the next judgement of the same uid.
    pub history: History,
}

/// Judges what is seen of a Pod. Total: it never panics, whatever the objects hold.
#[must_use]
pub fn judge(sight: &Sight<'_>, policy: &Policy, mut history: History, now: Now) -> Judged {
    let (mut found, notes) = find::find(sight, policy, &history);
    let verdict = match history.end.take() {
        Some(End::Succeeded) => sealed(&mut history, End::Succeeded),
        Some(End::Failed(mut failure)) => {
            let known =
                Finding { cause: failure.cause, severity: Severity::Permanent, evidence: failure.evidence.clone() };
            found.retain(|f| matches!(f.severity, Severity::Permanent | Severity::Foretold) && !same(f, &known));
            merge(&mut failure.later, found);
            sealed(&mut history, End::Failed(failure))
        }
        None if completed(sight, policy) => sealed(&mut history, End::Succeeded),
        None => {
            remember_pulls(&mut history, &found);
            open(sight, policy, &mut history, now, found, notes)
        }
    };
    Judged { verdict, history }
}

fn sealed(history: &mut History, end: End) -> Verdict {
    history.settling = None;
    history.troubles.clear();
    let verdict = match &end {
        End::Succeeded => Verdict::Succeeded,
        End::Failed(failure) => Verdict::Failed(failure.as_ref().clone()),
    };
    history.end = Some(end);
    verdict
}

fn same(a: &Finding, b: &Finding) -> bool {
    a.cause == b.cause && a.evidence.container == b.evidence.container
}

fn merge(into: &mut Vec<Finding>, found: Vec<Finding>) {
    for finding in found {
        if !into.iter().any(|known| same(known, &finding)) {
            into.push(finding);
        }
    }
}

/// The Pod ended well, and not because it was taken away: whoever handles SIGTERM and exits with 0 has not finished.
fn completed(sight: &Sight<'_>, policy: &Policy) -> bool {
    let Some(status) = &sight.pod.status else { return false };
    let taken = taken_at(sight.pod);
    let by_itself = |member: &Member<'_>| {
        let ended = member.status.and_then(|s| s.state.as_ref()).and_then(|s| s.terminated.as_ref());
        let before = |limit: Timestamp| ended.and_then(|t| t.finished_at.as_ref()).is_some_and(|t| t.0 < limit);
        taken.is_none_or(before)
    };
    let mut main = members(sight.pod, policy).filter(|m| m.role == Role::Main);
    match status.phase.as_deref() {
        Some("Succeeded") => main.all(|m| by_itself(&m)),
        // Only helpers failed: not the Pod, for whoever declared them.
        Some("Failed") if !policy.services.is_empty() && status.reason.is_none() => {
            let mut any = false;
            let well = main.all(|m| {
                any = true;
                let ended = m.status.and_then(|s| s.state.as_ref()).and_then(|s| s.terminated.as_ref());
                ended.is_some_and(|t| t.exit_code == 0) && by_itself(&m)
            });
            let init_failed = members(sight.pod, policy).filter(|m| m.role == Role::Init).any(|m| {
                let ended = m.status.and_then(|s| s.state.as_ref()).and_then(|s| s.terminated.as_ref());
                ended.is_some_and(|t| t.exit_code != 0)
            });
            any && well && !init_failed
        }
        _ => false,
    }
}

fn remember_pulls(history: &mut History, found: &[Finding]) {
    for finding in found {
        let named = matches!(finding.evidence.reason.as_str(), "ErrImagePull" | "RegistryUnavailable");
        if let Some(container) = finding.evidence.container.clone().filter(|_| named && finding.cause.is_pull()) {
            history.pulls.insert(container, (finding.cause, finding.evidence.message.clone()));
        }
    }
}

/// What a finding means now.
enum Fate {
    Terminal,
    Pending(Option<Duration>),
    Foretold(Option<Duration>),
}

fn open(
    sight: &Sight<'_>,
    policy: &Policy,
    history: &mut History,
    now: Now,
    found: Vec<Finding>,
    notes: Vec<Finding>,
) -> Verdict {
    let (stage, quiet) = progress(sight, policy);
    forget(sight, policy, history, found.iter().chain(&quiet));
    let mut terminal = Vec::new();
    let mut pending = Vec::new();
    let mut foretold = Vec::new();
    for finding in found {
        match fate(&finding, sight, policy, history, now) {
            Fate::Terminal => terminal.push(finding),
            Fate::Pending(until) => pending.push((finding, until)),
            Fate::Foretold(until) => foretold.push((finding, until)),
        }
    }
    let mut patience = None;
    if let Some(finding) = quiet {
        // Silence is no trouble: who grants no time to troubles still lets a scheduler speak.
        let schedule = policy.budgets.of(Budget::Schedule);
        let silent = schedule == Limit::After(Duration::ZERO);
        let schedule = if silent { Budget::Schedule.default_limit() } else { schedule };
        let lenient = Policy { budgets: policy.budgets.clone().with(Budget::Schedule, schedule), ..Policy::default() };
        match fate(&finding, sight, &lenient, history, now) {
            Fate::Terminal if terminal.is_empty() && pending.is_empty() => terminal.push(finding),
            Fate::Pending(until) => patience = until,
            Fate::Terminal | Fate::Foretold(_) => {}
        }
    }
    if !terminal.is_empty() {
        // What a mark of disruption foretold has come.
        terminal.extend(foretold.into_iter().map(|(f, _)| f).filter(|f| f.cause != Cause::NodeGoing));
        return settle(sight, policy, history, now, terminal);
    }
    history.settling = None;
    let first = |list: Vec<(Finding, Option<Duration>)>| {
        list.into_iter().min_by_key(|(finding, until)| (until.unwrap_or(Duration::MAX), finding.cause.rank()))
    };
    if let Some((why, until)) = first(foretold) {
        return Verdict::Doomed { why, until };
    }
    if let Some((why, until)) = first(pending) {
        let stage = stage.unwrap_or(Stage::Creating);
        return Verdict::Waiting { stage, why: Some(why), until };
    }
    match stage {
        Some(stage) => Verdict::Waiting { stage, why: None, until: patience },
        None => Verdict::Healthy(Healthy { ready: true, notes }),
    }
}

/// Which of two findings is the root: the smaller.
fn depth(pod: &Pod, finding: &Finding) -> (bool, u8) {
    // What a container did before the Pod was taken away is its own doing. One that was killed shortly before was killed for
    // that: the mark is written with what came of it, and times are whole seconds.
    let own = finding.evidence.container.is_some();
    let killed = matches!(finding.cause, Cause::ContainerFailed | Cause::InitFailed)
        && matches!(finding.evidence.signal, Some(9 | 15));
    let taken =
        taken_at(pod).map(|taken| if killed { taken.checked_sub(kill_takes(pod)).unwrap_or(taken) } else { taken });
    let earlier = own && taken.zip(finding.evidence.at).is_some_and(|(taken, at)| at < taken);
    (!earlier, finding.cause.rank())
}

/// What is wrong with what is seen now, the root first, whatever patience it still has: for those who decide by rules of
/// their own and want it named as everybody else does. Empty: nothing is wrong.
#[must_use]
pub fn diagnose(sight: &Sight<'_>, policy: &Policy) -> Vec<Finding> {
    if completed(sight, policy) {
        return Vec::new();
    }
    let mut all = Vec::new();
    merge(&mut all, find::find(sight, policy, &History::default()).0);
    let hope = |finding: &Finding| match finding.severity {
        Severity::Permanent => 0,
        Severity::Transient(_) => 1,
        Severity::Waiting(_) => 2,
        Severity::Foretold => 3,
    };
    all.sort_by_key(|finding| (hope(finding), depth(sight.pod, finding)));
    all
}

fn settle(sight: &Sight<'_>, policy: &Policy, history: &mut History, now: Now, terminal: Vec<Finding>) -> Verdict {
    let (since, mut all) = match history.settling.take() {
        None => (now.moment, Vec::new()),
        Some(before) => {
            let mut all = vec![before.best];
            all.extend(before.others);
            (before.since.min(now.moment), all)
        }
    };
    merge(&mut all, terminal);
    let at = all
        .iter()
        .enumerate()
        .min_by_key(|(place, finding)| (depth(sight.pod, finding), *place))
        .map_or(0, |(at, _)| at);
    let best = all.remove(at);
    let settle = settles_in(sight, policy, &best);
    if now.moment.saturating_sub(since) >= settle {
        let failure = Failure { cause: best.cause, evidence: best.evidence, later: all, since };
        return sealed(history, End::Failed(Box::new(failure)));
    }
    history.settling = Some(Settling { since, best: best.clone(), others: all });
    Verdict::Doomed { why: best, until: Some(since.saturating_add(settle)) }
}

/// How long a finding waits for a deeper one. Whoever has killed a container that is still wanted may be one of its probes.
fn settles_in(sight: &Sight<'_>, policy: &Policy, finding: &Finding) -> Duration {
    let killed = finding.cause == Cause::ContainerFailed && matches!(finding.evidence.signal, Some(9 | 15));
    let stays = sight.presence == Presence::Here && taken_at(sight.pod).is_none();
    let probed = |member: Member<'_>| {
        let own = finding.evidence.container.as_ref() == Some(&member.spec.name);
        own && (member.spec.liveness_probe.is_some() || member.spec.startup_probe.is_some())
    };
    let may_be_explained = killed && stays && members(sight.pod, policy).any(probed);
    let Budgets { settle, explain, .. } = policy.budgets;
    if may_be_explained { settle.max(explain) } else { settle }
}

fn trouble(budget: Budget, evidence: &Evidence) -> Trouble {
    Trouble { budget, container: evidence.container.clone() }
}

fn fate(finding: &Finding, sight: &Sight<'_>, policy: &Policy, history: &mut History, now: Now) -> Fate {
    let age = finding
        .evidence
        .at
        .map_or(Duration::ZERO, |at| Duration::try_from(now.wall.duration_since(at)).unwrap_or_default());
    match finding.severity {
        Severity::Permanent => Fate::Terminal,
        Severity::Foretold if finding.cause == Cause::NodeGoing => Fate::Foretold(None),
        Severity::Foretold => {
            let left = DISRUPTION_STAYS.saturating_sub(age);
            Fate::Foretold((!left.is_zero()).then(|| now.moment.saturating_add(left)))
        }
        Severity::Transient(budget) | Severity::Waiting(budget) => {
            // Only a scheduler's condition dates the trouble itself; other times are those of the newest failure.
            let credit = if budget == Budget::Schedule { age } else { Duration::ZERO };
            let began =
                *history.troubles.entry(trouble(budget, &finding.evidence)).or_insert(Began { at: now.moment, credit });
            match policy.budgets.of(budget) {
                Limit::Never => Fate::Pending(None),
                Limit::After(limit) => {
                    let until = began.at.saturating_add(limit.saturating_sub(began.credit));
                    // Who grants no time need not look again.
                    let lasted = sight.as_of.is_none_or(|known| known >= until) || limit <= began.credit;
                    if now.moment >= until && lasted { Fate::Terminal } else { Fate::Pending(Some(until)) }
                }
            }
        }
    }
}

/// A budget runs on while its trouble is out of sight for a moment, until there is progress: pulls alternate between
/// failing and backing off, and a crash loop runs in between.
fn forget<'a>(sight: &Sight<'_>, policy: &Policy, history: &mut History, found: impl Iterator<Item = &'a Finding>) {
    let present: Vec<Trouble> = found
        .filter_map(|finding| match finding.severity {
            Severity::Transient(budget) | Severity::Waiting(budget) => Some(trouble(budget, &finding.evidence)),
            Severity::Permanent | Severity::Foretold => None,
        })
        .collect();
    let begun: Vec<&str> = members(sight.pod, policy).filter(begun).map(|m| m.spec.name.as_str()).collect();
    let scheduled = has_node(sight);
    history.troubles.retain(|trouble, _| {
        let progress = match (trouble.budget, &trouble.container) {
            (Budget::Crash, _) => false,
            (Budget::Node | Budget::Start | Budget::Ready, _) => true,
            (Budget::Schedule | Budget::ScaleUp | Budget::Gated, _) => scheduled,
            (_, Some(container)) => begun.contains(&container.as_str()),
            (_, None) => !begun.is_empty(),
        };
        present.contains(trouble) || !progress
    });
    history.pulls.retain(|container, _| !begun.contains(&container.as_str()));
}

fn begun(member: &Member<'_>) -> bool {
    let state = member.status.and_then(|s| s.state.as_ref());
    state.is_some_and(|s| s.running.is_some() || s.terminated.is_some())
}

fn has_node(sight: &Sight<'_>) -> bool {
    let named = sight.pod.spec.as_ref().and_then(|s| s.node_name.as_deref()).is_some_and(|name| !name.is_empty());
    let conditions = sight.pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
    let mut conditions = conditions.filter(|c| c.type_ == "PodScheduled");
    named || conditions.any(|c| c.status == "True") || sight.pod.status.as_ref().is_some_and(|s| s.start_time.is_some())
}

/// Where a Pod is on its way, with the finding that its patience has an end; `None`: it is there.
fn progress(sight: &Sight<'_>, policy: &Policy) -> (Option<Stage>, Option<Finding>) {
    let stage = stage(sight, policy);
    let quiet = |cause, budget, message: &str| {
        let evidence = Evidence { message: message.to_owned(), ..Evidence::default() };
        Some(Finding { cause, severity: Severity::Waiting(budget), evidence })
    };
    let finding = match stage {
        None | Some(Stage::Restarting) => None,
        Some(_) if sight.presence != Presence::Here => None,
        Some(Stage::Scheduling) => {
            quiet(Cause::Unschedulable, Budget::Schedule, "no scheduler has said anything about the Pod")
        }
        Some(Stage::Creating | Stage::Initializing) => {
            quiet(Cause::StartTimeout, Budget::Start, "containers are still being created")
        }
        Some(Stage::Unready) => quiet(Cause::NeverReady, Budget::Ready, "containers run and are not ready"),
    };
    (stage, finding)
}

fn stage(sight: &Sight<'_>, policy: &Policy) -> Option<Stage> {
    let mut waiting = false;
    let mut restarting = false;
    let mut initializing = false;
    let mut done = false;
    let mut unready = false;
    for member in members(sight.pod, policy) {
        let state = member.status.and_then(|s| s.state.as_ref());
        let init = member.role == Role::Init;
        match state {
            Some(ContainerState { running: Some(_), .. }) if init => initializing = true,
            Some(ContainerState { running: Some(_), .. }) => unready |= !member.status.is_some_and(|s| s.ready),
            Some(ContainerState { terminated: Some(end), .. })
                if end.exit_code == 0 && (init || member.role == Role::Main) =>
            {
                done |= !init;
                restarting |= !init && crate::status::may_restart(sight.pod, member.spec, 0);
            }
            Some(ContainerState { terminated: Some(_), .. }) => restarting |= member.role != Role::Service,
            Some(_) | None if init => initializing = true,
            Some(_) | None => {
                let before = member.status.and_then(|s| s.last_state.as_ref()).is_some_and(|s| s.terminated.is_some());
                restarting |= before;
                waiting |= !before;
            }
        }
    }
    let ran = members(sight.pod, policy).any(|m| begun(&m));
    if !has_node(sight) && !ran {
        Some(Stage::Scheduling)
    } else if restarting {
        Some(Stage::Restarting)
    } else if initializing && ran {
        Some(Stage::Initializing)
    } else if waiting || initializing {
        Some(Stage::Creating)
    } else {
        let conditions = sight.pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
        let says = conditions.filter(|c| c.type_ == "Ready").any(|c| c.status == "True");
        (unready || !(says || done)).then_some(Stage::Unready)
    }
}
