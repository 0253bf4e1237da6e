//! When the machine counts as short of something.

use std::time::Duration;

use minke_core::resources::{Amount, ResourceList};

use super::signal::{Level, Observations, Signal};

/// An amount, or a part of the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThresholdValue {
    /// Bytes, inodes, process ids.
    Quantity(u64),
    /// Hundredths of the capacity, as an exact number.
    Percent(Amount),
}

impl ThresholdValue {
    /// The amount, of a whole this large.
    #[must_use]
    pub fn of(self, capacity: u64) -> u64 {
        match self {
            Self::Quantity(quantity) => quantity,
            Self::Percent(percent) => {
                let part = percent.nanos().max(0).saturating_mul(i128::from(capacity)) / (100 * 1_000_000_000);
                u64::try_from(part).unwrap_or(u64::MAX)
            }
        }
    }
}

/// Less than this of something is too little.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    /// Of what.
    pub signal: Signal,
    /// The least that must be left.
    pub value: ThresholdValue,
    /// How long it may last before a Pod is evicted; `None` for a hard threshold: not at all.
    pub grace: Option<Duration>,
    /// Once it was met, this much more than `value` must be left before it counts as resolved.
    pub min_reclaim: Option<ThresholdValue>,
}

impl Threshold {
    /// A hard threshold.
    #[must_use]
    pub fn hard(signal: Signal, value: ThresholdValue) -> Self {
        Self { signal, value, grace: None, min_reclaim: None }
    }

    /// Whether too little is left. With `reclaiming`, the least that is to be reclaimed counts on top.
    #[must_use]
    pub fn is_met(&self, observations: &Observations, reclaiming: bool) -> bool {
        let Some(Level { available, capacity }) = observations.levels.get(&self.signal).copied() else { return false };
        let more = self.min_reclaim.filter(|_| reclaiming).map_or(0, |value| value.of(capacity));
        available < self.value.of(capacity).saturating_add(more)
    }
}

/// How the eviction manager works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvictionConfig {
    /// When the machine counts as short.
    pub thresholds: Vec<Threshold>,
    /// Most that a Pod gets to end by itself when a soft threshold evicts it.
    pub max_pod_grace: Duration,
    /// How long a condition of the machine lasts after it was last seen.
    pub pressure_transition: Duration,
    /// Between two looks.
    pub period: Duration,
}

impl Default for EvictionConfig {
    /// The kubelet's defaults on Linux.
    fn default() -> Self {
        let percent = |n| ThresholdValue::Percent(Amount::from_units(n));
        let hard = Threshold::hard;
        Self {
            thresholds: vec![
                hard(Signal::Memory, ThresholdValue::Quantity(100 << 20)),
                hard(Signal::Nodefs, percent(10)),
                hard(Signal::NodefsInodes, percent(5)),
                hard(Signal::Imagefs, percent(15)),
                hard(Signal::ImagefsInodes, percent(5)),
            ],
            max_pod_grace: Duration::ZERO,
            pressure_transition: Duration::from_secs(300),
            period: Duration::from_secs(10),
        }
    }
}

impl EvictionConfig {
    /// What hard thresholds keep free of a machine of this capacity: Pods can't be promised it.
    #[must_use]
    pub fn kept_free(&self, capacity: &ResourceList) -> ResourceList {
        let of = |signal: Signal, resource: &str| {
            let threshold = self.thresholds.iter().find(|t| t.signal == signal && t.grace.is_none())?;
            let whole = u64::try_from(capacity.get(resource)?.value()).ok()?;
            let kept = i64::try_from(threshold.value.of(whole)).unwrap_or(i64::MAX);
            Some((resource.to_owned(), Amount::from_units(kept)))
        };
        [of(Signal::Memory, "memory"), of(Signal::Nodefs, "ephemeral-storage")].into_iter().flatten().collect()
    }
}

/// Hard thresholds and values that can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no amount of an eviction threshold: a quantity (100Mi) or a part of the whole (10%)")]
pub struct ThresholdError(pub String);

