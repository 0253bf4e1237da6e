//! What the statuses of containers tell.

use super::{Member, Sight, ended, members, waiting};
use crate::judgement::{Cause, Finding, History, Policy, Role, Severity};
use crate::status::may_restart;

pub(super) fn find(
    sight: &Sight<'_>,
    policy: &Policy,
    history: &History,
    found: &mut Vec<Finding>,
    notes: &mut Vec<Finding>,
) {
    for member in members(sight.pod, policy) {
        let Some(status) = member.status else { continue };
        let Some(state) = &status.state else { continue };
        if let Some(waits) = &state.waiting {
            // A container that waits and is ready is one whose status lags; the old watcher skipped it as well.
            if !status.ready {
                found.extend(waiting::find(sight, &member, waits, history));
            }
        } else if let Some(end) = &state.terminated {
            let finding = ended::find(sight, &member, end);
            match (finding, member.role) {
                (None, _) => {}
                (Some(finding), Role::Main | Role::Init) => found.push(finding),
                (Some(finding), Role::Sidecar | Role::Service) => notes.push(finding),
            }
        }
        found.extend(restarted(&member));
    }
}

/// A container that was started again although nothing in its spec allows that: whatever it did was done twice.
fn restarted(member: &Member<'_>) -> Option<Finding> {
    let status = member.status?;
    let last = status.last_state.as_ref()?.terminated.as_ref()?;
    let allowed = may_restart(member.pod, member.spec, last.exit_code);
    let runs = status.state.as_ref()?.running.is_some();
    if status.restart_count == 0 || allowed || !runs {
        return None;
    }
    let mut evidence = member.evidence();
    ended::fill(&mut evidence, last);
    Some(Finding { cause: Cause::RestartedDespiteNever, severity: Severity::Permanent, evidence })
}
