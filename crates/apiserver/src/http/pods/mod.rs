//! What is asked of a Pod's node: its output, commands, attached programs, forwarded ports.
//!
//! ```text
//! request ─► options, container (pure) ─► the Pod's node and where it listens (pure) ─► dial ─► proxy: output as it comes,
//!                                                                                          upgraded bytes both ways
//! ```
//!
//! Streams pass through as they are: the node speaks whatever clients speak. Every stream is opened by whoever may *create*
//! it, also with GET.

mod dial;
mod options;
mod place;
mod proxy;

use serde_json::Value;

pub use dial::NodeClient;
pub(super) use proxy::{Streams, answer, document};

use crate::engine::{Engine, Place as ObjectPlace};
use crate::error::ApiError;
use place::{Place, place};

/// A subresource of a Pod that its node serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Log,
    Exec,
    Attach,
    PortForward,
}

impl Part {
    pub(super) fn of(part: &str) -> Option<Self> {
        match part {
            "log" => Some(Self::Log),
            "exec" => Some(Self::Exec),
            "attach" => Some(Self::Attach),
            "portforward" => Some(Self::PortForward),
            _ => None,
        }
    }

    /// Reading must not be enough to run commands, whatever the method.
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::Log => "get",
            Self::Exec | Self::Attach | Self::PortForward => "create",
        }
    }

    fn kubelet(self) -> &'static str {
        match self {
            Self::Log => "containerLogs",
            Self::Exec => "exec",
            Self::Attach => "attach",
            Self::PortForward => "portForward",
        }
    }
}

/// Where a Pod's node listens; `None`: it has no node yet.
fn node_of(engine: &Engine, pod: &Value) -> Result<Option<Place>, ApiError> {
    let name = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    if name.is_empty() {
        return Ok(None);
    }
    let kind = crate::kinds::find("", "v1", "nodes").ok_or_else(ApiError::no_resource)?;
    let node = engine.get(ObjectPlace { kind, namespace: "", name }, None)?;
    place(&node.parse().map_err(ApiError::internal)?).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_created() {
        for (name, verb) in [("log", "get"), ("exec", "create"), ("attach", "create"), ("portforward", "create")] {
            assert_eq!(Part::of(name).map(Part::verb), Some(verb), "{name}");
        }
        assert_eq!(Part::of("status"), None);
    }
}