/// Reads `100Mi` or `10%`.
///
/// # Errors
/// [`ThresholdError`] for what is no amount, negative, or more than the whole.
pub fn parse_value(text: &str) -> Result<ThresholdValue, ThresholdError> {
    let error = || ThresholdError(text.to_owned());
    let amount = |text: &str| Amount::parse(text).ok().filter(|a| *a >= Amount::ZERO).ok_or_else(error);
    match text.strip_suffix('%') {
        Some(percent) => {
            let percent = amount(percent)?;
            if percent > Amount::from_units(100) { Err(error()) } else { Ok(ThresholdValue::Percent(percent)) }
        }
        None => Ok(ThresholdValue::Quantity(u64::try_from(amount(text)?.value()).map_err(|_| error())?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(signal: Signal, available: u64, capacity: u64) -> Observations {
        Observations { levels: [(signal, Level { available, capacity })].into(), separate_imagefs: false }
    }

    #[test]
    fn the_kubelets_defaults_on_linux() {
        let config = EvictionConfig::default();
        let shown: Vec<_> = config.thresholds.iter().map(|t| (t.signal.as_str(), t.value.of(1 << 30))).collect();
        let part = |n: u64| (1 << 30) * n / 100;
        assert_eq!(
            shown,
            [
                ("memory.available", 100 << 20),
                ("nodefs.available", part(10)),
                ("nodefs.inodesFree", part(5)),
                ("imagefs.available", part(15)),
                ("imagefs.inodesFree", part(5)),
            ]
        );
        assert!(config.thresholds.iter().all(|t| t.grace.is_none() && t.min_reclaim.is_none()));
        assert_eq!((config.period.as_secs(), config.pressure_transition.as_secs()), (10, 300));
    }

    #[test]
    fn thresholds_met() {
        let quantity = Threshold {
            min_reclaim: Some(ThresholdValue::Quantity(50)),
            ..Threshold::hard(Signal::Memory, ThresholdValue::Quantity(100))
        };
        for (available, met, reclaiming) in
            [(99, true, true), (100, false, true), (149, false, true), (150, false, false)]
        {
            let observed = observed(Signal::Memory, available, 1000);
            assert_eq!(
                (quantity.is_met(&observed, false), quantity.is_met(&observed, true)),
                (met, reclaiming),
                "{available}"
            );
        }
        let percent = Threshold::hard(Signal::Nodefs, parse_value("12.5%").unwrap());
        assert!(percent.is_met(&observed(Signal::Nodefs, 124, 1000), false));
        assert!(!percent.is_met(&observed(Signal::Nodefs, 125, 1000), false));
        assert!(!percent.is_met(&observed(Signal::Pid, 0, 1000), false), "what is not observed is in order");
    }

    #[test]
    fn amounts_as_people_write_them() {
        assert_eq!(parse_value("100Mi"), Ok(ThresholdValue::Quantity(100 << 20)));
        assert_eq!(parse_value("10%"), Ok(ThresholdValue::Percent(Amount::from_units(10))));
        assert_eq!(parse_value("0%").unwrap().of(1000), 0);
        assert_eq!(parse_value("100%").unwrap().of(u64::MAX), u64::MAX);
        for text in ["", "%", "-1", "-1%", "101%", "x", "10 %"] {
            assert!(parse_value(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn hard_thresholds_are_not_promised_to_pods() {
        let amount = |n: i64| Amount::from_units(n);
        let capacity = ResourceList::from([
            ("cpu".to_owned(), amount(2)),
            ("memory".to_owned(), amount(1 << 30)),
            ("ephemeral-storage".to_owned(), amount(1000)),
        ]);
        let expected = ResourceList::from([
            ("memory".to_owned(), amount(100 << 20)),
            ("ephemeral-storage".to_owned(), amount(100)),
        ]);
        assert_eq!(EvictionConfig::default().kept_free(&capacity), expected);
    }
}
