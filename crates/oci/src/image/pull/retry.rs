//! Whether and when something is tried again. A pure decision; `run` and `download` sleep.

use std::time::Duration;

use super::PullConfig;
use crate::image::registry::RegistryError;

/// Longest pause between two attempts. What takes longer is the kubelet's back-off.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// Attempts at one thing.
#[derive(Debug, Clone)]
pub(crate) struct Retry {
    failures: u32,
    attempts: u32,
    pause: Duration,
}

impl Retry {
    pub(crate) fn new(config: &PullConfig) -> Self {
        Self { failures: 0, attempts: config.attempts, pause: config.pause }
    }

    /// Something came: failures before don't count any more.
    pub(crate) fn progressed(&mut self) {
        self.failures = 0;
    }

    /// How long to wait before the next attempt, or the error for good.
    pub(crate) fn after(&mut self, error: RegistryError) -> Result<Duration, RegistryError> {
        self.failures += 1;
        if self.failures >= self.attempts {
            return Err(error);
        }
        match error {
            RegistryError::Transient(_) => {
                Ok(self.pause.saturating_mul(1 << (self.failures - 1).min(16)).min(MAX_PAUSE))
            }
            // A registry that names a short time gets it; otherwise the caller is better placed to wait.
            RegistryError::RateLimited { after: Some(after), .. } if after <= MAX_PAUSE => Ok(after),
            RegistryError::RateLimited { .. }
            | RegistryError::Denied(_)
            | RegistryError::NotFound
            | RegistryError::Fatal(_)
            | RegistryError::Content(_)
            | RegistryError::Digest(_) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transient() -> RegistryError {
        RegistryError::Transient("x".into())
    }

    #[test]
    fn pauses_double_and_end() {
        let config = PullConfig { attempts: 4, pause: Duration::from_millis(100), ..PullConfig::default() };
        let mut retry = Retry::new(&config);
        let pauses: Vec<_> = (0..3).map(|_| retry.after(transient()).unwrap().as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400]);
        assert_eq!(retry.after(transient()), Err(transient()));
        let mut retry = Retry::new(&PullConfig { attempts: u32::MAX, ..config });
        let longest = (0..40).map(|_| retry.after(transient()).unwrap()).max();
        assert_eq!(longest, Some(MAX_PAUSE));
    }

    #[test]
    fn progress_starts_the_count_anew() {
        let mut retry = Retry::new(&PullConfig { attempts: 2, ..PullConfig::default() });
        for _ in 0..10 {
            assert!(retry.after(transient()).is_ok());
            retry.progressed();
        }
    }

    #[test]
    fn only_what_may_change_is_tried_again() {
        let limited = |after| RegistryError::RateLimited { message: String::new(), after };
        let try_once = |error| Retry::new(&PullConfig::default()).after(error).ok();
        assert_eq!(try_once(limited(Some(Duration::from_secs(2)))), Some(Duration::from_secs(2)));
        assert_eq!(try_once(limited(Some(Duration::from_secs(60)))), None);
        assert_eq!(try_once(limited(None)), None);
        assert_eq!(try_once(RegistryError::NotFound), None);
        assert_eq!(try_once(RegistryError::Denied(String::new())), None);
        assert_eq!(try_once(RegistryError::Digest(String::new())), None);
    }
}
