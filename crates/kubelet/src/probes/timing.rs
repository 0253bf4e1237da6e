//! What a probe is and when it runs, out of its spec.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};

/// The three questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProbeKind {
    /// Has it begun to work? The others wait for a yes.
    Startup,
    /// May it get work?
    Readiness,
    /// Does it still work?
    Liveness,
}

impl ProbeKind {
    /// In the order in which they are looked at.
    pub const ALL: [Self; 3] = [Self::Startup, Self::Readiness, Self::Liveness];

    /// Upstream's name, as events and metrics have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Readiness => "Readiness",
            Self::Liveness => "Liveness",
        }
    }

    /// The container's probe of this kind.
    #[must_use]
    pub fn of(self, container: &Container) -> Option<&Probe> {
        match self {
            Self::Startup => container.startup_probe.as_ref(),
            Self::Readiness => container.readiness_probe.as_ref(),
            Self::Liveness => container.liveness_probe.as_ref(),
        }
    }
}

/// When a probe runs and what counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// From the start of the container to the first run.
    pub initial_delay: Duration,
    /// From one run to the next.
    pub period: Duration,
    /// How long a run may take.
    pub timeout: Duration,
    /// Successes in a row that count as success.
    pub success_threshold: u32,
    /// Failures in a row that count as failure.
    pub failure_threshold: u32,
}

impl Timing {
    /// The timing of a probe. What is missing or makes no sense is as the API's defaults have it.
    #[must_use]
    pub fn of(probe: &Probe) -> Self {
        let positive = |value: Option<i32>, default: u32| {
            value.and_then(|v| u32::try_from(v).ok()).filter(|v| *v > 0).unwrap_or(default)
        };
        let seconds = |value, default| Duration::from_secs(u64::from(positive(value, default)));
        Self {
            initial_delay: seconds(probe.initial_delay_seconds, 0),
            period: seconds(probe.period_seconds, 10),
            timeout: seconds(probe.timeout_seconds, 1),
            success_threshold: positive(probe.success_threshold, 1),
            failure_threshold: positive(probe.failure_threshold, 3),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_and_senseless_values_are_the_defaults() {
        let s = Duration::from_secs;
        let defaults =
            Timing { initial_delay: s(0), period: s(10), timeout: s(1), success_threshold: 1, failure_threshold: 3 };
        assert_eq!(Timing::of(&Probe::default()), defaults);
        let odd = Probe {
            initial_delay_seconds: Some(-1),
            period_seconds: Some(0),
            timeout_seconds: Some(-3),
            success_threshold: Some(0),
            failure_threshold: Some(i32::MIN),
            ..Probe::default()
        };
        assert_eq!(Timing::of(&odd), defaults);
        let given = Probe { period_seconds: Some(3), failure_threshold: Some(7), ..Probe::default() };
        let timing = Timing::of(&given);
        assert_eq!((timing.period, timing.failure_threshold), (s(3), 7));
    }
}
