//! Why a call on a provider failed, in the few ways that a caller tells apart.

use std::error::Error as StdError;
use std::time::Duration;

/// A failed call. Messages become events and `status.message` of the Pod: no secrets, lowercase fragments.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// The Pod or container is not held.
    #[error("{operation}: no {what} {name}")]
    NotFound {
        /// The call.
        operation: &'static str,
        /// "pod" or "container".
        what: &'static str,
        /// Which.
        name: String,
    },
    /// The request can't be carried out as it is. Permanent until the Pod or what it refers to changes. Nothing took effect.
    #[error("{operation}: {message}")]
    Invalid {
        /// The call.
        operation: &'static str,
        /// What is wrong and what to do about it.
        message: String,
    },
    /// The Pod will never run here, in upstream's words (`OutOfcpu`, `NodeAffinity`, …): it fails with this reason. Final.
    /// Nothing took effect.
    #[error("{message}")]
    Rejected {
        /// Becomes `status.reason`.
        reason: String,
        /// Becomes `status.message`.
        message: String,
    },
    /// This provider can't do that at all. A feature, not a fault.
    #[error("{operation}: not supported by this provider: {feature}")]
    Unsupported {
        /// The call.
        operation: &'static str,
        /// The missing feature.
        feature: String,
    },
    /// What is behind the provider can't be reached. Transient; nothing took effect.
    #[error("{operation}: the provider's back end does not answer")]
    Unavailable {
        /// The call.
        operation: &'static str,
        /// The cause.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// No answer in time. Transient; the call may have taken effect.
    #[error("{operation}: no answer within {} ms", after.as_millis())]
    TimedOut {
        /// The call.
        operation: &'static str,
        /// How long was waited.
        after: Duration,
    },
    /// Everything else. Taken for transient; the call may have taken effect.
    #[error("{operation} failed")]
    Failed {
        /// The call.
        operation: &'static str,
        /// The cause.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
}

impl ProviderError {
    /// Wraps any error as [`ProviderError::Failed`].
    pub fn failed(operation: &'static str, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Failed { operation, source: source.into() }
    }

    /// A Pod that is not held.
    pub fn no_pod(operation: &'static str, name: impl Into<String>) -> Self {
        Self::NotFound { operation, what: "pod", name: name.into() }
    }

    /// Whether the thing asked about is not there.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Whether the same call fails again until the Pod, what it refers to, or the provider itself is another.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Invalid { .. } | Self::Rejected { .. } | Self::Unsupported { .. } => true,
            Self::NotFound { .. } | Self::Unavailable { .. } | Self::TimedOut { .. } | Self::Failed { .. } => false,
        }
    }

    /// Whether the call may have taken effect all the same: who relies on either has to look.
    #[must_use]
    pub fn may_have_happened(&self) -> bool {
        match self {
            Self::TimedOut { .. } | Self::Failed { .. } => true,
            Self::NotFound { .. }
            | Self::Invalid { .. }
            | Self::Rejected { .. }
            | Self::Unsupported { .. }
            | Self::Unavailable { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::error_chain;

    #[test]
    fn errors_say_whether_to_try_again_and_whether_to_look() {
        let rejected = ProviderError::Rejected { reason: "OutOfcpu".to_owned(), message: "no cpu".to_owned() };
        let gone = ProviderError::Unavailable { operation: "create", source: "refused".into() };
        let late = ProviderError::TimedOut { operation: "create", after: Duration::from_secs(2) };
        assert_eq!([rejected.is_permanent(), gone.is_permanent(), late.is_permanent()], [true, false, false]);
        assert_eq!([rejected.may_have_happened(), gone.may_have_happened()], [false, false]);
        assert!(late.may_have_happened() && ProviderError::failed("create", "odd").may_have_happened());
        assert!(ProviderError::no_pod("delete", "ns/a").is_not_found());
    }

    #[test]
    fn a_chain_names_each_cause_once() {
        assert_eq!(error_chain(&ProviderError::failed("create", "disk full")), "create failed: disk full");
    }
}
