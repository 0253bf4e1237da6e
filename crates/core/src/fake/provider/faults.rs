//! What goes wrong with a provider.

use std::time::Duration;

use crate::identity::PodKey;
use crate::provider::ProviderError;

/// The calls of the Provider port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProviderOp {
    /// `create`.
    Create,
    /// `update`.
    Update,
    /// `delete`.
    Delete,
    /// `get`.
    Get,
    /// `status`.
    Status,
    /// `list`.
    List,
}

impl ProviderOp {
    /// As error messages name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Get => "get",
            Self::Status => "status",
            Self::List => "list",
        }
    }
}

/// A scripted error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderFaultError {
    /// [`ProviderError::Failed`].
    Failed,
    /// [`ProviderError::Unavailable`].
    Unavailable,
    /// [`ProviderError::NotFound`].
    NotFound,
    /// [`ProviderError::Invalid`].
    Invalid,
    /// [`ProviderError::Rejected`], with this reason.
    Rejected(String),
}

impl ProviderFaultError {
    pub(super) fn of(&self, op: ProviderOp) -> ProviderError {
        let operation = op.name();
        match self {
            Self::Failed => ProviderError::failed(operation, "scripted failure"),
            Self::Unavailable => ProviderError::Unavailable { operation, source: "scripted outage".into() },
            Self::NotFound => ProviderError::no_pod(operation, "scripted"),
            Self::Invalid => ProviderError::Invalid { operation, message: "scripted mistake".to_owned() },
            Self::Rejected(reason) => {
                ProviderError::Rejected { reason: reason.clone(), message: "scripted rejection".to_owned() }
            }
        }
    }
}

/// What goes wrong with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderFaultAction {
    /// It fails and has no effect.
    Fail(ProviderFaultError),
    /// It has its effect, and fails.
    FailAfter(ProviderFaultError),
    /// It takes this long first.
    Delay(Duration),
    /// It never returns.
    Hang,
}

/// Calls that go wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderFault {
    /// Of this kind; `None`: all.
    pub op: Option<ProviderOp>,
    /// About this Pod; `None`: all.
    pub pod: Option<PodKey>,
    /// So many; `None`: all from now on.
    pub times: Option<u32>,
    /// What goes wrong.
    pub action: ProviderFaultAction,
}

impl ProviderFault {
    /// Every call of this kind.
    #[must_use]
    pub fn on(op: ProviderOp, action: ProviderFaultAction) -> Self {
        Self { op: Some(op), pod: None, times: None, action }
    }

    /// Every call of this kind fails without an effect.
    #[must_use]
    pub fn fail(op: ProviderOp) -> Self {
        Self::on(op, ProviderFaultAction::Fail(ProviderFaultError::Failed))
    }

    /// Only about this Pod.
    #[must_use]
    pub fn of_pod(self, pod: &PodKey) -> Self {
        Self { pod: Some(pod.clone()), ..self }
    }

    /// Only the first so many.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self { times: Some(times), ..self }
    }

    /// Whether this call is hit; counts those that are.
    pub(super) fn hits(&mut self, op: ProviderOp, pod: Option<&PodKey>) -> bool {
        let matches =
            self.op.is_none_or(|wanted| wanted == op) && self.pod.as_ref().is_none_or(|wanted| pod == Some(wanted));
        match &mut self.times {
            None => matches,
            Some(0) => false,
            Some(left) if matches => {
                *left -= 1;
                true
            }
            Some(_) => false,
        }
    }
}
