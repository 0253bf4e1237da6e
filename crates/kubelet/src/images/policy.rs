//! When an image is pulled.

use super::ImageName;

/// When an image is pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullPolicy {
    /// Each time a container starts.
    Always,
    /// When it is not in the store.
    IfNotPresent,
    /// Never.
    Never,
}

impl PullPolicy {
    /// The policy that the container names; else `Always` for `latest`, `IfNotPresent` for everything else.
    #[must_use]
    pub fn of(policy: Option<&str>, name: &ImageName) -> Self {
        match policy {
            Some("Always") => Self::Always,
            Some("IfNotPresent") => Self::IfNotPresent,
            Some("Never") => Self::Never,
            Some(_) | None if name.is_latest() => Self::Always,
            Some(_) | None => Self::IfNotPresent,
        }
    }

    /// Whether to pull, given whether the image is in the store.
    #[must_use]
    pub fn decide(self, present: bool) -> Decision {
        match (self, present) {
            (Self::Always, _) | (Self::IfNotPresent, false) => Decision::Pull,
            (Self::IfNotPresent | Self::Never, true) => Decision::Use,
            (Self::Never, false) => Decision::Refuse,
        }
    }
}

/// What to do about an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Use what is in the store.
    Use,
    /// Pull it.
    Pull,
    /// It is not there and must not be pulled: `ErrImageNeverPull`.
    Refuse,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_policy_by_tag() {
        let of = |policy, name| PullPolicy::of(policy, &ImageName::parse(name).unwrap());
        assert_eq!(of(None, "a"), PullPolicy::Always);
        assert_eq!(of(Some(""), "a:latest"), PullPolicy::Always);
        assert_eq!(of(None, "a:1"), PullPolicy::IfNotPresent);
        assert_eq!(of(Some("Never"), "a"), PullPolicy::Never);
    }

    #[test]
    fn every_policy_with_and_without_the_image() {
        for (policy, present, decision) in [
            (PullPolicy::Always, true, Decision::Pull),
            (PullPolicy::Always, false, Decision::Pull),
            (PullPolicy::IfNotPresent, true, Decision::Use),
            (PullPolicy::IfNotPresent, false, Decision::Pull),
            (PullPolicy::Never, true, Decision::Use),
            (PullPolicy::Never, false, Decision::Refuse),
        ] {
            assert_eq!(policy.decide(present), decision, "{policy:?} {present}");
        }
    }
}
