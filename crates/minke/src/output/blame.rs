//! What is wrong with a Pod, as all commands say it to programs.

use minke_core::judgement::{Category, Cause, Evidence, Finding};
use serde::Serialize;

/// A cause with what was seen and what to do. `docs/watch.md` has the fields; they may be added to, never renamed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Blame {
    /// The stable identifier.
    pub(crate) cause: Cause,
    /// Whose matter it is.
    pub(crate) category: Category,
    /// What was seen, on one line.
    pub(crate) message: String,
    /// What to do.
    pub(crate) remedy: &'static str,
    /// What was seen.
    pub(crate) evidence: Evidence,
}

impl Blame {
    /// Of a cause and what was seen of it.
    pub(crate) fn new(cause: Cause, evidence: &Evidence) -> Self {
        Self {
            cause,
            category: cause.category(),
            message: evidence.of(cause),
            remedy: cause.remedy(),
            evidence: evidence.clone(),
        }
    }

    /// Of a finding.
    pub(crate) fn of(finding: &Finding) -> Self {
        Self::new(finding.cause, &finding.evidence)
    }
}
