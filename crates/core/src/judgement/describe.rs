//! Findings as people read them.

use std::fmt;

use super::{Evidence, Failure, Finding, Role, Stage};

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
        if !self.reason.is_empty() {
            parts.push(self.reason.clone());
        }
        if !self.message.is_empty() {
            parts.push(self.message.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        f.write_str(&parts.join(": "))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.cause, self.evidence)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.cause, self.evidence)
    }
}
