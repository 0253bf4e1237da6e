//! What a run has come to.

use jiff::Timestamp;

/// How it was from a moment on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// From when on.
    pub at: Timestamp,
    /// Jobs without a runner.
    pub queued: u32,
    /// Runners with a job.
    pub busy: u32,
    /// Pods, whatever they do.
    pub pods: u32,
}

/// What a run has come to.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// How long each job waited, in seconds, sorted.
    pub waits: Vec<f64>,
    /// Hours of Pods, whatever they did.
    pub pod_hours: f64,
    /// Hours of jobs.
    pub job_hours: f64,
    /// The most Pods at a time.
    pub peak: u32,
    /// Pods that were made.
    pub pods: u64,
    /// Jobs that nobody ran, although long after the last one was queued.
    pub unfinished: u64,
    /// How it was over time: a point for each change.
    pub points: Vec<Point>,
}

impl Outcome {
    /// So many of a hundred jobs waited no longer, in seconds.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> f64 {
        let last = self.waits.len().saturating_sub(1);
        let index = (percent / 100.0 * last as f64).ceil();
        self.waits.get((index as usize).min(last)).copied().unwrap_or_default()
    }

    /// What part of the Pods' time was jobs, from 0 to 1.
    #[must_use]
    pub fn use_of_pods(&self) -> f64 {
        if self.pod_hours > 0.0 { (self.job_hours / self.pod_hours).min(1.0) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_waits() {
        let mut outcome = Outcome {
            waits: (1..=100).map(f64::from).collect(),
            pod_hours: 4.0,
            job_hours: 3.0,
            peak: 0,
            pods: 0,
            unfinished: 0,
            points: Vec::new(),
        };
        assert_eq!(
            (outcome.percentile(50.0), outcome.percentile(99.0), outcome.percentile(100.0)),
            (51.0, 100.0, 100.0)
        );
        assert!((outcome.use_of_pods() - 0.75).abs() < 1e-9);
        outcome.waits.clear();
        assert_eq!(outcome.percentile(99.0).to_bits(), 0.0_f64.to_bits());
    }
}
