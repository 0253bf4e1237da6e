//! Findings as people read them.

use std::fmt;

use super::{Cause, Evidence, Failure, Finding, Role, Stage};

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Init => "init container",
            Self::Sidecar => "sidecar",
            Self::Main => "container",
            Self::Service => "service",
        })
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scheduling => "waits for a node",
            Self::Creating => "containers are being created",
            Self::Initializing => "init containers run",
            Self::Unready => "runs, not ready",
            Self::Restarting => "restarts",
        })
    }
}

impl fmt::Display for Evidence {
    /// What happened, to whom, on one line: `container app (image x): exit code 1 (Error): no such table`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told(""))
    }
}

impl Evidence {
    /// The same for who has named the cause already: a reason that is its very word is left out.
    #[must_use]
    pub fn of(&self, cause: Cause) -> String {
        self.told(cause.as_str())
    }

    fn told(&self, said: &str) -> String {
        let mut parts = Vec::new();
        if let Some(container) = &self.container {
            let role = self.role.unwrap_or(Role::Main);
            let image = self.image.as_ref().map(|image| format!(" (image {image})")).unwrap_or_default();
            parts.push(format!("{role} {container}{image}"));
        }
        if let Some(code) = self.exit_code {
            let signal = self.signal.map(|signal| format!(", signal {signal}")).unwrap_or_default();
            let limit = self.memory_limit.as_ref().map(|limit| format!(", memory limit {limit}")).unwrap_or_default();
            parts.push(format!("exit code {code}{signal}{limit}"));
        }
        if !self.reason.is_empty() && self.reason != said {
            parts.push(self.reason.clone());
        }
        if !self.message.is_empty() {
            parts.push(self.message.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        parts.join(": ")
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.cause, self.evidence.of(self.cause))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.cause, self.evidence.of(self.cause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judgement::Severity;

    #[test]
    fn a_word_is_said_once() {
        let evidence = |reason: &str| Evidence {
            reason: reason.to_owned(),
            message: "0/3 nodes".to_owned(),
            ..Evidence::default()
        };
        let told = |reason: &str| {
            let severity = Severity::Permanent;
            Finding { cause: Cause::Unschedulable, severity, evidence: evidence(reason) }.to_string()
        };
        assert_eq!(told("Unschedulable"), "Unschedulable: 0/3 nodes");
        assert_eq!(told("SchedulerError"), "Unschedulable: SchedulerError: 0/3 nodes");
        assert_eq!(evidence("Unschedulable").to_string(), "Unschedulable: 0/3 nodes", "alone it says everything");
    }
}
